"""Rows of a target set that are far from the pool: found, and seldom claimed wrongly."""

import numpy as np
import parbals
import pytest
from dose import full_count
from parbals.learner.evaluation.support import FALSE_SHARE, far_rows
from scipy.spatial.distance import cdist


def brute_force(pool, target, level):
    """The rule by its definition: loops, an inverse covariance, sorted p-values."""
    covariance = np.atleast_2d(np.cov(pool.T, bias=True))
    covariance += np.trace(covariance) / pool.shape[1] * np.eye(pool.shape[1])
    inverse = np.linalg.inv(covariance)
    own = cdist(pool, pool, "mahalanobis", VI=inverse)
    np.fill_diagonal(own, np.inf)
    pool_distances = own.min(axis=1)
    distances = cdist(target, pool, "mahalanobis", VI=inverse).min(axis=1)
    p_values = [
        (1 + sum(other >= distance for other in pool_distances)) / (1 + len(pool))
        for distance in distances
    ]
    n_far = 0
    for rank, p_value in enumerate(sorted(p_values), start=1):
        if p_value <= level * rank / len(target):
            n_far = rank
    return sorted(np.argsort(p_values, kind="stable")[:n_far].tolist())


def test_the_rule_is_the_one_of_its_definition():
    generator = np.random.default_rng(0)
    for n_columns in (1, 4, 12):
        pool = generator.standard_normal((300, n_columns)) * np.linspace(0.1, 3.0, n_columns)
        target = generator.standard_normal((80, n_columns))
        target[:20] += generator.normal(0.0, 6.0, (20, n_columns))
        far = far_rows(pool, target)
        assert sorted(far.positions.tolist()) == brute_force(pool, target, FALSE_SHARE)
        assert far.n_searched == 80
        assert far.share == len(far.positions) / 80


def draw_normal(generator, n):
    return generator.standard_normal((n, 10))


def draw_heavy_tails(generator, n):
    return generator.standard_t(2, (n, 4))


def draw_clusters(generator, n):
    centres = np.random.default_rng(5).normal(0.0, 5.0, (12, 30))
    return centres[generator.integers(0, 12, n)] + generator.standard_normal((n, 30))


def draw_codes(generator, n):
    """A table of a few categories: most rows are copies."""
    return generator.integers(0, 4, (n, 3)).astype(float)


@pytest.mark.parametrize("draw", [draw_normal, draw_heavy_tails, draw_clusters, draw_codes])
@pytest.mark.parametrize(("n_pool", "n_target"), [(100, 30), (600, 300)])
def test_without_shift_rows_are_seldom_called_far(draw, n_pool, n_target):
    """In at most 5 % of the target sets any row is, up to two Monte-Carlo errors."""
    n_runs = full_count(200, least=100)
    n_alarms = 0
    for seed in range(n_runs):
        generator = np.random.default_rng(seed)
        far = far_rows(draw(generator, n_pool), draw(generator, n_target))
        n_alarms += len(far.positions) > 0
    standard_error = np.sqrt(FALSE_SHARE * (1.0 - FALSE_SHARE) / n_runs)
    assert n_alarms / n_runs <= FALSE_SHARE + 2.0 * standard_error


def test_a_new_cluster_is_found_and_little_else():
    """Of the rows called far, on average at most one in twenty is from the pool's clusters."""
    n_found = 0
    false_shares = []
    for seed in range(30):
        generator = np.random.default_rng(seed)
        target = draw_clusters(generator, 200)
        target[:20] = generator.normal(0.0, 5.0, 30) + generator.standard_normal((20, 30))
        positions = far_rows(draw_clusters(generator, 800), target).positions
        n_found += np.sum(positions < 20)
        false_shares.append(np.sum(positions >= 20) / max(len(positions), 1))
    assert n_found / (30 * 20) > 0.9
    assert np.mean(false_shares) <= FALSE_SHARE + 2.0 * np.std(false_shares) / np.sqrt(30)


def test_the_farthest_row_is_first_and_units_of_a_column_do_not_hide_it():
    generator = np.random.default_rng(0)
    pool = generator.standard_normal((400, 3))
    target = generator.standard_normal((60, 3))
    target[[3, 9, 27], 1] = 12.0, 25.0, -40.0
    assert far_rows(pool, target).positions.tolist() == [27, 9, 3]


@pytest.mark.parametrize("n_pool", [1, 2, 20])
def test_a_small_pool_supports_no_claim(n_pool):
    """One far row among fifty is no more than chance where the pool has few rows to compare."""
    pool = np.random.default_rng(0).standard_normal((n_pool, 2))
    target = np.zeros((50, 2))
    target[0] = 1e3
    assert not len(far_rows(pool, target).positions)


def test_equal_and_constant_rows_are_no_trouble():
    pool = np.ones((200, 3))
    assert not len(far_rows(pool, np.ones((50, 3))).positions)
    assert len(far_rows(pool, np.ones((50, 3)) * 2.0).positions) == 50


def test_a_learner_searches_its_target_set():
    generator = np.random.default_rng(0)
    X = generator.standard_normal((500, 4))
    target = generator.standard_normal((3_000, 4))
    target[::10, 0] = 30.0
    learner = parbals.ActiveLearner(X, [0, 1], X_target=target, random_state=0)
    far = learner.far_targets()
    assert far.n_searched == 2_000
    assert np.mean(far.positions % 10 == 0) > 0.8
    assert far.share == pytest.approx(0.1, abs=0.03)
    assert parbals.ActiveLearner(X, [0, 1]).far_targets() is None
