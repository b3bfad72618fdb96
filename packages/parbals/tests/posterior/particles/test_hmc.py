"""The moves: the whitened density is the posterior, padding is invisible, the law is right."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles.definition import log_posterior, log_softmax
from parbals.posterior.closed.laplace import laplace_reference
from parbals.posterior.particles.hmc import (
    log_likelihood_terms,
    move_population,
    whitened_posterior,
)
from parbals.posterior.predictive import class_probs, contrast_basis, curvature, softmax


def labelled(n, d, n_classes=2, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    X = np.column_stack([scale * rng.standard_normal((n, d)), np.ones(n)])
    return X, rng.integers(0, n_classes, n).astype(np.int32)


def whitened_log_density(posterior, z, n_classes):
    """-|z|²/2 - R(z) from the formula of the module, in NumPy."""
    design, offset, labels, present, curvature, slope = (np.asarray(part) for part in posterior)
    logits = np.einsum("nd,djk->njk", design, z)
    terms = jax.jit(log_likelihood_terms, static_argnums=2)(
        offset[:, :, None] + logits, labels, n_classes
    )
    likelihood = (present[:, None] * np.asarray(terms.log_likelihood)).sum(axis=0)
    pull = np.einsum("dj,djk->k", slope, z)
    bend = 0.5 * np.einsum("n,njk->k", present * curvature, np.square(logits))
    return likelihood - pull + bend - 0.5 * np.square(z).sum(axis=(0, 1))


@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_whitened_density_is_the_posterior(n_classes):
    """Differences of log density equal those of the definition; padding rows add nothing.

    Also for rows that arrived after the reference was built.
    """
    X, y = labelled(12, 3, n_classes)
    reference = laplace_reference(X[:8], y[:8], n_classes, 1.3)
    z = np.random.default_rng(1).standard_normal((4, n_classes - 1, 6)).astype(np.float32)
    weights = np.einsum("cj,djk->kcd", contrast_basis(n_classes), reference.colour(z))
    expected = log_posterior(weights, X[:, :-1], y, 1.3)
    for n_rows in (12, 64):
        ours = whitened_log_density(whitened_posterior(reference, X, y, n_rows), z, n_classes)
        np.testing.assert_allclose(ours - ours[0], expected - expected[0], atol=2e-4)


def moved(z, posterior, step, max_moves):
    """Moves, called as a fit calls them, so that programs compiled for other tests serve again."""
    return move_population(
        jax.random.key(0),
        z,
        posterior,
        np.float32(step),
        max_moves,
        np.float32(-1.0),
        n_classes=2,
        short_share=0.0,
    )


def test_padding_does_not_change_the_moves():
    X, y = labelled(10, 3)
    reference = laplace_reference(X, y, 2, 1.0)
    z = np.random.default_rng(1).standard_normal((4, 1, 128)).astype(np.float32)
    one, other = (moved(z, whitened_posterior(reference, X, y, n), 0.3, 3) for n in (16, 32))
    np.testing.assert_allclose(one.whitened, other.whitened, atol=1e-4)
    assert float(one.correlation) == pytest.approx(float(other.correlation), abs=1e-3)


def test_without_labels_one_quarter_turn_forgets_everything():
    """With no remainder the rotation is exact: always accepted, whatever the dimension."""
    nothing = np.empty((0, 41)), np.empty(0, int)
    reference = laplace_reference(*nothing, 2, 1.0)
    z = np.full((41, 1, 128), 3.0, np.float32)
    result = moved(z, whitened_posterior(reference, *nothing, 16), 1.5, 6)
    assert float(result.acceptance) == pytest.approx(1.0, abs=1e-3)
    after = np.asarray(result.whitened)
    assert after.mean() == pytest.approx(0.0, abs=4 / np.sqrt(z.size))
    assert after.var() == pytest.approx(1.0, abs=4 * np.sqrt(2 / z.size))


def test_the_step_size_finds_its_acceptance():
    X, y = labelled(30, 3, scale=3.0)
    posterior = whitened_posterior(laplace_reference(X, y, 2, 3.0), X, y, 32)
    z = np.random.default_rng(1).standard_normal((4, 1, 128)).astype(np.float32)
    for start in (1e-3, 1.5):
        result = moved(z, posterior, start, 30)
        assert 0.6 < float(result.acceptance) <= 1.0
        assert float(result.step_size) > 0.05


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
