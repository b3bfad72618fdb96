"""ParBaLS: build the batch one point at a time, averaging over labels its earlier points might get.

    S ← pending;   M_u ← posterior given the labels so far and universe u's labels of S
    repeat B times:   x̂ ← argmax_{x ∉ S} Σ_u EPIG_{M_u}(x);   S ← S ∪ {x̂};   M_u ← M_u given y⁽ᵘ⁾_x̂

Points that are out for labelling are a partial batch already, so they enter S first. ParBaLS-MAP is the
same with one universe whose labels are the most probable ones.
"""

import warnings

import numpy as np

from parbals.batches.problem import Problem
from parbals.batches.universes import ParticleUniverses, PseudoLabels, ReweightedUniverses, Universe, Universes
from parbals.errors import SampleCollapseWarning
from parbals.numerics import effective_sample_size, working_precision
from parbals.posterior.predictive import mean_proba
from parbals.scores.bound import argmax_certified
from parbals.types import Batch

__all__ = ["select_parbals", "select_parbals_map"]

_COLLAPSED = 0.05
"""A mean effective sample size below this share of K is reported."""
_BOUND_PAYS_BELOW = 0.5
"""If the last step scored more than this share of the pool exactly, the bound did not pay: skip it."""
_SCORED_AT_ONCE = 256


def select_parbals(problem: Problem) -> Batch:
    """ParBaLS-EPIG with ``problem.n_universes`` universes."""
    return _greedy(problem, problem.n_universes, most_probable=False)


def select_parbals_map(problem: Problem) -> Batch:
    """ParBaLS-MAP-EPIG: one universe, labelled with the most probable classes."""
    return _greedy(problem, 1, most_probable=True)


def _greedy(problem: Problem, n_universes: int, *, most_probable: bool) -> Batch:
    dtype = np.float32 if problem.model is not None else np.result_type(problem.pool_probs, problem.require_target())
    with working_precision(dtype):
        universes = _open_universes(problem, n_universes)
        labels = PseudoLabels(problem.seed, _mean_probs(problem) if most_probable else None)
        for index in problem.pending:
            universes.observe(int(index), labels.of(int(index), universes))
        start = universes.members
        free = problem.candidates()
        chosen, scores, ess, n_exact = [], [], [], []
        share_scored = 0.0
        for step in range(problem.batch_size):
            ess.append(np.mean([effective_sample_size(u.weights.astype(np.float64)) for u in universes.members]))
            use_bound = share_scored <= _BOUND_PAYS_BELOW
            index, score, scored = _best(universes.members, free, use_bound)
            share_scored = scored / free.sum() if use_bound else 0.0
            chosen.append(index)
            scores.append(score)
            n_exact.append(scored)
            free[index] = False
            if step < problem.batch_size - 1:
                universes.observe(index, labels.of(index, universes))
        initial = _mean_scores(start, np.array(chosen))
    return Batch(
        indices=np.array(chosen, np.int64),
        scores=np.array(scores),
        initial_scores=initial,
        effective_sample_size=np.array(ess),
        strategy=problem.strategy,
        n_exact=np.array(n_exact),
        n_samples=len(problem.weights),
        notes=_notes(ess, len(problem.weights)),
    )


def _open_universes(problem: Problem, n_universes: int) -> Universes:
    if problem.model is not None:
        n_more = problem.batch_size + len(problem.pending)
        return ParticleUniverses(problem.model, n_universes, n_more, problem.seed)
    return ReweightedUniverses(
        problem.pool_probs, problem.target_probs, problem.weights, n_universes, problem.seed
    )


def _mean_probs(problem: Problem) -> np.ndarray:
    """(N, C) averaged predictions under the posterior before the batch."""
    if problem.model is None:
        return np.einsum("nkc,k->nc", problem.pool_probs, problem.weights)
    population = problem.model.population
    return mean_proba(problem.model.pool, population.coefficients(), population.n_classes, problem.weights)


def _best(members: tuple[Universe, ...], free: np.ndarray, use_bound: bool) -> tuple[int, float, int]:
    """(index, mean score, number scored exactly) of the free point with the highest mean EPIG."""
    groups = _distinct(members)
    n_pool, n_samples = len(free), members[0].cloud.target.shape[2]
    n_pairs = members[0].cloud.n_targets * members[0].cloud.target.shape[1]
    if len(groups) == 1 or not use_bound or n_samples >= n_pairs or n_pool <= 2 * _SCORED_AT_ONCE:
        total = sum(count * np.asarray(u.cloud.score_pool(u.weights), np.float64) for u, count in groups)
        scores = np.where(free, total[:n_pool] / len(members), -np.inf)
        best = int(scores.argmax())
        return best, float(scores[best]), int(free.sum())
    pending = [(count, u.cloud.bound_pool(u.weights, 0.5)) for u, count in groups]
    bounds = sum(count * np.asarray(bound, np.float64) for count, bound in pending)
    bounds = np.where(free, bounds[:n_pool] / len(members), -np.inf)
    return argmax_certified(bounds, lambda indices: _mean_scores(members, indices), _SCORED_AT_ONCE)


def _mean_scores(members: tuple[Universe, ...], indices: np.ndarray) -> np.ndarray:
    """Exact mean EPIG over universes of the given pool points."""
    padded = np.zeros(-(-len(indices) // _SCORED_AT_ONCE) * _SCORED_AT_ONCE, np.int32)
    padded[: len(indices)] = indices
    total = np.zeros(len(padded))
    for part in range(0, len(padded), _SCORED_AT_ONCE):
        rows = slice(part, part + _SCORED_AT_ONCE)
        scored = [(count, u.cloud.score_points(padded[rows], u.weights)) for u, count in _distinct(members)]
        total[rows] = sum(count * np.asarray(score, np.float64) for count, score in scored)
    return total[: len(indices)] / len(members)


def _distinct(members: tuple[Universe, ...]) -> list[tuple[Universe, int]]:
    """Universes that differ, with how many share each: before any label they are all the same."""
    counts: dict[int, tuple[Universe, int]] = {}
    for member in members:
        _, count = counts.get(id(member), (member, 0))
        counts[id(member)] = (member, count + 1)
    return list(counts.values())


def _notes(ess: list[float], n_samples: int) -> tuple[str, ...]:
    worst = min(ess)
    if worst >= _COLLAPSED * n_samples:
        return ()
    note = (
        f"The effective sample size fell to {worst:.0f} of {n_samples} posterior samples while the batch was built, so "
        "the last choices rest on very few samples: pass more samples, ask for a smaller batch, or use "
        "select_batch_from_model, which moves the samples of a BayesianLogisticRegression."
    )
    warnings.warn(note, SampleCollapseWarning, stacklevel=5)
    return (note,)
