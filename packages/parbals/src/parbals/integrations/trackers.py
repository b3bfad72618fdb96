"""Trackers: ``on_batch`` of the learner and of the bench, written to a file of one's own.

    learner = parbals.ActiveLearner(X, classes, on_batch=JsonLines("run.jsonl"))

Any function of a :class:`parbals.types.BatchRecord` will do in its place;
``examples/trackers/mlflow_run.py`` writes to MLflow.
"""

import json
from os import PathLike
from pathlib import Path

from parbals.errors import InputError
from parbals.types import BatchRecord

__all__ = ["JsonLines"]


class JsonLines:
    """Appends a line of JSON for every batch to ``path``."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)

    def __call__(self, record: BatchRecord) -> None:
        line = json.dumps(record.as_json(), ensure_ascii=False)
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
        except OSError as error:
            reason = error.strerror or error
            raise InputError(f"{self.path} could not be written ({reason}).") from error
