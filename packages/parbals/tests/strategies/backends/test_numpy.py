"""NumPy's backend: the screen of kept tables against tables of pairs written out."""

import numpy as np
import pytest
from parbals.machine import several_threads
from parbals.posterior.closed.latents import Latents
from parbals.posterior.closed.whitening import Whitening
from parbals.scores.gaussian import Covariances, probs_and_gains
from parbals.strategies.backends.base import PoolRows, SlotTable
from parbals.strategies.backends.numpy import NumpyBackend
from parbals.strategies.conditioning import (
    branch_state,
    condition_rows,
    condition_state,
    initial_state,
)
from parbals.strategies.forms import QuadraticScreen
from parbals.strategies.scoring import (
    Targets,
    build_context,
    compute_scores,
    covariance,
    project_design,
)


@pytest.mark.parametrize("n_labels", [0, 3])
@pytest.mark.parametrize("n_latents", [1, 3])
def test_kept_tables_give_what_tables_of_pairs_give(n_latents, n_labels):
    generator = np.random.default_rng(n_latents)
    roots = 0.4 * generator.standard_normal((n_latents, 5, 5)) + np.eye(5)
    location = generator.standard_normal((5, n_latents))
    latents = Latents(Whitening.diagonal(np.ones(5)), np.eye(5), location, roots)
    context = build_context(latents, generator.standard_normal((6, 4)))
    X = generator.standard_normal((9, 4))
    rows = project_design(context, np.concatenate([X, np.ones((9, 1))], axis=1).astype(np.float32))
    state = branch_state(initial_state(context), np.zeros(4, int))
    for i in range(n_labels):
        row = rows._replace(
            orthogonal=rows.orthogonal[[i]],
            **{name: getattr(rows, name)[:, [i]] for name in ("factor", "mean", "variance")},
        )
        state = condition_state(context, state, row, generator.integers(0, max(n_latents, 2), 4))
    conditioned = condition_rows(rows, state.labelled, state.mean_coef, state.cov_root)
    gains = probs_and_gains(state.target_mean, state.target_variance)
    targets = Targets(state.target_mean, state.target_variance, *gains)
    labelled = state.target_cov.swapaxes(1, 2)
    base = covariance(rows, context.target_rows).swapaxes(1, 2)
    expected = [
        compute_scores(
            "screen",
            conditioned.mean[:, u],
            conditioned.variance[:, u],
            Covariances(base, conditioned.cov_update[:, u], labelled),
            Targets(*(part[:, u] for part in targets)),
            context,
        )
        for u in range(4)
    ]
    members = np.array([0, 1, 1, 2, 3])
    with several_threads() as workers:
        backend = NumpyBackend(context, PoolRows(X, np.arange(0)), "quadratic", workers)
        backend.branch(np.zeros(4, int))
        backend.update(state, members, np.ones(state.target_mean.shape[1:], bool))
        screened = np.concatenate(list(backend.screen(np.arange(2, 8), 4)))
    np.testing.assert_allclose(screened, np.array(expected)[members].mean(axis=0)[2:8], rtol=1e-4)


def test_a_quadratic_form_is_cheaper_where_targets_are_many():
    roots = np.tile(np.eye(30), (3, 1, 1))
    location = np.ones((30, 3))
    latents = Latents(Whitening.diagonal(np.ones(30)), np.eye(30), location, roots)
    few, many = (build_context(latents, np.ones((n, 29))) for n in (2, 500))
    assert [QuadraticScreen.is_cheaper(context) for context in (few, many)] == [False, True]


def test_slots_are_kept_until_all_are_taken():
    table = SlotTable(5)
    for rows, expected in (
        ([7, 3], ([0, 1], [7, 3], 0)),
        ([3, 9, 7], ([1, 2, 0], [9], 2)),
        ([1, 2, 9], ([3, 4, 2], [1, 2], 3)),
        ([9, 8], ([0, 1], [9, 8], 0)),
    ):
        slots, new_rows, first_new = table.assign(np.array(rows))
        assert (slots.tolist(), new_rows.tolist(), first_new) == expected
