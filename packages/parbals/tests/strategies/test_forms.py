"""Quadratic forms against the tables of pairs that they do without."""

import numpy as np
import pytest
from parbals.posterior.predictive import add_bias
from parbals.scores.gaussian import Covariances, approximate_gains
from parbals.strategies.conditioning import (
    branch_state,
    condition_rows,
    condition_state,
    initial_state,
)
from parbals.strategies.forms import QuadraticScreen
from parbals.strategies.scoring import (
    combine_terms,
    covariance,
    initial_scores,
    project_design,
)


@pytest.fixture(params=[(1, 5), (3, 5), (3, 3)], ids=str)
def parts(request, small_context):
    """A scoring context and a pool."""
    n_latents, n_inside = request.param
    generator = np.random.default_rng(n_latents)
    context = small_context(generator, n_latents, n_inside, np.ones(5))
    return context, generator.standard_normal((9, 4)).astype(np.float32)


def test_the_screen_before_the_batch_is_that_of_pairs(parts):
    context, X = parts
    expected = initial_scores(context, X, "screen")
    np.testing.assert_allclose(QuadraticScreen.before_batch(context).scores(X), expected, rtol=1e-4)


def test_the_mean_of_equal_universes_is_each_of_them(parts):
    context, X = parts
    rows = project_design(context, add_bias(X, np.float32))
    state = branch_state(initial_state(context), np.zeros(2, int))
    for index in range(3):
        state = condition_state(context, state, rows.at(np.array([index])), np.ones(2, int))
    conditioned = condition_rows(rows, state.labelled, state.mean_coef, state.cov_root)
    expected = combine_terms(
        "screen",
        approximate_gains(conditioned.mean[:, 0], conditioned.variance[:, 0]),
        approximate_gains(state.target_mean[:, 0], state.target_variance[:, 0]),
        Covariances(
            covariance(rows, context.target_rows).swapaxes(1, 2),
            conditioned.cov_update[:, 0],
            state.target_cov.swapaxes(1, 2),
        ),
        context.share,
    )
    members = np.array([0, 1, 1])
    screen = QuadraticScreen.of_mean_universe(context, state, members)
    np.testing.assert_allclose(screen.scores(X), expected, rtol=1e-3)
