"""Ordinal classes: sites against quadrature, recovered thresholds, agreement with two classes."""

import numpy as np
import pytest
from dose import full_count
from parbals.posterior.closed.ep import fit_gaussian
from parbals.posterior.closed.ordinal import (
    _label_loss,
    fit_ordinal,
    interval_evidence,
    interval_probs,
)
from parbals.posterior.closed.prior import fixed_prior
from parbals.posterior.predictive import add_bias
from scipy.integrate import quad
from scipy.optimize import approx_fprime
from scipy.special import expit
from scipy.stats import norm

CUTS = np.array([-1.5, 0.2, 1.0])


def chance(f, k):
    edges = np.concatenate([[-np.inf], CUTS, [np.inf]])
    return expit(edges[k + 1] - f) - expit(edges[k] - f)


@pytest.mark.parametrize("label", range(4))
@pytest.mark.parametrize(("mean", "variance"), [(0.3, 0.5), (-2.0, 4.0), (1.5, 30.0)])
def test_moments_are_those_of_quadrature(label, mean, variance):
    def moment(power):
        wide = 12 * np.sqrt(variance)
        weight = norm(mean, np.sqrt(variance)).pdf
        inside = lambda f: f**power * chance(f, label) * weight(f)  # noqa: E731
        return quad(inside, mean - wide, mean + wide, limit=400, points=[mean, *CUTS])[0]

    whole, first, second = (moment(power) for power in range(3))
    arguments = np.array([mean]), np.array([variance]), np.array([label]), CUTS
    log_prob, slope, curvature = (values[0] for values in interval_evidence(*arguments))
    assert log_prob == pytest.approx(np.log(whole), abs=1e-5)
    assert mean + variance * slope == pytest.approx(first / whole, abs=1e-3)
    spread = second / whole - (first / whole) ** 2
    assert variance - variance**2 * curvature == pytest.approx(spread, rel=1e-2)
    probs = interval_probs(np.array([mean]), np.array([variance]), CUTS)[0]
    assert probs[label] == pytest.approx(whole, abs=1e-6)


def make_data(n, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((n, 3))
    f = X @ [2.0, -1.0, 0.5] + generator.logistic(size=n)
    return X, np.digitize(f, [-2.0, 0.0, 3.0])


def test_thresholds_and_probabilities_are_found():
    X, labels = make_data(1500)
    posterior = fit_ordinal(add_bias(X), labels, 4, fixed_prior(3.0, 3).whitening)
    # The intercept moves all of them, and a gap is one of f.
    assert np.diff(posterior.thresholds) == pytest.approx([2.0, 3.0], abs=0.4)
    probs = posterior.predict_proba(add_bias(X))
    for k in range(4):
        assert probs[:, k].mean() == pytest.approx((labels == k).mean(), abs=0.02)


def test_two_classes_are_about_the_two_class_model():
    X, labels = make_data(80)
    whitening = fixed_prior(1.0, 3).whitening.times(np.sqrt(2.0))
    ranks = fit_ordinal(add_bias(X), (labels > 1).astype(int), 2, whitening)
    classes = fit_gaussian(add_bias(X), (labels > 1).astype(int), whitening)
    expected = classes.predict_proba(add_bias(X))
    assert ranks.predict_proba(add_bias(X)) == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("labels", [[], [2], [1, 1, 1], [0, 4]])
def test_classes_without_labels_keep_their_place(labels):
    X = np.random.default_rng(0).standard_normal((10, 3))
    design = add_bias(X[: len(labels)])
    posterior = fit_ordinal(design, np.array(labels, int), 5, fixed_prior(1.0, 3).whitening)
    assert (np.diff(posterior.thresholds) > 0).all()
    probs = posterior.predict_proba(add_bias(X))
    assert (probs > 1e-6).all()
    assert probs.sum(axis=1) == pytest.approx(np.ones(10))
    if labels:
        assert set(probs[: len(labels)].argmax(axis=1)) <= set(labels)


def test_leave_one_out_is_close_to_a_refit_without_the_label():
    X, labels = make_data(40, seed=3)
    whitening = fixed_prior(1.0, 3).whitening
    posterior = fit_ordinal(add_bias(X), labels, 4, whitening)
    for i in (0, 7):
        others = np.delete(np.arange(40), i)
        refitted = fit_ordinal(add_bias(X[others]), labels[others], 4, whitening)
        direct = refitted.predict_proba(add_bias(X[[i]]))[0]
        assert posterior.leave_one_out()[1][i] == pytest.approx(direct, abs=0.08)


def test_the_gradient_of_the_thresholds_is_that_of_differences():
    generator = np.random.default_rng(0)
    mean = generator.standard_normal(40)
    variance = generator.uniform(0.1, 3.0, 40)
    labels = generator.integers(0, 4, 40)
    value, gradient = _label_loss(CUTS, mean, variance, labels)
    assert value == pytest.approx(-interval_evidence(mean, variance, labels, CUTS)[0].sum())
    differences = approx_fprime(CUTS, lambda cuts: _label_loss(cuts, mean, variance, labels)[0])
    assert gradient == pytest.approx(differences, rel=1e-4)


@pytest.mark.parametrize(
    ("n_classes", "n_labels", "n_runs"),
    [(20, 60, 12), pytest.param(5, 30, full_count(100, least=12), marks=pytest.mark.slow)],
)
def test_leave_one_out_predictions_are_wrong_as_often_as_others(n_classes, n_labels, n_runs):
    """Thresholds that have seen a label put it into the right class: 8 points too few errors."""
    differences = []
    for seed in range(n_runs):
        generator = np.random.default_rng(seed)
        X = generator.standard_normal((2_000, 5))
        f = X @ np.full(5, 1.3) + generator.logistic(size=len(X))
        labels = np.digitize(f, np.quantile(f, np.arange(1, n_classes) / n_classes))
        design = add_bias(X)
        whitening = fixed_prior(1.0, 5).whitening
        posterior = fit_ordinal(design[:n_labels], labels[:n_labels], n_classes, whitening)
        _, left_out = posterior.leave_one_out()
        seen = np.mean(left_out.argmax(axis=1) != labels[:n_labels])
        probs = posterior.predict_proba(design[n_labels:])
        differences.append(seen - np.mean(probs.argmax(axis=1) != labels[n_labels:]))
    standard_error = np.std(differences, ddof=1) / np.sqrt(n_runs)
    assert abs(np.mean(differences)) < 3.0 * standard_error
