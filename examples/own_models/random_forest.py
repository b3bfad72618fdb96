"""A random forest needs no adapter of yours: its trees are the samples."""

from collections.abc import Callable

import numpy as np
import parbals
from sklearn.ensemble import RandomForestClassifier


def label_with_a_forest(
    X: np.ndarray, answer: Callable, classes: list, rounds: int = 5
) -> parbals.ActiveLearner:
    """Ask for ten items a round; ``answer(positions)`` gives their labels."""
    forest = RandomForestClassifier(300, min_samples_leaf=2, random_state=0)
    learner = parbals.ActiveLearner(X, classes, model=forest, random_state=0)
    for _ in range(rounds):
        positions = learner.ask(10)
        learner.tell(positions, answer(positions))
    return learner
