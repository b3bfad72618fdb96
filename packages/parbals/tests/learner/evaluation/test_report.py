"""A report survives JSON, refuses malformed values, and gives one advice."""

import json

import pytest
from example_reports import RECALL, REPORTS_AND_STOP, report
from parbals.errors import InputError
from parbals.learner.evaluation.report import Estimate, Report

UNKNOWN = Estimate(float("nan"), float("nan"), float("nan"))

REPORTS = [
    report(0.1, 0.2),
    report(0.1, 0.2, measured=(0.1, 0.3), warnings=("The sampler did not settle.",)),
    report(0.1, 0.2, gain=None, recall=RECALL),
    report(
        0.1, 0.2, metric="f1:a", expected_metric=Estimate(0.7, 0.6, 0.8), decide_from={"a": 0.4}
    ),
]


@pytest.mark.parametrize("original", REPORTS)
def test_a_report_comes_back_from_json_as_it_was(original):
    assert Report.from_dict(json.loads(json.dumps(original.to_dict(), allow_nan=False))) == original


def test_what_is_not_known_comes_back_unknown():
    original = report(0.1, 0.2, gain=None, expected_error=UNKNOWN, expected_log_loss=UNKNOWN)
    read = Report.from_dict(original.to_dict())
    assert not read.expected_error.known
    assert read.to_dict() == original.to_dict()


def test_a_report_that_was_stored_before_a_field_was_added_can_be_read():
    values = report(0.1, 0.2).to_dict()
    del values["label_errors"]
    del values["task"]
    assert Report.from_dict(values) == report(0.1, 0.2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda values: values.pop("n_items"), "The report has no n_items"),
        (lambda values: values.update(n_items="many"), "n_items is 'many'"),
        (lambda values: values.update(n_items=True), "n_items is True"),
        (lambda values: values.update(next_gain=float("nan")), "next_gain is nan"),
        (lambda values: values.update(expected_error=[0.1]), r"expected_error is \[0.1\]"),
        (lambda values: values["expected_error"].pop("low"), "The expected_error has no low"),
        (lambda values: values.update(measured={"error": None}), "The measured has no n"),
        (lambda values: values["class_balance"].update(a=None), "class_balance is None"),
        (lambda values: values.update(warnings="none"), "warnings is 'none'"),
    ],
)
def test_anything_else_is_refused_in_one_sentence(change, message):
    values = report(0.1, 0.2, measured=(0.1, 0.3)).to_dict()
    change(values)
    with pytest.raises(InputError, match=message) as caught:
        Report.from_dict(values)
    assert "\n" not in str(caught.value)
    for value in (None, [], "report"):
        with pytest.raises(InputError, match="is not what a report holds"):
            Report.from_dict(value)


@pytest.mark.parametrize(("original", "stop"), REPORTS_AND_STOP)
def test_one_state_has_one_advice(original, stop):
    """A report and what was stored of it never disagree."""
    read = Report.from_dict(original.to_dict())
    assert original.stop == read.stop == original.to_dict()["stop"] == stop
    assert original.advice == read.advice == original.to_dict()["advice"]
