"""The mixture is the logistic function, and its expectations are those of quadrature."""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

from parbals.mixture import label_evidence, sigmoid_means


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
    mean, variance, h = np.array([0.4, -1.3, 3.0]), np.array([0.2, 2.0, 30.0]), 1e-4
    above, below = (label_evidence(mean + d, variance, -1.0) for d in (h, -h))
    _, slope, curvature = label_evidence(mean, variance, -1.0)
    np.testing.assert_allclose(slope, (above[0] - below[0]) / (2 * h), atol=1e-8)
    np.testing.assert_allclose(curvature, (below[1] - above[1]) / (2 * h), atol=1e-8)
