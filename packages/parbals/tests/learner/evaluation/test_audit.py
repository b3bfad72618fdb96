"""An audit: random items that are requested, train no model, and measure its error."""

import json
from dataclasses import replace

import numpy as np
import parbals
import pytest
from dose import full_count
from parbals.errors import InputError
from parbals.learner.evaluation.audit import (
    _expected_losses_of_pool,
    current_look,
    draw_audit,
    interleaved_order,
    measure_error,
    n_audit_items_due,
)
from parbals.learner.evaluation.limits import stratified_limits
from parbals.learner.evaluation.looks import full_look, latest_look
from parbals.learner.evaluation.report import (
    EarlierLimit,
    Measurement,
    class_lines,
    measured_error_sentence,
)
from parbals.learner.setup import mean_proba
from parbals.types import Estimate
from sklearn.ensemble import RandomForestClassifier

GENERATOR = np.random.default_rng(5)
X = GENERATOR.standard_normal((300, 4))
Y = np.where(X[:, 0] + 0.7 * GENERATOR.standard_normal(300) > 0, "yes", "no")


def make_learner(audit=20, **options):
    defaults = {"strategy": "confidence", "random_state": 2, "n_samples": 64}
    return parbals.ActiveLearner(X, ["no", "yes"], audit=audit, **(defaults | options))


def make_labelled(n, audit=20, batch_size=10, **options):
    active = make_learner(audit, **options)
    while len(active.labelled) < n:
        batch = active.ask(min(batch_size, n - len(active.labelled)))
        active.tell(batch, Y[batch])
    return active


def test_the_audit_is_a_uniform_draw_fixed_by_the_seed():
    drawn = np.array([draw_audit(30, 6, seed) for seed in range(2_000)])
    counts = np.bincount(drawn.ravel(), minlength=30)
    assert np.abs(counts - 400).max() < 5 * np.sqrt(400 * 0.8)
    assert draw_audit(30, 6, 1).tolist() == draw_audit(30, 6, 1).tolist()
    assert not set(draw_audit(30, 6, 1, taken=range(15))) & set(range(15))
    with pytest.raises(InputError, match="A sample of 8 items to keep is more than half of the 15"):
        draw_audit(30, 8, 1, taken=range(15))


@pytest.mark.parametrize("batch", [1, 4, 20])
def test_every_third_label_is_the_audits_until_it_is_done(batch):
    n_audit = 0
    n_other = 0
    for _ in range(200 // batch):
        n_due = n_audit_items_due(batch, n_audit, n_other, 30 - n_audit, 500 - n_other)
        n_audit += n_due
        n_other += batch - n_due
        assert n_audit == min(30, (n_audit + n_other + 1) // 3)


def test_a_late_audit_takes_half_a_batch_and_what_others_cannot_fill():
    assert n_audit_items_due(10, 0, 1_000, 30, 500) == 5
    assert n_audit_items_due(10, 0, 1_000, 30, 2) == 8
    assert n_audit_items_due(10, 0, 1_000, 3, 500) == 3


def test_the_audit_is_spread_over_a_batch():
    order = interleaved_order(np.arange(6), np.arange(3))
    assert order.tolist() == [0, 6, 1, 2, 7, 3, 4, 8, 5]
    assert interleaved_order(np.arange(2), np.arange(0)).tolist() == [0, 1]


def test_asking_mixes_the_audit_in_and_says_so():
    active = make_learner()
    batch = active.choose(9)
    drawn = np.isin(batch.indices, active.audit)
    assert batch.indices[drawn].tolist() == active.audit[:3].tolist()
    assert np.isnan(batch.scores[drawn]).all()
    assert np.isfinite(batch.scores[~drawn]).all()
    assert "3 of the 9 items are random test items." in batch.notes
    assert not np.isin(active.choose(280, with_audit=False).indices, active.audit).any()


def test_the_audit_has_no_part_in_choosing_or_in_the_model():
    """Its labels could be all wrong, or missing: the same model, the same choice."""
    right = make_learner()
    wrong = make_learner()
    missing = make_learner()
    training = np.setdiff1d(np.arange(300), right.audit)[:40]
    for active in (right, wrong, missing):
        active.tell(training, Y[training])
    right.tell(right.audit, Y[right.audit])
    wrong.tell(wrong.audit, np.where(Y[wrong.audit] == "yes", "no", "yes"))
    missing.mark_pending(missing.audit[:7])
    for active in (wrong, missing):
        batch = active.choose(5, with_audit=False)
        np.testing.assert_array_equal(batch.indices, right.choose(5).indices)
        np.testing.assert_array_equal(active.predict_proba(X), right.predict_proba(X))
        np.testing.assert_array_equal(active.state.target_rows(), right.state.target_rows())
    rows = {tuple(row) for row in right.state.target_rows()}
    assert not rows & {tuple(row) for row in X[right.audit]}
    assert (wrong.predict_proba(X, with_audit=True) != right.predict_proba(X)).any()


def test_the_measurement_is_what_the_model_of_the_first_labels_gets_wrong():
    active = make_labelled(70)
    order = list(active.labels)
    look = latest_look(np.isin(order, active.audit), 20)
    first = order[: look.n_labels]
    assert np.isin(first, active.audit).sum() == 19
    model = make_learner(audit=active.audit.tolist())
    training = [p for p in first if p not in set(active.audit)]
    model.tell(training, Y[training])
    audited = np.array([p for p in first if p in set(active.audit)])
    decisions = np.array(model.predict(X[audited]))
    measured = measure_error(active.state)
    wrong = decisions != Y[audited]
    assert (measured.n, measured.n_wrong) == (19, int(wrong.sum()))
    assert measured.n_labels == look.n_labels
    pool = np.setdiff1d(np.arange(300), active.audit)
    expected = 1.0 - model.predict_proba(X[audited]).max(axis=1)
    unseen = np.setdiff1d(pool, training)
    without_own_label = model.state.cross_validated_predictions(model.state.fitted())[0]
    expected_pool = 1.0 - np.append(
        model.predict_proba(X[unseen]).max(axis=1), without_own_label.max(axis=1)
    )
    by_hand = stratified_limits(wrong, expected, expected_pool, look.delta)
    assert (measured.error.mean, measured.error.low, measured.error.high) == pytest.approx(by_hand)
    hits = (decisions == "yes") & (Y[audited] == "yes")
    assert measured.recall["yes"].mean == hits.sum() / (Y[audited] == "yes").sum()
    assert measured.precision["yes"].mean == hits.sum() / (decisions == "yes").sum()


def test_copies_of_an_audit_item_train_nothing_and_are_not_asked_for():
    doubled = np.concatenate([X, X[:40]])
    active = parbals.ActiveLearner(
        doubled, ["no", "yes"], strategy="random", audit=range(10), random_state=2
    )
    assert active.setup.audit_duplicates.tolist() == list(range(300, 310))
    assert not np.isin(active.choose(330).indices, active.setup.audit_duplicates).any()
    y = np.concatenate([Y, Y[:40]])
    active.tell(range(20, 60), y[20:60])
    before = active.predict_proba(X)
    active.tell(range(300, 310), np.where(y[300:310] == "yes", "no", "yes"))
    np.testing.assert_array_equal(active.predict_proba(X), before)


def test_the_pool_is_not_looked_through_for_copies_before_a_choice():
    active = make_learner(audit=10)
    training = np.setdiff1d(np.arange(40), active.audit)
    active.tell(training, Y[training])
    active.predict_proba(X[:5])
    assert "audit_duplicates" not in vars(active.setup)
    active.choose(1)
    assert "audit_duplicates" in vars(active.setup)


def test_rows_that_are_alike_by_coarse_features_are_no_copies():
    active = parbals.ActiveLearner(np.round(X[:, :1]), ["no", "yes"], audit=20, random_state=2)
    assert len(active.setup.audit_duplicates) == 0


def test_between_two_looks_the_measurement_stands():
    active = make_labelled(70)
    before = measure_error(active.state)
    batch = active.ask(5)
    active.tell(batch, Y[batch])
    assert measure_error(active.state) == before


@pytest.mark.parametrize("n_runs", [12, pytest.param(full_count(300), marks=pytest.mark.slow)])
def test_the_interval_holds_the_error_of_a_model_that_chose_its_labels(n_runs):
    """Truth: the error on 5,000 items of the same source; picks near the boundary are the ones
    that would mislead an estimate from the rest of the pool."""
    generator = np.random.default_rng(0)
    covered = 0
    for seed in range(n_runs):
        features = generator.standard_normal((5_300, 3))
        y = (features[:, 0] + generator.standard_normal(5_300) > 0).astype(int)
        active = parbals.ActiveLearner(
            features[:300], [0, 1], strategy="confidence", random_state=seed, audit=30
        )
        while len(active.labelled) < 87:
            batch = active.ask(29)
            active.tell(batch, y[batch])
        decisions = np.array(active.predict(features[300:]))
        estimate = measure_error(active.state).error
        covered += estimate.low <= np.mean(decisions != y[300:]) <= estimate.high
    assert covered / n_runs >= 0.9 - 3 * np.sqrt(0.09 / n_runs)


def test_the_report_gives_it_in_words_and_in_json():
    report = make_labelled(60).report(1)
    assert "With 95 % confidence the error is at most" in str(report)
    assert "recall" in str(report)
    values = json.loads(json.dumps(report.to_dict()))
    assert values["certified"] == report.certified == values["measured"]["error"]["high"]
    assert set(values["measured"]["recall"]) == {"no", "yes"}
    without_audit = replace(report, measured=None)
    assert "The error is estimated by the model and has not been measured" in str(without_audit)
    assert without_audit.to_dict()["certified"] is None


def test_a_later_look_has_the_lower_limit_of_the_full_audit_beside_it():
    """Later looks have less of the risk: a limit must not seem to get worse without an error."""
    later = make_labelled(140)
    measured = measure_error(later.state)
    at_full = full_look(np.isin(list(later.labels), later.audit), len(later.audit))
    first = make_learner(audit=later.audit.tolist())
    order = list(later.labels)[: at_full.n_labels]
    first.tell(order, Y[order])
    measured_first = measure_error(first.state)
    assert measured_first.earlier is None
    assert measured.n_labels == 2 * at_full.n_labels
    assert measured.earlier == EarlierLimit(at_full.n_labels, measured_first.error.high)
    assert measured.earlier.high < measured.error.high
    assert "The model trained on the first" in measured_error_sentence(measured).split(". ")[-1]
    assert measure_error(make_labelled(70).state).earlier is None


def test_an_audit_without_labels_promises_a_measurement():
    active = make_learner()
    assert measure_error(active.state).error is None
    active.tell(np.setdiff1d(np.arange(300), active.audit)[:1], ["no"])
    sentence = measured_error_sentence(measure_error(active.state))
    assert sentence.startswith("The error will be measured as the 20 random test items")


def test_an_error_that_is_not_the_share_of_wrong_items_is_called_corrected():
    """18 of 57 are 31.6 %: a reader who computes that must not find another number unexplained."""
    plain = Measurement(Estimate(5 / 50, 0.04, 0.2), 50, 5, 50, 120, {}, {})
    assert "got 5 wrong, 10 % (90 % interval 4 % to 20 %)." in measured_error_sentence(plain)
    corrected = replace(plain, error=Estimate(0.271, 0.186, 0.371), n=57, n_wrong=18)
    sentence = measured_error_sentence(corrected)
    assert "got 18 wrong, corrected for how hard they are: 27.1 % (90 % interval" in sentence


def test_classes_that_the_audit_hardly_saw_have_no_interval():
    active = parbals.ActiveLearner(
        X, ["no", "yes", "never"], strategy="random", random_state=2, audit=20
    )
    active.tell(active.audit, Y[active.audit])
    active.tell(np.arange(60), Y[:60])
    measured = measure_error(active.state)
    assert measured.recall["never"] is None
    assert class_lines(measured)[-1] == "  too few random items to tell: never"


def test_a_custom_model_is_measured_too():
    forest = RandomForestClassifier(20, random_state=0)
    active = make_labelled(60, strategy="margin", model=forest)
    assert measure_error(active.state).n == 19


def test_the_last_items_of_all_may_be_the_audits():
    active = make_learner(audit=20)
    active.tell(
        np.setdiff1d(np.arange(300), active.audit), Y[np.setdiff1d(np.arange(300), active.audit)]
    )
    batch = active.choose(20)
    assert batch.strategy == "audit"
    assert batch.indices.tolist() == active.audit.tolist()
    with pytest.raises(InputError, match="21 items were asked for and 20 are free"):
        active.choose(21)


def test_an_audit_drawn_elsewhere_and_names_of_items():
    names = [f"item {i}" for i in range(300)]
    active = parbals.ActiveLearner(X, ["no", "yes"], ids=names, audit=names[5:8], random_state=0)
    assert active.audit.tolist() == [5, 6, 7]


@pytest.mark.parametrize("bad", [-1, 151, True, 2.5])
def test_an_impossible_audit_is_refused(bad):
    with pytest.raises(InputError, match=r"audit|sample of 151"):
        make_learner(audit=bad)


def test_the_audit_survives_saving(tmp_path):
    active = make_labelled(50)
    active.save(tmp_path / "file")
    loaded = parbals.ActiveLearner.load(tmp_path / "file")
    assert loaded.audit.tolist() == active.audit.tolist()
    assert list(loaded.ask(9)) == list(active.ask(9))
    assert measure_error(loaded.state) == measure_error(active.state)


def separable(rng, n, weights):
    X = rng.standard_normal((n, len(weights)))
    return X, (X @ weights > 0).astype(int)


def measured_and_true_error(seed, model=None, n_columns=200, n_pool=400, n_labels=300):
    """The measurement of a model that was trained on most of its pool, and its error on new items.

    Labels are told in random order, so the audit is full near the end.
    """
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal(n_columns)
    X, y = separable(rng, n_pool, weights)
    X_new, y_new = separable(rng, 4_000, weights)
    learner = parbals.ActiveLearner(X, [0, 1], audit=60, random_state=seed, model=model)
    others = rng.permutation(np.setdiff1d(np.arange(n_pool), learner.audit))
    items = rng.permutation(np.append(learner.audit, others[: n_labels - 60]))
    learner.tell(items, y[items])
    state = learner.state
    evaluated = state.model_of(current_look(state).training_positions)
    true_error = np.mean(mean_proba(evaluated, X_new).argmax(axis=1) != y_new)
    return measure_error(state).error, true_error


@pytest.mark.full
@pytest.mark.parametrize("model", [None, RandomForestClassifier(20, random_state=0)])
@pytest.mark.filterwarnings("ignore::parbals.errors.SampleCollapseWarning")
def test_the_upper_limit_holds_where_most_of_the_pool_trained_the_model(model):
    """Models are too sure of items that they were trained on: these must not count as others do."""
    n_runs = 60 if model is None else 20
    runs = [measured_and_true_error(seed, model) for seed in range(n_runs)]
    failures = np.mean([true_error > error.high for error, true_error in runs])
    delta = 0.035  # the share of the risk that the look at the full audit gets
    assert failures <= delta + 2 * np.sqrt(delta * (1 - delta) / n_runs)
    biases = np.array([error.mean - true_error for error, true_error in runs])
    assert biases.mean() > -0.02


def test_trained_items_count_with_predictions_that_have_not_seen_their_labels():
    rng = np.random.default_rng(3)
    X, y = separable(rng, 90, rng.standard_normal(40))
    learner = parbals.ActiveLearner(X, [0, 1], audit=30, random_state=3)
    learner.tell(range(90), y)  # every item that is not the audit's trains the model
    state = learner.state
    training = state.training_labels
    model = state.model_of(training.positions)
    _, probs = state.out_of_sample_predictions(model, training)
    expected = _expected_losses_of_pool(state, model, training.positions)
    np.testing.assert_allclose(np.sort(expected), np.sort(probs.min(axis=1)))
    seen = mean_proba(model, X[training.positions]).min(axis=1)
    assert expected.mean() > 1.2 * seen.mean()


class TestWhoseLabelsMeasure:
    """A kept sample is measured by people: programs and ties give an item no label."""

    def learner(self):
        X = np.random.default_rng(2).standard_normal((200, 3))
        y = (X[:, 0] > 0).astype(int)
        learner = parbals.ActiveLearner(X, [0, 1], audit=20, random_state=0, n_samples=64)
        others = np.setdiff1d(np.arange(60), learner.audit)
        learner.tell(others, y[others], annotator="ada")
        return learner, y

    def test_answers_of_programs_do_not_measure(self):
        learner, y = self.learner()
        learner.tell(learner.audit, y[learner.audit], annotator="machine:llm")
        assert len(learner.state.audited) == learner.report().measured.n == 0

    def test_what_people_say_counts_whatever_programs_say(self):
        learner, y = self.learner()
        for name in ("machine:a", "machine:b"):
            learner.tell(learner.audit, y[learner.audit], annotator=name)
        learner.tell(learner.audit, 1 - y[learner.audit], annotator="ada")
        assert (
            learner.state.encoded_labels(learner.state.audited).tolist()
            == (1 - y[learner.audit]).tolist()
        )

    def test_where_people_are_divided_an_item_has_no_label(self):
        learner, y = self.learner()
        learner.tell(learner.audit, y[learner.audit], annotator="ada")
        first = learner.audit[:3]
        learner.tell(first, 1 - y[first], annotator="bob")
        assert not set(first.tolist()) & set(learner.state.audited.tolist())
        assert len(learner.state.audited) == 17
