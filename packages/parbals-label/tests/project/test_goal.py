"""Goals: progress and advice; nobody is told to stop without reason."""

from dataclasses import replace

import pytest
from example_reports import RECALL, report
from parbals.learner.evaluation.certify import Certificate
from parbals.learner.evaluation.metric import BALANCED
from parbals.types import Estimate
from parbals_label.project.certified import CertificateSample
from parbals_label.project.goal import Goal, advice, goal_parts, metric_of, metric_setting


@pytest.mark.parametrize(
    ("made", "stop"),
    [
        (report(0.1, 0.2), False),
        (report(0.1, 0.2, gain=1e-4), True),
        (report(0.1, 0.2, gain=None, batch_size=0), True),
        (report(0.1, 0.2, gain=None), False),
        (report(0.1, 0.2, recall=RECALL), False),
        (report(0.1, 0.2, recall=replace(RECALL, stop=True)), True),
    ],
)
def test_without_a_goal_a_project_says_what_the_report_says(made, stop):
    assert advice(Goal(), made.n_labelled, made).stop == stop
    assert advice(Goal(), made.n_labelled, made).sentence.startswith(made.advice)


def test_with_a_goal_that_is_not_reached_labels_that_hardly_help_are_no_reason_to_stop():
    made = report(0.1, 0.2, gain=1e-4)
    assert not advice(Goal(error=0.05), 100, made).stop
    assert advice(Goal(error=0.3), 100, report(0.1, 0.2, measured=(0.1, 0.2))).stop


@pytest.mark.parametrize(
    ("goal", "n_labelled", "made", "reached"),
    [
        (Goal(), 500, report(0.01, 0.02, gain=0.0), False),
        (Goal(labels=100), 99, report(0.01, 0.02), False),
        (Goal(labels=100), 100, report(0.4, 0.5), True),
        (Goal(error=0.05), 10, None, False),
        (Goal(error=0.05), 10, report(0.04, 0.06), False),
        (Goal(error=0.05), 10, report(0.02, 0.04), False),  # nobody has measured it
        (Goal(error=0.05), 10, report(0.02, 0.04, measured=(0.03, 0.07)), False),
        (Goal(error=0.05), 10, report(0.3, 0.4, measured=(0.02, 0.04)), True),
        (Goal(error=0.05), 10, report(0.02, 0.05), False),
        (Goal(100, 0.05), 100, report(0.3, 0.4), False),
    ],
)
def test_only_a_goal_that_was_set_and_reached_ends_the_work(goal, n_labelled, made, reached):
    given = advice(goal, n_labelled, made)
    assert given.is_reached == reached
    assert given.sentence.startswith("Your goal is reached.") == reached
    assert "stop" not in given.sentence.replace("when to stop", "")


def test_an_error_that_is_only_expected_is_no_goal_reached():
    goal, expected = Goal(error=0.05), report(0.02, 0.04)
    given, (part,) = advice(goal, 10, expected), goal_parts(goal, 10, expected)
    assert (given.stop, given.is_reached, part.is_reached, part.is_expected) == (0, 0, 0, 1)
    assert given.sentence.startswith("The model expects that your goal is reached. Label 60 random")
    assert given.measures  # by a sample: an audit cannot begin now
    assert not advice(
        goal, 10, expected, CertificateSample(1, 60, 12, None)
    ).measures  # which is drawn


@pytest.mark.parametrize(("high", "reached"), [(0.049, True), (0.08, False)])
def test_a_random_sample_shows_that_a_goal_is_reached(high, reached):
    found = Certificate(60, 0, 500, 40, Estimate(0.01, 0.0, high))
    given = advice(Goal(error=0.05), 100, report(0.02, 0.04), CertificateSample(1, 60, 60, found))
    assert (given.is_reached, given.stop) == (reached, reached)
    assert given.sentence.startswith("Your goal is reached. The measured error is 1 %.") == reached


def test_a_measured_error_counts_by_its_upper_end():
    goal = Goal(error=0.05)
    shown = report(0.02, 0.04, measured=(0.02, 0.04))
    assert advice(goal, 10, shown).sentence.startswith("Your goal is reached.")
    (part,) = goal_parts(goal, 10, report(0.02, 0.04, measured=(0.05, 0.1)))
    assert part.share == 0.5
    assert part.sentence == "an error below 5 %; measured 5 %, at most 10 %"


def test_labels_that_hardly_help_are_said_to_with_the_error_left_open():
    words = advice(Goal(), 500, report(0.46, 0.5, gain=1e-4)).sentence
    assert words.startswith("More labels hardly change the model")


@pytest.mark.parametrize("metric", ["accuracy", "log-loss", BALANCED, "f1:spam"])
def test_a_metric_is_what_it_was_remembered_as(metric):
    assert metric_of(metric_setting(metric)) == metric


def test_a_project_remembers_a_loss_where_a_metric_has_one():
    assert (metric_setting("accuracy"), metric_setting("log-loss")) == ("error", "log")
