"""Gains under each loss against their decision-theoretic definition."""

import numpy as np
import parbals
import pytest
from brute_force import linear_probs, random_probs
from parbals.errors import InputError
from parbals.scores.epig import epig_scores
from parbals.scores.losses import ClassWeights


def bayes_risk(distribution, loss):
    """The smallest expected loss of any decision, given the distribution of the label."""
    if loss == "error":
        return min(
            sum(distribution[b] for b in range(len(distribution)) if b != d)
            for d in range(len(distribution))
        )
    positive = distribution[distribution > 0]
    return -(positive * np.log(positive)).sum()


def expected_gain(p, q, w, loss):
    """Bayes risk at q's point, less the expected risk once the label at p's point is known."""
    after = 0.0
    for a in range(p.shape[1]):
        evidence = w @ p[:, a]
        if evidence > 0:
            after += evidence * bayes_risk((w * p[:, a] / evidence) @ q, loss)
    return bayes_risk(w @ q, loss) - after


@pytest.mark.parametrize("loss", ["log", "error"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("sharpness", [1.0, 8.0])
def test_gains_equal_the_drop_in_bayes_risk(loss, n_classes, sharpness):
    pool = random_probs(1, 9, 12, n_classes, sharpness)
    target = random_probs(2, 6, 12, n_classes, sharpness)
    w = np.random.default_rng(0).dirichlet(np.ones(12))
    expected = [np.mean([expected_gain(p, q, w, loss) for q in target]) for p in pool]
    np.testing.assert_allclose(
        parbals.epig(pool, target, w, loss=loss), expected, rtol=1e-9, atol=1e-12
    )


def best_worth(distribution, class_weights, mark):
    """The highest expected value of a decision: a class, or for or against the positive class."""
    if mark is None:
        return max(w * p for w, p in zip(class_weights, distribution, strict=True))
    positive_class = mark.argmax()
    against = np.delete(class_weights, positive_class)[0]
    return max(
        class_weights[positive_class] * distribution[positive_class],
        against * (1.0 - distribution[positive_class]),
    )


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("is_one", [False, True])
def test_gains_with_class_weights_equal_the_rise_in_expected_worth(n_classes, is_one):
    pool = random_probs(1, 9, 12, n_classes, 3.0)
    target = random_probs(2, 9, 12, n_classes, 3.0)
    w = np.random.default_rng(0).dirichlet(np.ones(12))
    mark = (np.arange(n_classes) == 1).astype(float) if is_one else None
    values = np.where(mark > 0, 1.7, 0.3) if is_one else np.array([0.4, 2.0, 1.1])[:n_classes]

    def gain(p, q):
        evidence = w @ p
        after = sum(
            evidence[a] * best_worth((w * p[:, a]) @ q / evidence[a], values, mark)
            for a in range(n_classes)
        )
        return after - best_worth(w @ q, values, mark)

    expected = [np.mean([gain(p, q) for q in target]) for p in pool]
    class_weights = ClassWeights(values, mark if n_classes > 2 else None)
    ours = epig_scores(pool, target, w, "error", class_weights)
    np.testing.assert_allclose(ours, expected, rtol=1e-9, atol=1e-12)
    even = epig_scores(pool, target, w, "error", ClassWeights(np.ones(n_classes)))
    np.testing.assert_allclose(even, epig_scores(pool, target, w, "error"), rtol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_error_reduction_is_never_negative_and_at_most_the_error(n_classes):
    probs = linear_probs(3, 400, 60, n_classes, scale=1.0).astype(np.float32)
    pool = probs[:300]
    target = probs[300:]
    gains = parbals.epig(pool, target, loss="error")
    assert gains.min() >= 0.0
    assert gains.max() <= 1 - target.mean(axis=1).max(axis=1).mean() + 1e-6


def test_a_label_that_changes_no_decision_is_worth_something_only_under_log_loss():
    target = np.array([[[0.1, 0.9], [0.2, 0.8]] * 6])
    pool = np.array([[[0.3, 0.7], [0.6, 0.4]] * 6])
    assert parbals.epig(pool, target, loss="error")[0] == 0.0
    assert parbals.epig(pool, target)[0] > 0.0


def test_an_unknown_loss_is_refused():
    with pytest.raises(InputError, match="loss is 'squared'; choose one of: log, error"):
        parbals.select_batch(
            np.full((1, 1, 2), 0.5), np.full((1, 1, 2), 0.5), strategy="epig", loss="squared"
        )


@pytest.mark.parametrize("strategy", ["epig", "parbals-epig", "parbals-map-epig"])
def test_one_point_chosen_for_error_has_the_largest_error_reduction(strategy):
    probs = linear_probs(4, 36, 12, 3, scale=1.0)
    pool = probs[:16]
    target = probs[16:]
    batch = parbals.select_batch(pool, target, 1, strategy, loss="error", random_state=0)
    gains = parbals.epig(pool, target, loss="error")
    assert batch.indices[0] == gains.argmax()
    assert batch.scores[0] == pytest.approx(gains.max(), rel=1e-9)


@pytest.mark.parametrize("strategy", ["epig", "parbals-epig"])
def test_where_no_label_can_change_a_decision_log_loss_decides(strategy):
    generator = np.random.default_rng(5)
    p = 0.5 + 0.1 * generator.random((16, 12))
    q = 0.95 + 0.01 * generator.random((10, 12))
    pool = np.stack([1 - p, p], 2)
    target = np.stack([1 - q, q], 2)
    batch = parbals.select_batch(pool, target, 1, strategy, loss="error", random_state=0)
    assert parbals.epig(pool, target, loss="error").max() == 0.0
    assert batch.indices[0] == parbals.epig(pool, target).argmax()
    assert batch.scores[0] == 0.0


def test_parbals_for_error_converges_to_the_exact_expectation():
    """After one point, the next maximises the mean gain over the possible labels of the first."""
    pool = random_probs(5, 8, 12, 2, 2.0)
    target = random_probs(6, 5, 12, 2, 2.0)
    batch = parbals.select_batch(pool, target, 2, loss="error", n_universes=4000, random_state=0)
    first = batch.indices[0]
    w = np.full(12, 1 / 12)
    exact = np.zeros(8)
    for label in range(2):
        likelihood = w * pool[first, :, label]
        exact += likelihood.sum() * parbals.epig(pool, target, likelihood, loss="error")
    exact[first] = -np.inf
    assert batch.scores[1] == pytest.approx(exact[batch.indices[1]], abs=4 * 0.5 / np.sqrt(4000))
    assert exact[batch.indices[1]] > exact.max() - 0.02
