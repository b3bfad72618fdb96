"""Hamiltonian moves: the whitened density is the posterior, and the moves leave it invariant."""

import numpy as np
import pytest
from oracles.definition import log_posterior, log_softmax
from parbals.machine import several_threads
from parbals.posterior.closed.laplace import laplace_reference
from parbals.posterior.hmc import WhitenedPosterior, adapt_step_size, move
from parbals.posterior.predictive import class_probs, contrast_basis, curvature, softmax


def make_data(n, d, n_classes=2, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    X = np.column_stack([scale * rng.standard_normal((n, d)), np.ones(n)])
    return X, rng.integers(0, n_classes, n).astype(np.int32)


def draw_particles(d, n_contrasts=1, n=128):
    return np.random.default_rng(1).standard_normal((d, n_contrasts, n)).astype(np.float32)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_energy_is_that_of_the_posterior(n_classes):
    """Differences equal those of the definition, wherever the reference lies."""
    X, y = make_data(12, 3, n_classes)
    reference = laplace_reference(X, (y + 1) % n_classes, n_classes)
    z = draw_particles(4, n_classes - 1, 6)
    state = WhitenedPosterior(reference, X, y, n_classes).at(z)
    weights = np.einsum("cj,djk->kcd", contrast_basis(n_classes), reference.colour(z))
    expected = -log_posterior(weights, X[:, :-1], y, 1.0)
    np.testing.assert_allclose(state.energy - state.energy[0], expected - expected[0], atol=1e-4)
    squares = 0.5 * np.square(weights).sum(axis=(1, 2))
    np.testing.assert_allclose(
        state.prior_energy - state.prior_energy[0], squares - squares[0], atol=1e-4
    )


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_gradient_is_that_of_the_remainder(n_classes):
    X, y = make_data(6, 2, n_classes)
    posterior = WhitenedPosterior(laplace_reference(X, y, n_classes), X, y, n_classes)
    z = draw_particles(3, n_classes - 1, 4)
    step = 1e-2

    def remainder(z):
        return posterior.at(z).energy - 0.5 * np.square(z.astype(np.float64)).sum(axis=(0, 1))

    gradient = posterior.at(z).gradient
    for index in np.ndindex(z.shape[:2]):
        forward = z.copy()
        backward = z.copy()
        forward[index] += step
        backward[index] -= step
        slope = (remainder(forward) - remainder(backward)) / (2.0 * step)
        np.testing.assert_allclose(gradient[index], slope, atol=2e-3)


def moved(posterior, z, step, n_moves):
    generator = np.random.default_rng(0)
    state = posterior.at(z)
    with several_threads() as workers:
        for _ in range(n_moves):
            result = move(generator, posterior, state, step, workers)
            state = result.state
            step = adapt_step_size(step, result.acceptance)
    return result, step


def test_without_labels_quarter_turns_forget_everything():
    """With no remainder the rotation is exact: always accepted, whatever the dimension."""
    nothing = np.empty((0, 41)), np.empty(0, int)
    posterior = WhitenedPosterior(laplace_reference(*nothing, 2), *nothing, 2)
    z = np.full((41, 1, 128), 3.0, np.float32)
    result, _ = moved(posterior, z, 1.5, 30)
    assert result.acceptance == pytest.approx(1.0, abs=1e-3)
    after = result.state.whitened
    assert after.mean() == pytest.approx(0.0, abs=4 / np.sqrt(z.size))
    assert after.var() == pytest.approx(1.0, abs=4 * np.sqrt(2 / z.size))


def test_the_step_size_finds_its_acceptance():
    X, y = make_data(30, 3, scale=9.0)
    posterior = WhitenedPosterior(laplace_reference(X, y, 2), X, y, 2)
    for start in (1e-3, 1.5):
        result, step = moved(posterior, draw_particles(4), start, 30)
        assert 0.6 < result.acceptance <= 1.0
        assert step > 0.05


def test_a_particle_that_leaves_all_bounds_stays_where_it_was():
    X, y = make_data(30, 3, scale=1e6)
    posterior = WhitenedPosterior(laplace_reference(X, y, 2), X, y, 2)
    result, _ = moved(posterior, 1e6 * draw_particles(4), 1.5, 3)
    assert all(np.isfinite(field).all() for field in result.state)


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
    np.testing.assert_allclose(class_probs(contrasts, n_classes)[0].T, full, atol=2e-6)
    flat = V.reshape(-1, 20_000)
    np.testing.assert_allclose(np.cov(flat), np.eye(len(flat)), atol=5 / np.sqrt(20_000))


def test_curvature_is_the_mean_eigenvalue_of_the_hessian():
    rng = np.random.default_rng(2)
    for n_classes in (2, 5):
        p = softmax(rng.standard_normal(n_classes))
        hessian = (
            contrast_basis(n_classes).T @ (np.diag(p) - np.outer(p, p)) @ contrast_basis(n_classes)
        )
        assert curvature(p) == pytest.approx(np.trace(hessian) / (n_classes - 1))
