"""GALAXY: bisect towards class boundaries, not drowning in the common class (Zhang et al., 2022).

For each class c all points, labelled and unlabelled, are sorted by the margin p̄_c - max_{b≠c} p̄_b
into a path (two classes share one). A *cut* is a pair of consecutive labelled points of which
exactly one belongs to c; the unlabelled points between them are its stretch. Then, point by point:

1. Bisect: the middle of the shortest stretch that has not been touched yet, over all paths.
2. When all have been touched, extend: the point nearest along its path to the middle of a cut.
3. While all labels agree there is no cut: the middle of the longest untouched stretch between
   labelled points or path ends, to find one.

The labels of a batch arrive together, so inside it nothing is revealed: a stretch whose middle was
chosen (or is pending) no longer lies between two known labels, and only labels given before are
ever read.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from parbals.strategies.problem import Problem, batch_of
from parbals.types import Batch

__all__ = ["select_galaxy"]


class _Stretch(NamedTuple):
    """Unlabelled places first..last (inclusive) of one path; empty if last < first."""

    path: int
    first: int
    last: int

    @property
    def length(self) -> int:
        return self.last - self.first + 1


class _Path(NamedTuple):
    """Points sorted by margin; ``pool`` is the pool index at each place, -1 if labelled."""

    pool: np.ndarray
    labelled: np.ndarray  # places of labelled points
    positive: np.ndarray  # whether each of those belongs to the path's class


def select_galaxy(problem: Problem) -> Batch:
    """The score is minus the length of the stretch, or minus the distance (extending)."""
    labels, labelled_probs = problem.require_labels()
    n_classes = problem.mean_probs.shape[1]
    classes = [1] if n_classes == 2 else range(n_classes)
    paths = [_path(problem.mean_probs, labelled_probs, labels, c) for c in classes]
    every = [found for p, path in enumerate(paths) for found in _stretches(p, path)]
    cuts = [stretch for stretch, is_cut in every if is_cut]
    stretches = cuts or [stretch for stretch, _ in every]
    free = problem.candidates()
    chosen: list[int] = []
    scores: list[float] = []

    def take(index: int, score: float) -> None:
        chosen.append(index)
        scores.append(score)
        free[index] = False

    by_length = sorted(stretches, key=lambda s: s.length if cuts else -s.length)
    for stretch in by_length:
        if len(chosen) == problem.batch_size:
            break
        inside = paths[stretch.path].pool[stretch.first : stretch.last + 1]
        if len(inside) and free[inside].all():
            take(int(inside[(len(inside) - 1) // 2]), -float(stretch.length))
    distance, place = _distance_to_middles(paths, stretches, problem.n_pool)
    problem.show(-distance)
    for index in np.lexsort((place, distance)):
        if len(chosen) == problem.batch_size:
            break
        if free[index]:
            take(int(index), -float(distance[index]))
    return batch_of(problem, np.array(chosen), np.array(scores))


def _path(pool_probs: np.ndarray, labelled_probs: np.ndarray, labels: np.ndarray, c: int) -> _Path:
    margins = np.concatenate([_margin(pool_probs, c), _margin(labelled_probs, c)])
    order = np.argsort(margins, kind="stable")
    n_pool = len(pool_probs)
    labelled = np.flatnonzero(order >= n_pool)
    pool = np.where(order < n_pool, order, -1)
    return _Path(pool, labelled, labels[order[labelled] - n_pool] == c)


def _margin(probs: np.ndarray, c: int) -> np.ndarray:
    return probs[:, c] - np.delete(probs, c, axis=1).max(axis=1)


def _stretches(number: int, path: _Path) -> list[tuple[_Stretch, bool]]:
    """All between neighbouring labels or path ends, and whether the labels differ in kind."""
    edges = [-1, *path.labelled.tolist(), len(path.pool)]
    is_cut = [False, *(path.positive[1:] != path.positive[:-1]).tolist(), False]
    found = zip(pairwise(edges), is_cut, strict=True)
    return [(_Stretch(number, left + 1, right - 1), cut) for (left, right), cut in found]


def _distance_to_middles(
    paths: list[_Path], stretches: list[_Stretch], n_pool: int
) -> tuple[np.ndarray, np.ndarray]:
    """(N,) places from each point to the nearest middle of a stretch; its place on that path."""
    distance, place = np.full(n_pool, np.inf), np.zeros(n_pool)
    for number, path in enumerate(paths):
        middles = np.sort([(s.first + s.last) / 2 for s in stretches if s.path == number])
        if len(middles) == 0:
            continue
        places = np.flatnonzero(path.pool >= 0)
        points = path.pool[places]
        after = np.searchsorted(middles, places)
        right = middles[np.minimum(after, len(middles) - 1)]
        left = middles[np.maximum(after - 1, 0)]
        gaps = np.minimum(np.abs(places - right), np.abs(places - left))
        nearer = gaps < distance[points]
        distance[points[nearer]] = gaps[nearer]
        place[points[nearer]] = number * len(path.pool) + places[nearer]
    return distance, place
