"""Programs that lie or guess beside a person: they cost little accuracy, and are found out."""

import numpy as np
import pytest
from parbals import ActiveLearner
from simulated_annotators import CLASSES, make_clouds, noisy_answers, tell


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


CHECKS = (0, 1, 2, 3, 5, 10)


def errors_by_checks(n_classes, seed, order):
    """Test errors in % after each number of checks of a program that is right in 75 %.

    ``order``: which of the program's items are checked, "random", "agreeing" or "contradicting".
    Second, the error with the program's answers taken as gold labels.
    """
    X, true, generator = make_clouds(seed + 600, 1400, n_classes, 2.5, n_columns=10)
    answers = noisy_answers(generator, true, 0.75, n_classes)
    items = np.arange(150)
    is_right = answers[items] == true[items]
    checked = {"random": items, "agreeing": items[is_right], "contradicting": items[~is_right]}
    learner, gold = (
        ActiveLearner(X[:400], list(range(n_classes)), random_state=seed) for _ in range(2)
    )
    gold.tell(items, answers[items].tolist())
    learner.tell(items, answers[items].tolist(), annotator="machine:llm")

    def error(learner):
        return 100.0 * (np.array(learner.predict(X[400:])) != true[400:]).mean()

    errors = []
    n_checked = 0
    for n_checks in CHECKS:
        new = checked[order][n_checked:n_checks]
        learner.tell(new, true[new].tolist(), annotator="ada")
        n_checked = n_checks
        errors.append(error(learner))
    return np.array(errors), error(gold)


@pytest.mark.parametrize("order", ["agreeing", "random", "contradicting"])
@pytest.mark.parametrize("n_classes", [2, 6])
def test_the_first_ten_checks_never_break_the_model(n_classes, order):
    """At one check, all answers of a program once became worthless: the error rose to 1 - 1/C."""
    largest_rise = {"agreeing": 2.0, "random": 2.0, "contradicting": 5.0}[order]
    losses = []
    for seed in (0, 1):
        errors, error_of_gold = errors_by_checks(n_classes, seed, order)
        noise = 100.0 * np.sqrt(0.1 * 0.9 / 1000)
        assert (errors[1:] - errors[0]).max() < largest_rise + 2.0 * noise, errors
        losses.append(errors[0] - error_of_gold)
    assert np.mean(losses) < 1.0 + noise, "beside taking its answers as gold labels"


def test_two_programs_that_copy_each_other_never_outvote_a_person():
    X, true, generator = make_clouds(700, 700, 2, 1.0, n_columns=10)
    wrong_in_a_third = noisy_answers(generator, true, 0.67)
    learner = ActiveLearner(X[:400], CLASSES, random_state=0)
    for name in ("machine:one", "machine:two"):
        tell(learner, range(300), wrong_in_a_third[:300], annotator=name)
    checked = range(40)
    tell(learner, checked, true[:40], annotator="ada")
    assert [learner.labels[i] for i in checked] == [CLASSES[c] for c in true[:40]]
    real_error = np.mean(wrong_in_a_third[:300] != true[:300])
    for annotator in learner.annotators():
        if annotator.name != "ada":
            assert annotator.error.low <= real_error <= annotator.error.high, annotator
        else:
            assert annotator.error.high > annotator.error.low >= 0.0


def test_without_a_persons_answer_nothing_is_known_of_the_error():
    X, true, generator = make_clouds(701, 700, 2, 2.0, n_columns=10)
    answers = noisy_answers(generator, true, 0.75)
    learner = ActiveLearner(X[:400], CLASSES, random_state=0)
    tell(learner, range(150), answers[:150], annotator="machine:llm")
    error = learner.report().expected_error
    assert error.low < 0.02
    assert error.high > 0.45
    tell(learner, range(30), true[:30], annotator="ada")
    error = learner.report().expected_error
    real_error = (np.array(learner.predict(X[400:])) != np.array(CLASSES)[true[400:]]).mean()
    assert error.low <= real_error <= error.high
    assert error.high < 0.4
