"""The model's side of a project: what to label next, how good it is, what it predicts. Loads JAX."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from parbals.errors import ProjectError
from parbals.learner.active import ActiveLearner
from parbals.learner.report import Report
from parbals.project.consensus import combined_labels
from parbals.project.features import load_features, store_features
from parbals.project.store import Store
from parbals.types import Batch

__all__ = ["choose_batch", "learner_of", "refresh"]

_ROWS = 16_384


def learner_of(store: Store) -> ActiveLearner:
    """A learner that knows the project's features, labels and pending items."""
    settings = store.settings
    if settings.get("features") is None:
        raise ProjectError("This project has no features yet; run `parbals embed` first.")
    features = load_features(store.folder, settings["features"])
    learner = ActiveLearner(
        features,
        store.classes,
        strategy=settings.get("strategy", "parbals-epig"),
        random_state=settings.get("seed", 0),
        n_samples=settings.get("n_samples", 400),
        prior_scale=settings.get("prior_scale", 1.0),
        loss=settings.get("loss", "log"),
        checked=True,
    )
    labels = combined_labels(store.current_labels())
    learner.tell(list(labels), list(labels.values()))
    learner.mark_pending([position for position in store.pending() if position not in labels])
    return learner


def choose_batch(
    store: Store, n: int, *, annotator: str | None = None, expires: float | None = None
) -> tuple[int, Batch]:
    """Choose ``n`` items, lease them, and record why; the number of the batch and the batch itself."""
    learner = learner_of(store)
    batch = learner.choose(n)
    rows = [
        (int(position), float(score), float(initial))
        for position, score, initial in zip(batch.indices, batch.scores, batch.initial_scores, strict=True)
    ]
    number = store.record_batch(
        batch.strategy,
        learner.seed,
        rows,
        {"n_labelled": len(learner.labelled), "notes": list(batch.notes)},
        annotator=annotator,
        expires=expires,
    )
    return number, batch


def refresh(store: Store, progress: Callable[[int], None] = lambda done: None) -> Report:
    """Compute and store the report and everybody's predictions, so that looking at them needs no model."""
    learner = learner_of(store)
    report = learner.report()
    predictions = np.empty((learner.pool.n_rows, len(store.classes)), np.float32)
    for rows, block in learner.pool.blocks(_ROWS):
        predictions[rows] = learner.predict_proba(block)
        progress(rows.stop)
    old = store.settings.get("predictions")
    remembered = store_features(store.folder, predictions, name="predictions")
    store.update_settings(predictions={**remembered, "n_labelled": len(learner.labelled)})
    store.save_report(report.as_dict(), len(learner.labelled))
    if old is not None and old["file"] != remembered["file"]:
        (Path(store.folder) / old["file"]).unlink(missing_ok=True)
    return report
