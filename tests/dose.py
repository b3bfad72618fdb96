"""The share of a long suite that runs: all of it, or the dose that CI takes.

Calibration and faults at full counts take hours. With ``PARBALS_DOSE=0.05`` in the environment each
of their tests still runs, with five percent of its repetitions and a few of its parameter sets.
"""

import os
from collections import Counter
from typing import Any, TypeVar

import pytest

__all__ = ["MAX_PARAMETER_SETS", "SHARE", "full_count", "small_and_full", "thin_out"]

SHARE = float(os.environ.get("PARBALS_DOSE", "1"))
MAX_PARAMETER_SETS = 4

Item = TypeVar("Item")


def full_count(n: int, least: int = 2) -> int:
    """``n`` repetitions, or a dose of them: never fewer than ``least``."""
    return max(min(n, least), round(SHARE * n))


def small_and_full(small: Any, full: Any) -> list[Any]:
    """Parameters of one test run twice: small counts always, full ones behind the marker.

    Each is a count, or a tuple of them.
    """
    smallest = small if isinstance(small, tuple) else (small,)
    largest = full if isinstance(full, tuple) else (full,)
    counts = [full_count(n, least) for n, least in zip(largest, smallest, strict=True)]
    return [small, pytest.param(*counts, marks=pytest.mark.faults, id="full")]


def thin_out(items: list[Item], functions: list[str]) -> list[Item]:
    """At most ``MAX_PARAMETER_SETS`` items of each test function, evenly spaced.

    Args:
        items: collected tests.
        functions: the name of each item's function, without its parameters.
    """
    totals = Counter(functions)
    positions: Counter[str] = Counter()
    selected = []
    for item, function in zip(items, functions, strict=True):
        total = totals[function]
        position = positions[function]
        positions[function] += 1
        n_selected = min(total, MAX_PARAMETER_SETS)
        if position * n_selected // total != (position - 1) * n_selected // total:
            selected.append(item)
    return selected
