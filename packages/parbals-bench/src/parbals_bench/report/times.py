"""How long strategies took, stage by stage and device by device."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from parbals_bench.report.tables import Table, text_table
from parbals_bench.report.tasks import Line, Task
from parbals_bench.run.records import RunRecord

__all__ = ["StageTimes", "device_title", "stage_times", "times_tables"]


@dataclass(frozen=True)
class StageTimes:
    """Seconds of a strategy on one device: means over runs, and the median over all batches."""

    line: Line
    fit: float
    predict: float
    select: float
    one_batch: float
    n_runs: int


def stage_times(tasks: Sequence[Task]) -> dict[str, list[StageTimes]]:
    """By device, the quickest first; of batches alone: single labels mean many more fits."""
    records: dict[str, dict[Line, list[RunRecord]]] = {}
    for task in tasks:
        for line, of_seed in task.records.items() if task.budget.batch > 1 else ():
            for record in of_seed.values():
                of_device = records.setdefault(device_title(record.versions.get("device")), {})
                of_device.setdefault(line, []).append(record)
    return {
        device: sorted((_times(x, of_line[x]) for x in of_line), key=lambda t: t.one_batch)
        for device, of_line in records.items()
    }


def times_tables(times: Mapping[str, Sequence[StageTimes]]) -> list[Table]:
    """Seconds by stage, the quickest strategy first; a table for each device."""
    columns = ("one batch", "all batches", "fitting", "predicting", "runs")
    tables = []
    for device, of_device in times.items():
        rows = {}
        for t in of_device:
            stages = (t.one_batch, t.select, t.fit, t.predict)
            rows[t.line.title] = (*(_seconds(stage) for stage in stages), f"{t.n_runs:,}")
        longest = max(t.one_batch for t in of_device) or 1.0
        bars = [t.one_batch / longest for t in of_device]
        tables.append(text_table(f"Run time on {device}", columns, rows, bars))
    return tables


def device_title(device: str | None) -> str:
    """What records call "gpu: NVIDIA H200" → "NVIDIA H200 (GPU)"; "cpu: cpu" → "CPU"."""
    if not device:
        return "an unknown device"
    kind, _, name = device.partition(": ")
    if name.lower() in ("", kind.lower()):
        return kind.upper()
    return name if kind.lower() in name.lower() else f"{name} ({kind.upper()})"


def _times(line: Line, records: Sequence[RunRecord]) -> StageTimes:
    stages = ("fit", "predict", "select")
    sums = [[sum(record.seconds[stage]) for stage in stages] for record in records]
    fit, predict, select = np.mean(sums, axis=0).tolist()
    one_batch = np.median([value for record in records for value in record.seconds["select"]])
    return StageTimes(line, fit, predict, select, float(one_batch), len(records))


def _seconds(value: float) -> str:
    return f"{1000 * value:.0f} ms" if value < 1 else f"{value:.1f} s"
