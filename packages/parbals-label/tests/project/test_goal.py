"""Goals: progress and advice; nobody is told to stop without reason."""

from dataclasses import replace

import pytest
from example_reports import REPORTS_AND_STOP, report
from parbals.learner.evaluation.certify import Certificate
from parbals.learner.evaluation.metric import BALANCED
from parbals.types import Estimate
from parbals_label.project.goal import Goal, advice, goal_parts, metric_of, metric_setting
from parbals_label.project.samples import RandomSample


@pytest.mark.parametrize(("latest", "stop"), REPORTS_AND_STOP)
def test_without_a_goal_a_project_says_what_the_report_says(latest, stop):
    assert advice(Goal(), latest.n_labelled, latest).stop == stop
    assert advice(Goal(), latest.n_labelled, latest).sentence.startswith(latest.advice)


def test_with_a_goal_that_is_not_reached_labels_that_hardly_help_are_no_reason_to_stop():
    latest = report(0.1, 0.2, gain=1e-4)
    assert not advice(Goal(error=0.05), 100, latest).stop
    assert advice(Goal(error=0.3), 100, report(0.1, 0.2, measured=(0.1, 0.2))).stop


@pytest.mark.parametrize(
    ("goal", "n_labelled", "latest", "reached"),
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
def test_only_a_goal_that_was_set_and_reached_ends_the_work(goal, n_labelled, latest, reached):
    step = advice(goal, n_labelled, latest)
    assert step.is_reached == reached
    assert step.sentence.startswith("Your goal is reached.") == reached
    assert "stop" not in step.sentence.replace("when to stop", "")


def test_an_error_that_is_only_expected_is_no_goal_reached():
    goal = Goal(error=0.05)
    expected = report(0.02, 0.04)
    (part,) = goal_parts(goal, 10, expected)
    assert not part.is_reached
    assert part.is_expected
    step = advice(goal, 10, expected)
    assert not step.stop
    assert not step.is_reached
    assert step.sentence.startswith("The model expects that your goal is reached. Label 60 random")
    assert step.measures, "by a sample: an audit cannot begin now"
    drawn_sample = RandomSample(1, 60, 12, None)
    assert not advice(goal, 10, expected, drawn_sample).measures


@pytest.mark.parametrize(("high", "reached"), [(0.049, True), (0.08, False)])
def test_a_random_sample_shows_that_a_goal_is_reached(high, reached):
    certificate = Certificate(60, 0, 500, 40, Estimate(0.01, 0.0, high))
    sample = RandomSample(1, 60, 60, certificate)
    step = advice(Goal(error=0.05), 100, report(0.02, 0.04), sample)
    assert (step.is_reached, step.stop) == (reached, reached)
    assert step.sentence.startswith("Your goal is reached. The measured error is 1 %.") == reached


UNKNOWN = Estimate(float("nan"), float("nan"), float("nan"))
UNMEASURED = replace(report(0.3, 0.4, measured=(0.1, 0.2)).measured, error=None)
"""The result of an audit before its first look."""


@pytest.mark.parametrize(
    ("latest", "words"),
    [
        (report(0.3, 0.4), "is still above target"),
        (report(0.04, 0.06), "may still be above target"),
        (report(0.1, 0.2, expected_error=UNKNOWN), "is not known yet"),
        (replace(report(0.02, 0.04), measured=UNMEASURED), "is not known yet"),
    ],
)
def test_with_enough_labels_the_error_that_is_left_is_said_as_it_is_known(latest, words):
    step = advice(Goal(labels=100, error=0.05), 100, latest)
    assert step.sentence == f"You reached your label goal, but the error {words}."
    assert not step.is_reached


def test_a_sample_counts_although_an_audit_has_only_begun():
    latest = replace(report(0.02, 0.04), measured=UNMEASURED)
    certificate = Certificate(60, 0, 500, 40, Estimate(0.01, 0.0, 0.04))
    sample = RandomSample(1, 60, 60, certificate)
    assert advice(Goal(error=0.05), 100, latest, sample).is_reached


def test_a_measured_error_counts_by_its_upper_end():
    goal = Goal(error=0.05)
    shown = report(0.02, 0.04, measured=(0.02, 0.04))
    assert advice(goal, 10, shown).sentence.startswith("Your goal is reached.")
    (part,) = goal_parts(goal, 10, report(0.02, 0.04, measured=(0.05, 0.1)))
    assert part.share == 0.5
    assert part.sentence == "an error below 5 %; measured 5 % (90 % interval up to 10 %)"


def test_labels_that_hardly_help_are_said_to_with_the_error_left_open():
    words = advice(Goal(), 500, report(0.46, 0.5, gain=1e-4)).sentence
    assert words.startswith("More labels hardly change the model")


@pytest.mark.parametrize("metric", ["accuracy", "log-loss", BALANCED, "f1:spam"])
def test_a_metric_is_what_it_was_remembered_as(metric):
    assert metric_of(metric_setting(metric)) == metric


def test_a_project_remembers_a_loss_where_a_metric_has_one():
    assert (metric_setting("accuracy"), metric_setting("log-loss")) == ("error", "log")
