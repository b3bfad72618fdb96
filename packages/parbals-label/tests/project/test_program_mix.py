"""The cheapest mix of people and a program: its promise, by simulation and by brute force."""

import numpy as np
import pytest
from parbals.learner.evaluation.limits import sequence_limits
from parbals_label.project.program_mix import cheapest_mix, relabelling

N_ITEMS = 1_000
ERRORS = {
    "informative": lambda error, confidence: 2 * error * (1 - confidence),
    "useless": lambda error, confidence: np.full(len(confidence), error),
    "reversed": lambda error, confidence: 2 * error * confidence,
    "few doubts": lambda error, confidence: np.where(confidence < 0.2, 4.5 * error, error / 8),
}


def export_error(generator, kind, error, n_checks, goal):
    """The share of wrong labels after the mix was followed, and the share that people labelled."""
    confidence = generator.random(N_ITEMS)
    is_wrong = generator.random(N_ITEMS) < ERRORS[kind](error, confidence)
    drawn = generator.choice(N_ITEMS, n_checks, replace=False)
    checks = [(confidence[i], bool(is_wrong[i])) for i in drawn]
    mix = cheapest_mix(goal, N_ITEMS, 0, confidence, checks)
    by_people = generator.permutation(N_ITEMS) < mix.n_people
    if mix.threshold is not None:
        by_people = confidence <= mix.threshold
    return (is_wrong & ~by_people).mean(), by_people.mean()


@pytest.mark.parametrize("n_checks", [30, 150])
@pytest.mark.parametrize("kind", ERRORS)
def test_the_goal_is_missed_in_one_of_twenty_projects_at_most(kind, n_checks):
    """Within 3 standard errors of 5 %, over 200 projects."""
    generator = np.random.default_rng(n_checks)
    errors = [export_error(generator, kind, 0.15, n_checks, 0.05)[0] for _ in range(200)]
    assert np.mean(np.array(errors) > 0.05) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 200)


def test_a_confidence_that_tells_saves_labels_of_people():
    shares = {}
    for kind in ("few doubts", "useless"):
        generator = np.random.default_rng(1)
        shares[kind] = np.mean(
            [export_error(generator, kind, 0.1, 200, 0.05)[1] for _ in range(40)]
        )
    assert shares["few doubts"] < shares["useless"] - 0.2


@pytest.mark.parametrize(("n_wrong", "n_checks"), [(0, 20), (2, 100), (9, 30)])
def test_a_random_share_is_the_smallest_one_that_the_upper_limit_allows(n_wrong, n_checks):
    checks = [(None, i < n_wrong) for i in range(n_checks)]
    _, high = sequence_limits(n_wrong, n_checks, 0.05)
    grid = np.linspace(0, 1, 100_001)
    smallest = grid[(1 - grid) * high <= 0.05].min()
    result = relabelling([], checks, 0.05)
    assert result.share == pytest.approx(smallest, abs=2e-5)
    assert result.threshold is None
    assert result.estimated_share == pytest.approx(max(0, 1 - 0.05 * n_checks / max(n_wrong, 1e-9)))


def test_answers_without_a_confidence_are_relabelled():
    checks = [(None, True)] * 20 + [(0.9, False)] * 180
    result = relabelling([0.9] * 900, checks, 0.05)
    assert result.threshold is not None
    assert result.threshold < 0.9
    assert result.share == 0.0  # of answers that have one


def test_sentences_name_both_numbers_and_both_costs():
    checks = [(None, i < 6) for i in range(60)]
    mix = cheapest_mix(0.05, 1_000, 100, [], checks, program_cost=3.0, human_cost=0.5)
    assert mix.cost == pytest.approx(0.5 * mix.n_people + 3.0)
    assert mix.n_estimated == np.ceil(900 * (1 - 0.05 * 1_000 / 900 / 0.1))
    first, second, third = mix.lines
    assert f"people label {mix.n_people:,} more items, chosen at random" in first
    assert "95 % certainty" in first
    assert f"{mix.n_estimated:,} would do" in second
    assert third.endswith("people alone would cost 450.00.")


def test_nothing_is_left_to_do_where_people_labelled_everything_or_the_goal_is_met():
    checks = [(None, False)] * 100
    assert cheapest_mix(0.05, 50, 50, [], checks).n_people == 0
    (line,) = cheapest_mix(0.05, 1_000, 100, [], checks).lines
    assert line == "The goal is 5 %: its labels meet it without further labels of people."
