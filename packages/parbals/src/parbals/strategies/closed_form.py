"""ParBaLS in closed form: universes are rank-one updates of one Gaussian posterior.

The pool is walked once: every point is scored under the posterior before the batch
(:mod:`parbals.strategies.surface`). Those that stand highest are then scored anew while one point
after the other is taken, given what universes learn from the labels of those before
(:mod:`parbals.strategies.gaussian_universes`). On a CPU both are NumPy's
(:mod:`parbals.strategies.host`), elsewhere programs of JAX (:mod:`parbals.strategies.device`).
"""

from functools import partial

import numpy as np

from parbals.arrays import block_rows
from parbals.machine import on_host
from parbals.posterior.closed.channels import Channels
from parbals.posterior.predictive import add_bias
from parbals.scores.decisions import decision_gain, decisions_at
from parbals.scores.gaussian import (
    closed_bald,
)
from parbals.strategies.distributed import DistributedRows, each_row
from parbals.strategies.growing import MOST_SCORED
from parbals.strategies.host import Found, search_on_host, walk_on_host
from parbals.strategies.labeller import Labeller, open_labeller
from parbals.strategies.problem import GaussianView, Problem, batch_of
from parbals.strategies.surface import Score, Surface, covariance_between, surface_of
from parbals.types import Batch, Loss, Stakes

__all__ = ["bald_in_closed_form", "closed_form_batch", "gain_in_closed_form", "start_scores"]


def closed_form_batch(problem: Problem, n_universes: int, *, most_probable: bool) -> Batch:
    """The batch that :func:`parbals.strategies.parbals.greedy_batch` builds, without samples.

    Its initial scores are those under the posterior alone, so its redundancy counts what pending
    points explain as well.
    """
    view = problem.gaussian
    assert view is not None  # the caller has looked
    surface = surface_of(view.channels, view.target, problem.stakes)
    start = start_scores(surface, view.pool)
    problem.show(lambda: gain_in_closed_form(view, problem.loss, problem.stakes))
    labeller = None if most_probable else open_labeller(view.channels, n_universes, problem.seed)
    found = _search(problem, view, surface, labeller, start)
    return batch_of(
        problem,
        found.chosen,
        found.scores.astype(np.float64),
        initial_scores=_alone(view, surface, found.chosen, _score(view, problem.loss)),
        n_exact=found.n_scored,
        notes=_notes(found.n_cut, problem.batch_size),
    )


def start_scores(
    surface: Surface, X: np.ndarray | DistributedRows, score: Score = "screen"
) -> np.ndarray:
    """(N,) a score of every row of X (N, D); the EPIG itself, "epig", of two classes alone."""
    return each_row(X, partial(_walk, surface, score=score))


def _walk(surface: Surface, X: np.ndarray, *, score: Score) -> np.ndarray:
    """The scores of rows in memory or in a mapped file, of this process or of a Dask worker."""
    if on_host():
        return walk_on_host(surface, X, score=score)
    from parbals.strategies.device import walk_on_devices

    return walk_on_devices(surface, X, score=score)


def _search(
    problem: Problem,
    view: GaussianView,
    surface: Surface,
    labeller: Labeller | None,
    start: np.ndarray,
) -> Found:
    """The points that the search takes, one after the other."""
    given = surface, labeller, view.pool, start, problem.candidates(), problem.pending
    size, score = problem.batch_size, _score(view, problem.loss)
    if on_host():
        return search_on_host(*given, size, score=score)
    from parbals.strategies.device import search_on_device

    return search_on_device(*given, size, score=score)


def _alone(view: GaussianView, surface: Surface, chosen: np.ndarray, score: Score) -> np.ndarray:
    """(B,) scores before the batch."""
    if score != "decision":
        return start_scores(surface, view.pool[chosen], score)
    few, rows, there = (
        surface_of(view.channels, view.pool[chosen]),
        slice(len(chosen)),
        surface.target,
    )
    decisions = decisions_at(surface.probs, there.mean, there.variance, np, surface.stakes)
    covariance = covariance_between(few, surface, rows)
    return np.asarray(decision_gain(covariance, few.gains[:, rows], decisions, surface.share))


def gain_in_closed_form(view: GaussianView, loss: Loss, stakes: Stakes | None = None) -> np.ndarray:
    """(N,) of every pool point: EPIG (first order with more than two classes), or accuracy."""
    surface = surface_of(view.channels, view.target, stakes)
    return start_scores(surface, view.pool, _score(view, loss))


def _score(view: GaussianView, loss: Loss) -> Score:
    if loss == "error":
        return "decision"
    return "epig" if view.n_classes == 2 else "form"


def bald_in_closed_form(view: GaussianView) -> np.ndarray:
    """(N,) BALD of every pool point, two classes."""
    return each_row(view.pool, partial(_bald_of_rows, view.channels))


def _bald_of_rows(channels: Channels, X: np.ndarray) -> np.ndarray:
    scores = np.empty(len(X))
    for rows in block_rows(len(X), 8192):
        mean, variance = channels.marginals(add_bias(X[rows]))
        scores[rows] = closed_bald(mean[:, 0], variance[:, 0])
    return scores


def _notes(n_cut: int, n_steps: int) -> tuple[str, ...]:
    """What the search did not look at."""
    if n_cut == 0:
        return ()
    return (
        f"In {n_cut} of {n_steps} steps more than {MOST_SCORED:,} candidates might have been "
        "the best; those that had stood highest before were compared.",
    )
