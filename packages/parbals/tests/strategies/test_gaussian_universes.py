"""Universes against dense Gaussians that are conditioned label by label, in NumPy and in JAX."""

import jax.numpy as jnp
import numpy as np
import pytest
from parbals.mixture import label_evidence
from parbals.posterior.closed.channels import Channels
from parbals.posterior.closed.whitening import Whitening
from parbals.race import class_evidence
from parbals.strategies.gaussian_universes import (
    begin,
    branched,
    is_moved,
    observe,
    pool_of,
    seen_by,
)
from parbals.strategies.surface import surface_of

N_ROWS, N_TARGETS, N_UNIVERSES = 7, 6, 3
LABELLED = (4, 1, 4)  # a row may come twice


def design(X):
    return np.concatenate([X, np.ones((len(X), 1))], axis=1)


@pytest.fixture(params=[(1, 5), (1, 3), (3, 5), (3, 3)], ids=str)
def parts(request):
    """Channels in a space of d = 5 columns, of which r are labelled; rows, targets, labels."""
    n_channels, n_inside = request.param
    generator = np.random.default_rng(n_inside)
    basis = np.linalg.qr(generator.standard_normal((5, n_inside)))[0]
    roots = 0.4 * generator.standard_normal((n_channels, n_inside, n_inside)) + np.eye(n_inside)
    location = generator.standard_normal((n_inside, n_channels))
    whitening = Whitening.diagonal(np.array([1.0, 2.0, 0.5, 1.0, 1.0]))
    channels = Channels(whitening, basis, location, roots)
    X = generator.standard_normal((N_ROWS + N_TARGETS, 4))
    labels = generator.integers(0, max(n_channels, 2), (len(LABELLED), N_UNIVERSES))
    return channels, X[:N_ROWS], X[N_ROWS:], labels


def dense(channels, X, labels):
    """Mean (A, d) and covariance (A, d, d) of one universe's weights given its labels."""
    mean, covariance = channels.mean.T, channels.covariance_with(np.eye(5))
    for index, label in zip(LABELLED, labels, strict=True):
        x = design(X)[index]
        column = covariance @ x  # (A, d)
        here = mean @ x, column @ x
        if len(mean) == 1:
            _, slope, curvature = label_evidence(*here, 2.0 * label - 1.0)
        else:
            given = here[0][None], here[1][None], np.array([label])
            _, slope, curvature = (part[0] for part in class_evidence(*given))
        mean = mean + slope[:, None] * column
        taken = curvature[:, None, None] * column[:, :, None] * column[:, None]
        covariance = covariance - taken
    return mean, covariance


def conditioned(parts, xp):
    """The pool, and universes after all labels; there is room for more of them."""
    channels, X, X_target, labels = parts
    surface = surface_of(channels, X_target)
    pool = pool_of(surface, xp.asarray(design(X), np.float32), xp)
    universes = begin(surface, N_UNIVERSES, 4, xp)
    for index, given in zip(LABELLED, labels, strict=True):
        universes = observe(pool, universes, index, xp.asarray(given), xp)
    return pool, universes


@pytest.mark.parametrize(
    "xp", [np, pytest.param(jnp, marks=pytest.mark.full)], ids=["NumPy", "JAX"]
)
def test_rows_and_targets_are_those_of_dense_gaussians(parts, xp):
    channels, X, X_target, labels = parts
    pool, universes = conditioned(parts, xp)
    some = np.array([0, 4, 6])
    seen = seen_by(pool, universes, some, xp)
    for u in range(N_UNIVERSES):
        mean, covariance = dense(channels, X, labels[:, u])
        rows, targets = design(X)[some], design(X_target)
        for a in range(len(mean)):
            table = seen.covariance(tuple(part[a] for part in seen.parts))
            between = rows @ covariance[a] @ targets.T
            np.testing.assert_allclose(table[u][:, :N_TARGETS], between, atol=1e-4)
            for R, found in (
                (rows, (seen.mean[a, u], seen.variance[a, u])),
                (targets, (universes.target_mean[a, u], universes.target_variance[a, u])),
            ):
                variance = np.einsum("nd,de,ne->n", R, covariance[a], R)
                np.testing.assert_allclose(found[0][: len(R)], R @ mean[a], atol=1e-4)
                np.testing.assert_allclose(found[1][: len(R)], variance, atol=1e-4)


def test_some_columns_are_those_of_the_whole_table(parts):
    pool, universes = conditioned(parts, np)
    seen, columns = seen_by(pool, universes, np.arange(N_ROWS)), np.array([5, 2])
    for channel in zip(*seen.parts, strict=True):
        whole, few = seen.covariance(channel), seen.covariance(channel, columns)
        np.testing.assert_allclose(few, whole[..., columns], rtol=1e-5, atol=1e-6)


def test_universes_with_the_same_labels_are_copies_of_one(parts):
    """Conditioning one and branching afterwards is branching and conditioning each."""
    channels, X, X_target, _ = parts
    surface = surface_of(channels, X_target)
    pool = pool_of(surface, design(X).astype(np.float32))
    one = observe(pool, begin(surface, 1, 2), 0, np.array([1]))
    both = observe(pool, branched(begin(surface, 1, 2), np.array([0, 0])), 0, np.array([1, 1]))
    for ours, theirs in zip(branched(one, np.array([0, 0])), both, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("xp", [np, jnp], ids=["NumPy", "JAX"])
def test_targets_whose_logits_moved_are_to_be_looked_at_again(parts, xp):
    channels, _, X_target, _ = parts
    universes = begin(surface_of(channels, X_target), N_UNIVERSES, 4, xp)
    if len(channels.roots) == 1:  # it costs nothing with two classes
        assert is_moved(universes, xp).all()
        return
    assert not is_moved(universes, xp).any()
    mean, variance = (np.array(x) for x in (universes.target_mean, universes.target_variance))
    deviation = np.sqrt(variance + np.pi**2 / 6.0)
    mean[1, 0, 2] += 0.11 * deviation[1, 0, 2]
    mean[0, 1, 4] -= 0.09 * deviation[0, 1, 4]
    universes = universes._replace(target_mean=xp.asarray(mean))
    assert np.argwhere(np.asarray(is_moved(universes, xp))).tolist() == [[0, 2]]
    wider = xp.asarray(variance + 0.3 * deviation**2)
    assert is_moved(universes._replace(looked_variance=wider), xp).all()
