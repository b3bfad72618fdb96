"""BatchBALD against enumeration of every labelling, and its sampled form against the exact one."""

import itertools

import numpy as np
import parbals
import pytest
from brute_force import linear_probs, random_probs, xlogy
from parbals.strategies.batchbald import Configurations


def joint_information(pool, points, w=None):
    """I(Y_points ; θ) by enumerating all C^|points| labellings."""
    w = np.full(pool.shape[1], 1 / pool.shape[1]) if w is None else w
    joint_entropy = 0.0
    for labels in itertools.product(range(pool.shape[2]), repeat=len(points)):
        likelihood = np.prod([pool[i, :, y] for i, y in zip(points, labels, strict=True)], axis=0)
        joint_entropy -= xlogy(w @ likelihood, w @ likelihood)
    return joint_entropy + w @ sum(xlogy(pool[i], pool[i]).sum(axis=1) for i in points)


@pytest.mark.parametrize(("n_classes", "batch_size"), [(2, 4), (3, 4), (4, 3)])
@pytest.mark.parametrize("weighted", [False, True])
def test_each_point_is_the_best_addition_by_enumeration(n_classes, batch_size, weighted):
    pool = linear_probs(3, 14, 30, n_classes, scale=1.0)
    w = np.random.default_rng(0).dirichlet(np.ones(30)) if weighted else None
    batch = parbals.select_batch(
        pool, batch_size=batch_size, strategy="batchbald", sample_weights=w
    )
    for step in range(batch_size):
        before = batch.indices[:step].tolist()
        values = np.array(
            [joint_information(pool, [*before, x], w) if x not in before else -1 for x in range(14)]
        )
        assert batch.indices[step] == values.argmax()
        assert batch.scores[: step + 1].sum() == pytest.approx(values.max(), rel=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_one_point_is_bald(n_classes):
    pool = random_probs(1, 50, 40, n_classes, 2.0)
    batch = parbals.select_batch(pool, batch_size=1, strategy="batchbald")
    assert batch.indices[0] == parbals.bald(pool).argmax()
    assert batch.scores[0] == pytest.approx(parbals.bald(pool).max(), rel=1e-12)


def test_pending_points_are_part_of_the_batch():
    pool = linear_probs(4, 12, 30, 2, scale=1.0)
    batch = parbals.select_batch(pool, batch_size=1, strategy="batchbald", pending=[3, 5])
    values = [joint_information(pool, [3, 5, x]) if x not in (3, 5) else -1 for x in range(12)]
    assert batch.indices[0] == np.argmax(values)
    assert batch.scores[0] == pytest.approx(max(values) - joint_information(pool, [3, 5]), rel=1e-9)


def test_skipping_by_bounds_changes_nothing():
    """A pool larger than one block of candidates: most are ruled out, and the batch is the same."""
    pool = linear_probs(5, 3000, 60, 2, scale=0.7)
    lazy = parbals.select_batch(pool, batch_size=5, strategy="batchbald")
    assert lazy.n_exact[1:].max() < 3000
    batch: list[int] = []
    for step in range(5):
        eager = parbals.select_batch(pool, batch_size=1, strategy="batchbald", pending=batch)
        configurations = Configurations(np.full(60, 1 / 60), 4096, np.random.default_rng(0))
        for index in batch:
            configurations.extend(pool[index])
        predicted = np.einsum("sk,nkc->snc", configurations.weights, pool)
        gains = configurations.probability @ -xlogy(predicted, predicted).sum(axis=2)
        gains += xlogy(pool, pool).sum(axis=2).mean(axis=1)
        gains[batch] = -np.inf
        assert lazy.indices[step] == eager.indices[0] == gains.argmax()
        batch.append(int(gains.argmax()))


def test_configurations_are_all_labellings_with_their_probabilities():
    pool = random_probs(7, 3, 20, 3, 1.5)
    configurations = Configurations(np.full(20, 1 / 20), 100, np.random.default_rng(0))
    for point in pool:
        configurations.extend(point)
    assert configurations.exact
    expected = sorted(
        float(np.prod([pool[i, :, y] for i, y in enumerate(labels)], axis=0).mean())
        for labels in itertools.product(range(3), repeat=3)
    )
    np.testing.assert_allclose(np.sort(configurations.probability), expected, rtol=1e-10)
    np.testing.assert_allclose(configurations.weights.sum(axis=1), 1.0)


def test_sampled_configurations_agree_with_all_of_them_within_monte_carlo_error():
    """One configuration serves all posterior samples: labels are joint, so the mean is unbiased."""
    pool = linear_probs(8, 30, 50, 2, scale=1.0)
    w = np.full(50, 1 / 50)
    exact, sampled = (Configurations(w, limit, np.random.default_rng(1)) for limit in (4096, 2000))
    for point in pool[:11]:  # 2048 labellings: exact for the first, sampled for the second
        exact.extend(point)
        sampled.extend(point)
    assert exact.exact
    assert not sampled.exact
    assert len(sampled.probability) == 2000

    def entropies(configurations):
        predicted = np.einsum("sk,nkc->snc", configurations.weights, pool)
        return -xlogy(predicted, predicted).sum(axis=2)

    draws = entropies(sampled)
    error = draws.std(axis=0) / np.sqrt(len(draws))
    z = (draws.mean(axis=0) - exact.probability @ entropies(exact)) / error
    assert np.abs(z).max() < 4.0


def test_batches_beyond_exact_enumeration_are_close_to_exact_ones():
    pool = linear_probs(9, 60, 80, 2, scale=0.5)
    exact = parbals.select_batch(pool, batch_size=8, strategy="batchbald")
    sampled = parbals.select_batch(
        pool, batch_size=8, strategy="batchbald", n_configurations=32, random_state=0
    )
    value = joint_information(pool, exact.indices)
    assert exact.scores.sum() == pytest.approx(value, rel=1e-9)
    assert joint_information(pool, sampled.indices) > 0.97 * value


@pytest.mark.parametrize("n_classes", [2, 3])
def test_an_accelerator_chooses_the_same(n_classes, monkeypatch):
    """There JAX computes what NumPy does here; one point is certain."""
    pool = random_probs(11, 40, 25, n_classes, 2.0)
    pool[0] = np.eye(n_classes)[0]
    here = parbals.select_batch(pool, batch_size=4, strategy="batchbald", pending=[0, 1])
    for module in ("scores.rows", "strategies.batchbald"):
        monkeypatch.setattr(f"parbals.{module}.on_host", lambda: False)
    there = parbals.select_batch(pool, batch_size=4, strategy="batchbald", pending=[0, 1])
    assert there.indices.tolist() == here.indices.tolist()
    np.testing.assert_allclose(there.scores, here.scores, rtol=1e-10)


def test_it_avoids_near_duplicates_that_bald_takes():
    """Twenty copies of the best point: BALD takes copies, BatchBALD takes one and moves on."""
    pool = linear_probs(10, 30, 100, 2, scale=1.0)
    best = int(parbals.bald(pool).argmax())
    crowded = np.concatenate([pool, np.repeat(pool[best : best + 1], 20, axis=0)])
    copies = {best, *range(30, 50)}
    assert (
        set(parbals.select_batch(crowded, batch_size=5, strategy="bald").indices.tolist()) <= copies
    )
    assert (
        len(
            set(parbals.select_batch(crowded, batch_size=5, strategy="batchbald").indices.tolist())
            & copies
        )
        <= 2
    )
