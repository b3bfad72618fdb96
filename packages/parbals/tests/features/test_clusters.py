"""Nested clusters."""

import numpy as np
import pytest
from parbals.features.clusters import NestedClusters


def test_separate_clusters_are_found_first():
    generator = np.random.default_rng(0)
    centres = 30.0 * np.eye(6)
    truth = np.arange(180) % 6
    rows = centres[truth] + generator.standard_normal((180, 6))
    labels = NestedClusters.of(rows, 40).labels(6)
    pairs = set(zip(truth.tolist(), labels.tolist(), strict=True))
    assert len(pairs) == 6


def test_more_clusters_are_parts_of_fewer():
    rows = np.random.default_rng(1).standard_normal((300, 4))
    clusters = NestedClusters.of(rows, 50)
    for n_clusters in (1, 2, 17, 49):
        few = clusters.labels(n_clusters)
        many = clusters.labels(n_clusters + 1)
        assert len(np.unique(few)) == n_clusters
        assert len({*zip(few.tolist(), many.tolist(), strict=True)}) == n_clusters + 1


def test_a_larger_tree_begins_with_the_smaller_one():
    rows = np.random.default_rng(2).standard_normal((300, 4))
    few = NestedClusters.of(rows, 20)
    many = NestedClusters.of(rows, 90)
    np.testing.assert_array_equal(few.labels(20), many.labels(20))


@pytest.mark.parametrize("n_distinct", [1, 3])
def test_equal_rows_are_not_split(n_distinct):
    rows = np.repeat(np.arange(n_distinct, dtype=float), 40)[:, None] * np.ones((1, 3))
    clusters = NestedClusters.of(rows, 30)
    assert len(clusters.parents) == n_distinct
    assert len(np.unique(clusters.labels(30))) == n_distinct
