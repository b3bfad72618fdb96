"""Latents against the dense covariance matrices that they represent."""

import numpy as np
import pytest
from brute_force import covariance_with
from parbals.posterior.closed.latents import Latents, row_space
from parbals.posterior.closed.whitening import Whitening

N_LATENTS = 3


@pytest.fixture(params=[(4, 9), (20, 6), (0, 5)], ids=["n < d", "n > d", "no rows"])
def posterior(request):
    """Latents, and the mean (d, A) and covariances (A, d, d) by definition.

    Class a observed row i with precision τ_ia: S_a = (diag(1/deviations²) + Σ_i τ_ia x_i x_iᵀ)⁻¹.
    """
    n_rows, n_columns = request.param
    generator = np.random.default_rng(n_rows)
    X = generator.standard_normal((n_rows, n_columns))
    deviations = np.exp(generator.standard_normal(n_columns))
    precisions = generator.exponential(size=(N_LATENTS, n_rows))
    space = row_space(X * deviations)
    basis = space.matrix(n_columns)
    rows = space.rows(X * deviations)
    inner = np.eye(rows.shape[1]) + (rows.T * precisions[:, None, :]) @ rows
    roots = np.linalg.inv(np.linalg.cholesky(inner)).transpose(0, 2, 1)
    location = generator.standard_normal((rows.shape[1], N_LATENTS))
    mean = deviations[:, None] * (basis @ location)
    dense = np.linalg.inv(np.diag(deviations**-2.0) + (X.T * precisions[:, None, :]) @ X)
    return Latents(Whitening.diagonal(deviations), basis, location, roots), mean, dense


def test_marginals_are_those_of_the_dense_matrices(posterior):
    latents, mean, dense = posterior
    X = np.random.default_rng(9).standard_normal((12, len(mean)))
    latent_mean, variance = latents.marginals(X)
    np.testing.assert_allclose(latent_mean, X @ mean)
    np.testing.assert_allclose(variance, np.einsum("nd,ade,ne->na", X, dense, X), rtol=1e-9)


def test_covariances_are_those_of_the_dense_matrices(posterior):
    latents, mean, dense = posterior
    X = np.random.default_rng(8).standard_normal((7, len(mean)))
    np.testing.assert_allclose(covariance_with(latents, X), dense @ X.T, rtol=1e-8, atol=1e-12)


def test_draws_have_mean_and_covariance_within_their_monte_carlo_error(posterior):
    latents, mean, dense = posterior
    n_draws = 20_000
    draws = latents.draw(np.random.default_rng(0), n_draws)
    assert draws.shape == (*mean.shape, n_draws)
    variance = np.einsum("aii->ia", dense)
    z = (draws.mean(axis=2) - mean) / np.sqrt(variance / n_draws)
    assert np.abs(z).max() < 4.5
    deviation = (draws - mean[:, :, None]) / np.sqrt(variance)[:, :, None]
    sample_covariance = np.einsum("iak,jbk->aibj", deviation, deviation, optimize=True) / n_draws
    expected = np.zeros_like(sample_covariance)
    for a in range(N_LATENTS):  # latents are independent of each other
        expected[a, :, a] = dense[a] / np.sqrt(np.outer(variance[:, a], variance[:, a]))
    error = np.sqrt((1.0 + expected**2) / n_draws)
    assert np.abs((sample_covariance - expected) / error).max() < 5.0


X = np.random.default_rng(0).standard_normal((5, 40))


@pytest.mark.parametrize(
    "rows", [X, 1000.0 * X, np.repeat(X[:1], 5, axis=0), np.zeros((5, 40)), X[:0]]
)
def test_its_basis_is_orthonormal_and_holds_the_rows_whatever_their_rank(rows):
    basis = row_space(rows).basis
    assert basis.shape == (40, len(rows))
    np.testing.assert_allclose(basis.T @ basis, np.eye(len(rows)), atol=1e-12)
    np.testing.assert_allclose(rows @ basis @ basis.T, rows, rtol=1e-10, atol=1e-10)


def test_new_coordinates_leave_what_lies_across_unchanged():
    space = row_space(X)
    generator = np.random.default_rng(1)
    vectors = generator.standard_normal((40, 2, 7))
    inner = generator.standard_normal((5, 2, 7))
    replaced = space.replace(vectors, inner)
    np.testing.assert_allclose(space.coordinates(replaced), inner, atol=1e-12)
    change = replaced - vectors
    within = np.tensordot(space.basis, space.coordinates(change), axes=1)
    np.testing.assert_allclose(within, change, atol=1e-12)


@pytest.mark.parametrize("shape", [(3, 8), (8, 3), (1, 1), (0, 4)])
def test_it_has_as_many_dimensions_as_there_are_rows(shape):
    rows = np.random.default_rng(1).standard_normal(shape)
    space = row_space(rows)
    basis = space.matrix(shape[1])
    assert basis.shape == (shape[1], min(shape))
    np.testing.assert_allclose(basis.T @ basis, np.eye(min(shape)), atol=1e-12)
    np.testing.assert_allclose(space.rows(rows) @ basis.T, rows, atol=1e-12)


def test_it_is_the_whole_space_when_that_is_no_larger():
    space = row_space(X.T)
    assert space.basis is None
    assert space.rows(X) is X
    assert space.replace(np.zeros((5, 3)), np.ones((5, 3))).all()
