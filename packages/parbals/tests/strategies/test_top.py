"""The Gumbel strategies against their sampling distribution; zero and NaN never win."""

import numpy as np
import parbals
import pytest
from brute_force import linear_probs
from parbals.strategies.problem import Problem
from parbals.strategies.top import log_rank, log_score, noisy_batch

PROBS = linear_probs(2, 14, 80, 3, scale=0.6)
POOL = PROBS[:6]
TARGET = PROBS[6:]


def problem(n_pool, batch_size, seed, beta=1.0):
    nothing = np.empty(0, np.int64)
    return Problem("test", n_pool, batch_size, np.ones(1), nothing, 1, seed, beta=beta)


def sequential(chances):
    """P(first = i, second = j) of drawing two without replacement with the given chances."""
    chances = chances / chances.sum()
    pairs = np.outer(chances, chances) / (1 - chances)[:, None]
    np.fill_diagonal(pairs, 0.0)
    return pairs


VALUES = {"power": log_score, "softmax": np.asarray, "softrank": log_rank}


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("score", ["bald", "epig"])
def test_a_strategy_is_its_score_its_value_and_noise(kind, score):
    scores = parbals.bald(POOL) if score == "bald" else parbals.epig(POOL, TARGET)
    for seed in range(3):
        batch = parbals.select_batch(
            POOL, TARGET, 2, f"{kind}-{score}", random_state=seed, beta=4.0
        )
        expected = noisy_batch(problem(6, 2, seed, beta=4.0), scores, VALUES[kind])
        assert batch.indices.tolist() == expected.indices.tolist()
        np.testing.assert_allclose(batch.scores, expected.scores)


@pytest.mark.parametrize("beta", [1.0, 4.0])
@pytest.mark.parametrize("kind", VALUES)
def test_pairs_come_with_the_published_frequencies(kind, beta):
    scores = parbals.bald(POOL)
    ranks = 1 + np.argsort(np.argsort(-scores))
    chances = {
        "power": scores**beta,
        "softmax": np.exp(beta * scores),
        "softrank": ranks ** -float(beta),
    }[kind]
    expected = sequential(chances)
    n_draws = 2000
    counts = np.zeros((6, 6))
    for seed in range(n_draws):
        batch = noisy_batch(problem(6, 2, seed, beta), scores, VALUES[kind])
        counts[tuple(batch.indices)] += 1
    error = np.sqrt(n_draws * expected * (1 - expected)) + 1.0
    assert (np.abs(counts - n_draws * expected) / error).max() < 4.5


@pytest.mark.parametrize("value", [log_score, np.asarray, log_rank])
def test_nan_never_wins_while_something_else_is_left(value):
    scores = np.array([np.nan, 0.1, np.nan, 0.2, 0.3])
    for seed in range(200):
        batch = noisy_batch(problem(5, 4, seed), scores, value).indices.tolist()
        assert set(batch[:3]) == {1, 3, 4}


def test_a_score_of_zero_is_never_drawn_by_power_while_a_positive_one_is_left():
    scores = np.array([0.0, 1e-300, 0.0, 0.5])
    for seed in range(200):
        assert set(noisy_batch(problem(4, 2, seed), scores, log_score).indices.tolist()) == {1, 3}


def test_points_without_a_value_are_drawn_uniformly_once_they_must_be():
    scores = np.array([0.0, 0.7, 0.0, 0.0])
    second = [noisy_batch(problem(4, 2, seed), scores, log_score).indices[1] for seed in range(900)]
    counts = np.bincount(second, minlength=4)
    assert counts[1] == 0
    assert np.abs(counts[[0, 2, 3]] - 300).max() < 4.5 * np.sqrt(900 * (1 / 3) * (2 / 3))


def test_a_large_beta_is_top_b():
    scores = parbals.epig(POOL, TARGET)
    for seed in range(20):
        batch = noisy_batch(problem(6, 3, seed, beta=1e4), scores, log_rank).indices
        assert batch.tolist() == np.argsort(-scores)[:3].tolist()
