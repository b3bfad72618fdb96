"""k-means: typical items of parts of the pool that nobody has looked at yet."""

import numpy as np
import parbals
import pytest

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


def chosen_for(target, n, pool=X):
    learner = parbals.ActiveLearner(pool, [0, 1], X_target=target, random_state=0)
    return learner.choose(n)


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


class TestTarget:
    """The first batch represents the rows that the model will be used on."""

    X_WIDE = np.random.default_rng(1).standard_normal((400, 5))
    IN_TARGET = X_WIDE[:, 0] > 1.2  # a tenth, without a gap to the others

    @pytest.mark.parametrize("n_classes", [2, 6, 77])
    @pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
    def test_most_of_the_first_batch_lies_in_the_target(self, n_classes, scale):
        X = scale * self.X_WIDE
        learner = parbals.ActiveLearner(
            X, list(range(n_classes)), X_target=X[self.IN_TARGET], random_state=0
        )
        batch = learner.choose(20)
        assert batch.strategy == "kmeans"
        assert len(set(batch.indices.tolist())) == 20
        assert self.IN_TARGET[batch.indices].mean() > 0.8, "a tenth of the pool is"

    def test_the_largest_clusters_of_the_target_come_first(self):
        target = X[WHERE >= 2]
        batch = chosen_for(target, 4)
        assert set(WHERE[batch.indices]) == {2, 3}
        assert batch.scores[0] > batch.scores[-1]

    def test_more_items_than_rows_of_the_target(self):
        batch = chosen_for(X[[0, 99]], 10)
        assert len(set(batch.indices.tolist())) == 10
        assert set(WHERE[batch.indices[:2]]) == {0, 3}

    def test_the_order_of_pool_and_target_does_not_matter(self):
        order = np.random.default_rng(2).permutation(len(X))
        target = X[WHERE >= 2]
        first = X[chosen_for(target, 5).indices]
        again = X[order][chosen_for(target[::-1], 5, pool=X[order]).indices]
        np.testing.assert_array_equal(first, again)
