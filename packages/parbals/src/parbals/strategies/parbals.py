"""ParBaLS: build the batch one point at a time, averaging over labels its earlier points might get.

    S ← pending;   M_u ← posterior given the labels so far and universe u's labels of S
    repeat B times:   x̂ ← argmax_{x ∉ S} Σ_u EPIG_{M_u}(x);   S ← S ∪ {x̂};   M_u ← M_u given y⁽ᵘ⁾_x̂

Points that are out for labelling are a partial batch already, so they enter S first. ParBaLS-MAP is
the same with one universe whose labels are the most probable ones. A Gaussian posterior has it in
closed form (:mod:`parbals.strategies.closed_form`), samples have not
(:mod:`parbals.strategies.sampled`).
"""

from parbals.strategies.closed_form import closed_form_batch
from parbals.strategies.problem import Problem
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
        return closed_form_batch(problem, n_universes, most_probable=most_probable)
    from parbals.strategies.sampled import sampled_batch

    return sampled_batch(problem, n_universes, most_probable=most_probable)
