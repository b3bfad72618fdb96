"""TypiClust against the definition written out, on groups that k-means cannot miss."""

from collections import Counter

import numpy as np
import parbals
import pytest

SIZES = [30, 24, 18, 12, 3]
GROUPS = np.repeat(np.arange(5), SIZES)
GENERATOR = np.random.default_rng(0)
CENTRES = np.array([[0.0, 0.0], [40.0, 0.0], [0.0, 40.0], [40.0, 40.0], [90.0, 90.0]])
X = CENTRES[GROUPS] + GENERATOR.standard_normal((len(GROUPS), 2))


def choose(n, features=X, n_classes=2, **options):
    probs = np.full((len(features), 1, n_classes), 1.0 / n_classes)
    return parbals.select_batch(
        probs, None, n, "typiclust", pool_features=features, random_state=0, **options
    )


def typicality(members, row):
    """The definition: the inverse mean distance to min(20, n - 1) others of n members."""
    distances = sorted(
        float(np.linalg.norm(X[row] - X[other])) for other in members if other != row
    )
    return 1.0 / np.mean(distances[:20])


def most_typical(group, taken=()):
    members = np.flatnonzero(group == GROUPS)
    free = [row for row in members if row not in taken]
    return max(free, key=lambda row: typicality(members, row))


@pytest.mark.parametrize("n_classes", [2, 6, 77])
@pytest.mark.parametrize(("scale", "offset"), [(1.0, 0.0), (1e-6, 0.0), (1e6, 1e9)])
def test_the_most_typical_of_each_cluster_the_largest_first(scale, offset, n_classes):
    batch = choose(5, scale * X + offset, n_classes)
    first = [most_typical(group) for group in range(4)]
    # The fifth cluster is small, so a second point of the largest is next.
    assert batch.indices.tolist() == [*first, most_typical(0, taken=first)]
    members = np.flatnonzero(GROUPS == 1)
    expected = typicality(members, batch.indices[1]) / scale
    assert batch.scores[1] == pytest.approx(expected, rel=1e-3)


def test_clusters_with_the_fewest_labelled_and_pending_points_come_first():
    pending = [most_typical(0)]
    labelled = X[[most_typical(1)]] + 0.01
    batch = choose(3, pending=pending, labelled_features=labelled, labels=[0])
    assert GROUPS[batch.indices[:2]].tolist() == [2, 3]
    assert not set(batch.indices.tolist()) & set(pending)


def test_no_more_than_five_hundred_clusters_are_formed(monkeypatch):
    from parbals.strategies import typiclust

    numbers = []
    cluster_rows = typiclust.cluster_rows
    monkeypatch.setattr(
        typiclust, "cluster_rows", lambda rows, n: numbers.append(n) or cluster_rows(rows, 5)
    )
    labelled = GENERATOR.standard_normal((600, 2))
    batch = choose(7, labelled_features=labelled, labels=np.arange(600) % 2)
    assert numbers == [500]
    # All labels lie in the first group, so the others alternate.
    counts = Counter(GROUPS[batch.indices].tolist())
    assert counts[0] == 0
    assert max(counts[1], counts[2], counts[3]) - min(counts[1], counts[2], counts[3]) <= 1


def test_the_neighbours_are_of_the_cluster_and_scores_of_a_step_are_theirs():
    steps = []
    batch = choose(5, watch=steps.append)
    for scores, index in zip(steps, batch.indices, strict=True):
        assert scores.argmax() == index
        assert (GROUPS[scores > 0] == GROUPS[index]).all()
