"""Reports made by hand, for tests of what people are told of them."""

from parbals.learner.evaluation.report import Estimate, Measurement, Recall, Report

RECALL = Recall("a", 6, Estimate(2.0, 0.0, 5.0), Estimate(0.8, 0.5, 1.0), None, 1.5, False, "Go on")


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
