"""The model's side of a project: what to label next, how good it is, what it predicts. Loads JAX."""

from collections.abc import Callable, Container
from contextlib import suppress
from dataclasses import asdict, replace

import numpy as np

from parbals.errors import InputError, ProjectError
from parbals.learner.active import ActiveLearner
from parbals.learner.report import Report
from parbals.project.consensus import combined_labels
from parbals.project.features import embed_advice, load_features, store_features
from parbals.store.batches import TakenError
from parbals.store.settings import PredictionsFile
from parbals.store.store import Store
from parbals.types import Batch

__all__ = ["choose_batch", "learner_of", "refresh"]

_ROWS = 16_384
_CANDIDATES = 10_000
_TRIES = 20
_ONE_EACH = ("indices", "scores", "initial_scores", "effective_sample_size", "n_exact")
"""What a batch has one of for each item."""


def learner_of(
    store: Store, *, with_pending: bool = True, n_candidates: int = _CANDIDATES
) -> ActiveLearner:
    """A learner that knows the project's features, labels and pending items.

    Items that somebody passed and nobody has labelled are pending as well, so they are not chosen
    anew.
    """
    settings = store.settings
    if settings.features is None:
        raise ProjectError(
            f"This project has no features yet; {embed_advice(store.folder, settings.encoder)}."
        )
    features = load_features(store.folder, settings.features, encoder=settings.encoder)
    learner = ActiveLearner(
        features,
        store.classes,
        strategy=settings.strategy,
        random_state=settings.seed,
        n_samples=settings.n_samples,
        prior_scale=settings.prior_scale,
        loss=settings.loss,
        checked=True,
        n_candidates=n_candidates,
    )
    labels = combined_labels(store.votes())
    learner.tell(list(labels), list(labels.values()))
    if with_pending:
        learner.mark_pending(_pending(store, labels))
    return learner


def _pending(store: Store, labels: Container[int]) -> list[int]:
    """What is out or passed and has no label; one that waits for a second opinion is labelled."""
    out = dict.fromkeys([*store.pending(), *store.passes()])
    return [position for position in out if position not in labels]


def choose_batch(
    store: Store,
    n: int,
    *,
    annotator: str | None = None,
    expires: float | None = None,
    queued: bool = False,
    strategy: str | None = None,
    n_candidates: int = _CANDIDATES,
    learner: ActiveLearner | None = None,
) -> tuple[int, Batch]:
    """Choose ``n`` items, lease them, and record why; the number of the batch and the batch as it
    was stored.

    For the labelling page's queue (``queued``) fewer if fewer are left, and without those that were
    answered meanwhile. ``strategy`` stands in for the project's own; at most ``n_candidates`` free
    items are looked at, drawn afresh whenever labels change. A ``learner`` that knows the project
    as it is now need not be made again. Without one, items that others take while these are being
    chosen are replaced: all is chosen anew, with theirs in mind.
    """
    if learner is not None:
        return _choose(store, learner, n, annotator, expires, queued, strategy)
    for _ in range(_TRIES):
        with suppress(TakenError):
            known = learner_of(store, n_candidates=n_candidates)
            return _choose(store, known, n, annotator, expires, queued, strategy)
    raise InputError(
        f"Others took items while these were being chosen, {_TRIES} times in a row; nothing was "
        "handed out, try again."
    )


def _choose(
    store: Store,
    learner: ActiveLearner,
    n: int,
    annotator: str | None,
    expires: float | None,
    queued: bool,
    strategy: str | None,
) -> tuple[int, Batch]:
    if queued:
        n = max(min(n, learner.free_items), 1)
    elif n > learner.free_items:
        raise InputError(
            f"{n} items were asked for and {learner.free_items} are free ({len(learner.labelled)} "
            f"labelled, {len(learner.pending)} out or passed of {learner.pool.n_rows}); ask for "
            "fewer (-n), or first tell the labels of what is out (parbals tell)."
        )
    batch = learner.choose(n, strategy=strategy)
    rows = [
        (int(position), float(score), float(initial))
        for position, score, initial in zip(
            batch.indices, batch.scores, batch.initial_scores, strict=True
        )
    ]
    number = store.record_batch(
        batch.strategy,
        learner.seed,
        rows,
        {
            "n_labelled": len(learner.labelled),
            "n_candidates": learner.n_candidates,
            "notes": list(batch.notes),
        },
        annotator=annotator,
        expires=expires,
        queued=queued,
    )
    return number, _only(batch, store.batch_positions(number))


def _only(batch: Batch, positions: list[int]) -> Batch:
    """The part of a batch that is at these positions."""
    kept = np.isin(batch.indices, positions)
    parts = {name: getattr(batch, name)[kept] for name in _ONE_EACH}
    return replace(batch, **parts)


def refresh(
    store: Store,
    progress: Callable[[int], None] = lambda done: None,
    *,
    with_pending: bool = True,
    n_candidates: int = _CANDIDATES,
) -> Report:
    """Compute and store the report and everybody's predictions, so that looking at them needs no
    model.

    The gain of the next labels is what they add to those that are out; where hundreds are, that
    takes minutes, and without them (``with_pending``) it is what they add to the labels there are.
    It is the gain of the best of at most ``n_candidates`` items. The predictions remember the
    number of the answer that was the last one then.
    """
    answers = store.revision()[
        0
    ]  # before the labels are read: what comes in between makes it stale
    learner = learner_of(store, with_pending=with_pending, n_candidates=n_candidates)
    report = learner.report()
    if not with_pending:
        report = replace(report, n_pending=len(_pending(store, learner.labels)))
    predictions = np.empty((learner.pool.n_rows, len(store.classes)), np.float32)
    for rows, block in learner.pool.blocks(_ROWS):
        predictions[rows] = learner.predict_proba(block)
        progress(rows.stop)
    old = store.settings.predictions
    written = store_features(store.folder, predictions, name="predictions")
    store.save_report(report.as_dict(), len(learner.labelled))
    # Last: where it stops in between, the predictions still say that they are older.
    store.update_settings(predictions=PredictionsFile(**asdict(written), answers=answers))
    if old is not None and old.file != written.file:
        (store.folder / old.file).unlink(missing_ok=True)
    return report
