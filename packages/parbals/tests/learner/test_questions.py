"""Questions to annotators: who is asked about which item, at what cost."""

import numpy as np
import pytest
from parbals import ActiveLearner
from parbals.errors import InputError
from parbals.learner.questions import answer_efficiency
from simulated_annotators import CLASSES, make_clouds, noisy_answers, tell

COSTS = {"ada": 1.0, "machine:bot": 0.01}


def test_efficiency_is_an_answers_share_of_a_labels_information():
    """For two classes against the information of a weak dependence, written out."""
    noisy, p, shift = np.array([[0.9, 0.1], [0.3, 0.7]]), np.array([0.35, 0.65]), 1e-3

    def information(joint):
        apart = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
        return float((joint * np.log(joint / apart)).sum())

    label = 0.5 * np.array([[p[0] + shift, p[1] - shift], [p[0] - shift, p[1] + shift]])
    ratio = information(label @ noisy) / information(label)
    assert answer_efficiency(noisy, p[None])[0] == pytest.approx(ratio, rel=1e-4)
    assert answer_efficiency(np.eye(3), np.array([[0.2, 0.3, 0.5]]))[0] == pytest.approx(1.0)
    assert answer_efficiency(np.full((3, 3), 1 / 3), np.array([[0.2, 0.3, 0.5]]))[
        0
    ] == pytest.approx(0.0)


def test_questions_go_to_whoever_is_worth_the_cost():
    X, true, generator = make_clouds(6)
    learner = ActiveLearner(X, CLASSES, random_state=6)
    first = learner.ask(4, annotators=["ada", "bob"])
    assert len(first) == 4
    assert {question.annotator for question in first} <= {"ada", "bob"}
    assert sorted(learner.pending) == sorted(question.item for question in first)
    for name, accuracy in (("ada", 0.97), ("bob", 0.6)):
        tell(learner, range(60), noisy_answers(generator, true[:60], accuracy), annotator=name)
    equal = learner.ask(6, costs={"ada": 1.0, "bob": 1.0})
    assert {question.annotator for question in equal} == {"ada"}
    cheap = learner.ask(6, costs={"ada": 1.0, "bob": 0.001})
    assert {question.annotator for question in cheap} == {"bob"}
    items = [question.item for question in (*equal, *cheap)]
    assert len(set(items)) == len(items)


def test_a_second_opinion_is_asked_for_where_the_first_was_worth_little():
    X, true, generator = make_clouds(7, n_items=120)
    learner = ActiveLearner(X, CLASSES, random_state=7)
    tell(learner, range(50), true[:50], annotator="ada")
    tell(learner, range(30, 120), noisy_answers(generator, true[30:], 0.65), annotator="bob")
    questions = learner.ask(8, annotators=["ada", "bob"])
    assert len(questions) == 8  # nothing is new: every item has an answer
    assert all(item >= 50 and name == "ada" for item, name in questions)
    assert learner.pending == []
    more = learner.ask(8, annotators=["ada"])
    assert not {question.item for question in more} & {question.item for question in questions}
    tell(learner, range(50, 120), true[50:], annotator="ada")
    with pytest.raises(InputError, match="Everybody has answered"):
        learner.ask(1, annotators=["ada"])


def test_an_item_with_one_answer_may_be_asked_of_another():
    X, true, generator = make_clouds(10, n_items=60)
    learner = ActiveLearner(X, CLASSES, random_state=10)
    tell(learner, range(60), noisy_answers(generator, true, 0.8), annotator="machine:rule")
    questions = learner.ask(5, costs={"machine:rule": 0.01, "ada": 1.0})
    assert [name for _, name in questions] == ["ada"] * 5


def test_audit_items_go_to_the_most_careful_person():
    X, true, generator = make_clouds(8)
    learner = ActiveLearner(X, CLASSES, random_state=8, audit=30)
    trains = np.setdiff1d(np.arange(80), learner.audit)
    for name, accuracy in (("ada", 0.95), ("bob", 0.6), ("machine:rule", 1.0)):
        answers = noisy_answers(generator, true[trains], accuracy)
        tell(learner, trains, answers, annotator=name)
    costs = {"machine:rule": 0.01, "bob": 0.1, "ada": 1.0}
    questions = learner.ask(9, costs=costs)
    audited = [name for item, name in questions if item in learner.audit]
    assert audited
    assert set(audited) == {"ada"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"annotators": []}, "pass a list of names"),
        ({"annotators": "ada"}, "pass a list of names"),
        ({"costs": {"ada": 0.0}}, "positive number"),
        ({"annotators": ["ada"], "costs": {"bob": 1.0}}, "positive number for names"),
    ],
)
def test_invalid_costs_are_refused(arguments, message):
    learner = ActiveLearner(make_clouds(9)[0], CLASSES, random_state=9)
    with pytest.raises(InputError, match=message):
        learner.ask(2, **arguments)
    assert learner.pending == []


def test_ten_random_answers_of_a_program_are_checked_by_people_first():
    X, true, _ = make_clouds(7)
    learner = ActiveLearner(X, CLASSES, random_state=0)
    tell(learner, range(80), true[:80], annotator="machine:bot")
    first = learner.ask(20, costs=COSTS)[:10]
    later = learner.ask(5, costs=COSTS)
    checked = [item for item, annotator in first if annotator == "ada" and item < 80]
    assert len(set(checked)) == 10
    assert not {item for item, _ in later} & set(checked)  # they are pending
    tell(learner, checked, true[checked], annotator="ada")
    again = [
        item for item, annotator in learner.ask(4, costs=COSTS) if annotator == "ada" and item < 80
    ]
    assert not set(again) & set(checked)


@pytest.mark.full
def test_a_liar_that_is_asked_by_worth_is_found_out():
    X, true, _ = make_clouds(300, n_items=600)
    learner = ActiveLearner(X[:200], CLASSES, random_state=0)
    spent = 0.0
    while spent < 30.0:
        for item, annotator in learner.ask(40, costs=COSTS):
            number = true[item] if annotator == "ada" else 1 - true[item]
            learner.tell(item, CLASSES[number], annotator=annotator)
            spent += COSTS[annotator]
    right = np.array(learner.predict(X[200:])) == np.array(CLASSES)[true[200:]]
    assert right.mean() > 0.9
    assert {a.name: a.error.low for a in learner.annotators()}["machine:bot"] > 0.5
