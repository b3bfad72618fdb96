"""The evidence of scales: that of Gaussian sites, and where they converge that of the labels."""

import numpy as np
import pytest
from parbals.posterior.closed.ep import fit_gaussian
from parbals.posterior.closed.evidence import converged_sites, evidence_profile
from parbals.posterior.closed.sites import Sites
from parbals.posterior.closed.whitening import Whitening
from scipy.special import expit
from scipy.stats import multivariate_normal

FINE = {"tolerance": 1e-9, "max_sweeps": 200}


def make_rows_and_signs(n_rows=12, n_features=3, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((n_rows, n_features))
    signs = np.where(generator.random(n_rows) < expit(2.0 * X[:, 0]), 1.0, -1.0)
    return X, signs


def test_it_is_the_density_of_what_the_sites_observed():
    """Sites are observations ν/τ with variances 1/τ, whose density is known."""
    X, _ = make_rows_and_signs()
    generator = np.random.default_rng(1)
    sites = Sites(generator.uniform(0.2, 2.0, 12), generator.standard_normal(12))
    scales = np.array([0.3, 1.0, 5.0])
    log_evidence = evidence_profile(X, sites, 2.0).log_evidence(np.log(scales))
    observed = sites.linear_terms / sites.precisions
    dense = [
        multivariate_normal.logpdf(
            observed, cov=s**2 * X @ X.T + 4.0 + np.diag(1.0 / sites.precisions)
        )
        for s in scales
    ]
    np.testing.assert_allclose(np.diff(log_evidence), np.diff(dense), atol=1e-9)


def test_at_converged_sites_its_slope_is_that_of_the_true_evidence():
    """Two labels, by quadrature; expectation propagation is not exact, but close."""
    grid = np.linspace(-40.0, 40.0, 801)
    f = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1)
    rows = np.array([[1.0, 0.0], [0.6, 0.9]])

    def true(log_scale):
        cov = np.exp(2.0 * log_scale) * rows @ rows.T + 1.0
        density = multivariate_normal.pdf(f, cov=cov)
        return np.log((density * expit(f[..., 0]) * expit(-f[..., 1])).sum())

    at = np.log(3.0)
    h = 0.05
    inside = np.column_stack([3.0 * rows, np.ones(2)])
    sites = converged_sites(inside, np.array([1.0, -1.0]), **FINE)
    low, high = evidence_profile(rows, sites, 1.0).log_evidence(np.array([at - h, at + h]))
    slope = (true(at + h) - true(at - h)) / (2.0 * h)
    assert (high - low) / (2.0 * h) == pytest.approx(slope, abs=0.01)


def test_its_slope_is_that_of_the_true_evidence_where_labels_are_noisy():
    """Two labels that are wrong at times, by quadrature."""
    grid = np.linspace(-40.0, 40.0, 801)
    f = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1)
    rows = np.array([[1.0, 0.0], [0.6, 0.9]])
    noise = np.array([0.1, 0.5])

    def true(log_scale):
        cov = np.exp(2.0 * log_scale) * rows @ rows.T + 1.0
        density = multivariate_normal.pdf(f, cov=cov)
        first = noise[0] + (1.0 - noise[0]) * expit(f[..., 0])
        second = noise[1] + (1.0 - noise[1]) * expit(-f[..., 1])
        return np.log((density * first * second).sum())

    at = np.log(3.0)
    h = 0.05
    inside = np.column_stack([3.0 * rows, np.ones(2)])
    sites = converged_sites(inside, np.array([1.0, -1.0]), label_noise=noise, **FINE)
    low, high = evidence_profile(rows, sites, 1.0).log_evidence(np.array([at - h, at + h]))
    slope = (true(at + h) - true(at - h)) / (2.0 * h)
    assert (high - low) / (2.0 * h) == pytest.approx(slope, abs=0.02)


def test_its_sites_are_those_of_the_fit():
    X, signs = make_rows_and_signs()
    posterior = fit_gaussian(X, (signs > 0).astype(int), Whitening.diagonal(np.full(3, 2.0)))
    sites = converged_sites(2.0 * X, signs, **FINE)
    np.testing.assert_allclose(sites.precisions, posterior.sites.precisions, atol=1e-6)
    np.testing.assert_allclose(sites.linear_terms, posterior.sites.linear_terms, atol=1e-6)


def test_a_stack_is_its_members_and_padding_counts_for_nothing():
    X, signs = make_rows_and_signs()
    stack = np.stack([X, 3.0 * X])
    padded = np.pad(stack, ((0, 0), (0, 2), (0, 0)))
    together = converged_sites(padded, np.append(signs, [0.0, 0.0]), **FINE)
    assert (together.precisions[:, -2:] == 0.0).all()
    for member, (rows, padded_rows) in enumerate(zip(stack, padded, strict=True)):
        alone = converged_sites(rows, signs, **FINE)
        np.testing.assert_allclose(
            together.linear_terms[member, :-2], alone.linear_terms, atol=1e-6
        )
        values = [
            evidence_profile(factors, sites, 2.0).log_evidence(np.array([0.0, 1.0]))
            for factors, sites in (
                (rows, alone),
                (padded_rows, Sites(*(x[member] for x in together))),
            )
        ]
        np.testing.assert_allclose(values[0], values[1], atol=1e-6)
