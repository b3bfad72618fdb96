"""Scaled, sorted and clustered rows."""

import numpy as np
import pytest
from parbals.strategies.rows import ScaledRows, cluster_rows, content_order, nearest_to_centres

GENERATOR = np.random.default_rng(0)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_distances_are_those_of_the_features_far_from_the_origin(scale):
    features = scale * (GENERATOR.standard_normal((50, 3)) + 1e3)
    centres = features[[4, 9]]
    expected = np.linalg.norm(features[:, None] - centres, axis=2)
    scaled = ScaledRows(features)
    np.testing.assert_allclose(
        scaled.distances_to(centres), expected.min(axis=1), rtol=1e-4, atol=1e-3 * scale
    )
    np.testing.assert_allclose(
        scaled.distances_to(centres[:1]), expected[:, 0], rtol=1e-4, atol=1e-5 * scale
    )


def test_the_order_follows_the_content_alone():
    features = np.repeat(GENERATOR.standard_normal((20, 3)), 2, axis=0)
    shuffled = features[GENERATOR.permutation(40)]
    np.testing.assert_array_equal(
        features[content_order(features)], shuffled[content_order(shuffled)]
    )
    np.testing.assert_array_equal(content_order(features), content_order(1e-6 * features))


@pytest.mark.parametrize("n_clusters", [5, 60])
def test_well_separated_groups_are_the_clusters(n_clusters):
    groups = np.repeat(np.arange(n_clusters), 8)
    rows = np.column_stack([10.0 * groups, np.zeros(len(groups))])
    rows += 0.1 * GENERATOR.standard_normal(rows.shape)
    clusters, centres = cluster_rows(rows.astype(np.float32), n_clusters)
    pairs = set(zip(groups.tolist(), clusters.tolist(), strict=True))
    assert len(centres) == n_clusters
    assert len(pairs) <= 1.3 * n_clusters  # a single start of k-means may halve or join some


def test_one_row_a_cluster_the_largest_first_and_duplicates_fill_up():
    rows = np.repeat(np.array([[0.0], [10.0], [30.0]], np.float32), [5, 9, 2], axis=0)
    nearest = nearest_to_centres(rows, 6)
    assert len(set(nearest.tolist())) == 6
    assert rows[nearest[:3], 0].tolist() == [10.0, 0.0, 30.0]
