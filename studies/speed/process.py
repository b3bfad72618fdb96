"""A row's process, stopped when it takes too long or too much memory."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from lib.folders import STUDIES
from speed.rows import Row

__all__ = ["Limits", "run_row"]

POLL_SECONDS = 0.02
ACCELERATED = ("gpu", "first_call")
ENVIRONMENT = dict(os.environ)
"""The user's, before this process is pinned to cores and to the CPU."""
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class Limits(NamedTuple):
    """What a process may take."""

    seconds: float
    gigabytes: float
    threads: int


def run_row(row: Row, sources: list[Path], sizes: dict[str, Any], limits: Limits) -> dict[str, Any]:
    """Measures by name, the peak of the process's own memory, and why it was stopped, if it was."""
    command = [sys.executable, str(STUDIES), "speed.measure", row.kind, json.dumps(sizes)]
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=errors,
            env=_environment(row, sources, limits),
            start_new_session=True,  # processes that it starts end with it
        )
        try:
            stopped, own_bytes = _watch(process, limits)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if not stopped and process.returncode != 0:
            errors.seek(0)
            lines = errors.read().strip().splitlines() or ["no message"]
            stopped = f"failed: {lines[-1]} (exit code {process.returncode})"
        output.seek(0)
        measures = _by_name(output.read().splitlines())
    result: dict[str, Any] = {"measures": measures, "own_bytes": own_bytes}
    return result | ({"stopped": stopped} if stopped else {})


def _environment(row: Row, sources: list[Path], limits: Limits) -> dict[str, str]:
    environment = dict(ENVIRONMENT)
    path = [*map(str, sources), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, path))
    if row.kind not in ACCELERATED:
        environment["JAX_PLATFORMS"] = "cpu"
        environment["JAX_ENABLE_COMPILATION_CACHE"] = "false"
        environment |= dict.fromkeys(_THREAD_VARIABLES, str(limits.threads))
    return environment


def _watch(process: subprocess.Popen, limits: Limits) -> tuple[str, int]:
    """Why the process has to be stopped (empty if it ended), and its largest own memory."""
    start = time.monotonic()
    largest = 0
    while process.poll() is None:
        largest = max(largest, _own_bytes(process.pid))
        if largest > 1e9 * limits.gigabytes:
            return f"more than {limits.gigabytes:g} GB", largest
        if time.monotonic() - start > limits.seconds:
            return f"more than {limits.seconds:g} s", largest
        time.sleep(POLL_SECONDS)
    return "", largest


def _own_bytes(pid: int) -> int:
    """Resident memory that is no mapped file; 0 where the system does not tell."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


def _by_name(lines: list[str]) -> dict[str, dict[str, Any]]:
    """The last line of every measure; of ``product`` the least, as it is measured twice."""
    measures: dict[str, dict[str, Any]] = {}
    for line in lines:
        measure = json.loads(line)
        name = measure.pop("measure")
        if name == "product" and name in measures:
            measure = {key: min(value, measures[name][key]) for key, value in measure.items()}
        measures[name] = measure
    return measures
