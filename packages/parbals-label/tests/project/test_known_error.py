"""The error that a project shows first is the one to believe, and is dated in labels."""

from dataclasses import replace

import pytest
from example_reports import report
from parbals.learner.evaluation.certify import Certificate
from parbals.types import Estimate
from parbals_label.project.goal import Goal, goal_parts
from parbals_label.project.known_error import known_error, known_error_line
from parbals_label.project.samples import RandomSample

EXPECTED = replace(report(0.31, 0.36), n_labelled=148)
MEASURED = Estimate(0.4, 0.286, 0.522)


def sample(n_labelled=60, target=None, n_labels=88):
    result = Certificate(60, 24, 5862, n_labels, MEASURED) if n_labelled == 60 else None
    return RandomSample(1, 60, n_labelled, result, target=target)


def test_a_measured_error_comes_before_what_the_model_expects():
    known = known_error(EXPECTED, [sample()])
    assert (known.error, known.is_measured, known.n_labels) == (MEASURED, True, 88)
    known = known_error(EXPECTED, [])
    assert (known.error, known.is_measured, known.n_labels) == (
        EXPECTED.expected_error,
        False,
        148,
    )
    assert known_error(None, []) is None


def test_a_sample_that_is_being_labelled_does_not_hide_an_earlier_result():
    known = known_error(EXPECTED, [sample(), sample(n_labelled=12)])
    assert known.error == MEASURED
    assert not known_error(EXPECTED, [sample(n_labelled=12)]).is_measured


def test_a_kept_sample_measures_the_present_model():
    audited = replace(report(0.31, 0.36, measured=(0.2, 0.3)), n_labelled=148)
    known = known_error(audited, [sample()])
    assert (known.error, known.n_labels) == (audited.measured_error, 148)


def test_the_line_of_status_says_which_model_was_measured():
    assert known_error_line(EXPECTED, [sample()], 160) == [
        "measured error: 40 % (90 % interval 28.6 % to 52.2 %), with 88 labels; 72 labels are newer"
    ]
    (line,) = known_error_line(EXPECTED, [sample(target="new.csv")], 88)
    assert line.startswith("measured error on the target set new.csv: 40 %")
    assert line.endswith("with 88 labels")
    assert known_error_line(EXPECTED, [], 160) == []


@pytest.mark.parametrize("high", [0.138, 0.3])
def test_what_the_model_expects_is_never_called_a_limit(high):
    (part,) = goal_parts(Goal(error=0.15), 60, report(0.034, high))
    assert "at most" not in part.sentence
    assert part.sentence.startswith("an error below 15 %; expected 3.4 % (90 % interval up to")
