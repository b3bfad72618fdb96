"""Bugs planted in the source, one at a time: the check that passes without them catches each."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles.checks import ALPHA, agreement, summarise_exact, summarise_model
from oracles.definition import Data, exact_moments

import parbals
from parbals.posterior import estimator, hmc, likelihood, predictive, smc


def posterior_check():
    """Smallest p-value of three comparisons with quadrature: a fit, one more label, five more."""
    rng = np.random.default_rng(0)
    X = 1.5 * rng.standard_normal((18, 1))
    y = (rng.random(18) < 1 / (1 + np.exp(-2.0 * X[:, 0] - 1.0))).astype(int)
    X_test = np.array([[-3.0], [-1.0], [0.2], [1.0], [2.5]])
    model = parbals.BayesianLogisticRegression(n_samples=4000, random_state=0)
    model.fit(X[:12], y[:12])
    p_values = [_against_quadrature(model, X[:12], y[:12], X_test)]
    for start, stop in ((12, 13), (13, 18)):
        model = model.condition(X[start:stop], y[start:stop])
        p_values.append(_against_quadrature(model, X[:stop], y[:stop], X_test))
    return min(p_values)


def _against_quadrature(model, X, y, X_test):
    exact = exact_moments(Data(X, y, X_test))
    return agreement(summarise_model(model, X_test), summarise_exact(exact.mean, exact.sd)).p_value


@pytest.fixture(autouse=True)
def fresh_programs():
    """Compiled programs remember the code they were made from."""
    jax.clear_caches()
    yield
    jax.clear_caches()


def test_the_check_passes_without_a_bug():
    assert posterior_check() > ALPHA


def swapped_classes(patch):
    real = likelihood.log_likelihood_terms
    patch.setattr(hmc, "log_likelihood_terms", lambda f, labels, c: real(f, c - 1 - labels, c))


def prior_too_wide(patch):
    real = smc.laplace_reference
    patch.setattr(
        smc, "laplace_reference", lambda X, y, c, scale, *m: real(X, y, c, scale * np.sqrt(2), *m)
    )


def dropped_row(patch):
    real = smc.whitened_posterior

    def target(*arguments):
        t = real(*arguments)
        return t._replace(present=t.present.at[0].set(0.0))

    patch.setattr(smc, "whitened_posterior", target)


def prior_slope_forgotten(patch):
    real = smc.whitened_posterior

    def target(*arguments):
        t = real(*arguments)
        return t._replace(slope=jnp.zeros_like(t.slope))

    patch.setattr(smc, "whitened_posterior", target)


def slope_of_wrong_sign(patch):
    real = smc.whitened_posterior

    def target(*arguments):
        t = real(*arguments)
        return t._replace(slope=-t.slope)

    patch.setattr(smc, "whitened_posterior", target)


def curvature_counted_twice(patch):
    real = smc.whitened_posterior

    def target(*arguments):
        t = real(*arguments)
        return t._replace(curvature=2.0 * t.curvature)

    patch.setattr(smc, "whitened_posterior", target)


def laplace_passed_off(patch):
    """Draws from the Gaussian at the mode, never moved."""
    real = smc._relax

    def unmoved(generator, reference, z, X, labels, n_classes, **options):
        return real(generator, reference, z, X, labels, n_classes, **options)._replace(
            reference=reference, whitened=z
        )

    patch.setattr(smc, "_relax", unmoved)


def weights_ignored(patch):
    patch.setattr(
        smc.Population,
        "weights",
        property(lambda self: np.full(self.n_samples, 1 / self.n_samples)),
    )


def label_counted_twice(patch):
    real = smc.log_likelihoods
    patch.setattr(smc, "log_likelihoods", lambda *a: 2.0 * real(*a))


def bias_missing(patch):
    patch.setattr(
        estimator, "add_bias", lambda X: np.column_stack([X.astype(np.float64), np.zeros(len(X))])
    )


def root_two_missing(patch):
    real = likelihood.class_probs
    patch.setattr(
        predictive, "class_probs", lambda f, c: real(f / np.sqrt(2.0).astype(np.float32), c)
    )


BUGS = [
    swapped_classes,
    prior_too_wide,
    dropped_row,
    prior_slope_forgotten,
    slope_of_wrong_sign,
    curvature_counted_twice,
    laplace_passed_off,
    weights_ignored,
    label_counted_twice,
    bias_missing,
    root_two_missing,
]


@pytest.mark.filterwarnings("ignore::parbals.errors.PosteriorWarning")
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_the_bug_is_caught(bug, monkeypatch):
    monkeypatch.setattr(smc, "_GRADIENT_BUDGET", 2_000)
    bug(monkeypatch)
    assert posterior_check() < ALPHA
