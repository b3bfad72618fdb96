"""Universe updates against dense Gaussians that are conditioned label by label."""

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
from parbals.strategies.conditioning import (
    branch_state,
    condition_rows,
    condition_state,
    initial_state,
    is_softmax_stale,
    mark_softmax_fresh,
)
from parbals.strategies.scoring import build_context, covariance, project_design

N_ROWS = 7
N_TARGETS = 6
N_UNIVERSES = 3
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
    mean = latents.mean.T
    covariance = covariance_with(latents, np.eye(5))
    for index, label in zip(LABELLED, labels, strict=True):
        x = design(X)[index]
        column = covariance @ x  # (A, d)
        at_row = mean @ x, column @ x
        if len(mean) == 1:
            _, slope, curvature = label_evidence(*at_row, 2.0 * label - 1.0)
        else:
            given = at_row[0][None], at_row[1][None], np.array([label])
            _, slope, curvature = (part[0] for part in class_evidence(*given))
        mean = mean + slope[:, None] * column
        update = curvature[:, None, None] * column[:, :, None] * column[:, None]
        covariance = covariance - update
    return mean, covariance


def conditioned(parts):
    """The scoring context, the rows, and the universes after all labels."""
    latents, X, X_target, labels = parts
    context = build_context(latents, X_target)
    design_rows = design(X).astype(np.float32)
    state = branch_state(initial_state(context), np.zeros(N_UNIVERSES, int))
    for index, given in zip(LABELLED, labels, strict=True):
        state = condition_state(
            context, state, project_design(context, design_rows[[index]]), given
        )
    return context, project_design(context, design_rows), state


def coefficients(state):
    return state.labelled, state.mean_coef, state.cov_root


def test_rows_and_targets_are_those_of_dense_gaussians(parts):
    latents, X, X_target, labels = parts
    context, rows, state = conditioned(parts)
    after = condition_rows(rows, *coefficients(state))
    before = covariance(rows, context.target_rows)
    tables = before[:, None] + after.cov_update @ state.target_cov[:, None]
    for u in range(N_UNIVERSES):
        mean, cov = dense(latents, X, labels[:, u])
        for a in range(len(mean)):
            between = design(X) @ cov[a] @ design(X_target).T
            np.testing.assert_allclose(tables[a, u][:, :N_TARGETS], between, atol=1e-4)
            for R, moments in (
                (design(X), (after.mean[a, u], after.variance[a, u])),
                (design(X_target), (state.target_mean[a, u], state.target_variance[a, u])),
            ):
                variance = np.einsum("nd,de,ne->n", R, cov[a], R)
                np.testing.assert_allclose(moments[0][: len(R)], R @ mean[a], atol=1e-4)
                np.testing.assert_allclose(moments[1][: len(R)], variance, atol=1e-4)


def test_jax_conditions_rows_as_numpy_does(parts):
    _, rows, state = conditioned(parts)
    in_jax = jax.jit(partial(condition_rows, xp=jnp))(rows, *coefficients(state))
    for ours, theirs in zip(condition_rows(rows, *coefficients(state)), in_jax, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_universes_with_the_same_labels_are_copies_of_one(parts):
    """Conditioning one and branching afterwards is branching and conditioning each."""
    latents, X, X_target, _ = parts
    context = build_context(latents, X_target)
    parents = np.array([0, 0])
    row = project_design(context, design(X)[:1].astype(np.float32))
    start = initial_state(context)
    conditioned_first = branch_state(condition_state(context, start, row, np.array([1])), parents)
    branched_first = condition_state(context, branch_state(start, parents), row, np.array([1, 1]))
    leaves = map(jax.tree.leaves, (conditioned_first, branched_first))
    for left, right in zip(*leaves, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-7)


def test_the_softmax_is_stale_where_target_logits_have_moved(parts):
    latents, _, X_target, _ = parts
    start = initial_state(build_context(latents, X_target))
    state = branch_state(start, np.zeros(N_UNIVERSES, int))
    if len(latents.roots) == 1:  # it costs nothing with two classes
        assert is_softmax_stale(state).all()
        return
    assert not is_softmax_stale(state).any()
    mean = state.target_mean.copy()
    variance = state.target_variance
    deviation = np.sqrt(variance + np.pi**2 / 6.0)
    mean[1, 0, 2] += 0.11 * deviation[1, 0, 2]
    mean[0, 1, 4] -= 0.09 * deviation[0, 1, 4]
    state = state._replace(target_mean=mean)
    stale = is_softmax_stale(state)
    assert np.argwhere(stale).tolist() == [[0, 2]]
    wider = (variance + 0.3 * deviation**2).astype(np.float32)
    assert is_softmax_stale(state._replace(softmax_variance=wider)).all()
    assert not is_softmax_stale(mark_softmax_fresh(state, stale)).any()
