"""LabelBench's BADGE and GALAXY against definitions written out, and paths worked out by hand."""

from collections import Counter

import numpy as np
import pytest
from parbals_bench.run.labelbench import labelbench_badge, labelbench_galaxy

N_DRAWS = 4000


@pytest.fixture(scope="module")
def gradients():
    """Probabilities (12, 3), features (12, 4) and the gradients (12, 12) by definition."""
    generator = np.random.default_rng(5)
    probs = generator.dirichlet(np.ones(3), size=12)
    X = generator.standard_normal((12, 4))
    rows = []
    for p, x in zip(probs, X, strict=True):
        onehot = np.eye(3)[p.argmax()]
        rows.append(np.outer(p - onehot, x).ravel())
    return probs, X, np.array(rows)


def test_badge_starts_at_the_longest_gradient(gradients):
    probs, X, g = gradients
    indices, scores = labelbench_badge(probs, X, 5, seed=1)
    lengths = np.linalg.norm(g, axis=1)
    assert indices[0] == lengths.argmax()
    assert scores[0] == pytest.approx(lengths.max() ** 2)
    assert len(set(indices)) == 5
    for n in range(1, 5):
        distances = np.linalg.norm(g[indices[:n]] - g[indices[n]], axis=1)
        assert scores[n] == pytest.approx(distances.min() ** 2)


def test_badge_draws_by_squared_distances(gradients):
    """χ² of 4,000 second points; with fixed seeds it passes or fails always alike."""
    probs, X, g = gradients
    first = np.linalg.norm(g, axis=1).argmax()
    squared = np.square(g - g[first]).sum(axis=1)
    expected = N_DRAWS * squared / squared.sum()
    counts = Counter(labelbench_badge(probs, X, 2, seed=s)[0][1] for s in range(N_DRAWS))
    likely = np.flatnonzero(expected >= 5)
    statistic = sum((counts[i] - expected[i]) ** 2 / expected[i] for i in likely)
    assert counts[first] == 0
    assert statistic < 31.3  # the 0.999 quantile with 11 degrees of freedom


def galaxy(path, batch_size=1, seed=0):
    """Choose from a path: A and B are known labels of class 0 and 1, a and b unknown ones."""
    p_first = np.linspace(0.9, 0.1, len(path))
    is_first = np.array([letter in "aA" for letter in path])
    is_known = np.array([letter in "AB" for letter in path])
    return labelbench_galaxy(p_first, is_first, is_known, batch_size, seed)


def test_galaxy_bisects_the_shortest_cut_and_the_leftmost_of_equals():
    assert galaxy("AaaaBbbAaaaaB") == [5]
    assert galaxy("AabBbaA") == [1]
    assert galaxy("AaabbbB") == [3]


def test_galaxy_knows_a_label_before_it_chooses_the_next():
    # Position 3 is of class 0, so the cut is 4 and 5; then 4 is of class 1, and nothing is left.
    assert galaxy("AaaabbB", 2) == [3, 4]


def test_galaxy_then_takes_the_point_nearest_to_neighbours_in_the_wrong_order():
    # Known neighbours (B, A) at 3 and 4: the nearest unknown on the left is 1 away.
    assert galaxy("BBbBAAAaA") == [2]
    # Here it is 2 away on the left and 1 on the right.
    assert galaxy("BbBBAaA") == [5]
    # Equal distances: the left one wins.
    assert galaxy("BbBAaA") == [1]


def test_galaxy_is_random_on_a_path_in_the_right_order():
    choices = {galaxy("aaAABBbb", seed=s)[0] for s in range(40)}
    assert choices == {0, 1, 6, 7}


def test_points_are_found_whatever_their_order():
    p_first = np.array([0.2, 0.8, 0.5, 0.6, 0.4])
    is_first = np.array([False, True, True, True, False])
    is_known = np.array([True, True, False, False, False])
    # Along the path: 1 (known), 3, 2, 4, 0 (known); the middle of the cut is 2.
    assert labelbench_galaxy(p_first, is_first, is_known, 1, 0) == [2]
