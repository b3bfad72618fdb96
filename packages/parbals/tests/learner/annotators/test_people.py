"""Confusion matrices from few answers and from many."""

import numpy as np
from parbals.learner.annotators.people import confusion_matrix


def test_a_confusion_matrix_before_any_answer_and_after_many():
    new = confusion_matrix(np.zeros((4, 4)))
    np.testing.assert_allclose(new, 0.9 * np.eye(4) + 0.1 / 3.0 * (1.0 - np.eye(4)))
    counts = 1e6 * np.array([[0.7, 0.3], [0.1, 0.9]])
    np.testing.assert_allclose(confusion_matrix(counts), [[0.7, 0.3], [0.1, 0.9]], atol=1e-4)
    lazy = confusion_matrix(np.array([[20.0, 0.0, 0.0], [20.0, 0.0, 0.0], [0.0, 0.0, 0.0]]))
    assert lazy[2, 0] > 2.0 * lazy[2, 1]  # says the first class, whatever it is
