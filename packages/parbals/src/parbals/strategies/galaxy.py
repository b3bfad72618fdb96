"""GALAXY: bisect towards class boundaries, robust to class imbalance (Zhang et al., 2022).

For each class c all points, labelled and unlabelled, are sorted by the margin p̄_c - max_{b≠c} p̄_b
into a path (two classes share one). A *segment* is the run of unlabelled points between two
consecutive labelled points, and a *cut* is a segment of which exactly one end belongs to c. Then,
point by point:

1. Bisect: the middle of the shortest cut without a chosen point, over all paths.
2. When every cut has one, extend: the point nearest along its path to the middle of a cut.
3. While all labels agree there is no cut: the middle of the longest segment without a chosen point,
   between labelled points or path ends, to find one.

All labels of a batch arrive together. Once a segment's middle is chosen or pending, the segment no
longer lies between two known labels, so it is not bisected again in this batch.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from parbals.strategies.problem import Problem, batch_of
from parbals.types import Batch

__all__ = ["select_galaxy"]


class _Segment(NamedTuple):
    """Unlabelled path positions first..last (inclusive); empty if last < first."""

    path: int  # number of the path
    first: int
    last: int
    is_cut: bool

    @property
    def length(self) -> int:
        """Number of unlabelled points."""
        return self.last - self.first + 1

    @property
    def middle(self) -> float:
        """Position of the middle on the path."""
        return (self.first + self.last) / 2


class _Path(NamedTuple):
    """All points sorted by their margin for one class."""

    pool: np.ndarray  # pool index at each path position, -1 for labelled points
    labelled: np.ndarray  # path positions of the labelled points
    is_positive: np.ndarray  # whether each labelled point belongs to the path's class


def select_galaxy(problem: Problem) -> Batch:
    """The score is minus the length of the bisected segment, or minus the distance (extending)."""
    labels, labelled_probs = problem.require_labels()
    n_classes = problem.mean_probs.shape[1]
    classes = [1] if n_classes == 2 else range(n_classes)
    paths = [_path(problem.mean_probs, labelled_probs, labels, c) for c in classes]
    all_segments = []
    for number, path in enumerate(paths):
        all_segments += _segments(number, path)
    cuts = [segment for segment in all_segments if segment.is_cut]
    if cuts:
        segments = sorted(cuts, key=lambda segment: segment.length)
    else:
        segments = sorted(all_segments, key=lambda segment: -segment.length)
    free = problem.candidates()
    chosen: list[int] = []
    scores: list[float] = []

    def take(index: int, score: float) -> None:
        chosen.append(index)
        scores.append(score)
        free[index] = False

    for segment in segments:
        if len(chosen) == problem.batch_size:
            break
        inside = paths[segment.path].pool[segment.first : segment.last + 1]
        if len(inside) and free[inside].all():
            take(int(inside[(len(inside) - 1) // 2]), -float(segment.length))
    distance, position = _distance_to_middles(paths, segments, problem.n_pool)
    problem.show(-distance)
    for index in np.lexsort((position, distance)):
        if len(chosen) == problem.batch_size:
            break
        if free[index]:
            take(int(index), -float(distance[index]))
    return batch_of(problem, np.array(chosen), np.array(scores))


def _path(pool_probs: np.ndarray, labelled_probs: np.ndarray, labels: np.ndarray, c: int) -> _Path:
    """The path of class c."""
    margins = np.concatenate([_margin(pool_probs, c), _margin(labelled_probs, c)])
    order = np.argsort(margins, kind="stable")
    n_pool = len(pool_probs)
    labelled = np.flatnonzero(order >= n_pool)
    pool = np.where(order < n_pool, order, -1)
    return _Path(pool, labelled, is_positive=labels[order[labelled] - n_pool] == c)


def _margin(probs: np.ndarray, c: int) -> np.ndarray:
    """p_c minus the largest probability of another class."""
    return probs[:, c] - np.delete(probs, c, axis=1).max(axis=1)


def _segments(number: int, path: _Path) -> list[_Segment]:
    """All segments between neighbouring labelled points or path ends, in order."""
    edges = [-1, *path.labelled.tolist(), len(path.pool)]
    is_cut = [False, *(path.is_positive[1:] != path.is_positive[:-1]).tolist(), False]
    return [
        _Segment(path=number, first=left + 1, last=right - 1, is_cut=cut)
        for (left, right), cut in zip(pairwise(edges), is_cut, strict=True)
    ]


def _distance_to_middles(
    paths: list[_Path], segments: list[_Segment], n_pool: int
) -> tuple[np.ndarray, np.ndarray]:
    """(N,) distance of each point to the nearest middle of a segment, and its path position.

    Positions are counted through all paths, to break ties.
    """
    distance = np.full(n_pool, np.inf)
    nearest_position = np.zeros(n_pool)
    for number, path in enumerate(paths):
        middles = np.sort([segment.middle for segment in segments if segment.path == number])
        if len(middles) == 0:
            continue
        positions = np.flatnonzero(path.pool >= 0)
        points = path.pool[positions]
        next_middle = np.searchsorted(middles, positions)
        right = middles[np.minimum(next_middle, len(middles) - 1)]
        left = middles[np.maximum(next_middle - 1, 0)]
        path_distance = np.minimum(np.abs(positions - right), np.abs(positions - left))
        is_nearer = path_distance < distance[points]
        nearer_points = points[is_nearer]
        distance[nearer_points] = path_distance[is_nearer]
        nearest_position[nearer_points] = number * len(path.pool) + positions[is_nearer]
    return distance, nearest_position
