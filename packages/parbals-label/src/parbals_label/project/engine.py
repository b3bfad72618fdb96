"""The model's side of a project: what to label next, and what it predicts."""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from parbals.errors import InputError
from parbals.learner.active import ActiveLearner
from parbals.learner.numbers.metric import metric_of
from parbals.learner.numbers.report import Report
from parbals.learner.state import mean_proba
from parbals.posterior.predictive import add_bias
from parbals.types import Batch

from parbals_label.project.consensus import combined_labels
from parbals_label.project.doubts import doubted
from parbals_label.project.features import (
    described_of,
    features_of,
    frozen_predictions,
    held_out_of,
    store_features,
)
from parbals_label.store.batches import TakenError
from parbals_label.store.settings import PredictionsFile
from parbals_label.store.store import Store

__all__ = [
    "NothingFreeError",
    "choose_batch",
    "learner_of",
    "open_project",
    "pending_of",
    "refresh",
]

_ENTRIES = 2**22  # of features, read and predicted at a time: 32 MB
_TRIES = 20
_DEPENDS = 0.5
"""The posterior correlation above which one label moves the prediction of another item."""
_ONE_EACH = ("indices", "scores", "initial_scores", "effective_sample_size", "n_exact")
"""What a batch has one of for each item."""


def learner_of(
    store: Store,
    *,
    with_pending: bool = True,
    n_candidates: int | None = None,
    renew: bool = False,
    own: Mapping[str, Any] | None = None,
) -> ActiveLearner:
    """A learner that knows the project's features, labels and pending items.

    Items that somebody passed and nobody has labelled are pending as well: they are not chosen.
    With ``renew`` those that wait unseen on the page are free. ``own`` is what a project does not
    hold: arguments of the learner such as ``model`` and ``X_target``.
    """
    settings = store.settings
    learner = ActiveLearner(
        features_of(store),
        store.classes,
        strategy=settings.strategy,
        random_state=settings.seed,
        n_samples=settings.n_samples,
        prior_scale=settings.prior_scale,
        metric=metric_of(settings.loss),
        checked=True,
        n_candidates=n_candidates,
        audit=settings.audit,
        find=settings.find,
        **{"held_out": held_out_of(store), **described_of(store), **(own or {})},
    )
    uncounted = store.uncounted()  # a program's word on the audit's items measures nothing
    labels = {p: v for p, v in combined_labels(store.votes()).items() if p not in uncounted}
    # In the order in which they came: an audit's looks are at the first so many.
    came = [position for position in store.answered() if position in labels]
    learner.tell(came, [labels[position] for position in came])
    if with_pending:
        unseen = {p for some in store.unseen().values() for p in some} if renew else set()
        learner.mark_pending([p for p in pending_of(store, labels) if p not in unseen])
    return learner


def pending_of(store: Store, labels: Collection[int] | None = None) -> list[int]:
    """What is out or passed and has no label; an item that waits for a second opinion has one."""
    labelled = store.votes() if labels is None else labels
    out = dict.fromkeys([*store.pending(), *store.passes()])
    return [position for position in out if position not in labelled]


class NothingFreeError(InputError):
    """Every item is labelled, out, passed or to be left out."""


def choose_batch(
    store: Store,
    n: int,
    *,
    fewer: bool = False,
    annotator: str | None = None,
    expires: float | None = None,
    queued: bool = False,
    strategy: str | None = None,
    leave_out: Collection[int] = (),
    n_candidates: int | None = None,
    renew: bool = False,
    own: Mapping[str, Any] | None = None,
) -> tuple[int, Batch]:
    """Choose ``n`` items, lease them, and record why: the batch's number, and the batch as stored.

    All is chosen again, knowing more, where others take some of the items meanwhile (from a
    ``queued`` batch only those are left out); ``TakenError`` where that happens every time.

    Args:
        fewer: fewer items where fewer are free; ``NothingFreeError`` where none is.
        annotator, expires: whose items these are, and until when (as ``moment()``).
        queued: the items wait on the labelling page for anybody who asks.
        strategy: stands in for the project's own.
        leave_out: positions that are not chosen, such as those a machine abstained on.
        n_candidates: at most so many free items are looked at, drawn again when labels change.
        renew: of a queued batch: it takes the place of what waits on the page unseen.
        own: of the learner, see :func:`learner_of`.
    """
    for left in reversed(range(_TRIES)):
        began = time.monotonic()
        learner = learner_of(store, n_candidates=n_candidates, renew=renew, own=own)
        taken = {*learner.labelled.tolist(), *learner.pending}
        copies = {copy for copy, _ in store.settings.copies}
        leave_out = {*leave_out, *copies} - taken
        n_left_out = len(leave_out)
        n_free = learner.free_items - n_left_out
        if n > n_free and (n_free == 0 or not fewer):
            kind = NothingFreeError if n_free == 0 else InputError
            raise kind(
                f"{n} items were asked for and {n_free} are free ({len(learner.labelled)} "
                f"labelled, {len(learner.pending)} out or passed, {n_left_out} left out, of "
                f"{learner.pool.n_rows}); ask for fewer (-n), or first tell the labels of what is "
                "out (parbals tell)."
            )
        batch = learner.choose(min(n, n_free), strategy=strategy, leave_out=leave_out)
        rows = zip(batch.indices, batch.scores, batch.initial_scores, strict=True)
        try:
            number = store.record_batch(
                batch.strategy,
                learner.setup.seed,
                [(int(position), float(score), float(alone)) for position, score, alone in rows],
                {
                    "n_labelled": len(learner.labelled),
                    "n_candidates": batch.n_candidates,
                    "n_universes": learner.setup.n_universes,
                    "n_targets": learner.setup.n_targets,
                    "n_left_out": n_left_out,
                    "n_audit": int(np.isin(batch.indices, learner.audit).sum()),
                    "notes": list(batch.notes),
                    "seconds": round(time.monotonic() - began, 3),
                    "similar": _similar_items(learner, batch.indices),
                },
                annotator=annotator,
                expires=expires,
                queued=queued,
                renew=renew,
            )
        except TakenError as error:
            if left == 0:
                raise TakenError(
                    f"Others took items while these were being chosen, {_TRIES} times in a row; "
                    f"nothing was handed out, try again. The last time: {error}"
                ) from None
            continue
        return number, _only(batch, store.batch_positions(number))
    raise AssertionError("the last try returns or raises")


def _only(batch: Batch, positions: list[int]) -> Batch:
    """The part of a batch that is at these positions."""
    kept = np.isin(batch.indices, positions)
    return replace(batch, **{name: getattr(batch, name)[kept] for name in _ONE_EACH})


def refresh(
    store: Store,
    progress: Callable[[str, int, int], None] = lambda stage, done, total: None,
    *,
    with_pending: bool = True,
    n_candidates: int | None = None,
    with_audit: bool = False,
    own: Mapping[str, Any] | None = None,
) -> Report:
    """Compute and store the report and all predictions, so that looking at them needs no model.

    The gain of the next labels is what they add to those that are out, and without them
    (``with_pending``) what they add to the labels there are. It is the gain of the best of at most
    ``n_candidates`` items. The predictions remember the number of the answer that was the last one
    then; ``with_audit`` they are by a model that also knows the audit's labels, and the report is
    still the other one's. ``own`` is of the learner, see :func:`learner_of`; a model that needs
    more labels first predicts nothing.
    """
    # Before the labels are read: what comes in between makes the predictions stale.
    answers = store.revision()[0]
    learner = learner_of(store, with_pending=with_pending, n_candidates=n_candidates, own=own)
    report = learner.report()
    if not with_pending:
        report = replace(report, n_pending=len(pending_of(store, learner.labels)))
    # Before the predictions, which take longer where items are many.
    store.save_report(report.to_dict(), len(learner.labelled) + len(store.uncounted()))
    if not learner.can_fit:
        return report
    predictions = np.empty((learner.pool.n_rows, len(store.classes)), np.float32)
    model = learner.fitted(with_audit=with_audit)
    for rows, block in learner.pool.blocks(max(1, _ENTRIES // learner.pool.n_columns)):
        predictions[rows] = mean_proba(model, learner.setup.preparation(block))
        progress("predicting", rows.stop, learner.pool.n_rows)
    written = store_features(store.folder, predictions, name="predictions")
    # Last: where it stops in between, the predictions still say that they are older.
    with store.together():
        old = store.settings.predictions
        store.update_settings(
            predictions=PredictionsFile(**asdict(written), answers=answers, with_audit=with_audit),
            doubts=doubted(learner, store.classes),
        )
        kept = store.settings.predictions  # the old ones or none, where items were added meanwhile
    needed = {matrix.file for matrix in (frozen_predictions(store), kept) if matrix is not None}
    for file in (old, written):
        if file is not None and file.file not in needed:
            (store.folder / file.file).unlink(missing_ok=True)
    return report


def _similar_items(learner: ActiveLearner, positions: np.ndarray) -> dict[str, int]:
    """Position → about how many items of the pool have a prediction that hangs on this label.

    An item depends on another where the posterior correlation of their scores,

        ρ_a = cov(f_a(x), f_a(x')) / (sd f_a(x) · sd f_a(x')),

    is above a half on average over the channels a: learning one then moves the other. It is counted
    among the targets (M, D) and scaled to the pool. Empty for models that are not Gaussian.
    """
    model = learner.fitted() if learner.can_fit else None
    gaussian = getattr(model, "gaussian", None)
    if gaussian is None or not len(learner.state.training[0]):
        return {}
    channels = gaussian.channels
    there, here = (
        add_bias(np.asarray(rows, np.float64))
        for rows in (learner.state.target_rows(), learner.setup.pool_rows(positions))
    )
    covariance = there @ channels.covariance_with(here)  # (A, M, B)
    spread = [np.sqrt(np.maximum(channels.marginals(X)[1].T, 1e-30)) for X in (there, here)]
    correlation = (covariance / (spread[0][:, :, None] * spread[1][:, None])).mean(axis=0)
    share = (correlation > _DEPENDS).mean(axis=0)  # (B,)
    counts = np.rint(share * learner.pool.n_rows).astype(int).tolist()
    return {str(p): n for p, n in zip(np.asarray(positions).tolist(), counts, strict=True)}


def open_project(folder: str | PathLike[str]) -> ActiveLearner:
    """The learner of the project in ``folder``, as it stands: its items by their ids, its labels.

    It is a copy. Telling it labels, or asking it, changes the copy alone: nothing is written to the
    project, and labels that the project gets later do not appear here. To give labels to the
    project itself use ``parbals tell`` or the page.
    """
    with Store.open(Path(folder), read_only=True) as store:
        learner = learner_of(store)
        learner.name_items([item.id for item in store.iter_items()])
    return learner
