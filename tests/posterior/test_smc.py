"""The population: exact on models that quadrature can solve, and it follows labels as they come."""

import numpy as np
import pytest
from oracles.checks import ALPHA, agreement, predictive_values, summarise_draws, summarise_exact
from oracles.definition import Data, exact_moments

import parbals
from parbals.posterior.predictive import add_bias
from parbals.posterior.smc import condition_population, draw_population, systematic_resample

X_TEST = np.array([[-2.0], [-0.5], [0.3], [1.0], [3.0]])
N_SAMPLES = 2000


def one_feature(n=12, scale=1.0, prior_scale=1.0, seed=0):
    rng = np.random.default_rng(seed)
    X = scale * rng.standard_normal((n, 1))
    y = (rng.random(n) < 1 / (1 + np.exp(-1.5 * X[:, 0] / scale))).astype(int)
    return Data(X, y, scale * X_TEST, prior_scale=prior_scale)


def model(data, **options):
    options = {
        "n_samples": N_SAMPLES,
        "prior_scale": data.prior_scale,
        "classes": [0, 1],
        "random_state": 0,
    } | options
    return parbals.BayesianLogisticRegression(**options).fit(data.X, data.y)


def agrees_with_quadrature(fitted, data):
    exact = exact_moments(data)
    summary = summarise_draws(
        predictive_values(fitted.sample_proba(data.X_test)), fitted.sample_weights
    )
    return agreement(summary, summarise_exact(exact.mean, exact.sd))


@pytest.mark.parametrize(
    ("n", "scale", "prior_scale"),
    [
        (1, 1.0, 1.0),
        (12, 1.0, 1.0),
        (30, 1.0, 1.0),
        (12, 0.01, 1.0),
        (12, 10.0, 1.0),
        (12, 1.0, 0.1),
        (12, 1.0, 10.0),
    ],
)
def test_predictions_equal_quadrature(n, scale, prior_scale):
    data = one_feature(n, scale, prior_scale)
    assert agrees_with_quadrature(model(data), data).p_value > ALPHA


def test_nuts_equals_quadrature_and_can_be_conditioned():
    """Its draws are not independent: as many as their effective number count."""
    data = one_feature(13)
    fitted = model(data._replace(X=data.X[:12], y=data.y[:12]), inference="nuts", n_samples=400)
    assert fitted.population is None
    fitted = fitted.condition(data.X[12:], data.y[12:])
    exact = exact_moments(data)
    probs = fitted.sample_proba(data.X_test)[:, :, 1].astype(np.float64)
    z = (probs.mean(axis=1) - exact.mean) / exact.sd
    assert np.abs(z).max() < 5 / np.sqrt(fitted.diagnostics_.effective_sample_size)


def test_laplace_would_not_pass():
    """The check has power: a Gaussian at the mode is refused."""
    data = one_feature(12, 3.0, 1.0)
    assert agrees_with_quadrature(model(data, inference="laplace"), data).p_value < ALPHA


def test_labels_one_at_a_time_equal_quadrature():
    data = one_feature(20)
    fitted = model(data._replace(X=data.X[:4], y=data.y[:4]))
    for x, y in zip(data.X[4:], data.y[4:], strict=True):
        fitted = fitted.condition(x[None], [y])
    assert agrees_with_quadrature(fitted, data).p_value > ALPHA


def test_many_labels_at_once_equal_quadrature():
    data = one_feature(30)
    fitted = model(data._replace(X=data.X[:2], y=data.y[:2])).condition(data.X[2:], data.y[2:])
    assert agrees_with_quadrature(fitted, data).p_value > ALPHA


def test_one_label_is_a_reweighting():
    data = one_feature(30)
    fitted = model(data)
    conditioned = fitted.condition([[0.1]], [1])
    likelihood = fitted.sample_proba([[0.1]])[0, :, 1].astype(np.float64)
    np.testing.assert_allclose(conditioned.sample_weights, likelihood / likelihood.sum(), rtol=1e-4)
    assert (conditioned.sample_proba(X_TEST) == fitted.sample_proba(X_TEST)).all()
    assert conditioned.diagnostics_.n_reweighted == 1
    assert conditioned.diagnostics_.effective_sample_size < N_SAMPLES


def test_a_worn_population_is_resampled_and_moved():
    data = one_feature(6)
    conditioned = model(data).condition(np.repeat([[2.0]], 6, axis=0), [1, 0, 1, 1, 0, 1])
    np.testing.assert_allclose(conditioned.sample_weights, 1 / N_SAMPLES)
    assert conditioned.diagnostics_.n_reweighted == 0
    assert conditioned.diagnostics_.n_moves > 0


def test_conditioning_keeps_the_old_population():
    X, y = (
        add_bias(np.random.default_rng(0).standard_normal((10, 3))),
        np.arange(10, dtype=np.int32) % 2,
    )
    population = draw_population(0, X, y, 2, 1.0, 64)
    before = population.whitened.copy(), population.log_weights.copy()
    conditioned = condition_population(population, X[:2], y[:2], seed=0)
    assert len(conditioned.X) == 12
    assert len(population.X) == 10
    assert (population.whitened == before[0]).all()
    assert (population.log_weights == before[1]).all()


def test_systematic_resampling_is_unbiased_and_even():
    weights = np.array([0.5, 0.25, 0.2, 0.05, 0.0])
    rng = np.random.default_rng(0)
    counts = np.array(
        [np.bincount(systematic_resample(rng, weights, 10), minlength=5) for _ in range(2000)]
    )
    assert (counts >= np.floor(10 * weights)).all()
    assert (counts <= np.ceil(10 * weights)).all()
    np.testing.assert_allclose(counts.mean(axis=0), 10 * weights, atol=4 * 0.5 / np.sqrt(2000))
