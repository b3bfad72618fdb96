"""A report is typed both ways, and what people are told of it is one thing: never to stop without
reason."""

import json
from dataclasses import replace

import pytest
from parbals.errors import InputError
from parbals.learner.numbers.report import Estimate, Measurement, Recall, Report

UNKNOWN = Estimate(float("nan"), float("nan"), float("nan"))


def report(mean, high, *, gain=0.1, measured=None, **more):
    """A report of an expected error, and of a measured one (mean, high) where there is an audit."""
    found = None
    if measured is not None:
        error = Estimate(measured[0], 0.0, measured[1])
        found = Measurement(error, 20, 2, 50, 80, {"a": error, "b": None}, {"a": None, "b": error})
    plain = {
        "n_items": 1000,
        "n_labelled": 100,
        "n_pending": 3,
        "n_targets": 500,
        "class_balance": {"a": 60, "b": 40},
        "expected_error": Estimate(mean, 0.0, high),
        "expected_log_loss": Estimate(0.5, 0.4, 0.6),
        "batch_size": 10,
        "next_gain": gain,
        "measured": found,
    }
    return Report(**plain | more)


RECALL = Recall("a", 6, Estimate(2.0, 0.0, 5.0), Estimate(0.8, 0.5, 1.0), None, 1.5, False, "Go on")
REPORTS = [
    report(0.1, 0.2),
    report(0.1, 0.2, measured=(0.1, 0.3), warnings=("The sampler did not settle.",)),
    report(0.1, 0.2, gain=None, recall=RECALL),
    report(
        0.1, 0.2, metric="f1:a", expected_metric=Estimate(0.7, 0.6, 0.8), decide_from={"a": 0.4}
    ),
]


@pytest.mark.parametrize("made", REPORTS)
def test_a_report_comes_back_from_json_as_it_was(made):
    assert Report.from_dict(json.loads(json.dumps(made.to_dict(), allow_nan=False))) == made


def test_what_is_not_known_comes_back_unknown():
    made = report(0.1, 0.2, gain=None, expected_error=UNKNOWN, expected_log_loss=UNKNOWN)
    read = Report.from_dict(made.to_dict())
    assert not read.expected_error.known
    assert read.to_dict() == made.to_dict()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda plain: plain.pop("n_items"), "The report has no n_items"),
        (lambda plain: plain.update(n_items="many"), "n_items is 'many'"),
        (lambda plain: plain.update(n_items=True), "n_items is True"),
        (lambda plain: plain.update(next_gain=float("nan")), "next_gain is nan"),
        (lambda plain: plain.update(expected_error=[0.1]), r"expected_error is \[0.1\]"),
        (lambda plain: plain["expected_error"].pop("low"), "The expected_error has no low"),
        (lambda plain: plain.update(measured={"error": None}), "The measured has no n"),
        (lambda plain: plain["class_balance"].update(a=None), "class_balance is None"),
        (lambda plain: plain.update(warnings="none"), "warnings is 'none'"),
    ],
)
def test_anything_else_is_refused_in_one_sentence(change, message):
    plain = report(0.1, 0.2, measured=(0.1, 0.3)).to_dict()
    change(plain)
    with pytest.raises(InputError, match=message) as caught:
        Report.from_dict(plain)
    assert "\n" not in str(caught.value)
    for other in (None, [], "report"):
        with pytest.raises(InputError, match="is not what a report holds"):
            Report.from_dict(other)


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
def test_one_state_has_one_advice(made, stop):
    """A report and what was stored of it never disagree."""
    read = Report.from_dict(made.to_dict())
    assert made.stop == read.stop == made.to_dict()["stop"] == stop
    assert made.advice == read.advice == made.to_dict()["advice"]
