"""CoreSet against farthest-first by brute force."""

import numpy as np
import parbals
import pytest
from parbals.testing import make_inputs


def farthest_first(points, centres, batch_size, taken=()):
    indices = []
    for _ in range(batch_size):
        here = [*centres, *(points[i] for i in indices)]
        reach = [min(np.linalg.norm(p - c) for c in here) for p in points]
        indices.append(
            max((r, -i) for i, r in enumerate(reach) if i not in indices and i not in taken)
        )
        indices[-1] = -indices[-1][1]
    return indices


def choose(inputs, batch_size, **options):
    return parbals.select_batch(**{**inputs, **options}, batch_size=batch_size, strategy="coreset")


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_labelled_points_are_the_first_centres(scale):
    inputs = make_inputs(n_pool=60)
    features = scale * inputs["pool_features"] + 3 * scale
    labelled = scale * inputs["labelled_features"]
    batch = choose(inputs, 8, pool_features=features, labelled_features=labelled)
    assert batch.indices.tolist() == farthest_first(features, labelled, 8)


def test_scores_are_the_distances_and_never_grow():
    inputs = make_inputs(n_pool=60)
    batch = choose(inputs, 8)
    centres = [*inputs["labelled_features"], *inputs["pool_features"][batch.indices[:4]]]
    expected = min(np.linalg.norm(inputs["pool_features"][batch.indices[4]] - c) for c in centres)
    assert batch.scores[4] == pytest.approx(expected, rel=1e-4)
    assert (np.diff(batch.scores) <= 1e-6).all()


def test_pending_points_are_centres_too():
    inputs = make_inputs(n_pool=60)
    features = inputs["pool_features"]
    pending = [4, 9, 30]
    batch = choose(inputs, 5, pending=pending)
    assert batch.indices.tolist() == farthest_first(
        features, [*inputs["labelled_features"], *features[pending]], 5, pending
    )


def test_without_any_centre_it_starts_in_the_middle():
    inputs = make_inputs(n_pool=60)
    features = inputs["pool_features"]
    batch = choose(
        inputs, 5, labelled_features=None, labelled_probs=None, labels=None, validation=None
    )
    start = int(np.linalg.norm(features - features.mean(axis=0), axis=1).argmin())
    assert batch.indices.tolist() == [start, *farthest_first(features, [features[start]], 4)]


def test_many_labelled_points_are_compared_in_groups():
    inputs = make_inputs(n_pool=50)
    many = np.random.default_rng(3).standard_normal((150, 4))
    batch = choose(
        inputs, 4, labelled_features=many, labelled_probs=None, labels=None, validation=None
    )
    assert batch.indices.tolist() == farthest_first(inputs["pool_features"], many, 4)
