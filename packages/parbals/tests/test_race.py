"""The softmax of normal logits against product rules, draws, the logistic mixture, differences."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles.race import class_means
from parbals import race
from parbals.mixture import label_evidence, sigmoid_means
from parbals.race import class_evidence, class_probs, class_slopes, curvatures_from_diagonal
from scipy.special import log_softmax, softmax

# A program, as the library compiles it: step by step every operation is one of its own.
means_in_jax = jax.jit(partial(class_means, xp=jnp))


def hessians(probs):
    """∂ softmax / ∂f: diag(p) - p pᵀ."""
    return probs[..., None] * np.eye(probs.shape[-1]) - probs[..., None] * probs[..., None, :]


def make_moments(n_classes, spread, variance, n=6, seed=0):
    """Means that differ by ``spread``, variances that differ by factors of e."""
    generator = np.random.default_rng(seed)
    mean = spread * generator.standard_normal((n, n_classes))
    return mean, variance * np.exp(0.5 * generator.standard_normal((n, n_classes)))


@pytest.mark.parametrize("variance", [1e-4, 0.1, 1.0, 5.0])
@pytest.mark.parametrize("spread", [0.5, 3.0])
def test_three_classes_are_those_of_a_product_rule(spread, variance):
    mean, variances = make_moments(3, spread, variance)
    nodes, weights = np.polynomial.hermite_e.hermegauss(48)
    grid = np.stack(np.meshgrid(nodes, nodes, nodes, indexing="ij"), axis=-1).reshape(-1, 3)
    weights = np.prod(np.meshgrid(weights, weights, weights), axis=0).ravel()
    weights /= weights.sum()
    probs, slopes = class_means(mean, variances)
    for i in range(len(mean)):
        at_nodes = softmax(mean[i] + np.sqrt(variances[i]) * grid, axis=1)
        np.testing.assert_allclose(probs[i], weights @ at_nodes, atol=3e-3)
        second = (at_nodes * weights[:, None]).T @ at_nodes
        np.testing.assert_allclose(slopes[i], np.diag(weights @ at_nodes) - second, atol=5e-3)
        for label in range(3):
            log_z, alpha, _ = (
                values[0] for values in class_evidence(mean[[i]], variances[[i]], np.array([label]))
            )
            likelihood = weights * at_nodes[:, label]
            assert log_z == pytest.approx(np.log(likelihood.sum()), abs=0.01)
            tilted = likelihood / likelihood.sum()
            np.testing.assert_allclose(alpha, np.eye(3)[label] - tilted @ at_nodes, atol=0.01)


@pytest.mark.parametrize("n_classes", [2, 3, 10, pytest.param(100, marks=pytest.mark.full)])
@pytest.mark.parametrize("variance", [1e-4, 1e-2, 1.0, 1e2, 1e4, 1e6])
def test_means_are_those_of_draws(n_classes, variance):
    """Within 2e-3 (means), 2 % of the largest (slopes), and their Monte-Carlo errors."""
    n_draws = 20_000
    for spread in (1.0, 30.0):
        mean, variances = (
            x[0] for x in make_moments(n_classes, spread, variance, n=1, seed=n_classes)
        )
        noise = np.random.default_rng(1).standard_normal((n_draws, n_classes))
        draws = softmax(mean + np.sqrt(variances) * noise, axis=1)
        probs, slopes = (x[0] for x in class_means(mean[None], variances[None]))
        error = draws.std(axis=0) / np.sqrt(n_draws)
        assert (np.abs(probs - draws.mean(axis=0)) < 4.5 * error + 2e-3).all()
        expected = np.diag(draws.mean(axis=0)) - draws.T @ draws / n_draws
        # Every entry is a mean of numbers within [-1, 1], so its variance is below its size / n.
        error = np.sqrt(np.maximum(np.abs(expected), np.abs(slopes)) / n_draws)
        assert (np.abs(slopes - expected) < 4.5 * error + 0.02 * np.abs(expected).max()).all()


@pytest.mark.parametrize("n_classes", [2, 4, 10, 100])
@pytest.mark.parametrize("variance", [1e-4, 1.0, 30.0, 1e4])
def test_slopes_to_rank_by_are_close_to_the_means(n_classes, variance):
    mean, variances = make_moments(n_classes, 1.0, variance, n=40)
    probs, slopes = class_means(mean, variances)
    p, diagonal = class_slopes(mean.T, variances.T)
    np.testing.assert_allclose(p.T, probs, atol=1e-2)
    expected = np.einsum("nkk->nk", slopes)
    np.testing.assert_allclose(diagonal.T, expected, atol=0.05 * expected.max())


def finely(mean, variance):
    """p (C, n) of (C, n) from the Gumbel distribution itself: its smoothing and the race on grids.

    What class a wins between two nodes is the rise of F_a there, times the others at the middle.
    """
    deviation = np.sqrt(variance + np.pi**2 / 6.0)
    ends = (mean - 7.0 * deviation).max(axis=0), (mean + 15.0 * deviation).max(axis=0)
    t = np.linspace(*ends, 1_500)[:, None]
    noise = np.linspace(-8.0, 8.0, 201)
    shares = np.exp(-0.5 * noise**2) / np.exp(-0.5 * noise**2).sum()
    below = np.zeros((len(t), *mean.shape))
    for share, z in zip(shares, noise, strict=True):
        gap = np.maximum(t - mean - np.sqrt(variance) * z, -7.0)
        below += share * np.exp(-np.exp(-gap))
    middle = np.log(np.maximum(0.5 * (below[1:] + below[:-1]), 1e-300))
    others = np.exp(middle.sum(axis=1, keepdims=True) - middle)
    return (others * np.diff(below, axis=0)).sum(axis=0)


@pytest.mark.parametrize(("apart", "allowed"), [(1.0, 1e-3), (10.0, 1e-3), (100.0, 1e-2)])
@pytest.mark.parametrize("wide", [0.5, 50.0])
def test_narrow_classes_are_seen_among_wide_ones(wide, apart, allowed):
    """Variances as unequal as a posterior accepts before it reports a problem."""
    generator = np.random.default_rng(0)
    mean = np.sqrt(1.0 + wide) * generator.standard_normal((4, 3))
    variance = wide * apart ** -generator.random((4, 3))
    variance[:2] = [[wide], [wide / apart]]
    expected = finely(mean, variance)
    np.testing.assert_allclose(expected.sum(axis=0), 1.0, atol=1e-4)
    result = class_probs(mean, variance)
    np.testing.assert_allclose(result, expected, atol=allowed)
    np.testing.assert_allclose(class_means(mean.T, variance.T)[0].T, result, atol=1e-12)
    single = class_probs(mean.astype(np.float32), variance.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, result, atol=2e-6)


@pytest.mark.parametrize("n_classes", [2, 4, 10, 100])
@pytest.mark.parametrize("spread", [0.1, 2.0, 5.0])
def test_known_logits_give_the_softmax_itself(n_classes, spread):
    """Also for improbable labels, whose slope is at most that of a softmax."""
    mean, _ = make_moments(n_classes, spread, 1.0)
    variance = np.zeros_like(mean)
    probs, slopes = class_means(mean, variance)
    expected = softmax(mean, axis=1)
    np.testing.assert_allclose(probs, expected, atol=3e-3)
    np.testing.assert_allclose(slopes, hessians(expected), atol=0.012)
    for labels in (expected.argmax(axis=1), expected.argmin(axis=1)):
        log_z, alpha, _ = class_evidence(mean, variance, labels)
        is_own = np.eye(n_classes)[labels]
        truth = (log_softmax(mean, axis=1) * is_own).sum(axis=1)
        near = truth > -18.0
        np.testing.assert_allclose(log_z[near], truth[near], atol=0.02)
        np.testing.assert_allclose(alpha, is_own - expected, atol=0.02)


@pytest.mark.parametrize("variance", [1e-4, 0.1, 1.0, 30.0, 1e3, 1e6])
def test_two_classes_are_those_of_the_logistic_mixture(variance, monkeypatch):
    """f₁ - f₀ is normal with the sum of the variances."""
    monkeypatch.setattr(race, "_N_LABEL_CURVATURE_ROUNDS", 16)
    gap = np.linspace(-4.0, 4.0, 17) * np.sqrt(1.0 + variance)
    mean = np.stack([0.3 * gap, 1.3 * gap], axis=1)
    variances = np.broadcast_to([0.7 * variance, 0.3 * variance], mean.shape)
    probs, slopes = class_means(mean, variances)
    second, slope = sigmoid_means(gap, np.full_like(gap, variance), 1)
    np.testing.assert_allclose(probs[:, 1], second, atol=3e-3)
    np.testing.assert_allclose(slopes[:, 1, 1], slope, atol=0.05 * slope.max())
    for label in (0, 1):
        labels = np.full(len(gap), label)
        log_z, alpha, beta = class_evidence(mean, variances, labels)
        expected = label_evidence(gap, np.full_like(gap, variance), 2.0 * label - 1.0)
        np.testing.assert_allclose(log_z, expected[0], atol=0.02)
        np.testing.assert_allclose(alpha[:, 1], expected[1], atol=0.02 * np.abs(expected[1]).max())
        # diag(β) - β βᵀ / Σβ of two classes has the diagonal β₀ β₁ / (β₀ + β₁).
        curvature = beta.prod(axis=1) / beta.sum(axis=1)
        np.testing.assert_allclose(curvature, expected[2], atol=0.05 * expected[2].max())


@pytest.mark.parametrize("n_classes", [3, 10])
@pytest.mark.parametrize("variance", [0.3, 3.0, 30.0])
def test_derivatives_are_those_of_differences(n_classes, variance, monkeypatch):
    """With many rounds the curvatures have the Hessian's diagonal."""
    monkeypatch.setattr(race, "_N_LABEL_CURVATURE_ROUNDS", 64)
    mean, variances = make_moments(n_classes, 1.0, variance)
    labels = np.arange(len(mean)) % n_classes
    _, slopes = class_means(mean, variances)
    _, alpha, beta = class_evidence(mean, variances, labels)
    diagonal = beta - np.square(beta) / beta.sum(axis=1, keepdims=True)
    h = 0.01
    for b in range(n_classes):
        step = h * np.eye(n_classes)[b]
        (up, _) = class_means(mean + step, variances)
        (down, _) = class_means(mean + -step, variances)
        np.testing.assert_allclose(slopes[:, :, b], (up - down) / (2 * h), atol=0.01)
        above = class_evidence(mean + step, variances, labels)
        below = class_evidence(mean + -step, variances, labels)
        np.testing.assert_allclose(alpha[:, b], (above[0] - below[0]) / (2 * h), atol=2e-3)
        bend = (below[1] - above[1])[:, b] / (2 * h)
        np.testing.assert_allclose(diagonal[:, b], bend, atol=6e-3)


def test_a_label_leaves_the_moments_that_draws_leave():
    """m + v α, and the variance of a difference of logits from v - v² β, by weighted draws."""
    mean = np.array([[0.5, -0.5, 0.2]])
    variance = np.array([[2.0, 1.0, 3.0]])
    _, alpha, beta = class_evidence(mean, variance, np.array([1]))
    generator = np.random.default_rng(0)
    draws = mean + np.sqrt(variance) * generator.standard_normal((400_000, 3))
    weights = softmax(draws, axis=1)[:, 1]
    weights /= weights.sum()
    size = 1.0 / np.square(weights).sum()
    after = weights @ draws
    error = np.sqrt(weights @ np.square(draws - after) / size)
    assert (np.abs((mean + variance * alpha)[0] - after) < 4 * error + 5e-3).all()
    remaining = (variance - np.square(variance) * beta)[0]
    for a, b in ((0, 1), (0, 2), (1, 2)):
        gap = draws[:, a] - draws[:, b]
        spread = weights @ np.square(gap - weights @ gap)
        # One number per class cannot represent every covariance: the error is a twentieth.
        assert remaining[a] + remaining[b] == pytest.approx(spread, rel=0.05)


@pytest.mark.parametrize("n_classes", [2, 10, 100])
def test_order_and_common_shifts_do_not_matter(n_classes):
    mean, variance = make_moments(n_classes, 2.0, 3.0)
    labels = np.arange(len(mean)) % n_classes
    order = np.random.default_rng(3).permutation(n_classes)
    probs, slopes = class_means(mean, variance)
    np.testing.assert_allclose(probs.sum(axis=1), 1.0)
    np.testing.assert_allclose(slopes.sum(axis=2), 0.0, atol=1e-12)
    np.testing.assert_allclose(slopes, slopes.swapaxes(1, 2), atol=1e-12)
    for one, other in (
        (class_means(mean + 7.0, variance)[0], probs),
        (class_means(mean[:, order], variance[:, order])[0], probs[:, order]),
    ):
        np.testing.assert_allclose(one, other, atol=1e-9)
    plain = class_evidence(mean, variance, labels)
    shuffled = class_evidence(mean[:, order], variance[:, order], np.argsort(order)[labels])
    for one, other in zip(
        shuffled, (plain[0], plain[1][:, order], plain[2][:, order]), strict=True
    ):
        np.testing.assert_allclose(one, other, atol=1e-9)


@pytest.mark.parametrize(
    "n_classes", [4, *(pytest.param(n, marks=pytest.mark.full) for n in (10, 100))]
)
@pytest.mark.parametrize(
    "variance", [1e-4, *(pytest.param(v, marks=pytest.mark.full) for v in (1.0, 1e3))]
)
def test_single_precision_in_jax_is_double_precision_in_numpy(n_classes, variance):
    mean, variances = make_moments(n_classes, np.sqrt(1.0 + variance), variance)
    in_jax = means_in_jax(*(jnp.asarray(x, jnp.float32) for x in (mean, variances)))
    for ours, expected in zip(in_jax, class_means(mean, variances), strict=True):
        assert ours.dtype == jnp.float32
        np.testing.assert_allclose(ours, expected, atol=2e-4 * np.abs(expected).max())


@pytest.mark.parametrize(
    "variance", [0.0, 1e8, *(pytest.param(v, marks=pytest.mark.full) for v in (1e-12, 1.0))]
)
@pytest.mark.parametrize(
    "spread", [1e2, *(pytest.param(s, marks=pytest.mark.full) for s in (0.0, 1e6))]
)
def test_extremes_stay_finite(variance, spread):
    mean = np.array([[0.0, spread, -spread, 0.0]] * 6)
    variances = np.full_like(mean, variance)
    labels = np.arange(6) % 4
    for means, dtype in ((class_means, np.float64), (means_in_jax, np.float32)):
        moments = mean.astype(dtype), variances.astype(dtype)
        probs, slopes = means(*moments)
        log_z, alpha, beta = class_evidence(*moments, labels)
        for values in (probs, slopes, log_z, alpha, beta):
            assert np.isfinite(np.asarray(values)).all()
        np.testing.assert_allclose(probs.sum(axis=1), 1.0, rtol=1e-5)
        assert (beta >= 0.0).all()


def test_balanced_has_the_diagonal_asked_for():
    """Where no class has more than half of the sum; with more, convergence is slow."""
    generator = np.random.default_rng(0)
    beta = generator.uniform(0.2, 1.0, size=(50, 5))
    diagonal = beta - np.square(beta) / beta.sum(axis=1, keepdims=True)
    result = curvatures_from_diagonal(diagonal, np)
    np.testing.assert_allclose(result, beta, rtol=1e-3)
    np.testing.assert_allclose(curvatures_from_diagonal(diagonal[:, ::-1], np), result[:, ::-1])
    np.testing.assert_allclose(curvatures_from_diagonal(10.0 * diagonal, np), 10.0 * result)


def test_curvatures_converge_round_by_round():
    beta = np.random.default_rng(1).exponential(size=(20, 4))
    diagonal = beta - np.square(beta) / beta.sum(axis=1, keepdims=True)
    errors = [
        np.abs(curvatures_from_diagonal(diagonal, np, rounds) - beta).max() for rounds in range(8)
    ]
    np.testing.assert_array_equal(curvatures_from_diagonal(diagonal, np, 0), diagonal)
    assert (np.diff(errors) < 0.0).all()


def test_balanced_of_equal_entries_is_their_share():
    """With C equal β the diagonal is β (1 - 1/C)."""
    np.testing.assert_allclose(curvatures_from_diagonal(np.full((1, 4), 3.0), np), 4.0, rtol=1e-3)
