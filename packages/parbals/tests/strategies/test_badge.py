"""BADGE against explicit gradient embeddings and the k-means++ rule."""

import numpy as np
import parbals
import pytest
from parbals.strategies.badge import gradient_factors
from parbals.testing import make_inputs


def embeddings(inputs):
    """(N, C·(D+1)): the gradient of -ln softmax(W z)[ŷ] in W, flattened."""
    mean = inputs["pool_probs"].mean(axis=1)
    z = np.column_stack([inputs["pool_features"], np.ones(len(mean))])
    residual = mean - np.eye(mean.shape[1])[mean.argmax(axis=1)]
    return np.stack([np.outer(r, x).ravel() for r, x in zip(residual, z, strict=True)])


def choose(inputs, batch_size, seed, **options):
    return parbals.select_batch(
        **inputs, batch_size=batch_size, strategy="badge", random_state=seed, **options
    )


def test_factors_multiply_to_the_gradient():
    inputs = make_inputs()
    a, z = gradient_factors(inputs["pool_probs"].mean(axis=1), inputs["pool_features"])
    np.testing.assert_allclose(
        np.einsum("nc,nd->ncd", a, z).reshape(40, -1), embeddings(inputs), atol=1e-6
    )


def test_scores_are_squared_distances_to_the_nearest_point_before():
    inputs = make_inputs()
    g = embeddings(inputs)
    batch = choose(inputs, 6, 3)
    for step in range(1, 6):
        nearest = min(np.square(g[batch.indices[step]] - g[i]).sum() for i in batch.indices[:step])
        assert batch.scores[step] == pytest.approx(nearest, rel=1e-4)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_pairs_come_with_the_frequencies_of_k_means_plus_plus(n_classes):
    inputs = make_inputs(n_pool=5, n_classes=n_classes)
    g = embeddings(inputs)
    squares = np.square(g[:, None] - g[None]).sum(axis=2)
    expected = squares / squares.sum(axis=1, keepdims=True) / 5  # P(first = i, second = j)
    n_draws = 1000
    counts = np.zeros((5, 5))
    for seed in range(n_draws):
        counts[tuple(choose(inputs, 2, seed).indices)] += 1
    error = np.sqrt(n_draws * expected * (1 - expected)) + 1e-9
    assert (np.abs(counts - n_draws * expected) / error)[~np.eye(5, dtype=bool)].max() < 4.5
    assert counts.trace() == 0


def test_duplicates_are_drawn_only_when_nothing_else_is_left():
    inputs = make_inputs(n_pool=4)
    rows = np.repeat(np.arange(4), 10)
    copies = {
        **inputs,
        "pool_probs": inputs["pool_probs"][rows],
        "pool_features": inputs["pool_features"][rows],
    }
    for seed in range(20):
        batch = choose(copies, 6, seed).indices
        assert len(set(rows[batch[:4]])) == 4
        assert len(set(batch.tolist())) == 6


def test_pending_points_count_as_chosen():
    inputs = make_inputs(n_pool=3)
    g = embeddings(inputs)
    to_pending = np.square(g[1:] - g[0]).sum(axis=1)
    share = np.mean([choose(inputs, 1, seed, pending=[0]).indices[0] == 1 for seed in range(600)])
    expected = to_pending[0] / to_pending.sum()
    assert abs(share - expected) < 4.5 * np.sqrt(expected * (1 - expected) / 600)


def test_far_points_are_preferred():
    inputs = make_inputs(n_pool=30)
    far = {
        **inputs,
        "pool_features": inputs["pool_features"] * np.where(np.arange(30) < 3, 50.0, 1.0)[:, None],
    }
    hits = [len(set(choose(far, 4, seed).indices.tolist()) & {0, 1, 2}) for seed in range(30)]
    assert np.mean(hits) > 2
