"""The expected gain in accuracy against draws of labels and of shifts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from parbals.mixture import sigmoid_means
from parbals.race import class_slopes
from parbals.scores.decisions import _expected_excess, decision_gain, decisions_at
from parbals.scores.gaussian import Covariances, label_gains, probs_and_gains
from parbals.scores.losses import ClassWeights
from scipy.optimize import brentq
from scipy.stats import norm, spearmanr


def of_tables(tables):
    """Covariances from complete tables (A, n, M)."""
    n_latents, n_points, n_targets = tables.shape
    nothing = (np.zeros((n_latents, n, 0), tables.dtype) for n in (n_points, n_targets))
    return Covariances(tables.swapaxes(1, 2), *nothing)


@pytest.mark.parametrize("class_weights", [None, (0.4, 1.6)])
def test_the_gain_in_accuracy_ranks_as_the_worth_that_a_label_adds(pairs, class_weights):
    """The value of the best decision at each target, before the label and after either label."""
    cells = pairs[0]
    if class_weights is not None:
        cells = cells * np.reshape(class_weights, (1, 2, 1, 1))
        class_weights = ClassWeights(jnp.array(class_weights))
    truth = (cells.max(axis=1).sum(axis=0) - cells.sum(axis=0).max(axis=0)).mean(axis=1)
    mean, variance, target_mean, target_variance, covariance = (x[None] for x in pairs[1])
    share = np.full(target_mean.shape[1], 1.0 / target_mean.shape[1])
    ours = np.asarray(
        decision_gain(
            of_tables(covariance),
            label_gains(mean, variance),
            decisions_at(target_mean, target_mean, target_variance, class_weights=class_weights),
            share,
        )
    )
    assert spearmanr(ours, truth).statistic > 0.97
    # A label's own shift is not normal, which matters more where classes do not count alike.
    assert truth[ours.argmax()] > (0.97 if class_weights is None else 0.85) * truth.max()


@pytest.mark.parametrize("one_counts", [None, False, True])
def test_the_gain_in_accuracy_is_that_of_normal_shifts(one_counts):
    """τ² from M = diag(g) - g gᵀ / Σ g; accuracy 2 E[σ'] for each unit beyond zero, by draws.

    With class weights w_a and w_b: w_a + w_b for each unit beyond the mean at which E[σ] is w_b of
    both; where class 1 alone counts, beyond the one at which (p_a + p_b) E[σ] is.
    """
    values = np.array([0.5, 1.5, 0.5]) if one_counts else np.array([0.5, 1.0, 1.5])
    mark = np.array([0.0, 1.0, 0.0]) if one_counts else None
    generator = np.random.default_rng(0)
    covariance = 0.5 * generator.standard_normal((3, 4, 5))
    gains = generator.exponential(size=(3, 4))
    mean = generator.standard_normal((3, 5))
    variance = generator.exponential(size=(3, 5))
    share = generator.dirichlet(np.ones(5))
    noise = generator.standard_normal(200_000)
    probs, _ = class_slopes(mean, variance)
    expected = np.zeros(4)
    error = np.zeros(4)
    for m in range(5):
        order = -probs[:, m] if one_counts is None else -values * probs[:, m]
        a, b = np.argsort(order - 9.0 * mark if one_counts else order)[:2]
        spread = variance[a, m] + variance[b, m]
        both = probs[[a, b], m].sum()
        total = 2.0
        boundary = 0
        if one_counts is not None:
            total = values[a] + values[b]
            share_b = values[b] / total / (both if one_counts else 1.0)
            boundary = brentq(
                lambda x, v=spread, t=share_b: (
                    sigmoid_means(np.array([x]), np.array([v]), 0)[0][0] - t
                ),
                *(-40.0, 40.0),
            )
        slope = sigmoid_means(np.full(1, float(boundary)), np.array([spread]), 1)[1][0]
        worth = total * slope * both * share[m]
        for n in range(4):
            matrix = np.diag(gains[:, n]) - np.outer(gains[:, n], gains[:, n]) / gains[:, n].sum()
            c = np.zeros(3)
            c[a] = covariance[a, n, m]
            c[b] = -covariance[b, n, m]
            moved = abs(mean[a, m] - mean[b, m] - boundary) + np.sqrt(c @ matrix @ c) * noise
            beyond = worth * np.maximum(-moved, 0.0)
            expected[n] += beyond.mean()
            error[n] += beyond.std() / np.sqrt(len(noise))
    covariance, gains, mean, variance, share = map(
        np.asarray, (covariance, gains, mean, variance, share)
    )
    class_weights = None if one_counts is None else ClassWeights(values, mark)
    decisions = decisions_at(probs, mean, variance, class_weights=class_weights)
    ours = decision_gain(of_tables(covariance), gains, decisions, share)
    assert (np.abs(np.asarray(ours) - expected) < 4.0 * error + 1e-5).all()


@pytest.mark.parametrize("xp", [np, jnp], ids=["NumPy", "JAX"])
def test_the_expected_excess_of_a_normal_shift_over_a_margin(xp):
    margin, shift = np.meshgrid(np.r_[0.0, np.geomspace(1e-3, 1e6, 30)], np.geomspace(1e-6, 1e3, 9))
    z = margin / shift
    expected = shift * norm.pdf(z) - margin * norm.sf(z)
    excess = _expected_excess(*(xp.asarray(x, np.float32) for x in (margin, shift)), xp)
    assert (np.abs(excess - expected) < 4e-7 * shift).all()
    nothing = _expected_excess(xp.asarray([0.0, 1.0]), xp.zeros(2), xp)
    np.testing.assert_array_equal(nothing, 0.0)


def test_decisions_of_universes_are_those_of_each():
    generator = np.random.default_rng(3)
    mean = generator.standard_normal((4, 2, 7))
    variance = generator.exponential(size=(4, 2, 7))
    class_weights = ClassWeights(np.array([0.5, 1.0, 1.5, 1.0]))
    probs, gains = probs_and_gains(mean, variance)
    together = decisions_at(probs, mean, variance, np, class_weights)
    for u in range(2):
        q, g = probs_and_gains(mean[:, u], variance[:, u])
        np.testing.assert_allclose(gains[:, u], g, rtol=1e-6)
        alone = decisions_at(q, mean[:, u], variance[:, u], np, class_weights)
        for ours, theirs in zip(together, alone, strict=True):
            np.testing.assert_allclose(ours[..., u, :], theirs, rtol=1e-6)


def test_each_latent_at_its_own_targets_equals_all_latents_at_all_targets():
    """NumPy evaluates a class only at targets where it is among the top two, JAX everywhere."""
    generator = np.random.default_rng(4)
    single = np.float32
    covariance = generator.standard_normal((5, 6, 9), single)
    mean = generator.standard_normal((5, 9), single)
    gains = generator.standard_exponential((5, 6), single)
    variance = generator.standard_exponential((5, 9), single)
    probs = probs_and_gains(mean, variance)[0]
    share = np.full(9, 1.0 / 9.0, single)

    def gain(covariance, gains, probs, mean, variance, xp):
        decisions = decisions_at(probs, mean, variance, xp)
        return decision_gain(covariance, gains, decisions, share, xp)

    arguments = of_tables(covariance), gains, probs, mean, variance
    in_jax = jax.jit(gain, static_argnames="xp")(*arguments, xp=jnp)
    np.testing.assert_allclose(gain(*arguments, np), in_jax, rtol=1e-5)
