"""Closed-form EPIG and BALD against quadrature and against draws of the same Gaussian."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles.race import class_means
from parbals.mixture import sigmoid_means
from parbals.scores.gaussian import (
    Covariances,
    approximate_gains,
    closed_bald,
    closed_epig,
    label_gains,
    label_information,
    quadratic_gain,
    screening_scores,
)
from scipy.special import expit, softmax, xlogy
from scipy.stats import norm, spearmanr


def of_tables(tables):
    """Covariances from complete tables (A, n, M)."""
    n_latents, n_points, n_targets = tables.shape
    nothing = (np.zeros((n_latents, n, 0), tables.dtype) for n in (n_points, n_targets))
    return Covariances(tables.swapaxes(1, 2), *nothing)


def entropy(p):
    return -(xlogy(p, p) + xlogy(1.0 - p, 1.0 - p))


@pytest.mark.parametrize(("mean", "variance"), [(0.0, 1.0), (-2.0, 0.3), (1.0, 30.0), (4.0, 4.0)])
def test_bald_is_that_of_quadrature(mean, variance):
    f = mean + np.sqrt(variance) * np.linspace(-10.0, 10.0, 100_001)
    density = norm.pdf(f, mean, np.sqrt(variance))
    by_sum = entropy(np.trapezoid(density * expit(f), f))
    by_sum -= np.trapezoid(density * entropy(expit(f)), f)
    (score,) = closed_bald(np.array([mean]), np.array([variance]))
    assert float(score) == pytest.approx(by_sum, abs=2e-6)


def test_information_is_that_of_the_four_cells():
    p = 0.3
    q = 0.6
    cov = 0.05
    cells = np.outer([p, 1 - p], [q, 1 - q])
    outer = cells
    cells = cells + cov * np.array([[1, -1], [-1, 1]])
    expected = (cells * np.log(cells / outer)).sum()
    ours = float(label_information(*map(np.asarray, (p, q, cov))))
    assert ours == pytest.approx(expected, rel=1e-5)


def true_epig(cells):
    alone = cells.sum(axis=1, keepdims=True) * cells.sum(axis=0, keepdims=True)
    return (cells * np.log(cells / alone)).sum(axis=(0, 1)).mean(axis=1)


def test_epig_is_that_of_many_draws(pairs):
    truth = true_epig(pairs[0])
    moments = pairs[1]
    exact = np.asarray(closed_epig(*moments))
    # Five terms of the series: a few per cent are missing where labels nearly repeat each other.
    np.testing.assert_allclose(exact, truth, rtol=0.08, atol=2e-4)
    assert spearmanr(exact, truth).statistic > 0.998


def test_scores_of_universes_are_those_of_each(pairs):
    _, moments = pairs
    together = [np.stack([moment, 0.5 * moment]) for moment in moments]
    alone = closed_epig(*(0.5 * moment for moment in moments))
    np.testing.assert_allclose(closed_epig(*together)[1], alone, rtol=1e-5, atol=1e-8)


def test_the_quadratic_form_ranks_as_epig_does(pairs):
    truth = true_epig(pairs[0])
    mean, variance, target_mean, target_variance, covariance = pairs[1]
    point_gains = label_gains(mean[None], variance[None])
    target_gains = label_gains(target_mean[None], target_variance[None])
    share = np.full(len(target_mean), 1.0 / len(target_mean))
    form = quadratic_gain(of_tables(covariance[None]), point_gains, target_gains, share)
    assert spearmanr(form, truth).statistic > 0.97
    assert truth[int(form.argmax())] > 0.97 * truth.max()


def test_means_are_the_same_in_jax():
    mean = np.linspace(-3, 3, 7)
    variance = np.linspace(0.1, 9, 7)
    in_jax = jax.jit(partial(sigmoid_means, order=3, xp=jnp))(mean, variance)
    for ours, theirs in zip(sigmoid_means(mean, variance, 3), in_jax, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)


def information_of_many_classes(n_classes, spread, n_draws=16_000):
    """½ Σ cov²/(p q) of 40 pool and 15 target points from draws of independent class weights.

    Halves of the draws give the covariances that are multiplied, so their noise adds nothing.
    Also the means and variances of the logits (C, 40), (C, 15) and their covariances.
    """
    generator = np.random.default_rng(n_classes)
    roots = spread * generator.standard_normal((n_classes, 4, 4))
    centers = generator.standard_normal((n_classes, 4))
    pool = generator.standard_normal((40, 4))
    target = generator.standard_normal((15, 4))
    covs = []
    means = []
    for _ in range(2):
        noise = generator.standard_normal((n_classes, 4, n_draws))
        weights = centers[:, :, None] + roots @ noise
        pool_probs = softmax(np.einsum("nd,cdk->nck", pool, weights), axis=1)
        target_probs = softmax(np.einsum("nd,cdk->nck", target, weights), axis=1)
        means.append((pool_probs.mean(axis=2), target_probs.mean(axis=2)))
        pool_probs = pool_probs - pool_probs.mean(axis=2, keepdims=True)
        target_probs = target_probs - target_probs.mean(axis=2, keepdims=True)
        products = np.tensordot(pool_probs, target_probs, axes=([2], [2]))  # (N, C, M, C)
        covs.append(products / n_draws)
    p, q = (np.mean(moment, axis=0) for moment in zip(*means, strict=True))
    truth = covs[0] * covs[1] / (p[:, :, None, None] * q[None, None])
    moments = []
    for X in (pool, target):
        moments += [centers @ X.T, np.square(np.einsum("nd,ade->ane", X, roots)).sum(axis=2)]
    pool_rows = np.einsum("nd,ade->ane", pool, roots)
    target_rows = np.einsum("nd,ade->ane", target, roots)
    covariance = pool_rows @ target_rows.swapaxes(1, 2)
    return 0.5 * truth.sum(axis=(1, 3)).mean(axis=1), moments, covariance


@pytest.mark.parametrize(
    ("spread", "rank", "best"),
    [pytest.param(0.1, 0.99, 0.97, marks=pytest.mark.full), (0.4, 0.9, 0.8)],
)
@pytest.mark.parametrize(
    "n_classes", [10, *(pytest.param(n, marks=pytest.mark.full) for n in (3, 4))]
)
def test_the_form_of_many_classes_ranks_as_the_information_does(n_classes, spread, rank, best):
    """First order in the covariances of the logits, with the race to rank by."""
    truth, moments, covariance = information_of_many_classes(n_classes, spread)
    point_gains = label_gains(*(np.asarray(x, np.float32) for x in moments[:2]))
    target_gains = label_gains(*(np.asarray(x, np.float32) for x in moments[2:]))
    share = np.full(target_gains.shape[1], 1.0 / target_gains.shape[1])
    tables = of_tables(covariance.astype(np.float32))
    form = quadratic_gain(tables, point_gains, target_gains, share)
    assert spearmanr(form, truth).statistic > rank
    assert truth[form.argmax()] > best * truth.max()
    assert np.median(form / truth) == pytest.approx(1.0, abs=0.25)


def test_gains_have_the_diagonal_of_their_matrix():
    """diag(g) - g gᵀ / Σ g has the diagonal of M = Jᵀ diag(1/p) J, from below."""
    generator = np.random.default_rng(0)
    mean = generator.standard_normal((5, 30))
    variance = generator.exponential(size=(5, 30))
    gains = np.asarray(label_gains(np.asarray(mean), np.asarray(variance)))
    probs, slopes = class_means(mean.T, variance.T)
    matrix = np.einsum("nab,na,nac->nbc", slopes, 1.0 / probs, slopes)
    np.testing.assert_allclose(matrix.sum(axis=2), 0.0, atol=1e-12)
    share = (gains - np.square(gains) / gains.sum(axis=0)).T / np.einsum("nkk->nk", matrix)
    assert np.median(share) == pytest.approx(1.0, abs=0.05)
    assert (share > 0.8).all()
    assert (share < 1.1).all()  # a bound but for the error of the quadrature


def test_the_form_is_the_sum_over_pairs_of_latents():
    generator = np.random.default_rng(1)
    covariance = generator.standard_normal((4, 6, 5))
    point_gains = generator.exponential(size=(4, 6))
    target_gains = generator.exponential(size=(4, 5))
    share = generator.dirichlet(np.ones(5))

    def matrix(gains):
        outer = gains[:, None] * gains[None] / gains.sum(axis=0)
        return np.eye(4)[:, :, None] * gains[:, None] - outer

    expected = 0.5 * np.einsum(
        "knm,lnm,kln,klm,m->n",
        covariance,
        covariance,
        matrix(point_gains),
        matrix(target_gains),
        share,
    )
    form = quadratic_gain(of_tables(covariance), point_gains, target_gains, share)
    np.testing.assert_allclose(form, expected, rtol=1e-4)


def test_a_screen_is_the_form_for_points_undecided_between_the_same_classes():
    generator = np.random.default_rng(2)
    tables = np.tile(generator.standard_normal((6, 5)), (4, 1, 1))
    covariance = of_tables(tables)
    share = generator.dirichlet(np.ones(5))
    for n_alike in (2, 3, 4):
        alike = (np.arange(4) < n_alike)[:, None]
        point_gains = alike * generator.exponential(size=6)
        target_gains = alike * generator.exponential(size=5)
        form = quadratic_gain(covariance, point_gains, target_gains, share)
        np.testing.assert_allclose(
            screening_scores(covariance, point_gains, target_gains, share), form, rtol=1e-6
        )
    two_classes = of_tables(tables[:1]), point_gains[:1], target_gains[:1], share
    np.testing.assert_allclose(
        screening_scores(*two_classes), quadratic_gain(*two_classes), rtol=1e-6
    )


@pytest.mark.parametrize("n_classes", [3, 10])
def test_a_screen_ranks_as_the_form_does(n_classes):
    _, moments, tables = information_of_many_classes(n_classes, 0.4)
    covariance = of_tables(tables)
    point_gains = label_gains(*moments[:2])
    target_gains = label_gains(*moments[2:])
    share = np.full(target_gains.shape[1], 1.0 / target_gains.shape[1])
    form = quadratic_gain(covariance, point_gains, target_gains, share)
    approximate = approximate_gains(*moments[:2])
    for candidate_gains, rank in ((point_gains, 0.95), (approximate, 0.85)):
        screened = screening_scores(covariance, candidate_gains, target_gains, share)
        assert spearmanr(screened, form).statistic > rank
        assert form[np.argsort(screened)[-3:]].max() > 0.99 * form.max()


def test_approximate_gains_are_exact_for_certain_logits_or_two_classes():
    generator = np.random.default_rng(5)
    mean = generator.standard_normal((3, 6))
    approximate = approximate_gains(mean, np.full((3, 6), 1e-4))
    exact = label_gains(mean, np.full((3, 6), 1e-4))
    p = np.exp(mean) / np.exp(mean).sum(axis=0)
    np.testing.assert_allclose(approximate, p * (1.0 - p), rtol=1e-3)
    np.testing.assert_array_less(approximate, 1.01 * exact)  # whose diagonal p (1-p) is, not itself
    two = mean[:1], np.exp(mean[1:2])
    np.testing.assert_array_equal(approximate_gains(*two), label_gains(*two))


@pytest.mark.parametrize("sizes", [(), (2,)], ids=["alone", "universes"])
def test_selected_targets_are_columns_of_the_whole_table(sizes):
    generator = np.random.default_rng(6)
    base = generator.standard_normal((3, *(7, 5)))
    left = generator.standard_normal((3, *(*sizes, 5, 2)))
    right = generator.standard_normal((3, *(7, 2)))
    covariances = Covariances(base, left, right)
    selected = np.array([5, 2])
    for a, latent in enumerate(covariances.latents()):
        whole = base[a].T + left[a] @ right[a].T
        np.testing.assert_allclose(latent.table(), whole)
        np.testing.assert_allclose(latent.table(selected), whole[..., selected])
