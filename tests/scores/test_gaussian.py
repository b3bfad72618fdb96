"""Closed-form EPIG and BALD against quadrature and against draws of the same Gaussian."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit, xlogy
from scipy.stats import norm, spearmanr

from parbals.mixture import sigmoid_means
from parbals.scores.gaussian import closed_bald, closed_epig, gain_factor, label_information


def entropy(p):
    return -(xlogy(p, p) + xlogy(1.0 - p, 1.0 - p))


@pytest.mark.parametrize(("mean", "variance"), [(0.0, 1.0), (-2.0, 0.3), (1.0, 30.0), (4.0, 4.0)])
def test_bald_is_that_of_quadrature(mean, variance):
    f = mean + np.sqrt(variance) * np.linspace(-10.0, 10.0, 100_001)
    density = norm.pdf(f, mean, np.sqrt(variance))
    by_sum = entropy(np.trapezoid(density * expit(f), f))
    by_sum -= np.trapezoid(density * entropy(expit(f)), f)
    (score,) = closed_bald(jnp.array([mean]), jnp.array([variance]))
    assert float(score) == pytest.approx(by_sum, abs=2e-6)


def test_information_is_that_of_the_four_cells():
    p, q, cov = 0.3, 0.6, 0.05
    cells = np.outer([p, 1 - p], [q, 1 - q])
    outer, cells = cells, cells + cov * np.array([[1, -1], [-1, 1]])
    expected = (cells * np.log(cells / outer)).sum()
    ours = float(label_information(*map(jnp.asarray, (p, q, cov))))
    assert ours == pytest.approx(expected, rel=1e-5)


@pytest.fixture(scope="module")
def pairs():
    """60 pool and 25 target points under a Gaussian of 4 weights; EPIG from many draws of it."""
    generator = np.random.default_rng(0)
    root, center = generator.standard_normal((4, 4)), generator.standard_normal(4)
    pool, target = generator.standard_normal((60, 4)), generator.standard_normal((25, 4))
    n_draws, joint = 200_000, np.zeros((60, 25))
    p, q = np.zeros(60), np.zeros(25)
    for _ in range(10):
        weights = center[:, None] + root @ generator.standard_normal((4, n_draws // 10))
        here, there = expit(pool @ weights), expit(target @ weights)
        joint += here @ there.T / n_draws
        p += here.sum(axis=1) / n_draws
        q += there.sum(axis=1) / n_draws
    truth = np.zeros(60)
    for a, b, sign in ((p, q, 1), (p, 1 - q, -1), (1 - p, q, -1), (1 - p, 1 - q, 1)):
        cell = np.outer(a, b) + sign * (joint - np.outer(p, q))
        truth += (cell * np.log(cell / np.outer(a, b))).mean(axis=1)
    moments = (pool @ center, np.square(pool @ root).sum(axis=1))
    moments += (target @ center, np.square(target @ root).sum(axis=1))
    moments += ((pool @ root) @ (target @ root).T,)
    return truth, [jnp.asarray(part, jnp.float32) for part in moments]


def test_epig_is_that_of_many_draws(pairs):
    truth, moments = pairs
    exact = np.asarray(closed_epig(*moments))
    # Five terms of the series: a few per cent are missing where labels nearly repeat each other.
    np.testing.assert_allclose(exact, truth, rtol=0.08, atol=2e-4)
    assert spearmanr(exact, truth).statistic > 0.998


def test_the_quadratic_form_ranks_as_epig_does(pairs):
    truth, (mean, variance, target_mean, target_variance, covariance) = pairs
    there = gain_factor(target_mean, target_variance)
    form = 0.5 * gain_factor(mean, variance) * (jnp.square(covariance) @ there) / len(there)
    assert spearmanr(form, truth).statistic > 0.97
    assert truth[int(form.argmax())] > 0.97 * truth.max()


def test_means_are_the_same_in_jax():
    mean, variance = np.linspace(-3, 3, 7), np.linspace(0.1, 9, 7)
    in_jax = sigmoid_means(jnp.asarray(mean), jnp.asarray(variance), 3, jnp)
    for ours, theirs in zip(sigmoid_means(mean, variance, 3), in_jax, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)
