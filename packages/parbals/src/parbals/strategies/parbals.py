"""ParBaLS: build the batch one point at a time, averaging over labels its earlier points might get.

    S ← pending;   M_u ← posterior given the labels so far and universe u's labels of S
    repeat B times:   x̂ ← argmax_{x ∉ S} Σ_u EPIG_{M_u}(x);   S ← S ∪ {x̂};   M_u ← M_u given y⁽ᵘ⁾_x̂

Points that are out for labelling are a partial batch already, so they enter S first. ParBaLS-MAP is
the same with one universe whose labels are the most probable ones. The loop is
:func:`parbals.strategies.greedy.grow`; its universes are rank-one updates of a Gaussian posterior
(:mod:`parbals.strategies.universes.gaussian`) or, of a model that has samples only, weights of
those (:mod:`parbals.strategies.universes.samples`).
"""

import numpy as np

from parbals.strategies.backends import chosen_backend, start_scores
from parbals.strategies.backends import numpy as host
from parbals.strategies.greedy import grow
from parbals.strategies.problem import GaussianView, Problem, batch_of
from parbals.strategies.surface import batch_operations, surface_of, walk_operations
from parbals.strategies.top import gain_in_closed_form, score_under
from parbals.strategies.universes.gaussian import MOST_SCORED, gaussian_universes
from parbals.strategies.universes.labels import DrawnLabels, LikeliestLabels
from parbals.types import Batch

__all__ = ["greedy_batch", "select_parbals_epig", "select_parbals_map_epig"]


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
    if problem.gaussian is not None:
        return _closed_form_batch(
            problem, problem.gaussian, n_universes, most_probable=most_probable
        )
    from parbals.strategies.sampled import sampled_batch

    return sampled_batch(problem, n_universes, most_probable=most_probable)


def _closed_form_batch(
    problem: Problem, view: GaussianView, n_universes: int, *, most_probable: bool
) -> Batch:
    """Without samples. Every point is screened once under the posterior before the batch, and
    those that stand highest anew while the batch grows.

    Its initial scores are those under the posterior alone, so its redundancy counts what pending
    points explain as well.
    """
    surface = surface_of(view.channels, view.target, problem.stakes)
    score = score_under(problem.loss, view.n_classes)
    work = walk_operations(surface, problem.n_pool)
    work += batch_operations(surface, problem.batch_size, n_universes)
    module = chosen_backend(work)
    start = start_scores(surface, view.pool, module=module)
    problem.show(lambda: gain_in_closed_form(view, problem.loss, problem.stakes))
    labels = (
        LikeliestLabels(surface)
        if most_probable
        else DrawnLabels(view.channels, n_universes, problem.seed)
    )
    free, pending, size = problem.candidates(), problem.pending, problem.batch_size
    with gaussian_universes(
        surface, labels, view.pool, start, free, pending, size, score, module
    ) as universes:
        steps = grow(universes, free, pending, size)
    chosen = np.array([step.index for step in steps])
    return batch_of(
        problem,
        chosen,
        np.array([step.score for step in steps]),
        # Few rows, for which no program is compiled.
        initial_scores=host.walk(surface, view.pool[chosen], score=score),
        n_exact=np.array([step.n_scored for step in steps]),
        notes=_notes(universes.n_cut, size),
    )


def _notes(n_cut: int, n_steps: int) -> tuple[str, ...]:
    """What the search did not look at."""
    if n_cut == 0:
        return ()
    return (
        f"In {n_cut} of {n_steps} steps more than {MOST_SCORED:,} candidates might have been "
        "the best; those that had stood highest before were compared.",
    )
