"""Copies of one annotator count as one; people who agree because they are right do not."""

import numpy as np
import pytest
from dose import full_count
from parbals import ActiveLearner
from simulated_annotators import CLASSES, make_clouds, noisy_answers, tell, three_copies


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
