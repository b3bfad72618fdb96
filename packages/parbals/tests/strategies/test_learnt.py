"""What universes learn, against dense Gaussians that are conditioned label by label."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from brute_force import covariance_with
from parbals.mixture import label_evidence
from parbals.posterior.closed.latents import Latents
from parbals.posterior.closed.whitening import Whitening
from parbals.race import class_evidence
from parbals.strategies.learnt import begin, branched, is_moved, learn, looked_at, seen_by
from parbals.strategies.surface import covariance, rows_of, surface_of

N_ROWS, N_TARGETS, N_UNIVERSES = 7, 6, 3
LABELLED = (4, 1, 4)  # a row may come twice


def design(X):
    return np.concatenate([X, np.ones((len(X), 1))], axis=1)


@pytest.fixture(params=[(1, 5), (1, 3), (3, 5), (3, 3)], ids=str)
def parts(request):
    """Latents in a space of d = 5 columns, of which r are labelled; rows, targets, labels."""
    n_latents, n_inside = request.param
    generator = np.random.default_rng(n_inside)
    basis = np.linalg.qr(generator.standard_normal((5, n_inside)))[0]
    roots = 0.4 * generator.standard_normal((n_latents, n_inside, n_inside)) + np.eye(n_inside)
    location = generator.standard_normal((n_inside, n_latents))
    whitening = Whitening.diagonal(np.array([1.0, 2.0, 0.5, 1.0, 1.0]))
    latents = Latents(whitening, basis, location, roots)
    X = generator.standard_normal((N_ROWS + N_TARGETS, 4))
    labels = generator.integers(0, max(n_latents, 2), (len(LABELLED), N_UNIVERSES))
    return latents, X[:N_ROWS], X[N_ROWS:], labels


def dense(latents, X, labels):
    """Mean (A, d) and covariance (A, d, d) of one universe's weights given its labels."""
    mean, covariance = latents.mean.T, covariance_with(latents, np.eye(5))
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


def conditioned(parts):
    """The surface, the rows, and universes after all labels."""
    latents, X, X_target, labels = parts
    surface = surface_of(latents, X_target)
    design_rows = design(X).astype(np.float32)
    learnt = branched(begin(surface), np.zeros(N_UNIVERSES, int))
    for index, given in zip(LABELLED, labels, strict=True):
        learnt = learn(surface, learnt, rows_of(surface, design_rows[[index]]), given)
    return surface, rows_of(surface, design_rows), learnt


def known(learnt):
    return learnt.points, learnt.shift, learnt.weights


def test_rows_and_targets_are_those_of_dense_gaussians(parts):
    latents, X, X_target, labels = parts
    surface, rows, learnt = conditioned(parts)
    seen, before = seen_by(rows, *known(learnt)), covariance(rows, surface.target_rows)
    tables = before[:, None] + seen.pull @ learnt.at_targets[:, None]
    for u in range(N_UNIVERSES):
        mean, cov = dense(latents, X, labels[:, u])
        for a in range(len(mean)):
            between = design(X) @ cov[a] @ design(X_target).T
            np.testing.assert_allclose(tables[a, u][:, :N_TARGETS], between, atol=1e-4)
            for R, found in (
                (design(X), (seen.mean[a, u], seen.variance[a, u])),
                (design(X_target), (learnt.target_mean[a, u], learnt.target_variance[a, u])),
            ):
                variance = np.einsum("nd,de,ne->n", R, cov[a], R)
                np.testing.assert_allclose(found[0][: len(R)], R @ mean[a], atol=1e-4)
                np.testing.assert_allclose(found[1][: len(R)], variance, atol=1e-4)


def test_jax_sees_rows_as_numpy_does(parts):
    _, rows, learnt = conditioned(parts)
    in_jax = jax.jit(partial(seen_by, xp=jnp))(rows, *known(learnt))
    for ours, theirs in zip(seen_by(rows, *known(learnt)), in_jax, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_universes_with_the_same_labels_are_copies_of_one(parts):
    """Conditioning one and branching afterwards is branching and conditioning each."""
    latents, X, X_target, _ = parts
    surface, both = surface_of(latents, X_target), np.array([0, 0])
    row = rows_of(surface, design(X)[:1].astype(np.float32))
    after = branched(learn(surface, begin(surface), row, np.array([1])), both)
    before = learn(surface, branched(begin(surface), both), row, np.array([1, 1]))
    for ours, theirs in zip(jax.tree.leaves(after), jax.tree.leaves(before), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)


def test_targets_whose_logits_moved_are_to_be_looked_at_again(parts):
    latents, _, X_target, _ = parts
    learnt = branched(begin(surface_of(latents, X_target)), np.zeros(N_UNIVERSES, int))
    if len(latents.roots) == 1:  # it costs nothing with two classes
        assert is_moved(learnt).all()
        return
    assert not is_moved(learnt).any()
    mean, variance = learnt.target_mean.copy(), learnt.target_variance
    deviation = np.sqrt(variance + np.pi**2 / 6.0)
    mean[1, 0, 2] += 0.11 * deviation[1, 0, 2]
    mean[0, 1, 4] -= 0.09 * deviation[0, 1, 4]
    learnt = learnt._replace(target_mean=mean)
    moved = is_moved(learnt)
    assert np.argwhere(moved).tolist() == [[0, 2]]
    wider = (variance + 0.3 * deviation**2).astype(np.float32)
    assert is_moved(learnt._replace(looked_variance=wider)).all()
    assert not is_moved(looked_at(learnt, moved)).any()
