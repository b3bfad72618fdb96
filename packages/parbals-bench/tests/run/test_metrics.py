"""The five numbers against scikit-learn, cases by hand, and their names."""

import numpy as np
import pytest
from parbals.errors import InputError
from parbals_bench.run.metrics import METRICS, calibration_error, measure, metric_named
from sklearn import metrics as sklearn_metrics


@pytest.mark.parametrize("n_classes", [2, 4])
def test_they_are_scikit_learns(n_classes):
    generator = np.random.default_rng(1)
    probs = generator.dirichlet(np.ones(n_classes), size=200)
    truth = generator.integers(n_classes, size=200)
    result = measure(probs, truth)
    guess = probs.argmax(axis=1)
    average = "binary" if n_classes == 2 else "macro"
    assert result["accuracy"] == pytest.approx(sklearn_metrics.accuracy_score(truth, guess))
    assert result["log_loss"] == pytest.approx(sklearn_metrics.log_loss(truth, probs))
    assert result["f1"] == pytest.approx(sklearn_metrics.f1_score(truth, guess, average=average))
    assert result["balanced_accuracy"] == pytest.approx(
        sklearn_metrics.balanced_accuracy_score(truth, guess)
    )


def test_calibration_by_hand():
    # Two at 0.9 of which one is right, two at 0.6 that both are: (|1 - 1.8| + |2 - 1.2|) / 4
    probs = np.array([[0.9, 0.1], [0.9, 0.1], [0.6, 0.4], [0.6, 0.4]])
    assert calibration_error(probs, np.array([0, 1, 0, 0])) == pytest.approx(0.4)


def test_certain_and_wrong_is_finite_and_a_class_that_never_comes_is_no_division_by_zero():
    result = measure(np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([1, 1]))
    assert np.isfinite(result["log_loss"])
    assert (result["accuracy"], result["f1"], result["balanced_accuracy"]) == (0.0, 0.0, 0.0)


def test_f1_leaves_out_classes_that_neither_occur_nor_are_predicted():
    probs = np.eye(4)[[0, 1, 1, 0]]
    truth = np.array([0, 1, 0, 0])
    # F1 of class 0 is 4/5 and of class 1 2/3; classes 2 and 3 do not count as 0.
    assert measure(probs, truth)["f1"] == pytest.approx((4 / 5 + 2 / 3) / 2)
    assert measure(np.eye(2)[[0, 0]], np.array([0, 0]))["f1"] == 0.0
    words = "with two classes of the positive one, with more the mean over the classes"
    assert words in METRICS["f1"].explanation


def test_metrics_are_found_by_name_and_others_are_refused():
    assert metric_named("Balanced-Accuracy").key == "balanced_accuracy"
    with pytest.raises(InputError, match="no metric 'recall'; choose one of accuracy, log_loss"):
        metric_named("recall")
