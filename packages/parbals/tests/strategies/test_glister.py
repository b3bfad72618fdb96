"""GLISTER: its gain is that of an explicit gradient step, and ranks as retraining does."""

import numpy as np
import parbals
import pytest
from parbals.testing import make_inputs
from scipy.special import log_softmax
from scipy.stats import spearmanr
from sklearn.linear_model import LogisticRegression


def choose(inputs, batch_size, **options):
    return parbals.select_batch(
        **{**inputs, **options}, batch_size=batch_size, strategy="glister", random_state=0
    )


@pytest.mark.parametrize("n_classes", [2, 3])
def test_gains_are_those_of_an_explicit_step_of_the_last_layer(n_classes):
    """W starts at zero on top of ln p̄; each chosen set moves it by one step from there."""
    inputs = make_inputs(n_classes=n_classes)
    mean = inputs["pool_probs"].mean(axis=1)
    at = inputs["validation"]
    z = np.column_stack([inputs["pool_features"], np.ones(40)])
    z_val = np.column_stack([inputs["labelled_features"][at], np.ones(len(at))])
    base = np.log(inputs["labelled_probs"][at].mean(axis=1))
    truth = inputs["labels"][at]
    step = 1 / np.mean(np.square(z).sum(axis=1))

    def value(chosen):
        W = sum(
            (step * np.outer(z[j], np.eye(n_classes)[mean[j].argmax()] - mean[j]) for j in chosen),
            0.0,
        )
        return log_softmax(base + z_val @ np.broadcast_to(W, (5, n_classes)), axis=1)[
            range(len(at)), truth
        ].mean()

    batch = choose(inputs, 5)
    for i in range(5):
        before = batch.indices[:i].tolist()
        gains = np.array(
            [value([*before, x]) - value(before) if x not in before else -np.inf for x in range(40)]
        )
        assert batch.indices[i] == gains.argmax()
        assert batch.scores[i] == pytest.approx(gains.max(), rel=1e-3, abs=1e-6)


def test_it_ranks_candidates_as_an_explicit_retrain_does():
    generator = np.random.default_rng(2)
    truth = np.array([2.0, -1.0, 0.5])

    def drawn(n):
        X = generator.standard_normal((n, 3))
        return X, (generator.random(n) < 1 / (1 + np.exp(-X @ truth))).astype(int)

    (X, y) = drawn(12)
    (X_val, y_val) = drawn(60)
    (X_pool, _) = drawn(40)

    def fitted(X, y):
        return LogisticRegression(C=1.0, tol=1e-8, max_iter=1000).fit(X, y)

    model = fitted(X, y)

    def value(m):
        return m.predict_log_proba(X_val)[range(60), y_val].mean()

    retrained = []
    for x in X_pool:
        label = model.predict(x[None])
        retrained.append(value(fitted(np.vstack([X, x]), np.append(y, label))) - value(model))
    batch = parbals.select_batch(
        model.predict_proba(X_pool)[:, None],
        batch_size=40,  # the whole pool, for the score that every candidate had at the start
        strategy="glister",
        pool_features=X_pool,
        labelled_features=X_val,
        labelled_probs=model.predict_proba(X_val)[:, None],
        labels=y_val,
        validation=np.arange(60),
    )
    assert spearmanr(batch.initial_scores, np.array(retrained)[batch.indices]).statistic > 0.8


def test_a_fifth_of_each_class_is_drawn_when_no_validation_points_are_named_and_it_says_so():
    inputs = make_inputs(n_labelled=30)
    inputs.pop("validation")
    batch = choose(inputs, 3)
    assert "validation" in batch.notes[0]
    assert choose({**inputs, "validation": np.arange(6)}, 3).notes == ()


def test_pending_points_have_moved_the_model_already():
    inputs = make_inputs()
    first = choose(inputs, 3)
    later = choose(inputs, 2, pending=first.indices[:1])
    assert later.indices.tolist() == first.indices[1:].tolist()


def test_confident_predictions_move_nothing():
    inputs = make_inputs(n_pool=10)
    certain = np.eye(3)[inputs["pool_probs"].argmax(axis=2)[:, :1]].repeat(64, axis=1)
    assert choose({**inputs, "pool_probs": certain}, 2).scores == pytest.approx(0.0, abs=1e-7)
