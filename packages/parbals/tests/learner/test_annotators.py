"""Dawid–Skene with a classifier prior: answers of annotators, gold labels, and their consensus."""

import numpy as np
import pytest
from dose import full_count
from parbals import ActiveLearner
from parbals.errors import InputError, LabelError
from parbals.learner.annotators import Answers, confusion_matrix, fit_annotators
from parbals.learner.choosing import answer_efficiency
from scipy.stats import beta

CLASSES = ["a", "b"]


def make_clouds(seed, n_items=300, n_classes=2, separation=2.5, n_columns=5):
    """Clouds of items and their classes."""
    generator = np.random.default_rng(seed)
    true = generator.integers(n_classes, size=n_items)
    centres = separation * np.eye(n_classes, n_columns)
    return centres[true] + generator.standard_normal((n_items, n_columns)), true, generator


def noisy_answers(generator, true, accuracy, n_classes=2):
    """Answer each item with its class, or with probability 1 - ``accuracy`` with another one."""
    other = (true + generator.integers(1, n_classes, size=len(true))) % n_classes
    return np.where(generator.random(len(true)) < accuracy, true, other)


def tell(learner, items, numbers, **options):
    learner.tell(items, [CLASSES[c] for c in numbers], **options)


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


@pytest.mark.parametrize(
    "n_runs", [6, pytest.param(full_count(15, least=6), marks=pytest.mark.slow)]
)
def test_intervals_of_errors_hold_the_truth_as_often_as_they_say(n_runs):
    inside = []
    accuracies = {"ada": 0.95, "bob": 0.8, "eve": 0.6}
    for seed in range(n_runs):
        X, true, generator = make_clouds(seed + 50)
        learner = ActiveLearner(X, CLASSES, random_state=seed)
        for name, accuracy in accuracies.items():
            positions = generator.choice(120, 60, replace=False)
            answers = noisy_answers(generator, true[positions], accuracy)
            tell(learner, positions, answers, annotator=name)
        for annotator in learner.annotators():
            error_rate = 1.0 - accuracies[annotator.name]
            inside.append(annotator.error.low <= error_rate <= annotator.error.high)
    assert np.mean(inside) > 0.9 - 3.0 * np.sqrt(0.09 / len(inside))


@pytest.mark.parametrize(
    "n_runs", [4, pytest.param(full_count(12, least=4), marks=pytest.mark.slow)]
)
def test_random_clicks_stand_out_where_others_have_answered_too(n_runs):
    """Their interval lies above everybody else's after 50 answers, 20 of them shared by all."""
    apart = []
    for seed in range(n_runs):
        X, true, generator = make_clouds(seed + 100)
        learner = ActiveLearner(X, CLASSES, random_state=seed)
        shared = range(20)
        accuracies = {"ada": 0.95, "bob": 0.9, "eve": 0.9, "click": 0.5}
        for j, (name, accuracy) in enumerate(accuracies.items()):
            positions = np.array([*shared, *range(20 + 30 * j, 50 + 30 * j)])
            answers = noisy_answers(generator, true[positions], accuracy)
            tell(learner, positions, answers, annotator=name)
        errors = {a.name: a.error for a in learner.annotators()}
        apart.append(errors["click"].mean > max(errors[n].high for n in ("ada", "bob", "eve")))
    assert np.mean(apart) > 0.9 - 2.0 * np.sqrt(0.09 / len(apart))


def test_without_checked_answers_no_error_is_known():
    """A person and a program without shared items: the model alone accuses nobody."""
    X, true, generator = make_clouds(0)
    learner = ActiveLearner(X, CLASSES, random_state=0)
    tell(learner, range(40), noisy_answers(generator, true[:40], 0.85), annotator="ada")
    tell(
        learner, range(40, 200), noisy_answers(generator, true[40:200], 0.5), annotator="machine:g"
    )
    ada, program = learner.annotators()
    assert not ada.error.known
    assert not program.error.known
    assert (program.error.low, program.error.high) == (0.0, 1.0)
    # A person is not checked by a program, but a program by a person.
    tell(learner, range(40, 50), true[40:50], annotator="ada")
    ada, program = learner.annotators()
    assert (ada.n_checked, program.n_checked) == (0, 10)
    assert not ada.error.known
    assert program.error.known


def program_checks(generator, true):
    """Two people with 23 shared items, and two programs that they have checked in part."""
    order = generator.permutation(len(true))
    accuracies = {"ada": 0.962, "bob": 0.577, "machine:m": 0.7, "machine:n": 0.05}
    items = [order[:26], order[3:29], order[15:175], order[15:115]]
    return {
        name: (positions, noisy_answers(generator, true[positions], accuracy))
        for (name, accuracy), positions in zip(accuracies.items(), items, strict=True)
    }


def few_overlaps(generator, true):
    """Three people who share twelve items."""
    order = generator.permutation(len(true))
    answers = {}
    for j, accuracy in enumerate((0.95, 0.8, 0.6)):
        positions = np.append(order[:12], order[20 + 60 * j : 80 + 60 * j])
        answers[f"person {j}"] = positions, noisy_answers(generator, true[positions], accuracy)
    return answers


def an_adversary(generator, true):
    """Two good people and one who is always wrong."""
    answers = {}
    for j, accuracy in enumerate((0.9, 0.9, 0.0)):
        positions = generator.choice(150, 100, replace=False)
        answers[f"person {j}"] = positions, noisy_answers(generator, true[positions], accuracy)
    return answers


def three_copies(generator, true):
    """Three copies of one bad annotator beside two good ones."""
    positions = np.arange(160)
    copied = noisy_answers(generator, true[:160], 0.6)
    answers = {f"copy {j}": (positions, copied) for j in range(3)}
    for name, accuracy in (("ada", 0.9), ("bob", 0.8)):
        answers[name] = positions, noisy_answers(generator, true[:160], accuracy)
    return answers


@pytest.mark.parametrize("scenario", [program_checks, few_overlaps, an_adversary, three_copies])
@pytest.mark.parametrize(
    "n_runs", [4, pytest.param(full_count(15, least=4), marks=pytest.mark.slow)]
)
def test_intervals_hold_the_share_of_wrong_answers(scenario, n_runs):
    """At least 85 % of the intervals do, within two Monte-Carlo errors."""
    inside = []
    for seed in range(n_runs):
        X, true, generator = make_clouds(seed + 500, 400, separation=2.0, n_columns=10)
        answers = scenario(generator, true)
        learner = ActiveLearner(X, CLASSES, random_state=seed)
        for name, (positions, numbers) in answers.items():
            tell(learner, positions, numbers, annotator=name)
        held = []
        for annotator in learner.annotators():
            positions, numbers = answers[annotator.name]
            share = (numbers != true[positions]).mean()
            held.append(annotator.error.low <= share <= annotator.error.high)
        inside.append(np.mean(held))
    assert np.mean(inside) > 0.85 - 2.0 * np.std(inside) / np.sqrt(n_runs)


@pytest.mark.parametrize(
    "n_runs", [4, pytest.param(full_count(20, least=4), marks=pytest.mark.slow)]
)
def test_copies_count_as_one(n_runs):
    gains = []
    is_found = []
    for seed in range(n_runs):
        X, true, generator = make_clouds(seed + 600, 400, separation=2.0, n_columns=10)
        learner = ActiveLearner(X, CLASSES, random_state=seed)
        for name, (positions, numbers) in three_copies(generator, true).items():
            tell(learner, positions, numbers, annotator=name)
        same = {a.name: a.same_mistakes_as for a in learner.annotators()}
        is_found.append(same["copy 0"] == ("copy 1", "copy 2") and same["ada"] == ())
        consensus = np.array([CLASSES.index(learner.labels[i]) for i in range(160)])
        # The majority of the three independent annotators.
        votes = np.array([learner._ledger.answers[i]["copy 0"] for i in range(160)])
        votes = votes + [
            sum(learner._ledger.answers[i][n] for n in ("ada", "bob")) for i in range(160)
        ]
        gains.append((consensus == true[:160]).mean() - ((votes > 1) == true[:160]).mean())
    assert np.mean(is_found) > 0.9 - 2.0 * np.sqrt(0.09 / n_runs)
    assert np.mean(gains) > -2.0 * np.std(gains) / np.sqrt(n_runs)


@pytest.mark.parametrize("accuracies", [(0.98, 0.98, 0.98), (1.0, 1.0, 0.6), (0.92, 0.92, 0.7)])
@pytest.mark.parametrize(
    "n_runs", [4, pytest.param(full_count(20, least=4), marks=pytest.mark.slow)]
)
def test_people_who_agree_because_they_are_right_are_not_copies(accuracies, n_runs):
    """Also where everybody guesses at some items, and where the model is hardly of any use."""
    for seed in range(n_runs):
        X, true, generator = make_clouds(seed + 700, 200, separation=0.7, n_columns=10)
        is_hard = generator.random(200) < (0.1 if seed % 2 else 0.0)
        learner = ActiveLearner(X, CLASSES, random_state=seed)
        for j, accuracy in enumerate(accuracies):
            numbers = noisy_answers(generator, true, accuracy)
            numbers = np.where(is_hard, noisy_answers(generator, true, 0.5), numbers)
            tell(learner, range(150), numbers[:150], annotator=f"person {j}")
        assert not any(annotator.same_mistakes_as for annotator in learner.annotators())


@pytest.mark.parametrize(
    "strategy", ["another class", pytest.param("the first class", marks=pytest.mark.full)]
)
def test_a_program_that_lies_costs_little(strategy):
    costs = []
    for seed in range(4):
        X, true, _ = make_clouds(seed + 200, n_items=900)
        alone, beside = (ActiveLearner(X[:600], CLASSES, random_state=seed) for _ in range(2))
        for learner in (alone, beside):
            tell(learner, range(60), true[:60], annotator="ada")
        lies = 1 - true if strategy == "another class" else np.zeros_like(true)
        tell(beside, range(30, 400), lies[30:400], annotator="machine:liar")
        right = [
            (np.array(learner.predict(X[600:])) == np.array(CLASSES)[true[600:]]).mean()
            for learner in (alone, beside)
        ]
        costs.append(right[0] - right[1])
        liar = next(a for a in beside.annotators() if a.name == "machine:liar")
        assert liar.error.low > 0.2  # thirty answers are checked, about half of them wrong
        assert liar.error.low <= np.mean(lies[30:400] != true[30:400]) <= liar.error.high
    assert np.mean(costs) < 0.005 + 2.0 * np.std(costs) / np.sqrt(len(costs))


@pytest.mark.parametrize(
    ("n_classes", "accuracy"),
    [
        (2, 0.5),
        pytest.param(2, 0.7, marks=pytest.mark.full),
        pytest.param(2, 0.95, marks=pytest.mark.full),
        pytest.param(3, 1 / 3, marks=pytest.mark.full),
        pytest.param(3, 0.5, marks=pytest.mark.full),
    ],
)
def test_a_program_that_guesses_does_no_harm(n_classes, accuracy):
    """300 answers of a program beside 37 of a person cost at most a point of accuracy.

    The prior learnt from the most likely classes would be that of labels without structure: the
    model would lose more than 20 points with three classes.
    """
    gains = []
    for seed in range(4):
        X, true, generator = make_clouds(seed + 400, 1600, n_classes, 2.0, n_columns=20)
        answers = noisy_answers(generator, true, accuracy, n_classes)
        right = []
        for n_program in (0, 300):
            learner = ActiveLearner(X[:600], list(range(n_classes)), random_state=seed)
            learner.tell(range(37), true[:37].tolist(), annotator="ada")
            items = range(27, 27 + n_program)
            learner.tell(items, answers[items].tolist(), annotator="machine:guess")
            right.append((np.array(learner.predict(X[600:])) == true[600:]).mean())
        gains.append(right[1] - right[0])
    assert np.mean(gains) > -0.01 - 2.0 * np.std(gains) / np.sqrt(len(gains))


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


def test_a_confusion_matrix_before_any_answer_and_after_many():
    new = confusion_matrix(np.zeros((4, 4)))
    np.testing.assert_allclose(new, 0.9 * np.eye(4) + 0.1 / 3.0 * (1.0 - np.eye(4)))
    counts = 1e6 * np.array([[0.7, 0.3], [0.1, 0.9]])
    np.testing.assert_allclose(confusion_matrix(counts), [[0.7, 0.3], [0.1, 0.9]], atol=1e-4)
    lazy = confusion_matrix(np.array([[20.0, 0.0, 0.0], [20.0, 0.0, 0.0], [0.0, 0.0, 0.0]]))
    assert lazy[2, 0] > 2.0 * lazy[2, 1]  # says the first class, whatever it is


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


COSTS = {"ada": 1.0, "machine:bot": 0.01}


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
