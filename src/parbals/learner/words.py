"""What a report's measurement says, in words; it takes the report as plain values, and no model."""

from collections.abc import Mapping
from typing import Any

__all__ = ["certificate", "class_lines", "may_stop"]


def may_stop(measured: Mapping[str, Any] | None, wanted: float) -> tuple[bool, str]:
    """Whether the error is certified to be below ``wanted``, and the same in words."""
    is_certified = bool(measured and measured["error"] and measured["error"]["high"] < wanted)
    answer = "Yes" if is_certified else f"Not yet, for {wanted:.1%} is wanted"
    return is_certified, f"{answer}. {certificate(measured)}"


def certificate(measured: Mapping[str, Any] | None) -> str:
    """How large the error is: one sentence.

    ``measured`` is a report's, as a dictionary; None where there is no audit.
    """
    if measured is None:
        return (
            "How large the error is has not been measured: the expected error is the model's own "
            "expectation, and an audit would measure it."
        )
    error = measured["error"]
    if error is None:
        return (
            f"How large the error is will be measured as the {measured['n_audit']} random items of "
            "the audit are labelled."
        )
    return (
        f"With 95 % confidence the error is below {error['high']:.1%}: of {measured['n']} random "
        f"items the model of the first {measured['n_labels']:,} labels got {measured['n_wrong']} "
        f"wrong, {error['mean']:.1%} (90 % interval {error['low']:.1%} to {error['high']:.1%})."
    )


def class_lines(measured: Mapping[str, Any] | None) -> list[str]:
    """Recall and precision of each class as far as the audit can tell, a line each."""
    if measured is None or measured["error"] is None:
        return []
    lines, silent = [], []
    for label in measured["recall"]:
        shares = [(name, measured[name][label]) for name in ("recall", "precision")]
        told = [
            f"{name} {share['mean']:.0%} ({share['low']:.0%} to {share['high']:.0%})"
            for name, share in shares
            if share is not None
        ]
        lines += [f"  {label}: {', '.join(told)}"] if told else []
        silent += [] if told else [str(label)]
    if silent:
        lines.append(f"  too few random items to tell: {', '.join(silent)}")
    return lines
