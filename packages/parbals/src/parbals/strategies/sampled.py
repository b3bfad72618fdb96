"""ParBaLS by predictive samples: universes weigh, resample and move them.

:mod:`parbals.strategies.parbals` says what is built.
"""

import warnings

import numpy as np

from parbals.errors import SampleCollapseWarning
from parbals.numerics import working_precision
from parbals.scores.bound import Certified, argmax_certified
from parbals.scores.losses import Loss
from parbals.strategies.problem import Problem, batch_of
from parbals.strategies.universes.particles import ParticleUniverses
from parbals.strategies.universes.samples import (
    PseudoLabels,
    ReweightedUniverses,
    Universe,
    Universes,
)
from parbals.types import Batch

__all__ = ["sampled_batch"]

_COLLAPSED = 0.05
"""A mean effective sample size below this share of K is reported."""
_LEADERS = 128
_SCORED_AT_ONCE = 512


def sampled_batch(problem: Problem, n_universes: int, *, most_probable: bool) -> Batch:
    """The batch that :func:`parbals.strategies.parbals.greedy_batch` promises, from samples."""
    dtype = np.float32 if problem.model is not None else np.result_type(*problem.samples())
    with working_precision(np.dtype(dtype)):
        universes = _open_universes(problem, n_universes)
        labels = PseudoLabels(problem.seed, problem.mean_probs if most_probable else None)
        for index in problem.pending:
            universes.observe(int(index), labels.of(int(index), universes))
        start = universes.members
        free = problem.candidates()
        chosen, scores, ess, n_exact = [], [], [], []
        use_bound = True
        for step in range(problem.batch_size):
            ess.append(float(np.mean([u.effective_sample_size for u in universes.members])))
            if problem.loss == "log":
                best, bound_paid = _best(universes.members, free, use_bound)
                use_bound = use_bound and bound_paid
            else:
                best = _best_by_loss(universes.members, free, problem.loss)
            problem.show(
                lambda: _pool_scores(*_distinct(universes.members), len(free), problem.loss)
            )
            index = best.winner
            chosen.append(index)
            scores.append(best.score)
            n_exact.append(best.n_scored)
            free[index] = False
            if step < problem.batch_size - 1:
                universes.observe(index, labels.of(index, universes))
        initial = _mean_scores(start, np.array(chosen), problem.loss)
    return batch_of(
        problem,
        np.array(chosen),
        np.array(scores),
        initial_scores=initial,
        effective_sample_size=np.array(ess),
        n_exact=np.array(n_exact),
        notes=_notes(ess, len(problem.weights)) + universes.notes(),
    )


def _open_universes(problem: Problem, n_universes: int) -> Universes:
    if problem.model is not None:
        n_more = problem.batch_size + len(problem.pending)
        return ParticleUniverses(problem.model, n_universes, n_more, problem.seed, problem.stakes)
    return ReweightedUniverses(
        *problem.samples(), problem.weights, n_universes, problem.seed, problem.stakes
    )


def _best(
    members: tuple[Universe, ...], free: np.ndarray, use_bound: bool
) -> tuple[Certified, bool]:
    """The free point with the highest mean EPIG, and whether the bound was worth its cost."""
    groups, shares = _distinct(members)
    cloud, n_pool = members[0].cloud, len(free)
    # Of a bound, N·A·K², in units of exact scoring, N·A·K·M·A.
    bound_cost = cloud.target.shape[2] / (cloud.n_targets * cloud.target.shape[1])
    if len(groups) == 1 or not use_bound or bound_cost >= 1 or n_pool <= 2 * _SCORED_AT_ONCE:
        return _exhaustive(groups, shares, free, "log"), True
    bounds = np.stack([np.asarray(universe.bound_pool(), np.float64) for universe in groups])
    best = argmax_certified(
        bounds[:, :n_pool],
        shares,
        free,
        lambda g, indices: _scores(groups[g], indices, "log"),
        _LEADERS,
    )
    return best, bound_cost + best.n_evaluations / (free.sum() * len(groups)) <= 1


def _best_by_loss(members: tuple[Universe, ...], free: np.ndarray, loss: Loss) -> Certified:
    """The free point with the highest mean gain.

    If no single label can gain anything, log loss decides.
    """
    best = _exhaustive(*_distinct(members), free, loss)
    if best.score > 0:
        return best
    return _best(members, free, use_bound=False)[0]._replace(score=0.0)


def _exhaustive(
    groups: list[Universe], shares: np.ndarray, free: np.ndarray, loss: Loss
) -> Certified:
    scores = np.where(free, _pool_scores(groups, shares, len(free), loss), -np.inf)
    index, n_free = int(scores.argmax()), int(free.sum())
    return Certified(index, float(scores[index]), n_free, n_free * len(groups))


def _pool_scores(groups: list[Universe], shares: np.ndarray, n_pool: int, loss: Loss) -> np.ndarray:
    """(N,) mean gain over universes of every pool point."""
    return shares @ np.stack(
        [np.asarray(universe.score_pool(loss), np.float64)[:n_pool] for universe in groups]
    )


def _scores(universe: Universe, indices: np.ndarray, loss: Loss) -> np.ndarray:
    """Exact EPIG of the given pool points in one universe, a fixed number at a time."""
    chunk = _LEADERS if len(indices) <= _LEADERS else _SCORED_AT_ONCE
    padded = np.zeros(-(-len(indices) // chunk) * chunk, np.int32)
    padded[: len(indices)] = indices
    parts = [universe.score_points(part, loss) for part in padded.reshape(-1, chunk)]
    return np.concatenate([np.asarray(part, np.float64) for part in parts])[: len(indices)]


def _mean_scores(members: tuple[Universe, ...], indices: np.ndarray, loss: Loss) -> np.ndarray:
    """Exact mean gain over universes of the given pool points."""
    groups, shares = _distinct(members)
    return shares @ np.stack([_scores(universe, indices, loss) for universe in groups])


def _distinct(members: tuple[Universe, ...]) -> tuple[list[Universe], np.ndarray]:
    """Universes that differ, and the share of all universes that each stands for."""
    groups = list({id(member): member for member in members}.values())
    counts = np.array([sum(member is group for member in members) for group in groups])
    return groups, counts / len(members)


def _notes(ess: list[float], n_samples: int) -> tuple[str, ...]:
    worst = min(ess)
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
