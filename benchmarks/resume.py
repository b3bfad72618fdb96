"""Runs that are computed once each and kept as lines of JSON, so that a stopped program goes on."""

import json
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

__all__ = ["resumed"]


def resumed(
    file: Path, runs: Iterable[tuple[tuple[Any, ...], Callable[[], dict[str, Any]]]], shown: str
) -> list[dict[str, Any]]:
    """Every record in ``file``, and of the runs (name, how to compute it) those that it lacks.

    ``shown`` is the entry that is printed when a run is done.
    """
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    records = [json.loads(line) for line in lines]
    done = {tuple(record["run"]) for record in records}
    for run, compute in runs:
        if run in done:
            continue
        began = time.process_time()
        record = {"run": run, **compute()}
        record["cpu_seconds"] = round(time.process_time() - began, 2)
        records.append(record)
        with open(file, "a", encoding="utf-8") as stream:
            stream.write(json.dumps(record) + "\n")
        print(*run, record[shown], record["cpu_seconds"], file=sys.stderr, flush=True)
    return records
