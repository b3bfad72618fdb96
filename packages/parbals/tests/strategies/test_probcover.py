"""ProbCover against the greedy cover written out with loops, the radius against a search."""

import numpy as np
import parbals
import pytest
from parbals.errors import InputError
from parbals.strategies.probcover import pure_radius

GENERATOR = np.random.default_rng(0)
CENTRES = np.array([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0], [20.0, 20.0], [50.0, 0.0], [0.0, 50.0]])


def pool_of(n_groups, n=90):
    groups = np.arange(n) % n_groups
    groups[: n // 3] = 0
    rows = CENTRES[groups] + 2.0 * GENERATOR.standard_normal((n, 2))
    return rows, groups


def choose(features, n_classes, n, **options):
    probs = np.full((len(features), 1, n_classes), 1.0 / n_classes)
    return parbals.select_batch(
        probs, None, n, "probcover", pool_features=features, **{"random_state": 0} | options
    )


def share_pure(rows, groups, radius):
    is_pure = [
        all(
            groups[other] == groups[row]
            for other in range(len(rows))
            if np.linalg.norm(rows[other] - rows[row]) < radius
        )
        for row in range(len(rows))
    ]
    return np.mean(is_pure)


@pytest.mark.parametrize("n_rows", [19, 20, 21, 60])
def test_the_radius_is_the_largest_with_nineteen_of_twenty_balls_pure(n_rows):
    rows = GENERATOR.standard_normal((n_rows, 2)).astype(np.float32)
    groups = (rows[:, 0] > 0).astype(int)
    radius = pure_radius(rows, groups)
    assert share_pure(rows, groups, 0.9999 * radius) >= 0.95
    assert share_pure(rows, groups, 1.0001 * radius) < 0.95


def gains(rows, covering, radius):
    """For every row the number of rows that its ball covers and no covering point does."""
    is_uncovered = [
        all(np.linalg.norm(row - centre) >= radius for centre in covering) for row in rows
    ]
    within = np.linalg.norm(rows[:, None] - rows, axis=2) < radius
    return within @ np.array(is_uncovered, int)


@pytest.mark.parametrize("n_groups", [2, 6])
@pytest.mark.parametrize(("scale", "offset"), [(1.0, 0.0), (1e-6, 0.0), (1e6, 1e8)])
def test_each_step_covers_as_many_uncovered_points_as_any_could(n_groups, scale, offset):
    rows, groups = pool_of(n_groups)
    labelled, pending = rows[:2] + 0.5, [5, 6]
    pool = rows[2:]
    everything = np.concatenate([pool, labelled])
    radius = pure_radius(everything, np.concatenate([groups[2:], groups[:2]]))
    batch = choose(
        scale * pool + offset,
        n_groups,
        n_groups - 1,
        labelled_features=scale * labelled + offset,
        labels=[0, 1],
        pending=pending,
    )
    covering = [*labelled, *pool[pending]]
    for index, score in zip(batch.indices.tolist(), batch.scores.tolist(), strict=True):
        expected = gains(pool, covering, radius)
        assert expected[index] == expected.max() > 0
        assert score == pytest.approx(expected.max() / len(pool))
        covering.append(pool[index])


def test_the_densest_region_first_and_others_before_a_second_of_it():
    rows, groups = pool_of(4)
    batch = choose(rows, 4, 4)
    assert groups[batch.indices[0]] == 0
    assert sorted(groups[batch.indices]) == [0, 1, 2, 3]


def test_when_all_is_covered_smaller_balls_go_on():
    rows, _ = pool_of(2)
    indices = choose(rows, 2, 40).indices
    covering = rows[indices[:20]]
    distances = np.linalg.norm(rows[:, None] - covering, axis=2).min(axis=1)
    later = np.linalg.norm(rows[:, None] - rows[indices], axis=2).min(axis=1)
    assert later.max() < distances.max()
    assert len(set(indices.tolist())) == 40


def test_more_classes_than_rows_are_no_obstacle():
    rows, _ = pool_of(6, 30)
    assert len(set(choose(rows, 77, 10).indices.tolist())) == 10


def test_the_number_of_classes_is_the_learners_and_is_needed():
    rows, groups = pool_of(6)
    learner = parbals.ActiveLearner(rows, list(range(6)), strategy="probcover", random_state=0)
    assert sorted(groups[learner.ask(6)]) == list(range(6))
    numbers = parbals.ActiveLearner(rows, task="regression", random_state=0)
    with pytest.raises(InputError, match='probcover needs classes; with task="regression" take'):
        numbers.choose(2, strategy="probcover")

    class Coin:
        def sample_proba(self, X):
            return np.full((len(X), 1, 2), 0.5)

    with pytest.raises(InputError, match="probcover needs n_classes"):
        parbals.select_batch_from_model(Coin(), rows, None, 2, "probcover")
    batch = parbals.select_batch_from_model(Coin(), rows, None, 2, "probcover", n_classes=6)
    assert len(batch) == 2
