"""Channels against the dense covariance matrices that they stand for."""

import numpy as np
import pytest
from parbals.posterior.channels import Channels
from parbals.posterior.row_space import row_space
from parbals.posterior.whitening import Whitening

N_CHANNELS = 3


@pytest.fixture(params=[(4, 9), (20, 6), (0, 5)], ids=["n < d", "n > d", "no rows"])
def posterior(request):
    """Channels, and the mean (d, A) and covariances (A, d, d) from their own definition.

    Class a has seen row i with precision τ_ia: S_a = (diag(1/deviations²) + Σ_i τ_ia x_i x_iᵀ)⁻¹.
    """
    n_rows, n_columns = request.param
    generator = np.random.default_rng(n_rows)
    X = generator.standard_normal((n_rows, n_columns))
    deviations = np.exp(generator.standard_normal(n_columns))
    precisions = generator.exponential(size=(N_CHANNELS, n_rows))
    space = row_space(X * deviations)
    basis, rows = space.matrix(n_columns), space.rows(X * deviations)
    inner = np.eye(rows.shape[1]) + (rows.T * precisions[:, None, :]) @ rows
    roots = np.linalg.inv(np.linalg.cholesky(inner)).transpose(0, 2, 1)
    location = generator.standard_normal((rows.shape[1], N_CHANNELS))
    mean = deviations[:, None] * (basis @ location)
    dense = np.linalg.inv(np.diag(deviations**-2.0) + (X.T * precisions[:, None, :]) @ X)
    return Channels(Whitening.diagonal(deviations), basis, location, roots), mean, dense


def test_marginals_are_those_of_the_dense_matrices(posterior):
    channels, mean, dense = posterior
    X = np.random.default_rng(9).standard_normal((12, len(mean)))
    here, variance = channels.marginals(X)
    np.testing.assert_allclose(here, X @ mean)
    np.testing.assert_allclose(variance, np.einsum("nd,ade,ne->na", X, dense, X), rtol=1e-9)


def test_covariances_are_those_of_the_dense_matrices(posterior):
    channels, mean, dense = posterior
    X = np.random.default_rng(8).standard_normal((7, len(mean)))
    np.testing.assert_allclose(channels.covariance_with(X), dense @ X.T, rtol=1e-8, atol=1e-12)


def test_draws_have_mean_and_covariance_within_their_monte_carlo_error(posterior):
    channels, mean, dense = posterior
    n_draws = 20_000
    draws = channels.draw(np.random.default_rng(0), n_draws)
    assert draws.shape == (*mean.shape, n_draws)
    variance = np.einsum("aii->ia", dense)
    z = (draws.mean(axis=2) - mean) / np.sqrt(variance / n_draws)
    assert np.abs(z).max() < 4.5
    deviation = (draws - mean[:, :, None]) / np.sqrt(variance)[:, :, None]
    seen = np.einsum("iak,jbk->aibj", deviation, deviation, optimize=True) / n_draws
    expected = np.zeros_like(seen)
    for a in range(N_CHANNELS):  # channels are independent of each other
        expected[a, :, a] = dense[a] / np.sqrt(np.outer(variance[:, a], variance[:, a]))
    error = np.sqrt((1.0 + expected**2) / n_draws)
    assert np.abs((seen - expected) / error).max() < 5.0
