"""A tracker that needs no server: a line of JSON for every batch that a learner or the bench chose.

    learner = parbals.ActiveLearner(X, classes, on_batch=JsonLines("run.jsonl"))

Any function of a ``BatchRecord`` will do in its place; ``mlflow_run.py`` writes to MLflow.
"""

import json
from pathlib import Path

from parbals.types import BatchRecord


class JsonLines:
    """Appends to a file."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def __call__(self, record: BatchRecord) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record.as_json(), ensure_ascii=False) + "\n")
