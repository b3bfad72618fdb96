"""BADGE and GALAXY as LabelBench has them, written anew from what its code does.

github.com/EfficientTraining/LabelBench, commit 9e23393, on which the authors' code is built.
"""

import numpy as np
from parbals.randomness import derive_generator

__all__ = ["labelbench_badge", "labelbench_galaxy"]


def labelbench_badge(
    probs: np.ndarray, X: np.ndarray, batch_size: int, seed: int
) -> tuple[list[int], np.ndarray]:
    """Seed k-means++ on the gradients (p - onehot(argmax p)) ⊗ x from the longest one.

    Args:
        probs: (N, C) mean probabilities.
        X: (N, D) features; there is no bias column.

    Returns:
        Indices of the batch, and scores (B,): the squared length of the first gradient, then the
        squared distance of every further one to the nearest chosen before it.
    """
    a = np.array(probs, np.float64)
    a[np.arange(len(a)), a.argmax(axis=1)] -= 1.0
    X = np.asarray(X, np.float64)
    squared_norms = np.square(a).sum(axis=1) * np.square(X).sum(axis=1)
    generator = derive_generator(seed, "labelbench badge")
    index = int(squared_norms.argmax())
    indices = [index]
    scores = [float(squared_norms[index])]
    squared = np.full(len(a), np.inf)
    while len(indices) < batch_size:
        inner = (a @ a[index]) * (X @ X[index])
        to_latest = squared_norms + squared_norms[index] - 2.0 * inner
        squared = np.minimum(squared, np.maximum(to_latest, 0.0))
        squared[indices] = 0.0
        index = int(generator.choice(len(a), p=squared / squared.sum()))
        indices.append(index)
        scores.append(float(squared[index]))
    return indices, np.array(scores)


def labelbench_galaxy(
    p_first: np.ndarray, is_first: np.ndarray, is_known: np.ndarray, batch_size: int, seed: int
) -> list[int]:
    """GALAXY for two classes on the path of falling p(class 0); a chosen label is known at once.

    While there is a cut, take the middle of the shortest one. Then take the point nearest to two
    neighbours with known labels of which the left one is not of class 0 and the right one is. A
    path in the right order has no such neighbours, and the point is drawn at random.

    Args:
        p_first: (N,) mean probability of class 0, of unlabelled and labelled points.
        is_first: (N,) whether a point is of class 0.
        is_known: (N,) whether its label is known.
    """
    order = np.argsort(-p_first, kind="stable")
    is_first = is_first[order]
    is_known = is_known[order]
    generator = derive_generator(seed, "labelbench galaxy")
    indices: list[int] = []
    for _ in range(batch_size):
        position = _middle_of_cut(is_first, is_known)
        if position is None:
            position = _beside_turn(is_first, is_known)
        if position is None:
            position = int(generator.choice(np.flatnonzero(~is_known)))
        is_known[position] = True
        indices.append(int(order[position]))
    return indices


def _middle_of_cut(is_first: np.ndarray, is_known: np.ndarray) -> int | None:
    """The middle of the shortest run of unknown points between two classes; the leftmost wins."""
    known = np.flatnonzero(is_known)
    left = known[:-1]
    right = known[1:]
    cuts = np.flatnonzero((right - left > 1) & (is_first[left] != is_first[right]))
    if len(cuts) == 0:
        return None
    shortest = cuts[np.argmin((right - left)[cuts])]
    return int((left[shortest] + right[shortest]) // 2)


def _beside_turn(is_first: np.ndarray, is_known: np.ndarray) -> int | None:
    """The unknown point nearest to known neighbours (other class, class 0).

    Of equal distances, points left of their neighbours win, and among these the rightmost one.
    """
    turns = np.flatnonzero(is_known[:-1] & is_known[1:] & ~is_first[:-1] & is_first[1:])
    unknown = np.flatnonzero(~is_known)
    best = None
    shortest = len(is_known) + 1
    for turn in turns:
        before = unknown[unknown < turn]
        if len(before) and turn - before[-1] <= shortest:
            shortest = int(turn - before[-1])
            best = int(before[-1])
    for turn in turns[::-1]:
        after = unknown[unknown > turn + 1]
        if len(after) and after[0] - (turn + 1) < shortest:
            shortest = int(after[0] - (turn + 1))
            best = int(after[0])
    return best
