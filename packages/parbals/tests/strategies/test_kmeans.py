"""k-means: typical items of parts of the pool that nobody has looked at yet."""

import numpy as np
import parbals

CENTRES = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0], [10.0, 10.0]])
WHERE = np.repeat(np.arange(4), [40, 30, 20, 10])
X = CENTRES[WHERE] + np.random.default_rng(0).standard_normal((100, 2))
PROBS = np.full((100, 1, 2), 0.5)


def chosen(n, **more):
    options = {"pool_features": X, "strategy": "kmeans", "random_state": 0} | more
    return parbals.select_batch(PROBS, None, n, **options)


def test_one_of_every_cluster_the_largest_first():
    batch = chosen(4)
    assert WHERE[batch.indices].tolist() == [0, 1, 2, 3]
    np.testing.assert_allclose(batch.scores, [0.4, 0.3, 0.2, 0.1])
    for index, centre in zip(batch.indices, CENTRES, strict=True):
        assert np.linalg.norm(X[index] - centre) < 1.0  # typical, not odd


def test_clusters_with_something_known_are_taken():
    assert 0 not in WHERE[chosen(3, pending=[3]).indices]
    labelled = {"labelled_features": X[[3, 50]], "labels": [0, 1]}
    assert sorted(WHERE[chosen(2, **labelled).indices]) == [2, 3]


def test_every_strategy_starts_with_it_unless_classes_are_described():
    learner = parbals.ActiveLearner(X, [0, 1], random_state=0)
    assert learner.choose(4).strategy == "kmeans"
    described = parbals.ActiveLearner(X, [0, 1], class_descriptions={1: X[0]}, random_state=0)
    assert described.choose(4).strategy == "parbals-epig"
    learner.tell([0], [1])
    assert learner.choose(4).strategy == "parbals-epig"
