"""Workers and progress, shared by the parts of the benchmark."""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lib.isolate import Worker
from lib.workload import Sizes

__all__ = ["Bench"]


class Bench:
    """One run: asks workers for measurements and tells people what is going on."""

    def __init__(self, sizes: Sizes, methods: list[str], keep: Path | None = None) -> None:
        self.sizes = sizes
        self.methods = methods
        self._keep = keep
        self._workers: dict[str, Worker] = {}
        self._compiled = tempfile.mkdtemp(prefix="parbals-bench-")

    def kept(self, label: str, measure: Callable[[], Any]) -> Any:
        """What was measured under that label, by this run or an interrupted one of this folder.

        It comes back as JSON has it: tuples as lists.
        """
        file = self._keep and self._keep / f"{label.replace(' ', '-')}.json"
        if file is not None and file.exists():
            return json.loads(file.read_text("utf-8"))
        result = measure()
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(result), "utf-8")
        return result

    def has_started(self, worker: str) -> bool:
        """Has that process been asked for anything yet?"""
        return worker in self._workers

    def call(self, worker: str, label: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function in the process of that name, which is started at its first call."""
        self.say(label)
        if worker not in self._workers:
            # PyMC keeps compiled code on disk; an empty folder makes its first fit as cold as ours.
            self._workers[worker] = Worker({"PYTENSOR_FLAGS": f"base_compiledir={self._compiled}"})
        return self._workers[worker].call(function, *arguments)

    def call_fresh(self, label: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function in a new process that is ended afterwards."""
        self.say(label)
        worker = Worker()
        try:
            return worker.call(function, *arguments)
        finally:
            worker.close()

    def say(self, label: str) -> None:
        print(label, file=sys.stderr, flush=True)

    def close(self) -> None:
        """End every process of this run and remove its temporary files."""
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()
        if os.path.isdir(self._compiled):
            shutil.rmtree(self._compiled, ignore_errors=True)
