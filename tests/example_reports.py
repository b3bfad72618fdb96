"""Hand-made reports for tests of the sentences about them."""

from dataclasses import replace

from parbals.learner.evaluation.report import Estimate, Measurement, Recall, Report

RECALL = Recall(
    label="a",
    found=6,
    left=Estimate(2.0, 0.0, 5.0),
    recall=Estimate(0.8, 0.5, 1.0),
    measured=None,
    next_finds=1.5,
    stop=False,
    advice="Go on",
)


def report(mean, high, *, gain=0.1, measured=None, **changes):
    """Make a report with an expected error (mean, high), and a measured one if there is an audit.

    Args:
        measured: mean and upper limit of the measured error.
        changes: other fields of the report.
    """
    measurement = None
    if measured is not None:
        error = Estimate(measured[0], 0.0, measured[1])
        measurement = Measurement(
            error=error,
            n=20,
            n_wrong=2,
            n_audit=50,
            n_labels=80,
            recall={"a": error, "b": None},
            precision={"a": None, "b": error},
        )
    defaults = {
        "n_items": 1000,
        "n_labelled": 100,
        "n_pending": 3,
        "n_targets": 500,
        "class_balance": {"a": 60, "b": 40},
        "expected_error": Estimate(mean, 0.0, high),
        "expected_log_loss": Estimate(0.5, 0.4, 0.6),
        "batch_size": 10,
        "next_gain": gain,
        "measured": measurement,
    }
    return Report(**(defaults | changes))


REPORTS_AND_STOP = [
    (report(0.1, 0.2), False),
    (report(0.1, 0.2, gain=1e-4), True),
    (report(0.1, 0.2, gain=None, batch_size=0), True),
    (report(0.1, 0.2, gain=None), False),
    (report(0.1, 0.2, recall=RECALL), False),
    (report(0.1, 0.2, recall=replace(RECALL, stop=True)), True),
]
"""Reports, and whether each advises to stop."""
