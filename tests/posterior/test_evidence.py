"""The evidence of stacked priors: against quadrature, and against its own differences."""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import multivariate_normal, norm

from parbals.posterior.ep import fit_gaussian
from parbals.posterior.evidence import stacked_evidence
from parbals.posterior.whitening import Whitening


def made(n_rows=12, n_features=3, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((n_rows, n_features))
    signs = np.where(generator.random(n_rows) < expit(2.0 * X[:, 0]), 1.0, -1.0)
    return X, signs


def test_one_label_is_exact():
    f = np.linspace(-60.0, 60.0, 400_001)
    total = np.trapezoid(norm.pdf(f, 0.0, 3.0) * expit(f), f)
    found = stacked_evidence(np.array([[3.0]]), np.ones(1), tolerance=1e-9)
    assert found.log_evidence == pytest.approx(np.log(total), abs=1e-6)


def test_two_labels_are_those_of_quadrature():
    """Expectation propagation is not exact, but close."""
    grid = np.linspace(-25.0, 25.0, 501)
    f = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1)
    factor = np.array([[2.0, 0.0], [1.25, 1.9]])
    density = multivariate_normal.pdf(f, cov=factor @ factor.T)
    density = density * expit(f[..., 0]) * expit(-f[..., 1])
    total = density.sum() * (grid[1] - grid[0]) ** 2
    found = stacked_evidence(factor, np.array([1.0, -1.0]), tolerance=1e-9)
    assert found.log_evidence == pytest.approx(np.log(total), abs=2e-3)


def test_its_sites_are_those_of_the_fit():
    X, signs = made()
    posterior = fit_gaussian(X, (signs > 0).astype(int), Whitening.diagonal(np.full(3, 2.0)))
    sites = stacked_evidence(2.0 * X, signs, tolerance=1e-9).sites
    np.testing.assert_allclose(sites.precisions, posterior.sites.precisions, atol=1e-6)
    np.testing.assert_allclose(sites.shifts, posterior.sites.shifts, atol=1e-6)


@pytest.mark.parametrize("column", [0, 2])
def test_the_gradient_is_that_of_differences(column):
    X, signs = made()
    h, at = 1e-3, []
    for t in (-h, 0.0, h):
        factors = X.copy()
        factors[:, column] *= np.exp(t)
        at.append(stacked_evidence(factors, signs, tolerance=1e-9))
    difference = (at[2].log_evidence - at[0].log_evidence) / (2.0 * h)
    assert at[1].gradient[column] == pytest.approx(difference, abs=1e-6)


def test_roughly_settled_sites_give_nearly_the_same():
    X, signs = made(60)
    rough = stacked_evidence(2.0 * X, signs)
    fine = stacked_evidence(2.0 * X, signs, tolerance=1e-9)
    assert rough.log_evidence == pytest.approx(fine.log_evidence, abs=1e-2)
    assert rough.gradient.sum() == pytest.approx(fine.gradient.sum(), abs=5e-2)


def test_a_stack_is_its_members_and_padding_counts_for_nothing():
    X, signs = made()
    stack = np.stack([X, 3.0 * X])
    padded = np.pad(stack, ((0, 0), (0, 2), (0, 0)))
    together = stacked_evidence(padded, np.append(signs, [0.0, 0.0]), tolerance=1e-9)
    alone = [stacked_evidence(factors, signs, tolerance=1e-9) for factors in stack]
    gain = alone[1].log_evidence - alone[0].log_evidence
    assert np.diff(together.log_evidence)[0] == pytest.approx(gain, abs=1e-6)
    np.testing.assert_allclose(together.gradient, [a.gradient for a in alone], atol=1e-6)
