"""A labelling run in MLflow, which keeps it in local files unless it is told of a server.

python examples/trackers/mlflow_run.py
mlflow ui --backend-store-uri sqlite:///mlflow.db
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

import mlflow
import numpy as np
import parbals
from parbals.types import BatchRecord


def to_mlflow(record: BatchRecord) -> None:
    """``on_batch`` of a learner: its numbers over the labels so far, and a file."""
    mlflow.log_metrics(record.numbers(), step=record.n_labels)
    text = json.dumps(record.as_json())
    mlflow.log_text(text, f"batches/{record.n_labels}-{record.n_pending}.json")


def tracked_run(
    X: np.ndarray,
    answer: Callable[[np.ndarray], Sequence[Any]],
    classes: Sequence[Any],
    rounds: int = 3,
    batch_size: int = 5,
    **settings: Any,
) -> str:
    """Label in batches; what was chosen is in the run whose id comes back."""
    with mlflow.start_run() as run:
        mlflow.log_params({"batch_size": batch_size, **settings})
        learner = parbals.ActiveLearner(X, classes, on_batch=to_mlflow, **settings)
        for _ in range(rounds):
            items = learner.ask(batch_size)
            learner.tell(items, answer(items))
        return str(run.info.run_id)


if __name__ == "__main__":
    mlflow.set_tracking_uri("file:./mlruns")
    X = np.random.default_rng(0).standard_normal((200, 5))
    y = (X[:, 0] > 0).astype(int)
    tracked_run(X, lambda items: y[items], [0, 1], random_state=0)
