"""Labels that are likelihoods of every class: beside hard labels, quadrature and weighted draws."""

import numpy as np
import pytest
from parbals.posterior.closed.classes import fit_classes
from parbals.posterior.closed.ep import fit_gaussian, matched_sites
from parbals.posterior.closed.whitening import Whitening
from parbals.race import class_evidence, class_probs
from scipy.special import expit, softmax
from scipy.stats import norm


def answered(n_rows, n_features, n_classes, reliable=0.8, seed=0):
    """Design rows, true classes, and the likelihoods (n, C) of one noisy answer each."""
    generator = np.random.default_rng(seed)
    X = np.c_[generator.standard_normal((n_rows, n_features)), np.ones(n_rows)]
    logits = 2.0 * X @ generator.standard_normal((n_features + 1, n_classes))
    true = np.argmax(logits + generator.gumbel(size=logits.shape), axis=1)
    other = generator.integers(n_classes, size=n_rows)
    said = np.where(generator.random(n_rows) < reliable, true, other)
    latent = np.full((n_classes, n_classes), (1.0 - reliable) / n_classes)
    latent += reliable * np.eye(n_classes)
    return X, true, latent[:, said].T


@pytest.mark.parametrize("weights", [(0.2, 0.9), (0.7, 0.3), (1e-6, 1.0), (0.5, 0.5)])
@pytest.mark.parametrize("mean", [-2.0, 0.3, 4.0])
def test_one_answer_has_the_moments_of_its_mixed_likelihood(weights, mean):
    """Where it narrows the posterior; where it would widen it, the mean alone agrees."""
    variance = 1.7
    (first, second) = weights
    f = np.linspace(-40.0, 40.0, 400_001)
    density = norm.pdf(f, mean, np.sqrt(variance)) * (first + (second - first) * expit(f))
    total = np.trapezoid(density, f)
    exact = np.trapezoid(density * f, f) / total
    spread = np.trapezoid(density * np.square(f - exact), f) / total
    sign, label_noise = (1.0, first / second) if second >= first else (-1.0, second / first)
    sites = matched_sites(*(np.array([x]) for x in (mean, variance, sign, label_noise)))
    precision = 1.0 / variance + sites.precisions[0]
    assert (mean / variance + sites.linear_terms[0]) / precision == pytest.approx(exact, abs=1e-5)
    assert 1.0 / precision == pytest.approx(min(spread, variance), abs=1e-5)


def test_two_weights_agree_with_quadrature():
    X, _, likelihoods = answered(12, 1, 2, seed=3)
    posterior = fit_gaussian(X, likelihoods, Whitening.diagonal(np.full(2, 1.5)))
    assert not posterior.problems()
    grid = np.linspace(-9.0, 9.0, 601)
    v = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1).reshape(-1, 2)
    right = expit(v @ X.T)
    log_density = np.log(likelihoods[:, 0] + np.diff(likelihoods, axis=1)[:, 0] * right).sum(axis=1)
    log_density -= 0.5 * np.square(v / 1.5).sum(axis=1)
    weight = softmax(log_density)
    new = np.array([[1.0, 1.0], [-2.0, 1.0], [0.3, 1.0]])
    exact = weight @ expit(v @ new.T)
    np.testing.assert_allclose(posterior.predict_proba(new)[:, 1], exact, atol=0.015)
    np.testing.assert_allclose(posterior.latents.mean[:, 0], weight @ v, atol=0.08)


@pytest.mark.parametrize("n_classes", [3, 5])
def test_evidence_of_answers_and_its_derivatives(n_classes):
    """Z against the means of a softmax, slopes and second derivatives by differences of Z."""
    generator = np.random.default_rng(n_classes)
    mean, variance = generator.standard_normal((2, 40, n_classes))
    variance = np.square(variance) + 0.3
    weights = generator.dirichlet(np.ones(n_classes), 40)

    def evidence(m):
        return np.exp(class_evidence(m, variance, weights)[0])

    log_z, slopes, curvatures = class_evidence(mean, variance, weights)
    of_means = (weights * class_probs(mean.T, variance.T).T).sum(axis=1)
    np.testing.assert_allclose(np.exp(log_z), of_means, atol=3e-3)
    for a, step in enumerate(1e-3 * np.eye(n_classes)):
        low = evidence(mean - step)
        middle = evidence(mean)
        high = evidence(mean + step)
        np.testing.assert_allclose(slopes[:, a], (high - low) / 2e-3 / middle, atol=2e-3)
        second = (high - 2.0 * middle + low) / 1e-6 / middle
        # The curvatures that sites use lie above the Hessian's diagonal, or near zero.
        assert (curvatures[:, a] >= np.square(slopes[:, a]) - second - 5e-3).all()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_certain_answer_is_a_label(n_classes):
    X, true, _ = answered(40, 3, n_classes)
    fit = (
        fit_gaussian
        if n_classes == 2
        else lambda *arguments: fit_classes(*arguments[:2], 3, arguments[2])
    )
    prior = Whitening.diagonal(np.ones(4))
    hard = fit(X, true, prior)
    soft = fit(X, np.eye(n_classes)[true], prior)
    np.testing.assert_allclose(soft.predict_proba(X), hard.predict_proba(X), atol=1e-5)
    both = fit(X[:30], np.eye(n_classes)[true[:30]], prior).condition(X[30:], true[30:])
    np.testing.assert_allclose(both.predict_proba(X), hard.predict_proba(X), atol=1e-4)


def test_uninformative_answers_change_nothing():
    X, _, likelihoods = answered(40, 3, 3)
    likelihoods[20:] = 0.4
    prior = Whitening.diagonal(np.ones(4))
    whole = fit_classes(X, likelihoods, 3, prior)
    without_noise = fit_classes(X[:20], likelihoods[:20], 3, prior)
    np.testing.assert_allclose(whole.predict_proba(X), without_noise.predict_proba(X), atol=1e-4)


def test_three_classes_agree_with_weighted_draws_of_the_prior():
    X, _, likelihoods = answered(15, 2, 3, seed=5)
    posterior = fit_classes(X, likelihoods, 3, Whitening.diagonal(np.ones(3)))
    assert not posterior.problems()
    draws = np.random.default_rng(0).standard_normal((100_000, 3, 3))
    log_weights = np.zeros(len(draws))
    for row, w in zip(X, likelihoods, strict=True):
        log_weights += np.log(softmax(row @ draws, axis=1) @ w)
    weights = softmax(log_weights)
    new = np.c_[np.random.default_rng(1).standard_normal((20, 2)), np.ones(20)]
    for row, predicted in zip(new, posterior.predict_proba(new), strict=True):
        probs = softmax(row @ draws, axis=1)
        exact = weights @ probs
        error = np.sqrt(np.square(weights) @ np.square(probs - exact))
        assert (np.abs(predicted - exact) < 0.03 + 4.0 * error).all()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_fit_for_thousands_of_answers_agrees_with_the_usual_fit(n_classes, monkeypatch):
    X, _, likelihoods = answered(300, 4, n_classes)
    prior = Whitening.diagonal(np.ones(5))

    def fit():
        if n_classes == 2:
            return fit_gaussian(X, likelihoods, prior)
        return fit_classes(X, likelihoods, n_classes, prior)

    few = fit()
    module = "ep" if n_classes == 2 else "classes"
    monkeypatch.setattr(f"parbals.posterior.closed.{module}.MANY_LABELS", 100)
    many = fit()
    assert many.warm_start is not None
    assert not many.problems()
    np.testing.assert_allclose(many.predict_proba(X), few.predict_proba(X), atol=3e-3)
