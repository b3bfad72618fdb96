"""The metric determines which items are chosen, what is decided and what is reported."""

import numpy as np
import parbals
import pytest
from parbals.errors import InputError
from parbals.learner.evaluation.metric import (
    BALANCED,
    LOSS_OF_METRIC,
    class_weights_for,
    decide,
    metric_values,
)
from parbals.learner.tasks.base import Classification
from parbals.scores.losses import LOSSES
from parbals.wording import percent
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import balanced_accuracy_score, f1_score

GENERATOR = np.random.default_rng(0)
X = GENERATOR.standard_normal((150, 3))
NOISY = X @ [2.0, -1.0, 0.5] + GENERATOR.logistic(size=150)


def make_labelled(n_classes=2, **settings):
    active = parbals.ActiveLearner(X, range(n_classes), random_state=0, n_samples=128, **settings)
    active.tell(range(15), np.digitize(NOISY, [0.0, 1.5][: n_classes - 1])[:15].tolist())
    return active


def chosen_items(**settings):
    return make_labelled(**settings).choose(6).indices.tolist()


def test_every_loss_has_one_metric():
    assert sorted(LOSS_OF_METRIC.values()) == sorted(LOSSES)
    for metric, loss in LOSS_OF_METRIC.items():
        assert Classification([0, 1]).loss(metric) == loss
    assert Classification([0, 1]).loss(BALANCED) == "error"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"metric": "f1"}, "metric is 'f1'; choose one of: accuracy, balanced-accuracy, f1:CLASS"),
        ({"metric": "f1:7"}, "metric is 'f1:7', but '7' is not one of the classes: 0, 1."),
    ],
)
def test_unknown_metrics_are_refused(settings, message):
    with pytest.raises(InputError, match=message) as caught:
        make_labelled(**settings)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("n_classes", [2, pytest.param(3, marks=pytest.mark.full)])
def test_by_default_items_are_chosen_for_accuracy(n_classes):
    active = make_labelled(n_classes)
    assert (active.metric, active.setup.task.loss(active.metric)) == ("accuracy", "error")
    by_default = chosen_items(n_classes=n_classes)
    by_log_loss = chosen_items(n_classes=n_classes, metric="log-loss")
    assert by_log_loss != by_default


@pytest.mark.filterwarnings("ignore::parbals.errors.SampleCollapseWarning")
def test_a_custom_model_optimises_the_metric_too():
    forest = RandomForestClassifier(30, random_state=0)
    by_default = make_labelled(model=forest).choose(1)
    gains = parbals.epig(*[make_labelled(model=forest).fitted().sample_proba(X)] * 2, loss="error")
    assert by_default.scores[0] == pytest.approx(gains[15:].max(), rel=1e-4)


@pytest.mark.filterwarnings("ignore::parbals.errors.SampleCollapseWarning")
def test_a_report_speaks_of_log_loss_whatever_items_are_chosen_for():
    forest = RandomForestClassifier(30, random_state=0)
    gains = [
        make_labelled(model=forest, metric=metric).report(3).next_gain for metric in LOSS_OF_METRIC
    ]
    assert gains[0] == gains[1] > 0


# -- metrics with class weights


def expected_metric(probs, decisions, metric):
    """The metric with every count of labels replaced by its expectation Σ p."""
    n_classes = probs.shape[1]
    true_positives = np.array([probs[decisions == c, c].sum() for c in range(n_classes)])
    if metric == BALANCED:
        return np.mean(true_positives / probs.sum(axis=0))
    return 2.0 * true_positives[1] / (probs[:, 1].sum() + (decisions == 1).sum())


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("metric", [BALANCED, "f1:1"])
def test_decisions_are_the_best_of_all(metric, n_classes):
    """Seven items more or less do not move a share by much: every labelling of seven, by force."""
    probs = np.random.default_rng(3).dirichlet([3.0, 0.6, 1.0][:n_classes], 7)
    ours = decide(probs, class_weights_for(metric, np.repeat(probs, 3_000, 0), range(n_classes)))
    all_decisions = [np.array(d) for d in np.ndindex(*[n_classes] * 7)]
    best = max(expected_metric(probs, d, metric) for d in all_decisions)
    assert expected_metric(probs, ours, metric) == pytest.approx(best, rel=1e-9)
    assert expected_metric(probs, probs.argmax(axis=1), metric) < best


@pytest.mark.parametrize("metric", [BALANCED, "f1:1"])
def test_class_weights_are_what_a_decision_adds_to_the_metric(metric):
    """One item of 20,000 decided otherwise: the metric changes by its gain over the number."""
    probs = np.random.default_rng(0).dirichlet([5.0, 0.4], 20_000)
    class_weights = class_weights_for(metric, probs, range(2))
    before = decide(probs, class_weights)
    for item in range(5):
        after = before.copy()
        after[item] = 1 - before[item]
        change = expected_metric(probs, after, metric) - expected_metric(probs, before, metric)
        worth = class_weights.values * probs[item]
        expected = (worth[after[item]] - worth[before[item]]) / len(probs)
        assert change == pytest.approx(expected, rel=0.01, abs=3e-8)


def test_values_are_those_of_scikit_learn():
    generator = np.random.default_rng(0)
    decisions = generator.integers(0, 3, 60)
    labels = generator.integers(0, 3, (4, 60))
    for metric, sklearn_metric in (
        (BALANCED, balanced_accuracy_score),
        ("f1:2", lambda y, d: f1_score(y == 2, d == 2)),
    ):
        ours = metric_values(metric, decisions, labels, range(3))
        np.testing.assert_allclose(
            ours, [sklearn_metric(row, decisions) for row in labels], rtol=1e-12
        )


def test_a_learner_decides_chooses_and_reports_for_the_named_metric(tmp_path):
    """Few ones: they count more, so they are decided sooner."""
    few = (NOISY > 3.0).astype(int)
    plain = parbals.ActiveLearner(X, ["no", "yes"], random_state=0)
    active = parbals.ActiveLearner(X, ["no", "yes"], random_state=0, metric="f1:yes")
    for learner in (plain, active):
        learner.tell(range(30), np.array(["no", "yes"])[few[:30]])
    assert (active.metric, active.setup.task.loss(active.metric)) == ("f1:yes", "error")
    n_yes = [(learner.predict(X) == "yes").sum() for learner in (plain, active)]
    assert n_yes[0] < n_yes[1]
    assert plain.choose(8).indices.tolist() != active.choose(8).indices.tolist()
    report = active.report()
    value = report.expected_metric
    threshold = report.decide_from["yes"]
    assert value.low < value.mean < value.high
    assert 0.05 < threshold < 0.5
    assert ((active.predict_proba(X)[:, 1] > threshold) == (active.predict(X) == "yes")).all()
    assert f"expected F1 of yes: {percent(value.mean)}" in str(report)
    assert plain.report().expected_metric is None
    active.save(tmp_path / "one.parbals")
    again = parbals.ActiveLearner.load(tmp_path / "one.parbals")
    assert again.metric == "f1:yes"
    assert again.choose(8).indices.tolist() == active.choose(8).indices.tolist()


@pytest.mark.full
@pytest.mark.parametrize("settings", [{"n_classes": 3}, {"n_classes": 3, "inference": "smc"}])
@pytest.mark.parametrize("metric", [BALANCED, "f1:2"])
def test_more_classes_and_particles_follow_the_metric(metric, settings):
    active = make_labelled(metric=metric, **settings)
    assert len(set(active.choose(6).indices.tolist())) == 6
    assert 0.0 < active.report().expected_metric.mean <= 1.0
