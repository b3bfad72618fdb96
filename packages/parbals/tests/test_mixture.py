"""The mixture is the logistic function, and its expectations are those of quadrature."""

import numpy as np
import pytest
from parbals.mixture import SCALES, WEIGHTS, label_evidence, normal_cdf_and_kernel, sigmoid_means
from scipy.special import expit, log_ndtr, logsumexp
from scipy.stats import norm


def expectation(function, mean, variance):
    """By a fine sum over ten deviations of f."""
    f = mean + np.sqrt(variance) * np.linspace(-10.0, 10.0, 200_001)
    density = norm.pdf(f, mean, np.sqrt(variance))
    return np.trapezoid(function(f) * density, f)


def test_without_variance_it_is_the_logistic_function():
    f = np.linspace(-40.0, 40.0, 8001)
    (values,) = sigmoid_means(f, np.zeros_like(f), 0)
    assert np.abs(values - expit(f)).max() < 1e-7


@pytest.mark.parametrize(("mean", "variance"), [(0.3, 0.5), (-2.0, 4.0), (5.0, 100.0), (0.0, 1e6)])
def test_means_and_evidence_are_those_of_quadrature(mean, variance):
    means = sigmoid_means(np.array([mean]), np.array([variance]), 2)
    slope = lambda f: expit(f) * expit(-f)  # noqa: E731
    bend = lambda f: slope(f) * (1.0 - 2.0 * expit(f))  # noqa: E731
    for value, function in zip(means, (expit, slope, bend), strict=True):
        assert value[0] == pytest.approx(expectation(function, mean, variance), abs=3e-7)
    for sign in (-1.0, 1.0):
        log_z, _, _ = label_evidence(np.array([mean]), np.array([variance]), sign)
        by_sum = expectation(lambda f, s=sign: expit(s * f), mean, variance)
        assert np.exp(log_z[0]) == pytest.approx(by_sum, abs=3e-7)


def test_derivatives_are_those_of_differences():
    mean = np.array([0.4, -1.3, 3.0])
    variance = np.array([0.2, 2.0, 30.0])
    h = 1e-4
    above = label_evidence(mean + h, variance, -1.0)
    below = label_evidence(mean + -h, variance, -1.0)
    _, slope, curvature = label_evidence(mean, variance, -1.0)
    np.testing.assert_allclose(slope, (above[0] - below[0]) / (2 * h), atol=1e-8)
    np.testing.assert_allclose(curvature, (below[1] - above[1]) / (2 * h), atol=1e-8)


def test_evidence_holds_however_unlikely_the_label():
    mean = np.concatenate([np.linspace(-60.0, 60.0, 2401), [-1e3, 1e3]])
    variance = np.zeros_like(mean)
    log_evidence, slope, curvature = label_evidence(mean, variance, 1.0)
    z = np.array(SCALES)[:, None] * mean
    log_terms = log_ndtr(z) + np.log(WEIGHTS)[:, None]
    log_densities = norm.logpdf(z) + np.log(np.multiply(WEIGHTS, SCALES))[:, None]
    expected = logsumexp(log_terms, axis=0)
    hazards = np.exp(log_densities - expected)
    np.testing.assert_allclose(log_evidence, expected, rtol=1e-7, atol=1e-15)
    np.testing.assert_allclose(slope, hazards.sum(axis=0), rtol=1e-7, atol=1e-300)
    bends = (hazards * np.array(SCALES)[:, None] * z).sum(axis=0)
    cancelled = np.square(slope) * 1e-7  # the two terms nearly cancel far in the tail
    assert (np.abs(curvature - (np.square(slope) + bends)) <= cancelled + 1e-12).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_normal_distribution_is_scipys_far_into_its_tail(dtype):
    z = np.linspace(-12.0, 12.0, 4801).astype(dtype)
    below, bell = normal_cdf_and_kernel(z)
    assert below.dtype == bell.dtype == dtype
    allowed = 1e-8 if dtype == np.float64 else 1e-4  # z² itself is rounded
    np.testing.assert_allclose(below, norm.cdf(z.astype(np.float64)), rtol=allowed)
    np.testing.assert_allclose(bell, np.exp(-0.5 * z.astype(np.float64) ** 2), rtol=allowed)
    far = np.array([-1e30, -1e8, 1e8, 1e30])
    np.testing.assert_array_equal(normal_cdf_and_kernel(far)[0], [0.0, 0.0, 1.0, 1.0])


def test_evidence_of_an_impossible_label_is_finite():
    for dtype in (np.float32, np.float64):
        mean = np.array([-1e8, -1e5, 1e5, 1e8], dtype)
        for values in label_evidence(mean, np.ones_like(mean), 1.0):
            assert np.isfinite(values).all()
