"""Expectation propagation: its fixed point, conditioning and draws.

statistics/test_agreement.py has long NUTS beside it.
"""

import numpy as np
import pytest
from brute_force import covariance_with
from parbals.mixture import label_evidence
from parbals.posterior.closed.ep import fit_gaussian
from parbals.posterior.closed.whitening import Whitening
from scipy.special import expit
from scipy.stats import norm


def make_data(n_rows, n_features, length=1.0, seed=0):
    """Design rows with an intercept, labels drawn from the model, the prior of variance 2."""
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((n_rows, n_features)) * length / np.sqrt(n_features)
    X = np.concatenate([X, np.ones((n_rows, 1))], axis=1)
    weights = generator.standard_normal(n_features + 1) * np.sqrt(2.0)
    return (
        X,
        (generator.random(n_rows) < expit(X @ weights)).astype(int),
        independent(np.full(n_features + 1, 2.0)),
    )


def independent(variances):
    return Whitening.diagonal(np.sqrt(variances))


def covariance(posterior):
    """(d, d) of the weights."""
    return covariance_with(posterior.latents, np.eye(posterior.X.shape[1]))[0]


def test_without_labels_it_is_the_prior():
    posterior = fit_gaussian(np.empty((0, 3)), np.empty(0, int), independent([1.0, 4.0, 9.0]))
    np.testing.assert_array_equal(posterior.latents.mean[:, 0], 0.0)
    np.testing.assert_allclose(covariance(posterior), np.diag([1.0, 4.0, 9.0]))


def test_one_label_has_the_exact_moments():
    X = np.array([[0.5, -1.0, 1.0]])
    posterior = fit_gaussian(X, np.array([1]), independent(np.full(3, 2.0)))
    variance = 2.0 * np.square(X).sum()
    f = np.linspace(-60.0, 60.0, 400_001)
    weight = norm.pdf(f, 0.0, np.sqrt(variance)) * expit(f)
    total = np.trapezoid(weight, f)
    mean = np.trapezoid(weight * f, f) / total
    spread = np.trapezoid(weight * np.square(f - mean), f) / total
    np.testing.assert_allclose(posterior.marginals(X)[0], mean, atol=1e-5)
    np.testing.assert_allclose(posterior.marginals(X)[1], spread, atol=1e-5)


@pytest.mark.parametrize(
    ("n_rows", "n_features", "length"),
    [(20, 4, 1.0), (30, 60, 1.0), (60, 10, 17.0), (50, 8, 1000.0), (40, 5, 0.01), (60, 80, 1e15)],
)
def test_every_site_agrees_with_its_likelihood(n_rows, n_features, length):
    """At the fixed point a row's marginal is its cavity times the true likelihood."""
    X, labels, prior = make_data(n_rows, n_features, length)
    posterior = fit_gaussian(X, labels, prior)
    assert posterior.residual < 1e-7
    mean, variance = posterior.marginals(X)
    cavity_variance = 1.0 / (1.0 / variance - posterior.sites.precisions)
    cavity_mean = cavity_variance * (mean / variance - posterior.sites.linear_terms)
    _, slope, curvature = label_evidence(cavity_mean, cavity_variance, 2.0 * labels - 1.0)
    scale = np.sqrt(variance)
    np.testing.assert_allclose((cavity_mean + cavity_variance * slope - mean) / scale, 0, atol=1e-4)
    np.testing.assert_allclose(
        cavity_variance * (1.0 - cavity_variance * curvature), variance, rtol=1e-4
    )


def test_many_labels_of_one_class_converge():
    """Sites that agree overshoot when all are updated at once; the steps must shrink."""
    X, _, _ = make_data(500, 10, 0.01)
    posterior = fit_gaussian(X, np.zeros(500, int), independent(np.full(11, 200.0)))
    assert posterior.problems() == ()
    assert (posterior.predict_proba(X)[:, 1] < 0.01).all()


def test_with_fewer_rows_than_columns_the_row_space_is_enough():
    X, labels, prior = make_data(12, 30)
    posterior = fit_gaussian(X, labels, prior)
    precision = np.eye(31) / 2.0 + (X.T * posterior.sites.precisions) @ X
    np.testing.assert_allclose(covariance(posterior), np.linalg.inv(precision), atol=1e-10)
    np.testing.assert_allclose(
        posterior.latents.mean[:, 0],
        np.linalg.solve(precision, X.T @ posterior.sites.linear_terms),
        atol=1e-10,
    )


def test_conditioning_is_fitting_on_everything():
    X, labels, prior = make_data(30, 6, 2.0)
    later = fit_gaussian(X[:25], labels[:25], prior).condition(X[25:], labels[25:])
    whole = fit_gaussian(X, labels, prior)
    np.testing.assert_allclose(later.latents.mean, whole.latents.mean, atol=1e-6)
    np.testing.assert_allclose(covariance(later), covariance(whole), atol=1e-6)


def test_draws_have_the_posteriors_moments():
    X, labels, prior = make_data(30, 3)
    posterior = fit_gaussian(X, labels, prior)
    draws = posterior.latents.draw(np.random.default_rng(0), 20_000)[:, 0]
    deviation = np.sqrt(np.diag(covariance(posterior)))
    np.testing.assert_allclose(
        (draws.mean(axis=1) - posterior.latents.mean[:, 0]) / deviation,
        0.0,
        atol=4.0 / np.sqrt(20_000),
    )
