"""Expectation propagation with more than two classes beside long chains and exact small cases."""

import numpy as np
import pytest
from brute_force import covariance_with
from oracles.hamiltonian import predictions
from parbals.mixture import sigmoid_means
from parbals.posterior.closed.classes import fit_classes
from parbals.posterior.closed.ep import fit_gaussian
from parbals.posterior.closed.whitening import Whitening
from parbals.race import class_evidence, class_probs
from scipy.special import log_softmax, softmax


def make_data(n_rows, n_features, n_classes, length=1.0, seed=0):
    """Design rows with an intercept, labels drawn from the model, rows to predict."""
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((n_rows + 25, n_features)) * length
    X = np.concatenate([X, np.ones((len(X), 1))], axis=1)
    logits = X @ generator.standard_normal((n_features + 1, n_classes))
    labels = np.argmax(logits + generator.gumbel(size=logits.shape), axis=1)
    return X[:n_rows], labels[:n_rows], X[n_rows:]


def fitted(X, labels, n_classes, prior=1.0):
    return fit_classes(X, labels, n_classes, Whitening.diagonal(np.full(X.shape[1], prior)))


def covariances(posterior):
    """(C, d, d) of the class weights."""
    return covariance_with(posterior.latents, np.eye(posterior.X.shape[1]))


def long_chains(posterior, X_test, **options):
    roots = np.linalg.cholesky(covariances(posterior))
    return predictions(
        posterior.X,
        posterior.labels,
        np.ones(X_test.shape[1]),
        X_test,
        posterior.latents.mean.T,
        roots,
        **options,
    )


def drawn_moments(posterior, X_test):
    """Standard deviations (T, C) of the class probabilities under the Gaussian."""
    weights = posterior.latents.draw(np.random.default_rng(0), 4_000)
    return softmax(np.einsum("td,dck->tkc", X_test, weights), axis=2).std(axis=1)


def absent_classes():
    X, labels, X_test = make_data(25, 4, 3, seed=1)
    return X, labels, X_test, 5


def separable():
    X, _, X_test = make_data(40, 3, 3, length=2.0, seed=2)
    return X, np.digitize(X[:, 0], [-1.0, 1.0]), X_test, 3


def wrong_labels():
    """Five of a hundred labels are those of the class that the model finds least probable."""
    generator = np.random.default_rng(3)
    X, _, X_test = make_data(100, 3, 4, length=3.0, seed=3)
    logits = X @ generator.standard_normal((4, 4))
    labels = logits.argmax(axis=1)
    labels[:5] = logits[:5].argmin(axis=1)
    return X, labels, X_test, 4


DESIGNS = {
    "three classes": lambda: (*make_data(40, 4, 3), 3),
    "four classes": lambda: (*make_data(60, 5, 4), 4),
    "ten classes": lambda: (*make_data(50, 4, 10), 10),
    "classes without labels": absent_classes,
    "separable": separable,
    "wrong labels": wrong_labels,
    "one label": lambda: (*make_data(1, 3, 4), 4),
    "more features than labels": lambda: (*make_data(12, 30, 4, length=0.4), 4),
    "small features": lambda: (*make_data(40, 5, 4, length=0.01), 4),
}


_QUICK = ("classes without labels", "one label")


@pytest.mark.parametrize(
    "name", [n if n in _QUICK else pytest.param(n, marks=pytest.mark.full) for n in DESIGNS]
)
def test_predictions_are_those_of_long_chains(name):
    """Within 0.01 on average and 0.03 at worst, deviations within 0.02, and Monte-Carlo error."""
    X, labels, X_test, n_classes = DESIGNS[name]()
    posterior = fitted(X, labels, n_classes)
    assert posterior.problems() == ()
    truth = long_chains(posterior, X_test)
    difference = posterior.predict_proba(X_test) - truth.mean
    noise = np.mean(np.square(truth.error))
    assert np.sqrt(np.mean(np.square(difference))) < 0.01 + np.sqrt(noise)
    assert (np.abs(difference) < 0.03 + 4.0 * truth.error).all()
    spread = drawn_moments(posterior, X_test) - truth.deviation
    assert np.sqrt(np.mean(np.square(spread))) < 0.02


@pytest.mark.parametrize(
    ("length", "average", "worst"),
    [(0.01, 2e-3, 5e-3), (1.0, 4e-3, 0.01), (30.0, 0.02, 0.1), (1000.0, 0.03, 0.15)],
)
@pytest.mark.parametrize("n_classes", [pytest.param(3, marks=pytest.mark.full), 4])
def test_few_labels_are_those_of_weighted_draws_of_the_prior(n_classes, length, average, worst):
    """Features of any size: with four labels the prior's own draws are enough for the truth.

    Logits in the tens and beyond make the likelihood a step, and the posterior a wedge that no
    Gaussian resembles.
    """
    X, labels, X_test = make_data(4, 2, n_classes, length, seed=5)
    generator = np.random.default_rng(0)
    total = 0.0
    squares = 0.0
    moments = 0.0
    for _ in range(4):
        weights = generator.standard_normal((20_000, n_classes, 3))
        log_probs = log_softmax(np.einsum("nd,kcd->knc", X, weights), axis=2)
        likelihood = np.exp(log_probs[:, np.arange(4), labels].sum(axis=1))
        draw_probs = softmax(np.einsum("td,kcd->ktc", X_test, weights), axis=2)
        total += likelihood.sum()
        squares += np.square(likelihood).sum()
        moments = moments + np.einsum("k,ktc->tc", likelihood, draw_probs)
    truth = moments / total
    size = total**2 / squares
    difference = fitted(X, labels, n_classes).predict_proba(X_test) - truth
    error = 4.0 * np.sqrt(truth * (1.0 - truth) / size)
    assert (np.abs(difference) < worst + error).all()
    assert np.sqrt(np.mean(np.square(difference))) < average + np.sqrt(np.mean(error**2)) / 4.0


@pytest.mark.parametrize("n_classes", [3, 10])
def test_without_labels_it_is_the_prior(n_classes):
    posterior = fit_classes(
        np.empty((0, 3)), np.empty(0, int), n_classes, Whitening.diagonal(np.array([1.0, 2.0, 3.0]))
    )
    np.testing.assert_array_equal(posterior.latents.mean, 0.0)
    for covariance in covariances(posterior):
        np.testing.assert_allclose(covariance, np.diag([1.0, 4.0, 9.0]))
    np.testing.assert_allclose(posterior.predict_proba(np.ones((2, 3))), 1.0 / n_classes)
    assert posterior.problems() == ()


def test_two_classes_are_those_of_the_half_size_model():
    """The mean of f₁ - f₀ and the predictions; the mixtures of both differ by a few thousandths."""
    X, labels, X_test = make_data(40, 4, 2, seed=4)
    whole = fitted(X, labels, 2)
    half = fit_gaussian(X, labels, Whitening.diagonal(np.full(X.shape[1], np.sqrt(2.0))))
    mean, variance = half.marginals(X_test)
    gap = np.diff(whole.latents.marginals(X_test)[0], axis=1)[:, 0]
    np.testing.assert_allclose(gap, mean, atol=0.1 * np.sqrt(variance.mean()))
    np.testing.assert_allclose(whole.predict_proba(X_test), half.predict_proba(X_test), atol=0.02)


def test_the_mean_solves_its_equation_with_the_whole_sites():
    """(D⁻¹ + Σ_i W_i ⊗ x_i x_iᵀ) m = Σ_i ν_i ⊗ x_i, W = diag(τ) - τ τᵀ / Σ τ, as one matrix."""
    X, labels, _ = make_data(20, 3, 4)
    prior = np.array([0.5, 1.0, 2.0, 3.0])
    posterior = fit_classes(X, labels, 4, Whitening.diagonal(np.sqrt(prior)))
    tau = posterior.sites.precisions
    sites = (
        tau[:, :, None] * np.eye(4)
        - tau[:, :, None] * tau[:, None] / tau.sum(axis=1)[:, None, None]
    )
    hessian = np.einsum("nab,nd,ne->adbe", sites, X, X).reshape(16, 16)
    hessian += np.kron(np.eye(4), np.diag(1.0 / prior))
    mean = np.linalg.solve(hessian, (posterior.sites.linear_terms.T @ X).ravel()).reshape(4, 4).T
    np.testing.assert_allclose(posterior.latents.mean, mean, atol=1e-5)
    for a, covariance in enumerate(covariances(posterior)):
        alone = np.linalg.inv(np.diag(1.0 / prior) + (X.T * tau[:, a]) @ X)
        np.testing.assert_allclose(covariance, alone, atol=1e-10)


@pytest.mark.parametrize(("n_rows", "n_features"), [(30, 4), (10, 20)])
def test_every_site_agrees_with_its_likelihood(n_rows, n_features):
    """At the fixed point the logits of a row have the moments of their cavity times the softmax."""
    X, labels, _ = make_data(n_rows, n_features, 4)
    posterior = fitted(X, labels, 4)
    mean, variance = posterior.latents.marginals(X)
    tau, nu = posterior.sites
    mean = mean - mean.mean(axis=1, keepdims=True)
    pulled = tau * (mean - (tau * mean).sum(axis=1, keepdims=True) / tau.sum(axis=1, keepdims=True))
    cavity_variance = variance / (1.0 - tau * variance)
    cavity_mean = mean - cavity_variance * (nu - pulled)
    _, slope, curvature = class_evidence(cavity_mean, cavity_variance, labels)
    after = cavity_mean + cavity_variance * slope
    np.testing.assert_allclose(after - after.mean(axis=1, keepdims=True), mean, atol=0.02)
    np.testing.assert_allclose(
        cavity_variance * (1.0 - cavity_variance * curvature), variance, rtol=1e-3
    )


def test_with_fewer_rows_than_columns_the_row_space_is_enough():
    """Rows of zeros are uninformative, and fill the row space up to every column."""
    X, labels, X_test = make_data(8, 20, 4)
    filled = np.concatenate([X, np.zeros((30, X.shape[1]))])
    whole = fitted(filled, np.append(labels, np.zeros(30, int)), 4)
    narrow = fitted(X, labels, 4)
    np.testing.assert_allclose(narrow.predict_proba(X_test), whole.predict_proba(X_test), atol=1e-4)
    np.testing.assert_allclose(covariances(narrow), covariances(whole), atol=1e-3)


def test_conditioning_is_fitting_on_everything():
    X, labels, X_test = make_data(30, 4, 4)
    first = fitted(X[:25], labels[:25], 4)
    later = first.condition(X[25:], labels[25:])
    whole = fitted(X, labels, 4)
    np.testing.assert_allclose(later.predict_proba(X_test), whole.predict_proba(X_test), atol=1e-3)
    np.testing.assert_allclose(covariances(later), covariances(whole), atol=2e-3)
    assert later.n_sweeps <= whole.n_sweeps
    assert len(first.X) == 25


def test_neither_the_order_of_classes_nor_that_of_rows_matters():
    X, labels, X_test = make_data(30, 4, 5)
    expected = fitted(X, labels, 5).predict_proba(X_test)
    generator = np.random.default_rng(0)
    rows = generator.permutation(30)
    classes = generator.permutation(5)
    by_rows = fitted(X[rows], labels[rows], 5).predict_proba(X_test)
    np.testing.assert_allclose(by_rows, expected, atol=1e-6)
    by_classes = fitted(X, np.argsort(classes)[labels], 5).predict_proba(X_test)
    np.testing.assert_allclose(by_classes, expected[:, classes], atol=1e-6)


def test_classes_without_labels_are_alike():
    X, labels, X_test = make_data(20, 3, 3)
    probs = fitted(X, labels, 6).predict_proba(X_test)
    np.testing.assert_allclose(probs[:, 3], probs[:, 4], atol=1e-9)
    np.testing.assert_allclose(probs[:, 3], probs[:, 5], atol=1e-9)


def test_draws_are_those_of_the_latents():
    X, labels, _ = make_data(20, 3, 4)
    posterior = fitted(X, labels, 4)
    draws = posterior.latents.draw(np.random.default_rng(0), 10_000)
    assert draws.shape == (4, 4, 10_000)
    error = np.sqrt(np.einsum("add->da", covariances(posterior)) / 10_000)
    assert (np.abs(draws.mean(axis=2) - posterior.latents.mean) < 4.5 * error).all()


@pytest.mark.parametrize("length", [1e-3, 1.0, 1e3])
def test_contradicting_labels_leave_a_finite_posterior(length):
    """One row has every label: the mean is zero up to rounding errors, which must not grow."""
    for seed in range(4):
        X = np.full((3, 1), length * np.random.default_rng(seed).standard_normal())
        posterior = fitted(X, np.arange(3), 3)
        np.testing.assert_allclose(posterior.predict_proba(X), 1.0 / 3.0, atol=0.01)


def test_sweeps_that_did_not_converge_are_reported():
    X, labels, _ = make_data(20, 3, 4)
    posterior = fitted(X, labels, 4)
    unconverged = type(posterior)(**{**vars(posterior), "residual": 0.2})
    (problem,) = unconverged.problems()
    assert "did not converge" in problem


@pytest.mark.parametrize("length", [0.01, 1.0, 1_000.0])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_predictions_in_single_precision_are_those_in_double(n_classes, length):
    """Features of extreme norms, whose mean is ten thousand times their deviation."""
    X, labels, X_test = make_data(60, 5, n_classes, length)
    far = np.append(np.full(5, 1e4 * length), 0.0)
    whitening = Whitening.diagonal(np.ones(6), far)
    posterior = (
        fit_gaussian(X + far, labels, whitening)
        if n_classes == 2
        else fit_classes(X + far, labels, n_classes, whitening)
    )
    mean, variance = (moment.T for moment in posterior.latents.marginals(X_test + far))
    expected = class_probs(mean, variance) if n_classes > 2 else sigmoid_means(*mean, *variance, 0)
    predicted = posterior.predict_proba(X_test + far)
    np.testing.assert_allclose(predicted.T[-len(expected) :], expected, atol=2e-5)
    np.testing.assert_allclose(predicted.sum(axis=1), 1.0, atol=1e-12)
