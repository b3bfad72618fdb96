"""How long strategies took, stage by stage and device by device."""

from collections.abc import Sequence

import numpy as np

from parbals_bench.report.tables import Table, text_table
from parbals_bench.report.tasks import Task
from parbals_bench.run.records import RunRecord

__all__ = ["times_tables"]

_COLUMNS = ("one batch", "all batches", "fitting", "predicting", "runs")


def times_tables(tasks: Sequence[Task]) -> list[Table]:
    """A table for each device, the quickest strategy first: the median time of one batch, and the
    mean time of each stage over runs.

    Of batches alone: single labels mean many more fits.
    """
    records: dict[str, dict[str, list[RunRecord]]] = {}
    for task in tasks:
        for line, of_seed in task.records.items() if task.budget.batch > 1 else ():
            for record in of_seed.values():
                # "gpu: NVIDIA H200"; "cpu", with JAX "cpu: cpu"
                device = record.versions.get("device", "an unknown device").rpartition(": ")[2]
                of_device = records.setdefault(device, {})
                of_device.setdefault(line.title, []).append(record)
    tables = []
    for device, by_line in records.items():
        seconds = {name: _seconds(by_line[name]) for name in by_line}
        order = sorted(seconds, key=lambda name: seconds[name][0])
        rows = {x: (*map(_in_words, seconds[x]), f"{len(by_line[x]):,}") for x in order}
        longest = seconds[order[-1]][0] or 1.0
        bars = [seconds[name][0] / longest for name in order]
        tables.append(text_table(f"Run time on {device}", _COLUMNS, rows, bars))
    return tables


def _seconds(records: Sequence[RunRecord]) -> tuple[float, ...]:
    """Of one batch, of all batches, of fitting and of predicting."""
    one_batch = np.median([value for record in records for value in record.seconds["select"]])
    stages = ("select", "fit", "predict")
    sums = [[sum(record.seconds[stage]) for stage in stages] for record in records]
    return float(one_batch), *np.mean(sums, axis=0).tolist()


def _in_words(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
