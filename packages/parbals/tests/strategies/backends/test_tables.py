"""Kept tables against conditioning every row from the start."""

import numpy as np
import parbals
import pytest
from parbals.machine import several_threads
from parbals.posterior.predictive import add_bias
from parbals.strategies.backends import tables
from parbals.strategies.backends.base import PoolRows
from parbals.strategies.conditioning import (
    branch_state,
    condition_rows,
    condition_state,
    initial_state,
)
from parbals.strategies.scoring import build_context, covariance, project_design

# Which distinct universe each one of a step continues: they split, and one is left behind.
PARENTS = ([0, 0], [0, 1], [0, 0, 1, 1], [0, 1, 2, 3], [1, 2, 3, 3])
LOOKS = ([0, 1, 2], [2, 3], [4, 0, 5], [6, 7, 8], [0, 4, 8, 2])


@pytest.mark.parametrize("n_slots", [8, 5], ids=["all rows stay", "rows are forgotten"])
@pytest.mark.parametrize("n_inside", [5, 3], ids=["all directions", "some directions"])
@pytest.mark.parametrize("n_latents", [1, 3])
def test_rows_that_catch_up_are_those_conditioned_at_once(
    n_latents, n_inside, n_slots, small_context, monkeypatch
):
    monkeypatch.setattr(tables, "_MIN_CACHED_ROWS", n_slots)
    generator = np.random.default_rng(n_latents)
    context = small_context(generator, n_latents, n_inside, np.ones(5))
    monkeypatch.setattr(tables, "_CACHE_ENTRIES", n_slots * 4 * context.targets.gains.size)
    X = generator.standard_normal((9, 4))
    rows = project_design(context, add_bias(X, np.float32))
    state = initial_state(context)
    with several_threads() as workers:
        kept = tables.RowTables(context, PoolRows(X, np.arange(0)), workers)
        for step, (parents, look) in enumerate(zip(PARENTS, LOOKS, strict=True)):
            labels = generator.integers(0, max(n_latents, 2), len(parents))
            kept.branch(np.array(parents))
            state = condition_state(
                context, branch_state(state, np.array(parents)), rows.at(np.array([step])), labels
            )
            kept.update(state)
            opened = kept.open_rows(np.array(look))
            expected = condition_rows(
                rows.at(np.array(look)), state.labelled, state.mean_coef, state.cov_root
            )
            np.testing.assert_allclose(opened.mean, expected.mean, atol=1e-5)
            np.testing.assert_allclose(opened.variance, expected.variance, atol=1e-5)
            pairs = covariance(rows.at(np.array(look)), context.target_rows)[:, None]
            pairs = pairs + expected.cov_update @ state.target_cov[:, None]
            for latent, universe in np.ndindex(pairs.shape[:2]):
                table = kept.base(latent, opened.slots)
                table -= opened.root[latent, universe] @ kept.target_root[latent, universe]
                np.testing.assert_allclose(table, pairs[latent, universe], atol=2e-5)


def test_the_cache_is_bounded_however_few_targets_there_are():
    """Rows themselves are kept beside their covariances with the targets."""
    generator = np.random.default_rng(0)
    X = generator.standard_normal((300, 200))
    model = parbals.BayesianLogisticRegression(inference="ep", random_state=0)
    model.fit(X[:20], np.arange(20) % 2)
    context = build_context(model.gaussian.latents, X[:1], is_padded=False)
    with several_threads() as workers:
        rows = tables.RowTables(context, PoolRows(X, np.arange(0)), workers)._rows
    n_bytes = sum(array.nbytes for array in rows)
    assert n_bytes <= 4 * tables._CACHE_ENTRIES
