"""Universes as linear models against rows and pairs conditioned on all labels at once."""

import numpy as np
import pytest
from parbals.posterior.predictive import add_bias
from parbals.scores.gaussian import screening_gains
from parbals.strategies import conditioning
from parbals.strategies.backends.base import PoolRows
from parbals.strategies.conditioning import (
    branch_state,
    condition_rows,
    condition_state,
    initial_state,
)
from parbals.strategies.forms import QuadraticScreen
from parbals.strategies.scoring import covariance, project_design
from parbals.strategies.universes import linear, linear_rows, linear_shortlist
from parbals.strategies.universes.linear import LinearState
from parbals.strategies.universes.linear_rows import LinearRows
from parbals.strategies.universes.linear_shortlist import ShortlistCovariances
from parbals.strategies.universes.linear_targets import UniverseTargets

N_UNIVERSES = 3
# Rows that are looked at after each label: some stay, some return after several labels.
LOOKS = ([0, 1, 2], [2, 3], [4, 0, 5], [6, 7, 8], [0, 4, 8, 2], [1], [1, 3, 7])


@pytest.fixture(params=[(1, 5), (3, 5), (3, 3)], ids=str)
def parts(request, small_context):
    """A scoring context, its pool and design rows; some directions may have no label."""
    n_latents, n_inside = request.param
    generator = np.random.default_rng(n_latents)
    context = small_context(generator, n_latents, n_inside, np.linspace(0.5, 1.5, 5))
    X = generator.standard_normal((9, 4))
    return context, X, add_bias(X, np.float32)


def grown(context, design, monkeypatch, window, look):
    """Condition on the first rows in turn and look after each; both states after every label."""
    monkeypatch.setattr(linear, "_WINDOW_ENTRIES", 0)
    monkeypatch.setattr(linear, "_MIN_WINDOW", window)
    rows = project_design(context, design)
    whitened = context.whitening.rows(design)
    expected = branch_state(initial_state(context), np.zeros(N_UNIVERSES, int))
    generator = np.random.default_rng(0)
    state = LinearState(context, N_UNIVERSES, 20)
    examine = look(state)
    for index, indices in enumerate(LOOKS):
        labels = generator.integers(0, max(len(context.roots), 2), N_UNIVERSES)
        expected = condition_state(context, expected, rows.at(np.array([index])), labels)
        state.observe(whitened[index], labels)
        examine(np.array(indices), expected)
    return state, expected


def pairs_of(context, rows, state):
    """Covariances (A, U, n, M) of rows with all targets, written out."""
    update = condition_rows(rows, state.labelled, state.mean_coef, state.cov_root).cov_update
    return covariance(rows, context.target_rows)[:, None] + update @ state.target_cov[:, None]


@pytest.mark.parametrize("window", [2, 9], ids=["folded", "never folded"])
@pytest.mark.parametrize("n_slots", [9, 5], ids=["all rows stay", "rows are forgotten"])
def test_rows_that_catch_up_are_those_conditioned_at_once(parts, window, n_slots, monkeypatch):
    """The weights of the targets do not change here: sums of squares are then exact."""
    context, X, design = parts
    monkeypatch.setattr(UniverseTargets, "_refresh", lambda targets, stale: None)
    monkeypatch.setattr(linear_rows, "_CACHE_ENTRIES", 0)
    monkeypatch.setattr(linear_rows, "_MIN_CACHED_ROWS", n_slots)
    weights = 0.5 * context.share * screening_gains(context.targets.gains)

    def look(state):
        caught_up = LinearRows(context, state, PoolRows(X, np.arange(0)))

        def examine(indices, expected):
            rows = project_design(context, design[indices])
            slots = caught_up.catch_up(indices)
            mean, variance = caught_up.moments(slots)
            conditioned = condition_rows(
                rows, expected.labelled, expected.mean_coef, expected.cov_root
            )
            np.testing.assert_allclose(mean, conditioned.mean, rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(variance, conditioned.variance, rtol=1e-5, atol=1e-5)
            squares = np.square(pairs_of(context, rows, expected)) @ weights[:, None, :, None]
            np.testing.assert_allclose(
                caught_up.squares(slots), squares[..., 0], rtol=1e-5, atol=1e-5
            )

        return examine

    state, expected = grown(context, design, monkeypatch, window, look)
    assert state.n_folds == len(LOOKS) // window
    np.testing.assert_allclose(state.targets.mean, expected.target_mean, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(
        state.targets.variance, expected.target_variance, rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("window", [4, 9], ids=["folded", "never folded"])
@pytest.mark.parametrize("n_recent", [2, 16], ids=["few recent labels", "many"])
def test_the_shortlist_has_the_covariances_of_pairs(parts, window, n_recent, monkeypatch):
    context, _, design = parts
    monkeypatch.setattr(linear, "N_RECENT", n_recent)
    monkeypatch.setattr(linear_shortlist, "_CACHE_ENTRIES", 0)
    monkeypatch.setattr(linear_shortlist, "_MIN_CACHED_ROWS", 5)
    whitened = context.whitening.rows(design)

    def look(state):
        shortlist = ShortlistCovariances(context, state)

        def examine(indices, expected):
            rows = project_design(context, design[indices])
            covariances = np.stack(shortlist.of_rows(indices, whitened[indices]), axis=1)
            np.testing.assert_allclose(covariances, pairs_of(context, rows, expected), atol=2e-5)

        return examine

    grown(context, design, monkeypatch, window, look)


@pytest.mark.parametrize("window", [2, 9], ids=["folded", "never folded"])
def test_the_mean_screen_is_that_of_conditioned_universes(parts, window, monkeypatch):
    context, X, design = parts
    state, expected = grown(
        context, design, monkeypatch, window, lambda state: lambda indices, state: None
    )
    members = np.arange(N_UNIVERSES)
    screen = QuadraticScreen.of_mean_universe(context, expected, members)
    scores = state.mean_screen().scores(X.astype(np.float32))
    np.testing.assert_allclose(scores, screen.scores(X.astype(np.float32)), rtol=1e-3, atol=1e-6)


def test_rows_start_again_when_the_weights_have_changed(parts, monkeypatch):
    """Sums of squares then have the latest weights."""
    context, X, design = parts
    monkeypatch.setattr(linear, "MAX_WEIGHT_CHANGE", 0.0)
    monkeypatch.setattr(conditioning, "_STALE_AFTER", 0.0)

    def look(state):
        caught_up = LinearRows(context, state, PoolRows(X, np.arange(0)))

        def examine(indices, expected):
            pairs = pairs_of(context, project_design(context, design[indices]), expected)
            squares = np.einsum("aunm,aum->aun", np.square(pairs), state.targets.weights)
            np.testing.assert_allclose(
                caught_up.squares(caught_up.catch_up(indices)), squares, rtol=1e-5, atol=1e-5
            )

        return examine

    grown(context, design, monkeypatch, 9, look)
