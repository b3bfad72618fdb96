"""Seconds, CPU seconds and memory of calls, as one line of a record."""

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
from lib.isolate import memory_peak, reset_memory_peak

__all__ = ["Measure", "bare_product", "measured"]

Measure = dict[str, Any]
"""``measure`` (its name; empty for the row itself), ``seconds``, ``cpu_seconds``, ..."""


def measured(
    name: str, function: Callable[[], Any], repeats: int = 1, *, has_peak: bool = True
) -> tuple[Measure, Any]:
    """Least seconds and CPU seconds of ``repeats`` calls, their peak memory, and the last result.

    The peak is over what was resident before; without ``has_peak`` that of the whole process
    counts, as where files are mapped.
    """
    wall = []
    cpu = []
    before = reset_memory_peak()
    result = None
    for _ in range(repeats):
        wall_start = time.perf_counter()
        cpu_start = time.process_time()
        result = function()
        cpu.append(time.process_time() - cpu_start)
        wall.append(time.perf_counter() - wall_start)
    measure: Measure = {"measure": name, "seconds": min(wall), "cpu_seconds": min(cpu)}
    if has_peak:
        measure["peak_bytes"] = max(memory_peak() - before, 0)
    return measure, result


def bare_product(repeats: int = 3) -> Measure:
    """A float32 matrix product of 10,000 × 400 × 1,000 numbers: the unit of ``products``."""
    left = np.ones((10_000, 400), np.float32)
    right = np.ones((400, 1_000), np.float32)
    runs = [measured("product", lambda: left @ right, has_peak=False)[0] for _ in range(repeats)]
    return {
        "measure": "product",
        "seconds": median(run["seconds"] for run in runs),
        "cpu_seconds": median(run["cpu_seconds"] for run in runs),
    }
