"""Closed-form EPIG and BALD against quadrature and against draws of the same Gaussian."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit, xlogy
from scipy.stats import norm, spearmanr

from parbals.mixture import sigmoid_means
from parbals.scores.gaussian import (
    closed_bald,
    closed_epig,
    closed_error,
    gain_factor,
    label_information,
)


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
    """60 pool and 25 target points under a Gaussian of 4 weights.

    Means of the labels p, q and of their product from many draws of it; the Gaussian's moments.
    """
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
    moments = (pool @ center, np.square(pool @ root).sum(axis=1))
    moments += (target @ center, np.square(target @ root).sum(axis=1))
    moments += ((pool @ root) @ (target @ root).T,)
    return (p, q, joint), [jnp.asarray(part, jnp.float32) for part in moments]


def cells_of(p, q, joint):
    """Joint probabilities (2, 2, N, M) of the labels of a pool and a target point."""
    p, q = p[:, None], q[None, :]
    return np.array([[1 - p - q + joint, q - joint], [p - joint, joint]])


def true_epig(p, q, joint):
    cells = cells_of(p, q, joint)
    alone = cells.sum(axis=1, keepdims=True) * cells.sum(axis=0, keepdims=True)
    return (cells * np.log(cells / alone)).sum(axis=(0, 1)).mean(axis=1)


def test_epig_is_that_of_many_draws(pairs):
    truth, moments = true_epig(*pairs[0]), pairs[1]
    exact = np.asarray(closed_epig(*moments))
    # Five terms of the series: a few per cent are missing where labels nearly repeat each other.
    np.testing.assert_allclose(exact, truth, rtol=0.08, atol=2e-4)
    assert spearmanr(exact, truth).statistic > 0.998


def test_error_reduction_is_that_of_many_draws(pairs):
    """The error of the best decision at each target, before the label and after either label."""
    cells, moments = cells_of(*pairs[0]), pairs[1]
    before = 1.0 - cells.sum(axis=0).max(axis=0)
    after = 1.0 - cells.max(axis=1).sum(axis=0)
    truth = (before - after).mean(axis=1)
    ours = np.asarray(closed_error(*moments))
    np.testing.assert_allclose(ours, truth, rtol=0.05, atol=5e-4)
    assert truth.max() > 0.01
    assert truth[ours.argmax()] > 0.98 * truth.max()


def test_scores_of_universes_are_those_of_each(pairs):
    _, moments = pairs
    together = [jnp.stack([part, 0.5 * part]) for part in moments]
    for score in (closed_epig, closed_error):
        alone = score(*(0.5 * part for part in moments))
        np.testing.assert_allclose(score(*together)[1], alone, rtol=1e-5, atol=1e-8)


def test_the_quadratic_form_ranks_as_epig_does(pairs):
    truth = true_epig(*pairs[0])
    mean, variance, target_mean, target_variance, covariance = pairs[1]
    there = gain_factor(target_mean, target_variance)
    form = 0.5 * gain_factor(mean, variance) * (jnp.square(covariance) @ there) / len(there)
    assert spearmanr(form, truth).statistic > 0.97
    assert truth[int(form.argmax())] > 0.97 * truth.max()


def test_means_are_the_same_in_jax():
    mean, variance = np.linspace(-3, 3, 7), np.linspace(0.1, 9, 7)
    in_jax = sigmoid_means(jnp.asarray(mean), jnp.asarray(variance), 3, jnp)
    for ours, theirs in zip(sigmoid_means(mean, variance, 3), in_jax, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)
