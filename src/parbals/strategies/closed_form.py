"""ParBaLS in closed form: universes are rank-one updates of one Gaussian posterior.

The pool is walked once: every point is scored under the posterior before the batch
(:mod:`parbals.strategies.surface`). The points that stand highest then go through a compiled
program (:mod:`parbals.strategies.search`) that takes one point after the other, given what
universes learn from the labels of those before (:mod:`parbals.strategies.gaussian_universes`).
Scores fall while a batch grows. When one of the points that were left on the host might be the best
it is their turn: the program goes on from there with those that stand highest now.
"""

from functools import partial

import jax
import numpy as np

from parbals.arrays import block_rows, bucket, pad_rows
from parbals.numerics import working_precision
from parbals.posterior.channels import Channels
from parbals.posterior.predictive import add_bias
from parbals.scores.gaussian import closed_bald, decision_gain, decisions_at
from parbals.scores.losses import Loss, Stakes
from parbals.strategies.distributed import each_row
from parbals.strategies.labeller import Labeller, open_labeller
from parbals.strategies.problem import GaussianView, Problem, batch_of
from parbals.strategies.search import MOST_SCORED, SHORT, Search, greedy_search
from parbals.strategies.surface import (
    Score,
    Surface,
    covariance_between,
    platform,
    start_scores,
    surface_of,
)
from parbals.types import Batch

__all__ = ["bald_in_closed_form", "closed_form_batch", "gain_in_closed_form"]

_SPARE = 64
_WIDER = {"cpu": 1, "gpu": 8}
"""On an accelerator another window costs more than a larger one."""
_MOST_PAIRS = {"cpu": 2**25, "gpu": 2**28}
"""Channels times targets times rows in the window: 128 MB and 1 GB."""
_STEPS = 32
"""Smaller batches run through the program of this size: one of 10 and one of 20 share it."""


def closed_form_batch(problem: Problem, n_universes: int, *, most_probable: bool) -> Batch:
    """The batch that :func:`parbals.strategies.parbals.greedy_batch` builds, without samples.

    Its initial scores are those under the posterior alone, so its redundancy counts what pending
    points explain as well.
    """
    with working_precision(np.dtype(np.float32)):
        return _closed_form_batch(problem, n_universes, is_map=most_probable)


def _closed_form_batch(problem: Problem, n_universes: int, *, is_map: bool) -> Batch:
    view = problem.gaussian
    assert view is not None  # the caller has looked
    surface = surface_of(view.channels, view.target, problem.stakes)
    start = start_scores(surface, view.pool)
    problem.show(lambda: gain_in_closed_form(view, problem.loss, problem.stakes))
    labeller = None if is_map else open_labeller(view.channels, n_universes, problem.seed)
    size, score = problem.batch_size, _score(view, problem.loss)
    last, is_free = start.copy(), problem.candidates()
    seen, parts = problem.pending, list[Search]()
    n_rows = _window_size(surface, len(seen) + size, len(start))
    while n_left := size + len(problem.pending) - len(seen):
        window, outside = _highest(last, is_free, n_rows - len(seen))
        search = _search(
            problem, view, surface, labeller, seen, window, last, outside, n_left, n_rows
        )
        last[window] = search.last
        seen, is_free[search.chosen] = np.append(seen, search.chosen), False
        parts.append(search)
    chosen, scores, n_scored = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("chosen", "scores", "n_scored")
    )
    return batch_of(
        problem,
        chosen,
        scores.astype(np.float64),
        initial_scores=_alone(view, surface, chosen, start, score),
        n_exact=n_scored,
        notes=_notes(sum(int(part.n_cut) for part in parts), size),
    )


def _alone(
    view: GaussianView, surface: Surface, chosen: np.ndarray, start: np.ndarray, score: Score
) -> np.ndarray:
    """(B,) scores before the batch."""
    if score == "form":
        return start[chosen]
    if score == "epig":
        return start_scores(surface, view.pool[chosen], score)
    few, rows, there = (
        surface_of(view.channels, view.pool[chosen]),
        slice(len(chosen)),
        surface.target,
    )
    decisions = decisions_at(there.mean, there.variance, np, surface.stakes)
    covariance = covariance_between(few, surface, rows)
    return np.asarray(decision_gain(covariance, few.gains[:, rows], decisions, surface.share, np))


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
    with working_precision(np.dtype(np.float32)):
        for rows in block_rows(len(X), 8192):
            moments = channels.marginals(add_bias(X[rows]))
            small = (x[:, 0].astype(np.float32) for x in moments)
            scores[rows] = np.asarray(closed_bald(*small))
    return scores


def _notes(n_cut: int, n_steps: int) -> tuple[str, ...]:
    """What the search did not look at."""
    if not n_cut:
        return ()
    return (
        f"In {n_cut} of {n_steps} steps more than {MOST_SCORED:,} candidates might have been "
        "the best; those that had stood highest before were compared.",
    )


def _window_size(surface: Surface, n_seen: int, n_pool: int) -> int:
    """Rows that the program follows: all that a step may score, and what it compares, fit."""
    least = MOST_SCORED + SHORT + _SPARE + n_seen
    n_rows, most = bucket(_WIDER[platform()] * least), _MOST_PAIRS[platform()]
    while n_rows * surface.gains.size > most and n_rows // 2 >= least:
        n_rows //= 2
    if n_rows * surface.gains.size > most:
        n_rows = -(-least // 256) * 256
    return min(n_rows, bucket(n_pool, 256))


def _highest(last: np.ndarray, is_free: np.ndarray, n: int) -> tuple[np.ndarray, float]:
    """Positions of the ``n`` free points that stand highest, in their order; best of the rest."""
    free = np.flatnonzero(is_free)
    if len(free) <= n:
        return free, -np.inf
    order = np.argpartition(-last[free], n)
    return np.sort(free[order[:n]]), float(last[free[order[n]]])


def _search(
    problem: Problem,
    view: GaussianView,
    surface: Surface,
    labeller: Labeller | None,
    seen: np.ndarray,
    window: np.ndarray,
    last: np.ndarray,
    outside: float,
    n_left: int,
    n_rows: int,
) -> Search:
    """Run the program on a window of the pool; pending and chosen points stand before it."""
    positions = np.concatenate([seen, window])
    place = np.arange(n_rows)
    search = greedy_search(
        jax.device_put(surface),
        labeller,
        jax.device_put(pad_rows(add_bias(view.pool[positions], np.float32), n_rows)),
        jax.device_put(pad_rows(last[positions].astype(np.float32), n_rows)),
        jax.device_put((place >= len(seen)) & (place < len(positions))),
        np.float32(outside),
        len(seen),
        n_left,
        steps=bucket(problem.batch_size, _STEPS),
        rank=bucket(len(problem.pending) + problem.batch_size, _STEPS),
        score=_score(view, problem.loss),
    )
    done = slice(int(search.n_chosen))
    return search._replace(
        last=np.asarray(search.last)[len(seen) : len(positions)],
        chosen=positions[np.asarray(search.chosen)[done]],
        scores=np.asarray(search.scores)[done],
        n_scored=np.asarray(search.n_scored)[done],
    )
