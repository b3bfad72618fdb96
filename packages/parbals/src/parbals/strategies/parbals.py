"""ParBaLS: build the batch one point at a time, averaging over labels its earlier points might get.

    S ← pending;   M_u ← posterior given the labels so far and universe u's labels of S
    repeat B times:   x̂ ← argmax_{x ∉ S} Σ_u EPIG_{M_u}(x);   S ← S ∪ {x̂};   M_u ← M_u given y⁽ᵘ⁾_x̂

Points that are out for labelling are a partial batch already, so they enter S first. ParBaLS-MAP is
the same with one universe whose labels are the most probable ones. The loop is
:func:`parbals.strategies.greedy.grow`; its universes are rank-one updates of a Gaussian posterior
(:mod:`parbals.strategies.universes.gaussian`) or, of a model that has samples only, weights of
those (:mod:`parbals.strategies.universes.samples`).
"""

import warnings
from functools import reduce

import numpy as np

from parbals.errors import SampleCollapseWarning
from parbals.scores.bound import Certified, argmax_certified
from parbals.scores.losses import Loss
from parbals.scores.rows import computing
from parbals.strategies.backends import chosen_backend, start_scores
from parbals.strategies.backends import numpy as host
from parbals.strategies.greedy import Step, columns, grow
from parbals.strategies.numbers import select_numbers
from parbals.strategies.problem import GaussianView, Problem, batch_of
from parbals.strategies.surface import batch_operations, walk_operations
from parbals.strategies.top import gain_in_closed_form, lane_surfaces, score_under
from parbals.strategies.universes.gaussian import MOST_SCORED, gaussian_universes
from parbals.strategies.universes.labels import DrawnLabels, LikeliestLabels
from parbals.strategies.universes.samples import (
    ParticleUniverses,
    PseudoLabels,
    ReweightedUniverses,
    Universe,
)
from parbals.types import Batch

__all__ = ["greedy_batch", "select_parbals_epig", "select_parbals_map_epig"]

_COLLAPSED = 0.05
"""A mean effective sample size below this share of K is reported."""
_LEADERS = 128
"""Points that are scored in every universe before any is ruled out."""
_FEW = 1024
"""A pool of so many points is scored exactly as soon as it is bounded."""
Members = tuple[Universe, ...]
AnyUniverses = ReweightedUniverses | ParticleUniverses


def select_parbals_epig(problem: Problem) -> Batch:
    """``n_universes`` joint labellings of the pool, each drawn from the posterior."""
    return greedy_batch(problem, problem.n_universes, most_probable=False)


def select_parbals_map_epig(problem: Problem) -> Batch:
    """One universe: U times cheaper, and blind to the uncertainty of the pseudo-labels."""
    return greedy_batch(problem, 1, most_probable=True)


def greedy_batch(problem: Problem, n_universes: int, *, most_probable: bool) -> Batch:
    """A batch in which every point is chosen given the pseudo-labels of those before it.

    Args:
        problem: what to choose from.
        n_universes: U, how many labellings to average over.
        most_probable: label with the most probable classes (MAP) instead of joint draws from the
            posterior.
    """
    view = problem.gaussian
    if view is None:
        return _sampled_batch(problem, n_universes, most_probable)
    if view.tells_by_variance:
        return select_numbers(problem, view)
    return _closed_form_batch(problem, view, n_universes, most_probable)


def _closed_form_batch(
    problem: Problem, view: GaussianView, n_universes: int, most_probable: bool
) -> Batch:
    """Without samples. Every point is screened once under the posterior before the batch, and
    those that stand highest anew while the batch grows.

    Its initial scores are those under the posterior alone, so its redundancy counts what pending
    points explain as well.
    """
    lanes = view.lanes
    surfaces = lane_surfaces(view, problem.class_weights)
    score, pool = score_under(problem.loss, view.n_classes), lanes[0].pool
    work = walk_operations(surfaces[0], problem.n_pool)
    work += batch_operations(surfaces[0], problem.batch_size, n_universes)
    module = chosen_backend(work)
    start = reduce(np.add, [start_scores(one, pool, module=module) for one in surfaces])
    problem.show(lambda: gain_in_closed_form(view, problem.loss, problem.class_weights))
    labels = [
        LikeliestLabels(surface)
        if most_probable
        else DrawnLabels(lane.latents, n_universes, problem.seed + number)
        for number, (lane, surface) in enumerate(zip(lanes, surfaces, strict=True))
    ]
    free, pending, size = problem.candidates(), problem.pending, problem.batch_size
    pairs = list(zip(surfaces, labels, strict=True))
    with gaussian_universes(pairs, pool, start, free, pending, size, score, module) as universes:
        steps = grow(universes, free, pending, size)
    chosen, scores, n_scored, _ = columns(steps)
    cut = (
        f"In {universes.n_cut} of {size} steps more than {MOST_SCORED:,} candidates might have "
        "been the best by the first, rough score; those that had stood highest before were "
        "compared."
    )
    return batch_of(
        problem,
        chosen,
        scores,
        # Few rows, for which no program is compiled.
        initial_scores=reduce(
            np.add, [host.walk(one, pool[chosen], score=score) for one in surfaces]
        ),
        n_exact=n_scored,
        notes=(cut,) if universes.n_cut else (),
    )


def _sampled_batch(problem: Problem, n_universes: int, most_probable: bool) -> Batch:
    """From predictive samples: universes weigh, resample and move them."""
    dtype = np.float32 if problem.model is not None else np.result_type(*problem.samples())
    with computing(dtype):
        universes: AnyUniverses = (
            ReweightedUniverses(
                *problem.samples(),
                problem.weights,
                n_universes,
                problem.seed,
                problem.class_weights,
            )
            if problem.model is None
            else ParticleUniverses(problem.model, n_universes, problem.seed, problem.class_weights)
        )
        labels = PseudoLabels(problem.seed, problem.mean_probs if most_probable else None)
        search = _Search(problem, universes, labels)
        steps = grow(search, problem.candidates(), problem.pending, problem.batch_size)
        chosen, scores, n_exact, sizes = columns(steps)
        initial = _mean_scores(search.start, chosen, problem.loss)
    return batch_of(
        problem,
        chosen,
        scores,
        initial_scores=initial,
        effective_sample_size=sizes,
        n_exact=n_exact,
        notes=_worn_notes(sizes.min(), len(problem.weights)) + universes.notes,
    )


class _Search:
    """Universes for the greedy loop, each of which observes its own pseudo-label of a point."""

    def __init__(self, problem: Problem, universes: AnyUniverses, labels: PseudoLabels) -> None:
        self._problem, self._universes, self._labels = problem, universes, labels
        self.start: Members = ()  # the universes before the first choice

    def observe(self, index: int) -> None:
        self._universes.observe(index, self._labels.of(index, self._universes))

    def best(self, free: np.ndarray) -> Step:
        members, loss = self._universes.members, self._problem.loss
        self.start = self.start or members
        best = _best(members, free, loss)
        self._problem.show(lambda: _pool_scores(*_distinct(members), loss))
        size = float(np.mean([member.effective_sample_size for member in members]))
        return Step(best.winner, best.score, best.n_scored, size)


def _best(members: Members, free: np.ndarray, loss: Loss) -> Certified:
    """The free point with the highest mean gain.

    Where no single label can lower the 0-1 loss, log loss decides.
    """
    groups, shares = _distinct(members)
    n_targets, n_rows, n_samples = members[0].cloud.target.shape
    # A bound takes N·A·K² operations, exact scoring N·A·K·M·A.
    is_dear = n_samples >= n_targets * n_rows
    if loss == "log" and len(groups) > 1 and len(free) > _FEW and not is_dear:
        return argmax_certified(
            np.stack([universe.bound_pool() for universe in groups]),
            shares,
            free,
            lambda g, indices: groups[g].score_points(indices, "log"),
            _LEADERS,
        )
    scores = np.where(free, _pool_scores(groups, shares, loss), -np.inf)
    index = int(scores.argmax())
    if loss != "log" and scores[index] <= 0:
        return _best(members, free, "log")._replace(score=0.0)
    return Certified(index, float(scores[index]), int(free.sum()))


def _pool_scores(groups: list[Universe], shares: np.ndarray, loss: Loss) -> np.ndarray:
    """(N,) mean gain over universes of every pool point."""
    return shares @ np.stack([universe.score_pool(loss) for universe in groups])


def _mean_scores(members: Members, indices: np.ndarray, loss: Loss) -> np.ndarray:
    """Exact mean gain over universes of the given pool points."""
    groups, shares = _distinct(members)
    return shares @ np.stack([universe.score_points(indices, loss) for universe in groups])


def _distinct(members: Members) -> tuple[list[Universe], np.ndarray]:
    """Universes that differ, and the share of all universes that each stands for."""
    groups = list({id(member): member for member in members}.values())
    counts = np.array([sum(member is group for member in members) for group in groups])
    return groups, counts / len(members)


def _worn_notes(worst: float, n_samples: int) -> tuple[str, ...]:
    if worst >= _COLLAPSED * n_samples:
        return ()
    note = (
        f"The effective sample size fell to {worst:.0f} of {n_samples} posterior samples while the "
        "batch was built, so the last choices rest on very few samples: pass more samples, ask for "
        "a smaller batch, or use select_batch_from_model, which moves the samples of a "
        "BayesianLogisticRegression."
    )
    warnings.warn(note, SampleCollapseWarning, stacklevel=8)
    return (note,)
