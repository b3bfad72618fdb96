"""Regression: the posterior against explicit formulas, its evidence, coverage of intervals."""

import numpy as np
import pytest
from parbals.posterior.closed.regression import _PRIOR_SHAPE, _evidence, fit_regression
from parbals.posterior.closed.whitening import PoolMoments
from parbals.posterior.predictive import add_bias
from scipy.stats import multivariate_t, t

GENERATOR = np.random.default_rng(0)


def make_fit(n, d, noise=0.5, n_pool=300):
    pool = GENERATOR.standard_normal((n_pool, d)) * np.linspace(0.5, 2.0, d)
    weights = GENERATOR.standard_normal(d) / np.sqrt(d)
    y = 40.0 + 5.0 * (pool @ weights + noise * GENERATOR.standard_normal(n_pool))
    return pool, y, fit_regression(add_bias(pool[:n]), y[:n], PoolMoments.of(pool))


@pytest.mark.parametrize(("n", "d"), [(40, 5), (12, 30), (30, 30), (2, 4)])
def test_the_posterior_is_that_of_dense_algebra(n, d):
    pool, y, posterior = make_fit(n, d)
    whitening = posterior.latents.whitening
    scaled = (y[:n] - posterior.label_mean) / posterior.label_scale
    rows = whitening.rows(add_bias(pool[:n]))
    new = whitening.rows(add_bias(pool[n : n + 20]))
    gram = rows @ rows.T + posterior.noise_variance * np.eye(n)
    cross = new @ rows.T
    mean = cross @ np.linalg.solve(gram, scaled)
    variance = np.square(new).sum(axis=1) - (cross * np.linalg.solve(gram, cross.T).T).sum(axis=1)
    marginals = posterior.marginals(add_bias(pool[n : n + 20]))
    assert marginals[0] == pytest.approx(mean, abs=1e-7)
    assert marginals[1] == pytest.approx(variance, abs=1e-7)
    spread = posterior.label_scale * np.sqrt(
        (variance + posterior.noise_variance)
        * posterior.degrees_of_freedom
        / (posterior.degrees_of_freedom - 2)
    )
    assert posterior.predict(add_bias(pool[n : n + 20]))[1] == pytest.approx(spread, rel=1e-6)


def test_leave_one_out_is_a_refit_without_the_label():
    pool, y, posterior = make_fit(15, 4)
    rows = posterior.latents.whitening.rows(add_bias(pool[:15]))
    scaled = (y[:15] - posterior.label_mean) / posterior.label_scale
    others = np.arange(1, 15)
    gram = rows[others] @ rows[others].T + posterior.noise_variance * np.eye(14)
    mean = rows[0] @ rows[others].T @ np.linalg.solve(gram, scaled[others])
    assert posterior.leave_one_out()[0][0] == pytest.approx(
        posterior.label_mean + posterior.label_scale * mean
    )


@pytest.mark.parametrize(("n", "d"), [(20, 3), (6, 9)])
def test_the_evidence_is_that_of_students_t(n, d):
    factor = GENERATOR.standard_normal((n, d))
    y = GENERATOR.standard_normal(n)
    # Contrasts of the labels do not depend on the intercept.
    contrast = np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, 1:]]))[0][:, 1:]
    values = []
    for ratio in (0.1, 1.0, 30.0):
        covariance = contrast.T @ (np.eye(n) + ratio * factor @ factor.T) @ contrast
        scale = covariance / (1.0 + ratio)  # β₀ / α₀ is 1 / (1 + a)
        exact = multivariate_t(shape=scale, df=2 * _PRIOR_SHAPE).logpdf(contrast.T @ y)
        values.append(exact - _evidence(factor, y, np.array([ratio]))[0][0])
    assert np.ptp(values) < 1e-9


def test_intervals_hold_and_noise_is_found_with_few_and_many_labels():
    for n in (4, 10, 60):
        inside = 0
        total = 0
        for _ in range(60):
            pool, y, posterior = make_fit(n, 6, n_pool=n + 20)
            mean, deviation = posterior.predict(add_bias(pool[n:]))
            scale = deviation * np.sqrt(
                (posterior.degrees_of_freedom - 2) / posterior.degrees_of_freedom
            )
            inside += (
                np.abs(y[n:] - mean) < t.ppf(0.95, posterior.degrees_of_freedom) * scale
            ).sum()
            total += 20
        # Labels of one fit depend on each other: no narrower than 60 fits allow.
        assert 0.84 < inside / total < 0.985
    assert posterior.label_scale * np.sqrt(posterior.noise_variance) == pytest.approx(2.5, rel=0.35)


@pytest.mark.parametrize("y", [[3.0], [5.0] * 3, [1e-9, 2e-9, 4e-9], [1e12, 2e12, 5e12], [0.0]])
def test_one_label_equal_labels_and_any_unit(y):
    X = GENERATOR.standard_normal((50, 4))
    posterior = fit_regression(add_bias(X[: len(y)]), np.array(y), PoolMoments.of(X))
    mean, deviation = posterior.predict(add_bias(X))
    assert np.isfinite(mean).all()
    assert (deviation > 0).all()
    assert np.abs(mean).max() < 100 * max(np.abs(y).max(), 1.0)


def test_the_unit_of_labels_and_of_features_does_not_matter():
    X = GENERATOR.standard_normal((80, 5))
    w = GENERATOR.standard_normal(5)
    y = X @ w + 0.3 * GENERATOR.standard_normal(80)
    plain = fit_regression(add_bias(X[:30]), y[:30], PoolMoments.of(X)).predict(add_bias(X))
    X = 1e4 * X + 7.0
    y = 1e-3 * y - 2.0
    rescaled = fit_regression(add_bias(X[:30]), y[:30], PoolMoments.of(X)).predict(add_bias(X))
    assert rescaled[0] == pytest.approx(1e-3 * plain[0] - 2.0, rel=1e-6)
    assert rescaled[1] == pytest.approx(1e-3 * plain[1], rel=1e-5)


def test_it_agrees_with_scikit_learns_bayesian_ridge_where_labels_are_many():
    from sklearn.linear_model import BayesianRidge

    pool, y, posterior = make_fit(200, 5)
    theirs, spread = BayesianRidge().fit(pool[:200], y[:200]).predict(pool[200:], return_std=True)
    mean, deviation = posterior.predict(add_bias(pool[200:]))
    assert mean == pytest.approx(theirs, abs=0.15 * y.std())
    assert deviation == pytest.approx(spread, rel=0.1)


def test_a_gross_error_is_left_out_and_nothing_else():
    """With one label of ten thousand the fit is exactly that of all others; the limit is wide."""
    generator = np.random.default_rng(3)
    X = generator.standard_normal((60, 5))
    y = X @ [1.0, 2.0, 0.0, 0.0, -1.0] + generator.standard_normal(60)
    pool = PoolMoments.of(X)
    wrong = y.copy()
    wrong[7] = 1e4
    posterior = fit_regression(add_bias(X), wrong, pool)
    assert np.flatnonzero(posterior.is_outlier).tolist() == [7]
    others = np.delete(np.arange(60), 7)
    expected = fit_regression(add_bias(X[others]), y[others], pool)
    assert posterior.predict(add_bias(X))[0] == pytest.approx(expected.predict(add_bias(X))[0])
    left_out = posterior.leave_one_out()[0]
    assert left_out[7] == pytest.approx(posterior.predict(add_bias(X))[0][7])


def test_normal_labels_are_seldom_taken_for_gross_errors():
    """In at most 2 % of the fits, up to Monte-Carlo error: in 1 of 200 with forty labels."""
    n_false = 0
    for seed in range(100):
        generator = np.random.default_rng(seed)
        X = generator.standard_normal((40, 5))
        y = X @ [1.0, 2.0, 0.0, 0.0, -1.0] + generator.standard_normal(40)
        n_false += fit_regression(add_bias(X), y, PoolMoments.of(X)).is_outlier.any()
    assert n_false <= 2 + 3 * np.sqrt(2)


def test_labels_far_from_zero_are_not_constant():
    """At 1e13 neighbouring numbers are 0.002 apart: what varies by one is no rounding error."""
    generator = np.random.default_rng(0)
    X = generator.standard_normal((60, 3))
    y = X @ [1.0, 2.0, 0.0] + 0.5 * generator.standard_normal(60)
    near = fit_regression(add_bias(X), y, PoolMoments.of(X))
    far = fit_regression(add_bias(X), y + 1e13, PoolMoments.of(X))
    assert far.predict(add_bias(X))[0] - 1e13 == pytest.approx(
        near.predict(add_bias(X))[0], abs=0.02
    )
    assert far.predict(add_bias(X))[1] == pytest.approx(near.predict(add_bias(X))[1], rel=0.01)
