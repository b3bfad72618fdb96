"""The contrast model is the full model: same likelihood, same prior predictive."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles.definition import log_softmax
from parbals.posterior.contrasts import class_probs, contrast_basis, curvature, softmax
from parbals.posterior.likelihood import log_likelihood_terms

TERMS = jax.jit(log_likelihood_terms, static_argnums=2)


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_the_basis_spans_the_contrasts_orthonormally(n_classes):
    basis = contrast_basis(n_classes)
    np.testing.assert_allclose(basis.T @ basis, np.eye(n_classes - 1), atol=1e-12)
    np.testing.assert_allclose(basis.sum(axis=0), 0.0, atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_full_weights_and_their_contrasts_predict_alike(n_classes):
    """W and its projection QᵀW give the same probabilities, and QᵀW has the prior of W."""
    rng = np.random.default_rng(0)
    W = rng.standard_normal((n_classes, 3, 20_000))
    V = np.einsum("cj,cdk->jdk", contrast_basis(n_classes), W)
    x = rng.standard_normal(3)
    full = np.exp(log_softmax(np.einsum("d,cdk->kc", x, W)))
    contrasts = np.einsum("d,jdk->jk", x, V)[None].astype(np.float32)
    for xp in (np, jnp):
        reduced = np.asarray(class_probs(xp.asarray(contrasts), n_classes, xp))[0].T
        np.testing.assert_allclose(reduced, full, atol=2e-6)
    flat = V.reshape(-1, 20_000)
    np.testing.assert_allclose(np.cov(flat), np.eye(len(flat)), atol=5 / np.sqrt(20_000))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_log_likelihood_and_gradient_match_automatic_differentiation(n_classes):
    rng = np.random.default_rng(1)
    contrasts = jnp.asarray(rng.standard_normal((5, n_classes - 1, 4)), jnp.float32)
    labels = jnp.asarray(rng.integers(0, n_classes, 5), jnp.int32)
    basis = contrast_basis(n_classes).astype(np.float32)

    def definition(f):
        log_probs = jax.nn.log_softmax(jnp.einsum("cj,njk->nck", basis, f), axis=1)
        return jnp.take_along_axis(log_probs, labels[:, None, None], axis=1)[:, 0]

    terms = TERMS(contrasts, labels, n_classes)
    expected = jax.jit(definition)(contrasts)
    np.testing.assert_allclose(terms.log_likelihood, expected, rtol=1e-5, atol=1e-6)
    gradient = jax.jit(jax.grad(lambda f: definition(f).sum()))(contrasts)
    np.testing.assert_allclose(terms.gradient, gradient, atol=1e-5)


def test_curvature_is_the_mean_eigenvalue_of_the_hessian():
    rng = np.random.default_rng(2)
    for n_classes in (2, 5):
        p = softmax(rng.standard_normal(n_classes))
        hessian = (
            contrast_basis(n_classes).T @ (np.diag(p) - np.outer(p, p)) @ contrast_basis(n_classes)
        )
        assert curvature(p) == pytest.approx(np.trace(hessian) / (n_classes - 1))


def test_extreme_logits_are_safe():
    terms = TERMS(np.array([[[1e4, -1e4]]], np.float32), np.array([1]), 2)
    assert np.isfinite(np.asarray(terms.log_likelihood)).all()
    assert np.isfinite(np.asarray(terms.gradient)).all()
