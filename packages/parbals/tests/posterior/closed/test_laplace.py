"""The Gaussian reference: at the mode, with the exact curvature, at any scale of the features."""

import numpy as np
import pytest
from parbals.posterior.closed.laplace import laplace_reference, matched_reference
from parbals.posterior.predictive import contrast_basis, softmax


def rows(n, d, scale=1.0, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = np.column_stack([scale * rng.standard_normal((n, d)), np.ones(n)])
    y = (
        X @ rng.standard_normal((d + 1, n_classes)) / scale + rng.gumbel(size=(n, n_classes))
    ).argmax(axis=1)
    return X, y


def gradient_at(mean, X, y, n_classes):
    basis = contrast_basis(n_classes)
    residual = softmax(X @ mean @ basis.T) - np.eye(n_classes)[y]
    return X.T @ (residual @ basis) + mean


@pytest.mark.parametrize(
    ("n", "d", "scale"), [(40, 5, 1.0), (10, 30, 1.0), (1, 4, 1.0), (30, 5, 0.01), (30, 5, 1000.0)]
)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_the_mode_has_no_slope_left(n, d, scale, n_classes):
    X, y = rows(n, d, scale, n_classes)
    reference = laplace_reference(X, y, n_classes)
    slope = reference.factor.T @ gradient_at(reference.mean, X, y, n_classes)
    assert np.abs(slope).max() < 5e-3  # in posterior standard deviations


@pytest.mark.parametrize(("n", "d"), [(40, 5), (10, 30), (1, 4)])
def test_two_classes_have_the_exact_hessian(n, d):
    X, y = rows(n, d)
    reference = laplace_reference(X, y, 2)
    p = softmax(X @ reference.mean @ contrast_basis(2).T)[:, 1]
    hessian = (X * (2 * p * (1 - p))[:, None]).T @ X + np.eye(d + 1)
    np.testing.assert_allclose(
        reference.factor @ reference.factor.T, np.linalg.inv(hessian), rtol=1e-6, atol=1e-12
    )
    np.testing.assert_allclose(reference.root @ reference.root.T, hessian, rtol=1e-9)


def test_whitening_and_colouring_are_inverse():
    X, y = rows(20, 6, n_classes=3)
    reference = laplace_reference(X, y, 3)
    weights = np.random.default_rng(0).standard_normal((7, 2, 5))
    np.testing.assert_allclose(reference.colour(reference.whiten(weights)), weights, atol=1e-10)


def test_no_rows_leave_the_prior():
    reference = laplace_reference(np.empty((0, 3)), np.empty(0, int), 2)
    np.testing.assert_allclose(reference.mean, 0.0)
    np.testing.assert_allclose(reference.factor @ reference.factor.T, np.eye(3), atol=1e-12)


def test_matching_gives_the_population_its_own_width():
    """A population twice as wide as Laplace's approximation gets a reference that is as wide."""
    X, y = rows(200, 3)
    reference = laplace_reference(100.0 * X, y, 2)
    z = 2.0 * np.random.default_rng(0).standard_normal((4, 1, 5000))
    matched = matched_reference(reference, 100.0 * X, reference.colour(z), sweeps=4)
    ratio = np.square(X @ matched.factor).sum(axis=1) / np.square(X @ reference.factor).sum(axis=1)
    np.testing.assert_allclose(ratio, 4.0, rtol=0.1)
