"""The report estimates the error that labels of the whole target set would show."""

import json

import numpy as np
import parbals
import pytest
from parbals.arrays import effective_sample_size
from parbals.learner.evaluation.report import Report
from parbals.learner.reporting import _noise_floor, calibration_temperature


def simulated(seed, n_labels, n_pool=200, d=3):
    """A learner on data drawn from its own prior, and the labels of its target set."""
    generator = np.random.default_rng(seed)
    weights = np.sqrt(2.0) * generator.standard_normal(d + 1)

    def draw(n):
        X = generator.standard_normal((n, d))
        probs = 1 / (1 + np.exp(-X @ weights[:-1] - weights[-1]))
        return X, (generator.random(n) < probs).astype(int)

    X, y = draw(n_pool)
    X_target, y_target = draw(300)
    active = parbals.ActiveLearner(
        X, [0, 1], X_target, strategy="random", random_state=seed, n_samples=128
    )
    active.tell(np.arange(n_labels), y[:n_labels])
    return active, X_target, y_target


@pytest.mark.parametrize("n_runs", [20, pytest.param(80, marks=pytest.mark.full)])
def test_intervals_cover_the_error_on_the_target_set(n_runs):
    """If the model is right, nine of ten intervals contain the error on the target set."""
    covered = {"error": 0, "log loss": 0}
    for seed in range(n_runs):
        active, X_target, y_target = simulated(seed, 25)
        report = active.report(1)
        probs = active.predict_proba(X_target)
        estimates = {
            "error": (report.expected_error, np.mean(probs.argmax(axis=1) != y_target)),
            "log loss": (report.expected_log_loss, -np.log(probs[np.arange(300), y_target]).mean()),
        }
        for name, (estimate, value) in estimates.items():
            covered[name] += estimate.low <= value <= estimate.high
    error = np.sqrt(0.9 * 0.1 / n_runs)
    for name, count in covered.items():
        assert abs(count / n_runs - 0.9) < 3.5 * error, (name, count / n_runs)


def independent_samples(generator, n_points, n_classes, n_samples=300):
    logits = 1.5 * generator.standard_normal((n_points, n_samples, n_classes))
    logits += 2.0 * generator.standard_normal((n_points, 1, n_classes))  # some classes are rare
    odds = np.exp(logits)
    return odds / odds.sum(axis=2, keepdims=True)


@pytest.mark.parametrize("n_classes", [2, 4, 10])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_noise_floor_is_the_score_of_independent_labels(n_classes, weighted):
    """Samples of items and targets are independent: all information is noise."""
    generator = np.random.default_rng(n_classes)
    weights = generator.exponential(size=300) ** weighted
    weights /= weights.sum()
    scores = []
    floors = []
    for _ in range(30):
        items = independent_samples(generator, 10, n_classes)
        targets = independent_samples(generator, 40, n_classes)
        scores.append(parbals.epig(items, targets, weights).mean())
        size = np.full(10, effective_sample_size(weights))
        floors.append(_noise_floor(items, targets, weights, size).mean())
    error = np.std(np.subtract(floors, scores)) / np.sqrt(30)
    expected = np.mean(scores)
    assert np.mean(floors) == pytest.approx(expected, abs=3 * error + 0.1 * expected)


def test_scores_in_closed_form_have_no_noise_floor():
    items = independent_samples(np.random.default_rng(0), 3, 2)
    floor = _noise_floor(items, items, np.full(300, 1 / 300), np.full(3, np.inf))
    assert (floor == 0).all()


def test_more_labels_lower_the_expected_error_and_the_gain_until_it_says_stop():
    few = simulated(1, 8)[0].report(5)
    many = simulated(1, 190)[0].report(5)
    assert many.expected_log_loss.mean < few.expected_log_loss.mean
    assert many.next_gain < few.next_gain
    assert not few.stop
    assert many.stop
    assert many.advice.startswith("More labels hardly change the model")
    assert few.advice.startswith("Go on")


@pytest.mark.parametrize("n_classes", [2, pytest.param(4, marks=pytest.mark.full)])
def test_the_gain_is_that_of_the_next_batch_and_less_with_pending_items(n_classes):
    """Two universes estimate it within a tenth of twenty."""
    generator = np.random.default_rng(0)
    X = generator.standard_normal((130, 5)) * [2.0, 1.0, 1.0, 0.5, 0.2]
    logits = X @ generator.standard_normal((5, n_classes))
    labels = np.argmax(logits + generator.gumbel(size=logits.shape), axis=1)

    def learner(**arguments):
        active = parbals.ActiveLearner(X, range(n_classes), random_state=0, **arguments)
        active.tell(range(30), labels[:30])
        return active

    total = learner(n_universes=20, metric="log-loss").choose(10).scores.sum()
    gains = []
    for n_pending in (0, 5, 20):
        active = learner()
        active.mark_pending(range(30, 30 + n_pending))
        gains.append(active.report(10).next_gain)
    assert gains[0] == pytest.approx(total, rel=0.1)
    assert gains[0] > gains[1] > gains[2] > 0.0


def test_it_counts_reads_well_and_becomes_json():
    active = simulated(2, 20)[0]
    active.ask(3)
    report = active.report(2)
    assert (report.n_labelled, report.n_pending, report.n_items, report.n_targets) == (
        20,
        3,
        200,
        300,
    )
    assert sum(report.class_balance.values()) == 20
    assert "20 of 200 items labelled" in str(report)
    assert "90 % interval" in str(report)
    assert json.loads(json.dumps(report.to_dict()))["n_pending"] == 3


def test_before_any_label_it_reports_the_prior():
    active = parbals.ActiveLearner(
        np.random.default_rng(0).standard_normal((60, 3)), ["a", "b"], random_state=0, n_samples=128
    )
    report = active.report(2)
    assert report.expected_error.low < 0.5 < report.expected_error.high + 0.1
    assert not report.stop


def test_a_model_of_ones_own_before_two_classes_gets_its_advice():
    from sklearn.ensemble import RandomForestClassifier

    X = np.random.default_rng(0).standard_normal((50, 2))
    active = parbals.ActiveLearner(X, ["a", "b"], model=RandomForestClassifier(5), random_state=0)
    active.tell([0, 1], ["a", "a"])
    report = active.report(3)
    assert report.advice == "Go on: the model has not seen two classes yet."
    assert (report.stop, report.next_gain, report.batch_size) == (False, None, 3)
    assert "expected" not in str(report)
    assert json.loads(json.dumps(report.to_dict(), allow_nan=False))["expected_error"] is None


class Members:
    """An ensemble of ``n`` similar models."""

    def __init__(self, n, spread):
        self.n = n
        self.spread = spread

    def fit(self, X, y):
        draw = np.random.default_rng(0)
        self.weights = draw.normal(size=(X.shape[1], 1, 4))
        self.weights = self.weights + self.spread * draw.normal(size=(X.shape[1], self.n, 4))
        return self

    def sample_proba(self, X):
        odds = np.exp(0.5 * np.einsum("nd,dkc->nkc", X, self.weights))
        return odds / odds.sum(axis=2, keepdims=True)


@pytest.mark.parametrize(
    ("n", "spread", "can_tell"),
    [(8, 0.1, False), (8, 0.3, False), (200, 0.1, True)],
)
def test_a_few_members_cannot_tell_that_more_labels_are_not_worth_it(n, spread, can_tell):
    """Eight networks that agree, with an expected error of 40 %, must not advise to stop."""
    X = np.random.default_rng(1).normal(size=(300, 8))
    learner = parbals.ActiveLearner(
        X, range(4), model=Members(n, spread), random_state=0, n_targets=100, n_candidates=100
    )
    learner.tell(range(20), np.arange(20) % 4)
    report = learner.report()
    assert report.expected_error.mean > 0.4
    assert (report.next_gain is not None) == report.stop == can_tell
    assert ("too few samples" in report.advice) == (not can_tell)
    assert Report.from_dict(report.to_dict()).next_gain == report.next_gain


class TestFeaturesOfAFineTunedEncoder:
    """Features that were fine-tuned on random labels: half of the predictions are wrong."""

    N = 300
    LABELS = 60

    def learners(self, **arguments):
        generator = np.random.default_rng(0)
        y = generator.integers(0, 2, self.N)
        X = generator.standard_normal((self.N, 3))
        X[: self.LABELS, 0] = 6.0 * y[: self.LABELS] - 3.0  # memorised
        held_out_probs = generator.dirichlet([1.0, 1.0], self.LABELS)
        options = {"strategy": "random", "random_state": 0} | arguments
        held_out = (np.arange(self.LABELS), held_out_probs)
        naive = parbals.ActiveLearner(X, [0, 1], **options)
        calibrated = parbals.ActiveLearner(X, [0, 1], held_out=held_out, **options)
        for learner in (naive, calibrated):
            learner.tell(np.arange(self.LABELS), y[: self.LABELS])
        return naive, calibrated, y, held_out_probs

    def test_the_report_uses_held_out_predictions(self):
        naive, calibrated, _, _ = self.learners()
        naive_error = naive.report().expected_error.mean
        calibrated_error = calibrated.report().expected_error.mean
        assert calibrated_error > 0.25
        assert calibrated_error > naive_error + 0.1

    def test_labels_tell_less_where_a_strategy_or_fine_tuning_used_them(self):
        deviations = {}
        values = {}
        for strategy in ("random", "parbals-epig", "margin"):
            naive, calibrated, _, _ = self.learners(strategy=strategy)
            for learner in (naive, calibrated):
                temperature = calibration_temperature(learner.state, learner.fitted())
                deviations[strategy, learner is calibrated] = temperature.log_sd
                values[strategy, learner is calibrated] = temperature.value
        assert deviations["random", False] < deviations["parbals-epig", False]
        assert deviations["parbals-epig", False] < deviations["margin", False]
        assert deviations["random", True] < deviations["parbals-epig", True]
        # Encoders of other folds are less sure than the one that all labels have trained.
        assert values["random", True] == pytest.approx(np.exp(0.2) * values["margin", True])

    def test_memorised_items_count_with_held_out_predictions(self):
        naive, calibrated, _, held_out_probs = self.learners()
        probs = naive.predict_proba(naive.pool.all_rows)
        probs[: self.LABELS] = held_out_probs
        temperature = calibration_temperature(calibrated.state, calibrated.fitted()).value
        powers = probs ** (1.0 / temperature)
        expected = 1.0 - (powers / powers.sum(axis=1, keepdims=True)).max(axis=1).mean()
        # The report averages posterior samples, whose Monte-Carlo error is about 0.005 here.
        assert calibrated.report().expected_error.mean == pytest.approx(expected, abs=0.02)

    def test_predictions_are_calibrated_by_held_out_predictions(self):
        naive, calibrated, y, _ = self.learners()
        unlabelled = np.arange(self.LABELS, self.N)
        rows = naive.pool.rows(unlabelled)
        losses = []
        for learner in (naive, calibrated):
            probs = learner.predict_proba(rows)
            losses.append(-np.log(probs[np.arange(len(unlabelled)), y[unlabelled]]).mean())
        assert losses[1] < losses[0]
        np.testing.assert_array_equal(calibrated.predict(rows), naive.predict(rows))
        temperature = calibration_temperature(calibrated.state, calibrated.fitted()).value
        powers = naive.predict_proba(rows) ** (1.0 / temperature)
        np.testing.assert_allclose(
            calibrated.predict_proba(rows), powers / powers.sum(axis=1, keepdims=True), atol=1e-9
        )

    def test_later_labels_have_leave_one_out_predictions(self):
        naive, calibrated, y, held_out_probs = self.learners()
        for learner in (naive, calibrated):
            learner.tell([100, 101], y[[100, 101]])
            learner.forget([3])
        probs, labels = calibrated.state.cross_validated_predictions(calibrated.fitted())
        leave_one_out = naive.state.cross_validated_predictions(naive.fitted())[0][-2:]
        assert len(probs) == self.LABELS + 1
        np.testing.assert_allclose(probs[:2], leave_one_out)
        np.testing.assert_allclose(probs[2:], np.delete(held_out_probs, 3, axis=0))
        assert labels.tolist() == [*y[[100, 101]], *np.delete(y[: self.LABELS], 3)]

    def test_it_is_saved(self, tmp_path):
        _, calibrated, _, _ = self.learners()
        calibrated.save(tmp_path / "a")
        loaded = parbals.ActiveLearner.load(tmp_path / "a")
        assert loaded.report().expected_error == calibrated.report().expected_error

    def test_predictions_of_another_shape_are_refused(self):
        with pytest.raises(parbals.errors.InputError, match=r"held_out has predictions of shape"):
            parbals.ActiveLearner(np.eye(4), [0, 1], held_out=([0, 1], np.ones((2, 3))))


def test_leave_one_out_predictions_are_computed_once_in_a_report(monkeypatch):
    """They serve both the temperature and the audit."""
    from parbals.posterior.closed.ep import GaussianPosterior

    counts = []
    leave_one_out = GaussianPosterior.leave_one_out

    def counted(posterior, **settings):
        counts.append(len(posterior.X))
        return leave_one_out(posterior, **settings)

    monkeypatch.setattr(GaussianPosterior, "leave_one_out", counted)
    generator = np.random.default_rng(0)
    X = generator.standard_normal((200, 3))
    learner = parbals.ActiveLearner(X, [0, 1], random_state=0, audit=30)
    items = [*learner.ask(90)]
    learner.tell(items, (X[items, 0] > 0).astype(int))
    assert learner.report(5).measured.error is not None
    assert len(counts) == len(set(counts))


@pytest.mark.slow
def test_intervals_of_ratings_hold():
    """20 ranks and 60 labels: 90 % intervals hold, up to Monte-Carlo error.

    With thresholds that had seen the labels, and 20 columns, 25 % of 40 held (standard error 7 %).
    """
    n_runs = 40
    n_held = 0
    for seed in range(1_000, 1_000 + n_runs):
        generator = np.random.default_rng(seed)
        X = generator.standard_normal((1_500, 5))
        weights = generator.standard_normal(5)
        f = 3.0 * X @ weights / np.linalg.norm(weights) + generator.logistic(size=len(X))
        ranks = np.searchsorted(np.quantile(f, np.arange(1, 20) / 20), f)
        learner = parbals.ActiveLearner(
            X[:500], range(20), task="ordinal", strategy="random", random_state=seed
        )
        learner.tell(np.arange(60), ranks[:60])
        expected = learner.report(1).expected_error
        real = np.mean(learner.predict(X[500:]) != ranks[500:])
        n_held += expected.low <= real <= expected.high
    assert n_held / n_runs > 0.9 - 2.0 * np.sqrt(0.9 * 0.1 / n_runs)
