"""(c) Two-class EPIG of a whole pool, against the one matrix product it cannot do without."""

from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
from lib.isolate import timed
from lib.report import Detail, Ratio, Section, quartiles, seconds, spread
from lib.workload import Sizes, plain_epig
from speed.engine.bench import Bench

__all__ = ["run"]

GOAL = 2.0
_PLAIN = "plain NumPy EPIG, "
_PRODUCT = "NumPy matrix product, "


def run(bench: Bench) -> Section:
    """All in one process, in turns: this is a ratio of milliseconds."""
    sizes = bench.sizes
    size = f"{sizes.n_pool:,} × {sizes.n_target:,} × {sizes.n_samples}"
    section = Section("c", f"EPIG of a pool, two classes, {size}")
    times, difference = bench.call_fresh("(c) EPIG against a matrix product", measure, sizes)
    for dtype in ("float32", "float64"):
        ours = median(times["parbals.epig, " + dtype])
        product = median(times[_PRODUCT + dtype])
        plain = median(times[_PLAIN + dtype])
        goal = GOAL if dtype == "float32" else None
        title = f"EPIG {dtype}, its time as a multiple of the bare matrix product"
        section.ratios.append(
            Ratio(title, seconds(ours), seconds(product), ours / product, goal, upper_limit=True)
        )
        section.ratios.append(
            Ratio(f"EPIG {dtype}, against plain NumPy", seconds(ours), seconds(plain), plain / ours)
        )
    rows = [
        (name, spread(values), seconds(min(values)), str(len(values)))
        for name, values in times.items()
    ]
    section.details.append(
        Detail(section.title, ("what", "time (quartiles)", "fastest", "repetitions"), rows)
    )
    section.notes.append(
        f"Largest difference between parbals.epig and plain NumPy, float64: {difference:.1e} nats."
    )
    section.data = {name: quartiles(values) for name, values in times.items()} | {
        "largest_difference": difference
    }
    return section


def measure(sizes: Sizes) -> tuple[dict[str, list[float]], float]:
    """Interleaved repetitions of everything."""
    import parbals

    tasks: dict[str, Callable[[], Any]] = {}
    probs = {}
    for dtype in (np.float32, np.float64):
        name = np.dtype(dtype).name
        pool = _probs(sizes.n_pool, sizes, dtype, 0)
        target = _probs(sizes.n_target, sizes, dtype, 1)
        A = np.ascontiguousarray(pool[:, :, 1])
        B = np.ascontiguousarray(target[:, :, 1].T)
        tasks["parbals.epig, " + name] = lambda pool=pool, target=target: parbals.epig(pool, target)
        tasks[_PRODUCT + name] = lambda A=A, B=B: A @ B
        tasks[_PLAIN + name] = lambda pool=pool, target=target: plain_epig(pool, target)
        probs[name] = pool, target
    difference = float(
        np.max(np.abs(parbals.epig(*probs["float64"]) - plain_epig(*probs["float64"])))
    )
    for task in tasks.values():
        task()
    times: dict[str, list[float]] = {name: [] for name in tasks}
    for turn in range(sizes.score_repeats):
        for name, task in tasks.items():
            if name.startswith(_PLAIN) and turn >= sizes.plain_repeats:
                continue
            times[name].append(timed(task)[0])
    return times, difference


def _probs(n_points: int, sizes: Sizes, dtype: type, seed: int) -> np.ndarray:
    """(n, K, 2) predictions that vary between points and, less, between posterior samples."""
    generator = np.random.default_rng(seed)
    shared = np.random.default_rng(9).standard_normal((8, sizes.n_samples))
    logits = (
        generator.standard_normal((n_points, 1))
        + 0.3 * generator.standard_normal((n_points, 8)) @ shared
    )
    positive = 1.0 / (1.0 + np.exp(-logits))
    return np.stack([1.0 - positive, positive], axis=2).astype(dtype)
