"""One batch in a fresh process: its time, a bare product of the same process, and its points.

Run by ``speed.comparison`` with the source tree to measure first in PYTHONPATH.
"""

import json
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import parbals
from lib.isolate import memory_peak, reset_memory_peak
from lib.workload import PRESETS, make_problem

REPEATS = 3


def main() -> int:
    sizes = json.loads(sys.argv[1])
    is_single = sizes["threads"] == 1
    # CPU seconds do not depend on other programs as much; they say nothing of several threads.
    clock = time.process_time if is_single else time.perf_counter
    print(json.dumps(measure(sizes, clock)))
    return 0


def measure(sizes: dict[str, Any], clock: Callable[[], float]) -> dict[str, Any]:
    """Seconds of batches and of products, taken in turn."""
    problem = make_problem("unit", PRESETS[sizes["preset"]], sizes["classes"])
    model = parbals.BayesianLogisticRegression(random_state=0).fit(problem.X, problem.y)
    size = min(sizes["batch"], len(problem.X_pool) // 2)

    def choose(batch_size: int) -> Any:
        return parbals.select_batch_from_model(
            model,
            problem.X_pool,
            problem.X_target,
            batch_size,
            loss=sizes["loss"],
            random_state=0,
        )

    choose(1)  # loads what is loaded on first use
    seconds = []
    products = []
    before = reset_memory_peak()
    for _ in range(sizes["repeats"]):
        products += [timed(bare_product, clock)[0] for _ in range(REPEATS)]
        elapsed, batch = timed(lambda: choose(size), clock)
        seconds.append(elapsed)
    return {
        "seconds": median(seconds),
        "product": median(products),
        "peak_bytes": memory_peak() - before,
        "score": float(batch.scores.sum()),
        "indices": batch.indices.tolist(),
    }


def timed(function: Callable[[], Any], clock: Callable[[], float]) -> tuple[float, Any]:
    """Seconds and result of a call."""
    start = clock()
    result = function()
    return clock() - start, result


def bare_product() -> np.ndarray:
    """A matrix product of 10,000 × 400 × 1,000 numbers."""
    left = np.ones((10_000, 400), np.float32)
    right = np.ones((400, 1_000), np.float32)
    return left @ right
