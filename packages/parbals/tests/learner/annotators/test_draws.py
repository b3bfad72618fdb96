"""Error rates from answers alone: no chain may count that exchanged truth and falsehood."""

import numpy as np
import pytest
from parbals.learner.annotators.draws import Raters, draw_errors

N_ITEMS = 60
N_RUNS = 30


def draw_answers(seed, accuracies, is_person):
    """Answers of raters with these accuracies to items of two classes, and their true errors."""
    generator = np.random.default_rng(seed)
    n_raters = len(accuracies)
    classes = generator.integers(0, 2, N_ITEMS)
    is_right = generator.random((N_ITEMS, n_raters)) < accuracies
    labels = np.where(is_right, classes[:, None], 1 - classes[:, None])
    raters = Raters(
        rater=np.tile(np.arange(n_raters), N_ITEMS),
        row=np.repeat(np.arange(N_ITEMS), n_raters),
        label=labels.ravel(),
        share=np.ones(labels.size),
        gold=np.full(N_ITEMS, -1),
        is_person=np.array(is_person),
    )
    return raters, 1.0 - is_right.mean(axis=0)


@pytest.mark.parametrize(
    ("accuracies", "is_person"),
    [
        pytest.param((0.9, 0.9, 0.05), (True, True, True), id="adversary"),
        pytest.param((0.9, 0.9, 0.05), (True, True, False), id="program that lies"),
        pytest.param((0.9, 0.85), (True, True), id="two people"),
        pytest.param((0.8, 0.8, 0.2), (True, True, True), id="careless people and an adversary"),
    ],
)
def test_nobody_is_mistaken_for_their_opposite(accuracies, is_person):
    """From a start that knows nothing, about half of the chains would find the opposite."""
    start_probs = np.full((N_ITEMS, 2), 0.5)
    n_intervals = N_RUNS * len(accuracies)
    n_covered = 0
    n_opposite = 0
    for seed in range(N_RUNS):
        raters, errors = draw_answers(seed, accuracies, is_person)
        draws = draw_errors(raters, np.ones(len(raters.row), bool), start_probs, seed)
        for j, error in enumerate(errors):
            estimate = draws.estimate(j)
            n_covered += estimate.low <= error <= estimate.high
            n_opposite += abs(estimate.mean - error) > 0.5
    monte_carlo_error = np.sqrt(0.1 * 0.9 / n_intervals)
    assert n_opposite <= 0.02 * n_intervals
    assert n_covered / n_intervals >= 0.9 - 2 * monte_carlo_error


def test_two_people_who_always_disagree_leave_both_explanations():
    generator = np.random.default_rng(0)
    first = generator.integers(0, 2, N_ITEMS)
    raters = Raters(
        rater=np.tile([0, 1], N_ITEMS),
        row=np.repeat(np.arange(N_ITEMS), 2),
        label=np.column_stack([first, 1 - first]).ravel(),
        share=np.ones(2 * N_ITEMS),
        gold=np.full(N_ITEMS, -1),
        is_person=np.ones(2, bool),
    )
    draws = draw_errors(raters, np.ones(2 * N_ITEMS, bool), np.full((N_ITEMS, 2), 0.5))
    for j in range(2):
        estimate = draws.estimate(j)
        assert estimate.high - estimate.low > 0.5
