"""The certified bound: never below the exact score, and never a different winner."""

import numpy as np
import parbals
import pytest
from brute_force import linear_probs, random_probs
from hypothesis import given, settings
from hypothesis import strategies as st
from parbals.scores.bound import argmax_certified, bound_of_points
from parbals.scores.epig import target_stats
from parbals.scores.rows import class_rows


def bounds_of(pool, target, weights):
    weights = (weights / weights.sum()).astype(pool.dtype)
    return bound_of_points(class_rows(pool), weights, target_stats(class_rows(target), weights))


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n_classes=st.sampled_from([2, 3]),
    log_scale=st.floats(-5, 4),
    single=st.booleans(),
)
def test_the_bound_is_never_below_the_score(seed, n_classes, log_scale, single):
    """From posteriors that hardly vary to predictions that are all 0 or 1."""
    pool = linear_probs(seed + 0, 16, 12, n_classes, scale=np.exp(log_scale))
    target = linear_probs(seed + 1, 16, 12, n_classes, scale=np.exp(log_scale))
    if single:
        pool = pool.astype(np.float32)
        target = target.astype(np.float32)
    weights = np.random.default_rng(seed).dirichlet(np.ones(12))
    bounds = bounds_of(pool, target, weights)
    assert np.isfinite(bounds).all()
    exact = parbals.epig(pool.astype(np.float64), target.astype(np.float64), weights)
    assert (bounds >= exact - 1e-7).all()


def test_the_bound_is_about_twice_the_score_where_predictions_vary_little():
    pool = 0.5 + 0.1 * (random_probs(1, 16, 12, 2) - 0.5)
    target = 0.5 + 0.1 * (random_probs(2, 16, 12, 2) - 0.5)
    ratio = bounds_of(pool, target, np.ones(12)) / parbals.epig(pool, target)
    assert ratio.max() < 2.2


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n_posteriors=st.integers(1, 6),
    first=st.integers(1, 20),
    looseness=st.floats(0, 2),
)
def test_the_winner_is_the_one_exhaustive_search_finds(seed, n_posteriors, first, looseness):
    """Also with ties, with candidates ruled out, and with bounds that are exact or very loose."""
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 12, (n_posteriors, 60)).astype(float)
    bounds = scores + looseness * rng.random(scores.shape)
    shares = rng.dirichlet(np.ones(n_posteriors))
    free = rng.random(60) < 0.8
    free[rng.integers(60)] = True
    result = argmax_certified(bounds, shares, free, lambda g, i: scores[g, i], first)
    total = np.where(free, shares @ scores, -np.inf)
    assert total[result.winner] == pytest.approx(total.max(), abs=1e-9)
    assert result.score == pytest.approx(total.max(), abs=1e-9)
    assert free[result.winner]


def test_among_equals_the_lowest_index_wins():
    scores = np.zeros((2, 30))
    scores[:, [7, 19, 28]] = 1.0
    result = argmax_certified(
        scores + 0.1, np.ones(2), np.ones(30, bool), lambda g, i: scores[g, i], n_leaders=2
    )
    assert result.winner == 7


def test_candidates_that_cannot_win_are_not_scored():
    scores = np.linspace(0, 1, 1000)[None]
    result = argmax_certified(
        1.1 * scores, np.ones(1), np.ones(1000, bool), lambda g, i: scores[g, i], n_leaders=10
    )
    assert result.winner == 999
    assert result.n_scored < 150
