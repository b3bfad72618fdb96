"""Error rates from checked answers: intervals hold the truth; without checks nothing is known."""

import numpy as np
import pytest
from dose import full_count
from parbals import ActiveLearner
from parbals.learner.annotators.error_rates import contradiction_slope
from simulated_annotators import CLASSES, make_clouds, noisy_answers, tell, three_copies


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


@pytest.mark.parametrize("n_classes", [2, 4])
def test_wrong_answers_are_contradicted_by_the_slope_more_than_right_ones(n_classes):
    """True classes are drawn from the predictions: within 4 standard errors of 40,000 items."""
    generator = np.random.default_rng(n_classes)
    predictions = generator.dirichlet(np.full(n_classes, 0.7), size=40_000)
    edges = predictions.cumsum(axis=1)
    true = np.minimum((generator.random((40_000, 1)) > edges).sum(axis=1), n_classes - 1)
    wrong = (true + generator.integers(1, n_classes, size=40_000)) % n_classes
    items = np.arange(40_000)
    differences = predictions[items, true] - predictions[items, wrong]
    slope = contradiction_slope(predictions)
    assert abs(differences.mean() - slope) < 4 * differences.std() / 200
