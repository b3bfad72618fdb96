"""(d) Peak memory of a ParBaLS batch over its inputs, for two classes and for many."""

from typing import Any, NamedTuple

import numpy as np
from lib.isolate import compile_counter, memory_peak, reset_memory_peak, timed
from lib.report import Detail, Ratio, Section, seconds
from lib.workload import Sizes, make_problem
from speed.engine.bench import Bench

__all__ = ["run"]

GOAL = 1.0  # GB
_GB = 1e9


class Peak(NamedTuple):
    """Bytes over what was resident before the call, and its seconds; first call and, for two
    classes, second call."""

    first_bytes: int
    first_seconds: float
    second_bytes: int | None
    second_seconds: float | None
    input_bytes: int
    compiled: int
    smallest_sample_size: float


def run(bench: Bench) -> Section:
    """Each number of classes in a fresh process."""
    sizes = bench.sizes
    section = Section(
        "d",
        f"Memory of a ParBaLS batch over its inputs, N={sizes.n_pool:,}, M={sizes.n_target:,}, "
        f"K={sizes.n_samples}, D={sizes.n_features}, U={sizes.n_universes}, B={sizes.batch_size}",
    )
    rows = []
    for n_classes in (2, sizes.many_classes):
        if n_classes == 0:
            section.notes.append("Many classes are left out at these sizes; the full run has them.")
            continue
        peak = bench.call_fresh(
            f"(d) memory of a batch, {n_classes} classes", measure, n_classes, sizes
        )
        peak_bytes = max(peak.first_bytes, peak.second_bytes or 0)
        title = f"peak memory of a batch over its inputs, {n_classes} classes"
        section.ratios.append(
            Ratio(
                title,
                _megabytes(peak_bytes),
                f"inputs {_megabytes(peak.input_bytes)}",
                peak_bytes / _GB,
                GOAL,
                True,
                " GB",
            )
        )
        rows.append(
            (
                str(n_classes),
                _megabytes(peak.first_bytes),
                seconds(peak.first_seconds),
                str(peak.compiled),
                "" if peak.second_bytes is None else _megabytes(peak.second_bytes),
                "" if peak.second_seconds is None else seconds(peak.second_seconds),
                f"{peak.smallest_sample_size:.0f}",
            )
        )
        section.data[f"{n_classes}_classes"] = peak._asdict()
    columns = (
        "classes",
        "first call",
        "time",
        "programs",
        "second call",
        "time",
        "least effective samples",
    )
    section.details.append(Detail(section.title, columns, rows))
    section.notes.append(
        "Peak resident memory during the call less what was resident before it, when modules, "
        "model and features were loaded; the first call includes the compiler's own memory."
    )
    return section


def measure(n_classes: int, sizes: Sizes) -> Peak:
    """A batch in this fresh process, and for two classes another (many classes take minutes)."""
    import parbals

    problem = make_problem("unit", sizes, n_classes)
    model = parbals.BayesianLogisticRegression(n_samples=sizes.n_samples, random_state=0).fit(
        problem.X, problem.y
    )
    parbals.select_batch_from_model  # noqa: B018  (loads its modules before the baseline)

    def choose(seed: int) -> Any:
        return parbals.select_batch_from_model(
            model,
            problem.X_pool,
            problem.X_target,
            batch_size=sizes.batch_size,
            n_universes=sizes.n_universes,
            random_state=seed,
        )

    count = compile_counter()
    before = reset_memory_peak()
    first_seconds, batch = timed(lambda: choose(0))
    first = memory_peak() - before
    compiled = count()[0]
    second = None
    second_seconds = None
    if n_classes == 2:
        # Against the same baseline: memory the first batch left behind counts as well.
        reset_memory_peak()
        second_seconds, _ = timed(lambda: choose(1))
        second = memory_peak() - before
    inputs = problem.X_pool.nbytes + problem.X_target.nbytes
    return Peak(
        first,
        first_seconds,
        second,
        second_seconds,
        inputs,
        compiled,
        float(np.min(batch.effective_sample_size)),
    )


def _megabytes(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:,.0f} MB"
