"""ParBaLS in closed form: universes are rank-one updates of one Gaussian posterior.

The pool is walked once: every point is scored under the posterior before the batch
(:mod:`parbals.strategies.surface`). The points that start highest, the leaders, then go through one
compiled program (:mod:`parbals.strategies.search`) that takes one point after the other, given what
universes learn from the labels of those before (:mod:`parbals.strategies.gaussian_universes`).
Points that stand too low to be reached in any step are left on the host: if a step reached as low
as they stand, the search is run again with more. Where scores are flat leaders are followed for
``_LEADERS_BYTES`` at most, and a note says so.
"""

from functools import partial

import jax
import numpy as np

from parbals.arrays import block_rows, bucket, pad_rows
from parbals.numerics import working_precision
from parbals.posterior.channels import Channels
from parbals.posterior.predictive import add_bias
from parbals.scores.gaussian import closed_bald
from parbals.scores.losses import Loss
from parbals.strategies.distributed import each_row
from parbals.strategies.labeller import Labeller, open_labeller
from parbals.strategies.problem import GaussianView, Problem, batch_of
from parbals.strategies.search import MOST_SCORED, Search, greedy_search
from parbals.strategies.surface import Score, Surface, start_scores, surface_of
from parbals.types import Batch

__all__ = ["bald_in_closed_form", "closed_form_batch", "gain_in_closed_form"]

_FEWEST = 1024
_EXPECTED_FALL = 0.45
"""Scores seldom fall below this share of the first before a batch is full."""
_LEADERS_BYTES = 2**25
"""The same on every machine, so that choices are."""
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
    surface = surface_of(view.channels, view.target)
    start = start_scores(surface, view.pool)
    free = np.flatnonzero(problem.candidates())
    labeller = None if is_map else open_labeller(view.channels, n_universes, problem.seed)
    (n_columns, n_inside), n_channels = surface.basis.shape, len(surface.roots)
    affordable = max(1, _LEADERS_BYTES // (4 * (2 * n_columns + n_channels * n_inside)))
    wanted = int((start[free] >= _EXPECTED_FALL * start[free].max()).sum())
    while True:
        n_leaders = _FEWEST
        while n_leaders < max(4 * problem.batch_size, min(wanted, affordable)):
            n_leaders *= 4  # few sizes, few programs to compile
        leaders, left_out = _leaders(free, start, n_leaders)
        search = _search(problem, view, surface, labeller, leaders, start)
        reached = float(search.reached)
        is_whole = len(leaders) == len(free) or left_out <= reached
        if is_whole or n_leaders >= affordable:
            break
        wanted = max(2 * n_leaders, int((start[free] >= reached).sum()))
    size, score = problem.batch_size, _score(view, problem.loss)
    chosen = leaders[np.asarray(search.chosen)[:size]]
    alone = start[chosen] if score == "form" else start_scores(surface, view.pool[chosen], score)
    return batch_of(
        problem,
        chosen,
        np.asarray(search.scores, np.float64)[:size],
        initial_scores=alone,
        n_exact=np.asarray(search.n_scored)[:size],
        notes=_notes(len(leaders), len(free), is_whole, int(search.n_cut), size),
    )


def gain_in_closed_form(view: GaussianView, loss: Loss) -> np.ndarray:
    """(N,) of every pool point: EPIG (first order with more than two classes), or accuracy."""
    surface = surface_of(view.channels, view.target)
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


def _notes(
    n_leaders: int, n_free: int, is_whole: bool, n_cut: int, n_steps: int
) -> tuple[str, ...]:
    """What the search did not look at."""
    notes = []
    if not is_whole:
        notes.append(
            f"The {n_leaders:,} most telling of {n_free:,} candidates at the start were followed "
            "through the batch; towards its end others may have been as good."
        )
    if n_cut:
        notes.append(
            f"In {n_cut} of {n_steps} steps more than {MOST_SCORED:,} candidates might have been "
            "the best; those that had stood highest before were compared."
        )
    return tuple(notes)


def _leaders(free: np.ndarray, start: np.ndarray, n_leaders: int) -> tuple[np.ndarray, float]:
    """Positions of the free points that start highest, in their order, and the best of the rest."""
    if len(free) <= n_leaders:
        return free, -np.inf
    order = np.argpartition(-start[free], n_leaders)
    return np.sort(free[order[:n_leaders]]), float(start[free[order[n_leaders]]])


def _search(
    problem: Problem,
    view: GaussianView,
    surface: Surface,
    labeller: Labeller | None,
    leaders: np.ndarray,
    start: np.ndarray,
) -> Search:
    """Run the program on the leaders of the pool; pending points stand before them."""
    pending = problem.pending
    positions = np.concatenate([pending, leaders])
    n_rows = bucket(len(positions), 256)
    place = np.arange(n_rows)
    search = greedy_search(
        jax.device_put(surface),
        labeller,
        jax.device_put(pad_rows(add_bias(view.pool[positions], np.float32), n_rows)),
        jax.device_put(pad_rows(start[positions].astype(np.float32), n_rows)),
        jax.device_put((place >= len(pending)) & (place < len(positions))),
        len(pending),
        problem.batch_size,
        steps=bucket(problem.batch_size, _STEPS),
        rank=bucket(len(pending) + problem.batch_size, _STEPS),
        score=_score(view, problem.loss),
    )
    return search._replace(chosen=search.chosen - len(pending))
