"""The evidence through sites: against dense Gaussians, quadrature, and the sites of a fit."""

import numpy as np
import pytest
from parbals.posterior.ep import fit_gaussian
from parbals.posterior.evidence import profile, settled_sites
from parbals.posterior.sites import Sites
from parbals.posterior.whitening import Whitening
from scipy.special import expit
from scipy.stats import multivariate_normal

FINE = {"tolerance": 1e-9, "most_sweeps": 200}


def made(n_rows=12, n_features=3, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((n_rows, n_features))
    signs = np.where(generator.random(n_rows) < expit(2.0 * X[:, 0]), 1.0, -1.0)
    return X, signs


def test_it_is_the_density_of_what_the_sites_observed():
    """Sites are observations ν/τ with variances 1/τ, whose density is known."""
    X, _ = made()
    generator = np.random.default_rng(1)
    sites = Sites(generator.uniform(0.2, 2.0, 12), generator.standard_normal(12))
    scales = np.array([0.3, 1.0, 5.0])
    found = profile(X, sites, 2.0).log_evidence(np.log(scales))
    seen = sites.shifts / sites.precisions
    dense = [
        multivariate_normal.logpdf(seen, cov=s**2 * X @ X.T + 4.0 + np.diag(1.0 / sites.precisions))
        for s in scales
    ]
    np.testing.assert_allclose(np.diff(found), np.diff(dense), atol=1e-9)


def test_at_settled_sites_its_slope_is_that_of_the_true_evidence():
    """Two labels, by quadrature; expectation propagation is not exact, but close."""
    grid = np.linspace(-40.0, 40.0, 801)
    f = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1)
    rows = np.array([[1.0, 0.0], [0.6, 0.9]])

    def true(log_scale):
        cov = np.exp(2.0 * log_scale) * rows @ rows.T + 1.0
        density = multivariate_normal.pdf(f, cov=cov)
        return np.log((density * expit(f[..., 0]) * expit(-f[..., 1])).sum())

    at, h = np.log(3.0), 0.05
    inside = np.column_stack([3.0 * rows, np.ones(2)])
    sites = settled_sites(inside, np.array([1.0, -1.0]), **FINE)
    low, high = profile(rows, sites, 1.0).log_evidence(np.array([at - h, at + h]))
    slope = (true(at + h) - true(at - h)) / (2.0 * h)
    assert (high - low) / (2.0 * h) == pytest.approx(slope, abs=0.01)


def test_its_sites_are_those_of_the_fit():
    X, signs = made()
    posterior = fit_gaussian(X, (signs > 0).astype(int), Whitening.diagonal(np.full(3, 2.0)))
    sites = settled_sites(2.0 * X, signs, **FINE)
    np.testing.assert_allclose(sites.precisions, posterior.sites.precisions, atol=1e-6)
    np.testing.assert_allclose(sites.shifts, posterior.sites.shifts, atol=1e-6)


def test_a_stack_is_its_members_and_padding_counts_for_nothing():
    X, signs = made()
    stack = np.stack([X, 3.0 * X])
    padded = np.pad(stack, ((0, 0), (0, 2), (0, 0)))
    together = settled_sites(padded, np.append(signs, [0.0, 0.0]), **FINE)
    assert (together.precisions[:, -2:] == 0.0).all()
    for member, (rows, own) in enumerate(zip(stack, padded, strict=True)):
        alone = settled_sites(rows, signs, **FINE)
        np.testing.assert_allclose(together.shifts[member, :-2], alone.shifts, atol=1e-6)
        values = [
            profile(factors, sites, 2.0).log_evidence(np.array([0.0, 1.0]))
            for factors, sites in ((rows, alone), (own, Sites(*(x[member] for x in together))))
        ]
        np.testing.assert_allclose(values[0], values[1], atol=1e-6)
