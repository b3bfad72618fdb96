"""DropQuery: who is uncertain, by the definition and a probability worked out by hand."""

import itertools

import numpy as np
import parbals
import pytest
from parbals.errors import ShapeError

GENERATOR = np.random.default_rng(0)


def softmax(logits):
    probs = np.exp(logits - logits.max(axis=1, keepdims=True))
    return probs / probs.sum(axis=1, keepdims=True)


def linear(weights):
    return lambda rows: softmax(rows @ weights)


def choose(features, predict, n, n_classes, **options):
    probs = np.full((len(features), 1, n_classes), 1.0 / n_classes)
    arguments = {"pool_features": features, "predict": predict, "random_state": 0} | options
    return parbals.select_batch(probs, None, n, "dropquery", **arguments)


def shares_of_changes(features, predict, n_classes, **options):
    steps = []
    choose(features, predict, 2, n_classes, watch=steps.append, **options)
    return steps[0]


def probability_of_change(row, mean, weights):
    """Over all subsets of features that are left, each with probability ¼, the others ¾."""
    label = (row @ weights).argmax()
    total = 0.0
    for left in itertools.product([0, 1], repeat=len(row)):
        dropped = mean + np.array(left) * (row - mean) * 4.0
        probability = np.prod(np.where(left, 0.25, 0.75))
        total += probability * ((dropped @ weights).argmax() != label)
    return total


@pytest.mark.parametrize("n_classes", [2, 6])
def test_each_class_changes_as_often_as_dropping_features_changes_it(n_classes):
    features = GENERATOR.standard_normal((30, 4)) + 0.3
    weights = GENERATOR.standard_normal((4, n_classes))
    shares = np.mean(
        [
            shares_of_changes(features, linear(weights), n_classes, random_state=seed)
            for seed in range(300)
        ],
        axis=0,
    )
    mean = features.mean(axis=0)
    expected = np.array([probability_of_change(row, mean, weights) for row in features])
    errors = np.sqrt(expected * (1.0 - expected) / 900) + 1e-3
    assert (np.abs(shares - expected) < 4.5 * errors).all()


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_neither_unit_nor_origin_of_a_feature_matters(scale):
    features = GENERATOR.standard_normal((60, 5))
    weights = GENERATOR.standard_normal((5, 6))
    moved = scale * (features + 3.0)
    expected = shares_of_changes(features, linear(weights), 6)
    shares = shares_of_changes(moved, lambda rows: softmax((rows / scale - 3.0) @ weights), 6)
    np.testing.assert_array_equal(shares, expected)


def test_one_uncertain_row_of_each_group_is_chosen():
    """Without the first feature all rows are of the second class: only the first is uncertain."""
    along = np.repeat([-30.0, 0.0, 30.0], 30)
    uncertain = np.column_stack([np.full(90, -1.0), along])
    certain = np.column_stack([np.ones(300), np.full(300, 60.0)])
    features = np.concatenate([uncertain, certain])
    features += 0.05 * GENERATOR.standard_normal(features.shape)
    weights = np.array([[0.0, 1.0], [0.0, 0.0]])
    steps = []
    batch = choose(features, linear(weights), 3, 2, watch=steps.append)
    assert steps[0][90:].max() == 0.0
    assert (batch.indices < 90).all()
    assert sorted(along[batch.indices]) == [-30.0, 0.0, 30.0]
    assert (batch.scores > 0.5).all()
    np.testing.assert_array_equal(batch.scores, steps[0][batch.indices])


def test_too_few_uncertain_rows_are_followed_by_less_uncertain_ones():
    features = GENERATOR.standard_normal((50, 4))
    weights = np.array([[8.0, -8.0], [0.3, 0.0], [0.0, 0.3], [0.1, 0.0]])
    steps = []
    batch = choose(features, linear(weights), 45, 2, watch=steps.append, pending=[0, 1])
    shares = steps[0]
    left_out = np.setdiff1d(np.arange(2, 50), batch.indices)
    assert (shares > 0.5).sum() < 45
    assert shares[left_out].max() <= shares[batch.indices].min()
    # Rows that change in most passes come first, and then those that change in one of three.
    assert (np.diff(np.minimum(batch.scores, 0.6)) <= 0).all()


@pytest.mark.parametrize(
    ("n_classes", "inference"), [(2, "auto"), (6, "auto"), (77, "auto"), (2, "smc"), (6, "smc")]
)
def test_the_learners_model_predicts(n_classes, inference):
    centres = 3.0 * GENERATOR.standard_normal((n_classes, 8))
    labels = np.arange(200) % n_classes
    features = 1e3 * (centres[labels] + GENERATOR.standard_normal((200, 8)))
    learner = parbals.ActiveLearner(
        features,
        list(range(n_classes)),
        strategy="dropquery",
        inference=inference,
        n_samples=32,
        random_state=0,
    )
    learner.tell(np.arange(100), labels[:100])
    batch = learner.choose(10)
    assert len(set(batch.indices.tolist())) == 10
    assert batch.indices.min() >= 100
    assert learner.choose(10).indices.tolist() == batch.indices.tolist()
    assert batch.scores.max() > 0


def test_a_wrong_prediction_is_named():
    features = GENERATOR.standard_normal((20, 2))
    with pytest.raises(ShapeError, match=r"predict returned an array of shape \(20, 2\)"):
        choose(features, lambda rows: np.full((len(rows), 2), 0.5), 2, 3)
