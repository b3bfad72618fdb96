"""Every task with every strategy: labels in and out, saving, reports, audits."""

import json
from typing import NamedTuple

import numpy as np
import parbals
import pytest
from parbals.errors import InputError, LabelError, ShapeError
from parbals.learner.evaluation.report import Report
from parbals.learner.tasks.table import TASKS
from parbals.strategies.table import STRATEGIES

GENERATOR = np.random.default_rng(0)
X = GENERATOR.standard_normal((120, 4))
F = X @ [2.0, -1.0, 0.5, 0.0]
NAMES = ["red", "round", "small"]
BITS = np.column_stack([F > 0, X[:, 1] > 0.5, X[:, 2] + X[:, 3] > 1.0])
RANKS = np.digitize(F + 0.3 * GENERATOR.standard_normal(120), [-2.0, 0.0, 2.0]) + 1
NUMBERS = 10.0 + 3.0 * F + 0.5 * GENERATOR.standard_normal(120)
SETS = [[name for name, bit in zip(NAMES, row, strict=True) if bit] for row in BITS]


class TaskData(NamedTuple):
    classes: list | None
    labels: list


DATA = {
    "classes": TaskData(["low", "high"], np.where(F > 0, "high", "low").tolist()),
    "many-labels": TaskData(NAMES, SETS),
    "ordinal": TaskData([1, 2, 3, 4], RANKS.tolist()),
    "regression": TaskData(None, NUMBERS.tolist()),
}
NEED_SAMPLES = {"dropquery", "badge", "galaxy", "glister", "batchbald"}
UNSUPPORTED = {
    "many-labels": NEED_SAMPLES,
    "regression": NEED_SAMPLES | {"probcover", "margin", "entropy"},
}


def learner(task, **arguments):
    return parbals.ActiveLearner(X, DATA[task].classes, task=task, random_state=0, **arguments)


def trained_learner(task, n=24, **arguments):
    active = learner(task, **arguments)
    active.tell(np.arange(n), DATA[task].labels[:n])
    return active


def test_all_tasks_are_here():
    assert set(DATA) == set(TASKS)


@pytest.mark.parametrize("task", [*UNSUPPORTED, "ordinal"])
def test_every_strategy_chooses_or_says_in_one_sentence_that_it_cannot(task):
    active = trained_learner(task, n_samples=64)
    active.mark_pending([30, 31])
    for name in STRATEGIES:
        if name in UNSUPPORTED.get(task, ()):
            with pytest.raises(InputError, match=f'^{name} needs classes; with task="{task}" take'):
                active.choose(3, strategy=name)
            with pytest.raises(InputError, match="needs classes"):
                learner(task, strategy=name)
            continue
        batch = active.choose(5, strategy=name)
        assert len(set(batch.indices.tolist())) == 5
        assert not set(batch.indices.tolist()) & {*range(24), 30, 31}
        again = active.choose(5, strategy=name)
        assert batch.indices.tolist() == again.indices.tolist()
        assert np.isfinite(batch.scores).all()


@pytest.mark.parametrize("task", list(DATA))
class TestEachTask:
    def test_labels_are_returned_as_told(self, task):
        active = trained_learner(task)
        labels = DATA[task].labels
        decoded = [tuple(label) if isinstance(label, list) else label for label in labels]
        assert active.labels == dict(enumerate(decoded[:24]))
        assert active.task == task
        differing = next(i for i in range(24, 120) if labels[i] != labels[0])
        assert active.tell(0, [labels[0]]) == 0
        with pytest.raises(LabelError, match="already has the label"):
            active.tell(0, [labels[differing]])
        assert active.correct(0, [labels[differing]]) == 1
        assert active.history(0) == [("tell", decoded[0]), ("correct", decoded[differing])]
        active.forget(0)
        assert 0 not in active.labels

    def test_the_order_of_labels_does_not_matter(self, task):
        in_order = trained_learner(task)
        shuffled = learner(task)
        for i in np.random.default_rng(1).permutation(24).tolist():
            shuffled.tell(i, [DATA[task].labels[i]])
        assert in_order.choose(4).indices.tolist() == shuffled.choose(4).indices.tolist()
        assert np.array_equal(in_order.predict(X), shuffled.predict(X))

    def test_saving_keeps_everything(self, task, tmp_path):
        active = trained_learner(task, audit=10)
        active.ask(3)
        active.save(tmp_path / "saved")
        loaded = parbals.ActiveLearner.load(tmp_path / "saved")
        assert loaded.task == task
        assert loaded.metric == active.metric
        assert loaded.labels == active.labels
        assert loaded.events == active.events
        assert loaded.ask(4).tolist() == active.ask(4).tolist()

    def test_the_report_is_made_stored_and_written(self, task):
        for active in (learner(task), trained_learner(task, 40, audit=20)):
            report = active.report(5)
            assert report.task == task
            assert report.next_gain > 0
            plain = json.loads(json.dumps(report.to_dict(), allow_nan=False))
            assert str(Report.from_dict(plain)) == str(report)
            assert report.advice in str(report)

    def test_the_model_learns(self, task):
        active = trained_learner(task, 60)
        predicted = active.predict(X)
        if task == "regression":
            assert np.sqrt(np.mean((predicted - NUMBERS) ** 2)) < 1.0
        elif task == "many-labels":
            assert predicted.shape == BITS.shape
            assert (predicted == BITS).mean() > 0.85
        else:
            min_accuracy = 0.9 if task == "classes" else 0.7
            assert np.mean(predicted == np.array(DATA[task].labels)) > min_accuracy


class TestRegression:
    def test_a_report_names_gross_errors(self):
        """One label of ten thousand made the expected RMSE 446 where 1.3 was real."""
        active = learner("regression", strategy="random")
        labels = NUMBERS[:60].tolist()
        clean = learner("regression", strategy="random")
        clean.tell(range(60), labels)
        labels[7] = 1e4
        active.tell(range(60), labels)
        report = active.report(5)
        assert any("10000 (item 7)" in sentence for sentence in report.warnings)
        assert clean.report(5).warnings == ()
        assert report.expected_metric.mean < 1.3 * clean.report(5).expected_metric.mean

    def test_means_and_deviations(self):
        active = trained_learner("regression", 60)
        mean, deviation = active.predict(X, return_std=True)
        assert np.array_equal(mean, active.predict(X))
        assert 0.7 < np.mean(np.abs(NUMBERS - mean) < 1.645 * deviation) <= 1.0
        with pytest.raises(InputError, match="return_std=True"):
            active.predict_proba(X)
        with pytest.raises(InputError, match='needs task="regression"'):
            trained_learner("classes").predict(X, return_std=True)

    def test_the_report_says_rmse(self):
        active = trained_learner("regression", 60)
        report = active.report()
        error = np.sqrt(np.mean((active.predict(X) - NUMBERS) ** 2))
        assert report.metric == "rmse"
        assert not report.expected_error.known
        assert report.expected_metric.low < error < report.expected_metric.high
        assert f"expected RMSE {report.expected_metric}" in str(report)
        assert learner("regression").report().expected_metric is None

    def test_an_audit_measures_the_rmse(self):
        active = learner("regression", audit=40)
        while len(active.labels) < 100:
            items = active.ask(10)
            active.tell(items, NUMBERS[items])
        measured = active.report().measured
        assert measured.loss == "rmse"
        assert measured.error.low < 0.6 < measured.error.high
        report = str(active.report())
        assert "if its errors are normal, otherwise about" in report
        assert f"half of its errors on such items are at most {measured.median_error:.3g}" in report

    @pytest.mark.parametrize("label", [np.nan, np.inf, "3", None, True, 1e200, 10**400, [1.0]])
    def test_labels_that_are_no_finite_numbers_are_refused(self, label):
        active = learner("regression")
        with pytest.raises((LabelError, ShapeError)):
            active.tell([0, 1], [1.0, label])
        assert active.labels == {}

    def test_equal_labels_leave_a_small_positive_error(self):
        active = learner("regression")
        active.tell(range(10), [5.0] * 10)
        error = active.report().expected_metric
        assert 0.0 < error.low < error.mean < 2.0
        np.testing.assert_allclose(active.predict(X[:5]), 5.0)

    def test_settings_for_classes_are_refused(self):
        with pytest.raises(InputError, match="has no classes"):
            parbals.ActiveLearner(X, ["a", "b"], task="regression")
        settings = ({"find": "a"}, {"inference": "smc"}, {"prior_scale": 1.0}, {"model": 1})
        for setting in settings:
            with pytest.raises(InputError, match=r"leave (it|prior_scale) out"):
                learner("regression", **setting)
        with pytest.raises(InputError, match="metric is 'accuracy'; choose one of: rmse"):
            learner("regression", metric="accuracy")
        with pytest.raises(InputError, match="keep a sample"):
            trained_learner("regression").certify(5)
        with pytest.raises(InputError, match='need task="classes"'):
            trained_learner("regression").ask(2, annotators=["ada"])


class TestMultiLabel:
    def test_an_array_of_zeros_and_ones_is_the_same_as_names(self):
        by_name = trained_learner("many-labels")
        by_bits = learner("many-labels")
        assert by_bits.tell(np.arange(24), BITS[:24].astype(int)) == 24
        assert by_name.labels == by_bits.labels
        counts = BITS[:24].sum(axis=0)
        assert by_name.report().class_balance == dict(zip(NAMES, counts, strict=True))

    @pytest.mark.parametrize(
        "labels",
        [
            ["red"],
            [["blue"]],
            [None],
            np.ones((1, 2)),
            np.full((1, 3), 2),
            [[["red"]]],
            [{"red": 1}],
        ],
    )
    def test_labels_that_are_no_lists_are_refused(self, labels):
        active = learner("many-labels")
        with pytest.raises((LabelError, ShapeError)):
            active.tell([0], labels)
        assert active.labels == {}

    def test_too_many_labels_are_refused(self):
        with pytest.raises(LabelError, match="at most 62"):
            parbals.ActiveLearner(X, list(range(63)), task="many-labels")
        active = parbals.ActiveLearner(X, list(range(62)), task="many-labels")
        active.tell([0], [[0, 61]])
        assert active.labels == {0: (0, 61)}

    def test_one_label_is_two_classes(self):
        binary = parbals.ActiveLearner(X, [False, True], random_state=3)
        one_label = parbals.ActiveLearner(X, ["red"], task="many-labels", random_state=3)
        for _ in range(4):
            items = binary.ask(6)
            assert one_label.ask(6).tolist() == items.tolist()
            binary.tell(items, BITS[items, 0])
            one_label.tell(items, BITS[items, :1])
        expected = binary.predict_proba(X)[:, 1]
        assert one_label.predict_proba(X)[:, 0] == pytest.approx(expected, abs=1e-6)

    @pytest.mark.parametrize("metric", ["micro-f1", "macro-f1", "subset"])
    def test_other_metrics_are_expected_and_decided_for(self, metric):
        active = trained_learner("many-labels", 60, metric=metric)
        expected = active.report().expected_metric
        value = _metric(metric, active.predict(X), BITS)
        assert expected.low - 0.1 < value < expected.high + 0.1
        assert len(active.choose(4).indices) == 4

    def test_hamming_loss_is_expected_measured_and_given_by_label(self):
        active = trained_learner("many-labels", 60, audit=30)
        report = active.report()
        assert set(report.label_errors) == set(NAMES)
        mean = np.mean([error.mean for error in report.label_errors.values()])
        assert report.expected_error.mean == pytest.approx(mean, abs=1e-3)
        assert report.expected_error.low < (active.predict(X) != BITS).mean()
        assert report.measured.loss == "hamming"
        active.tell(active.audit, BITS[active.audit])
        measured = active.report().measured
        assert measured.n == 29  # the audit counts as full
        assert measured.error.low < (active.predict(X) != BITS).mean() < measured.error.high
        assert "Hamming loss is below" in str(active.report())

    def test_scores_are_the_sum_over_labels(self):
        batch = trained_learner("many-labels").choose(120 - 24, strategy="bald")
        sums = np.zeros(120)
        posterior = trained_learner("many-labels").fitted().gaussian
        from parbals.posterior.predictive import add_bias
        from parbals.scores.gaussian import closed_bald

        for label_posterior in posterior.posteriors:
            sums += closed_bald(*label_posterior.marginals(add_bias(X)))
        assert batch.scores == pytest.approx(sums[batch.indices], rel=1e-4)


def _metric(metric, predicted, labels):
    if metric == "subset":
        return (predicted == labels).all(axis=1).mean()
    axis = None if metric == "micro-f1" else 0
    hits = (predicted & labels).sum(axis=axis)
    return np.mean(2 * hits / (predicted.sum(axis=axis) + labels.sum(axis=axis)))


class TestOrdinal:
    def test_rank_error_decides_the_median(self):
        active = trained_learner("ordinal", 60, metric="rank-error")
        predicted = active.predict(X)
        cumulative = active.predict_proba(X).cumsum(axis=1)
        assert (cumulative[np.arange(120), predicted - 1] >= 0.5).all()
        expected = active.report().expected_metric
        assert expected.low <= np.abs(predicted - RANKS).mean() <= expected.high
        assert "expected rank error" in str(active.report())

    def test_order_is_used(self):
        """The ordinal model predicts ranks better than one of unordered classes."""
        ordinal = trained_learner("ordinal", 40)
        unordered = parbals.ActiveLearner(X, [1, 2, 3, 4])
        unordered.tell(np.arange(40), RANKS[:40])
        rank_error = np.abs(ordinal.predict(X) - RANKS).mean()
        assert rank_error < np.abs(unordered.predict(X) - RANKS).mean() + 0.05


def test_unknown_tasks_and_metrics_are_refused():
    with pytest.raises(InputError, match="task is 'rank'; choose one of: classes, many-labels"):
        parbals.ActiveLearner(X, ["a", "b"], task="rank")
    with pytest.raises(InputError, match="choose one of: accuracy, rank-error, log-loss"):
        learner("ordinal", metric="f1:1")
    with pytest.raises(LabelError, match="at least one class label"):
        parbals.ActiveLearner(X, [], task="many-labels")
