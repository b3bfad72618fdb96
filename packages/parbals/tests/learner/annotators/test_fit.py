"""Dawid–Skene with a classifier prior: answers of annotators, gold labels, and their consensus."""

import numpy as np
import pytest
from parbals import ActiveLearner
from parbals.errors import InputError, LabelError
from parbals.learner.annotators.answers import Answers
from parbals.learner.annotators.fit import fit_annotators
from scipy.stats import beta
from simulated_annotators import CLASSES, make_clouds, noisy_answers, tell


def test_a_single_annotator_changes_nothing():
    X, true, _ = make_clouds(0)
    signed, unsigned = (ActiveLearner(X, CLASSES, random_state=0) for _ in range(2))
    tell(signed, range(40), true[:40], annotator="ada")
    tell(unsigned, range(40), true[:40])
    np.testing.assert_array_equal(signed.predict_proba(X), unsigned.predict_proba(X))
    np.testing.assert_array_equal(signed.ask(5), unsigned.ask(5))
    assert signed.annotators() == ()
    assert signed.consensus()[3].tolist() == np.eye(2)[true[3]].tolist()


def test_the_consensus_is_right_more_often_than_the_majority():
    """The careful annotator outweighs two careless ones, beyond Monte-Carlo error."""
    gains = []
    for seed in range(8):
        X, true, generator = make_clouds(seed)
        learner = ActiveLearner(X, CLASSES, random_state=seed)
        for name, accuracy in (("ada", 0.95), ("bob", 0.65), ("eve", 0.65)):
            tell(learner, range(80), noisy_answers(generator, true[:80], accuracy), annotator=name)
        consensus = np.array([CLASSES.index(learner.labels[i]) for i in range(80)])
        majority = np.array([learner.state.majority_labels[i] for i in range(80)])
        gains.append((consensus == true[:80]).mean() - (majority == true[:80]).mean())
    assert np.mean(gains) > 2.0 * np.std(gains) / np.sqrt(len(gains))
    assert np.mean(gains) > 0.02


def test_a_label_without_an_annotator_is_gold():
    X, true, generator = make_clouds(1)
    learner = ActiveLearner(X, CLASSES, random_state=1)
    tell(learner, range(60), true[:60])
    tell(learner, range(60), noisy_answers(generator, true[:60], 0.7), annotator="bob")
    assert [learner.labels[i] for i in range(60)] == [CLASSES[c] for c in true[:60]]
    (bob,) = learner.annotators()
    assert bob.n_answers == 60
    wrong = np.mean([learner._ledger.answers[i]["bob"] != true[i] for i in range(60)])
    # Every answer is checked: the posterior is Beta(1 + wrong, 1 + right), here from 800 draws.
    posterior = beta(1 + 60 * wrong, 1 + 60 * (1 - wrong))
    assert bob.n_checked == 60
    assert bob.error.mean == pytest.approx(posterior.mean(), abs=4 * posterior.std() / 800**0.5)
    assert bob.error.low == pytest.approx(posterior.ppf(0.05), abs=0.02)
    assert bob.error.high == pytest.approx(posterior.ppf(0.95), abs=0.02)


def test_the_model_and_its_choices_know_nothing_of_the_audits_answers():
    X, true, generator = make_clouds(2)
    one, two = (ActiveLearner(X, CLASSES, random_state=2, audit=20) for _ in range(2))
    trains = np.setdiff1d(np.arange(100), one.audit)
    for name, accuracy in (("ada", 0.95), ("bob", 0.6)):
        answers = noisy_answers(generator, true, accuracy)
        for learner in (one, two):
            tell(learner, trains, answers[trains], annotator=name)
        tell(two, two.audit, answers[two.audit], annotator=name)
    np.testing.assert_array_equal(one.predict_proba(X), two.predict_proba(X))
    np.testing.assert_array_equal(
        one.choose(5, with_audit=False).indices, two.choose(5, with_audit=False).indices
    )
    assert {a.n_answers for a in two.annotators()} == {len(trains) + 20}
    probs = two.consensus()[int(two.audit[0])]
    assert probs.max() < 1.0 - 1e-3  # by the answers alone, which are two


def test_neither_order_nor_saving_matters(tmp_path):
    X, true, generator = make_clouds(3)
    answers = {name: noisy_answers(generator, true, 0.8)[:50] for name in ("ada", "bob")}
    one, two = (ActiveLearner(X, CLASSES, random_state=3) for _ in range(2))
    for name in ("ada", "bob"):
        tell(one, range(50), answers[name], annotator=name)
    for name in ("bob", "ada"):
        tell(two, range(50)[::-1], answers[name][::-1], annotator=name)
    one.save(tmp_path / "one.parbals")
    again = ActiveLearner.load(tmp_path / "one.parbals")
    assert again.labels == one.labels
    assert [a.error for a in again.annotators()] == [a.error for a in one.annotators()]
    np.testing.assert_array_equal(one.ask(6), two.ask(6))
    np.testing.assert_array_equal(again.ask(6), two.last_batch.indices)


def test_a_custom_model_is_trained_on_the_consensus():
    from sklearn.ensemble import RandomForestClassifier

    X, true, generator = make_clouds(4)
    forest = RandomForestClassifier(20, random_state=0)
    learner = ActiveLearner(X, CLASSES, random_state=4, model=forest)
    for name, accuracy in (("ada", 0.97), ("bob", 0.6), ("eve", 0.6)):
        tell(learner, range(90), noisy_answers(generator, true[:90], accuracy), annotator=name)
    consensus = np.array([CLASSES.index(learner.labels[i]) for i in range(90)])
    majority = np.array([learner.state.majority_labels[i] for i in range(90)])
    assert (consensus == true[:90]).mean() > (majority == true[:90]).mean()
    assert learner.predict_proba(X).shape == (300, 2)


def test_refused_answers_change_nothing():
    X, _, _ = make_clouds(5)
    learner = ActiveLearner(X, CLASSES, random_state=5)
    tell(learner, [0], [0], annotator="ada")
    tell(learner, [0], [1], annotator="bob")
    with pytest.raises(LabelError, match=r"already has the label 'a', not 'b'"):
        tell(learner, [1, 0], [1, 1], annotator="ada")
    with pytest.raises(LabelError, match="no label to correct"):
        learner.correct([0], ["b"], annotator="eve")
    with pytest.raises(InputError, match="give a name"):
        tell(learner, [2], [0], annotator="")
    assert learner.correct([0], ["b"], annotator="ada") == 1
    assert learner.labels == {0: "b"}
    learner.forget([0])
    assert learner.labels == {}


def test_two_annotators_against_every_possible_truth():
    """One E-step equals Bayes' rule over all truths, written out."""
    answers_by_item = {0: {"x": 0, "y": 0}, 1: {"x": 0, "y": 1}, 2: {"x": 1, None: 1}}
    answers = Answers.from_items(answers_by_item, np.arange(3))
    probs = np.array([[0.6, 0.4], [0.3, 0.7], [0.5, 0.5]])
    fit = fit_annotators(answers, 2, np.ones(3, bool), lambda rows, w: probs)
    x, y = (annotator.confusion for annotator in fit.annotators)
    first = np.array([x[c, 0] * y[c, 0] * probs[0, c] for c in (0, 1)])
    second = np.array([x[c, 0] * y[c, 1] * probs[1, c] for c in (0, 1)])
    np.testing.assert_allclose(fit.label_probs[0], first / first.sum())
    np.testing.assert_allclose(fit.label_probs[1], second / second.sum())
    np.testing.assert_allclose(fit.label_probs[2], [0.0, 1.0])
