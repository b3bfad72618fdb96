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
