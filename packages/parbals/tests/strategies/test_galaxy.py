"""GALAXY on paths drawn by hand, by rising margin: ``.`` unlabelled, ``0`` and ``1`` labelled."""

import itertools

import numpy as np
import parbals
import pytest


def drawn(path):
    """select_batch arguments of a two-class problem whose points stand on the given path."""
    p = np.linspace(0.05, 0.95, len(path))
    probs = np.stack([1 - p, p], axis=1)[:, None, :]
    free = np.array([mark == "." for mark in path])
    return {
        "pool_probs": probs[free],
        "labelled_probs": probs[~free],
        "labels": [int(mark) for mark in path if mark != "."],
    }, np.flatnonzero(free)


def places(path, batch_size, **options):
    """Places on the path that are chosen."""
    inputs, at = drawn(path)
    return at[
        parbals.select_batch(**inputs, batch_size=batch_size, strategy="galaxy", **options).indices
    ].tolist()


def test_the_shortest_stretch_between_classes_is_bisected_first():
    #       0123456789...
    path = "0.....1...0.......1"
    assert places(path, 3) == [8, 3, 14]


def test_stretches_between_equal_labels_are_left_alone():
    assert places("0.0.....1.1", 1) == [5]


def test_when_all_stretches_are_touched_the_nearest_to_a_cut_follow():
    assert places("0..1......", 2) == [1, 2]
    assert places("0..1......", 4) == [1, 2, 4, 5]


def test_a_found_boundary_is_extended_to_both_sides():
    assert places("....01....", 4) == [3, 6, 2, 7]


def test_while_all_labels_agree_the_longest_stretch_is_explored():
    assert places("1..1.......", 1) == [7]


def test_a_pending_point_touches_its_stretch():
    path = "0.....1...0.......1"
    at = drawn(path)[1]
    pending = [int(np.flatnonzero(at == 8)[0])]
    assert places(path, 2, pending=pending) == [3, 14]


def test_no_label_of_the_pool_is_read():
    """It has no access to any: only known labels are passed.

    A label revealed in the middle of a batch would send the search to one half; instead the whole
    batch is the same whatever the chosen points turn out to be, because it is chosen before.
    """
    path = "0.......1....0......1"
    inputs, _ = drawn(path)
    frozen = {name: np.asarray(value).copy() for name, value in inputs.items()}
    whole = parbals.select_batch(**frozen, batch_size=5, strategy="galaxy").indices
    growing: list[int] = []
    for _ in range(5):  # asked one at a time, with every earlier point out and unanswered
        growing += parbals.select_batch(
            **frozen, batch_size=1, strategy="galaxy", pending=growing
        ).indices.tolist()
    assert whole.tolist() == growing


@pytest.mark.parametrize("n_classes", [3, 4])
def test_many_classes_bisect_the_shortest_of_all_paths(n_classes):
    generator = np.random.default_rng(0)
    pool = generator.dirichlet(np.ones(n_classes), 60)
    labelled = generator.dirichlet(np.ones(n_classes), 9)
    labels = np.arange(9) % n_classes
    best = (np.inf, -1)
    for c in range(n_classes):
        margin = lambda p, c=c: p[:, c] - np.delete(p, c, 1).max(1)  # noqa: E731
        marks = sorted(zip(margin(labelled), labels == c, strict=True))
        for (low, a), (high, b) in itertools.pairwise(marks):
            inside = np.flatnonzero((margin(pool) > low) & (margin(pool) < high))
            if a != b and 0 < len(inside) < best[0]:
                order = inside[np.argsort(margin(pool)[inside])]
                best = (len(inside), order[(len(inside) - 1) // 2])
    batch = parbals.select_batch(
        pool[:, None],
        batch_size=1,
        strategy="galaxy",
        labelled_probs=labelled[:, None],
        labels=labels,
    )
    assert batch.indices[0] == best[1]
    assert batch.scores[0] == -best[0]
