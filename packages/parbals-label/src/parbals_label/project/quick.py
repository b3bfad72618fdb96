"""The fallback queue: choose items at once where somebody waits and no model is at hand.

Before the first labels it chooses the items nearest to the centres of k-means, which represent the
whole pool (the best cold start in its study); after that, the items whose stored predictions are
least certain. Either takes milliseconds to a second, whatever the project's strategy costs.
Unopened items are replaced as soon as the strategy has chosen.
"""

import warnings
from contextlib import suppress
from typing import NamedTuple

import numpy as np
from parbals.errors import ProjectError
from parbals.learner.evaluation.audit import AUDIT, interleaved_order, n_audit_items_due
from parbals.randomness import derive_generator
from parbals.strategies.table import RANDOM_STRATEGY

from parbals_label.answer_form import NUMBERS
from parbals_label.project.features import features_of, predictions_of
from parbals_label.project.measured import never_chosen
from parbals_label.project.predicted import uncertainty
from parbals_label.store.batches import ItemsUnavailableError
from parbals_label.store.store import Store

__all__ = ["QUICK", "QUICK_BATCH", "START", "quick_batch"]

START = "k-means"
"""The strategy name of items that are chosen before there is a model."""
QUICK = "confidence"
"""The strategy name of items that are chosen by stored predictions."""
QUICK_BATCH = 20
_MAX_CANDIDATES = 2_000
"""Available items that are considered: k-means of as many took 0.4 to 0.9 CPU-seconds."""
_NOTE = "Chosen by the quick fallback, so that nobody waits."


def quick_batch(store: Store, n: int = QUICK_BATCH, *, queued: bool = True) -> int | None:
    """Choose and record at most ``n`` available items; the batch's number, None where none is.

    The page never queues more than can be labelled (``Store.queue_capacity``). Audit items have
    their share, as in any other batch.
    """
    is_available = np.ones(store.n_items, bool)
    labelled = set(store.labelled()) - store.audit_labelled_by_programs()
    is_available[[*labelled, *store.pending(), *store.passes(), *never_chosen(store)]] = False
    audit = np.array(store.settings.audit, np.int64)
    n_used = int((~is_available).sum())
    n_audit_used = int((~is_available[audit]).sum())
    audit_left = audit[is_available[audit]]
    is_available[audit] = False
    available = np.flatnonzero(is_available)
    n = min(n, len(available) + len(audit_left), store.queue_capacity() if queued else n)
    if n == 0:
        return None
    n_audit = n_audit_items_due(
        n, n_audit_used, n_used - n_audit_used, len(audit_left), len(available)
    )
    choice = _Choice(AUDIT, available[:0], np.zeros(0))
    if n > n_audit:
        choice = _choose(store, available, n - n_audit)
    drawn = audit_left[:n_audit]
    order = interleaved_order(choice.positions, drawn)
    positions = np.concatenate([choice.positions, drawn])[order]
    scores = np.concatenate([choice.scores, np.full(n_audit, np.nan)])[order]
    rows = [(p, score, score) for p, score in zip(positions.tolist(), scores.tolist(), strict=True)]
    record = {"n_labelled": store.n_labelled, "n_audit": n_audit, "notes": [_NOTE]}
    try:
        return store.record_batch(choice.strategy, store.settings.seed, rows, record, queued=queued)
    except ItemsUnavailableError:  # somebody else has just taken all of them
        return None


class _Choice(NamedTuple):
    """Positions (n,), best first, their scores (n,), and the strategy that chose them."""

    strategy: str
    positions: np.ndarray
    scores: np.ndarray


def _choose(store: Store, available: np.ndarray, n: int) -> _Choice:
    """Choose ``n`` of at most 2,000 available items by predictions, by k-means, or at random."""
    n_excluded = len(store.settings.audit) + len(store.settings.target_items)
    n_taken = store.n_items - len(available) - n_excluded
    generator = derive_generator(store.settings.seed, "quick", n_taken)
    if len(available) > _MAX_CANDIDATES:
        n_candidates = max(n, _MAX_CANDIDATES)
        available = np.sort(generator.choice(available, n_candidates, replace=False))
    predictions = _current_predictions(store)
    if predictions is not None:
        scores = uncertainty(store.form, predictions[available])
        best = np.argsort(-scores, kind="stable")[:n]
        return _Choice(QUICK, available[best], scores[best].astype(float))
    no_scores = np.full(n, np.nan)
    if n_taken <= 0:
        with suppress(ProjectError):  # no features, or damaged ones: the model's process reports it
            medoids = _medoids(features_of(store)[available], n, generator)
            return _Choice(START, available[medoids], no_scores)
    return _Choice(RANDOM_STRATEGY, generator.permutation(available)[:n], no_scores)


def _current_predictions(store: Store) -> np.ndarray | None:
    """The stored predictions (N, C); None unless they have all items and classes."""
    with suppress(ProjectError):
        predictions = predictions_of(store)
        width = 2 if store.form.task == NUMBERS else len(store.classes)
        if predictions is not None and predictions.shape == (store.n_items, width):
            return predictions
    return None


def _medoids(rows: np.ndarray, n: int, generator: "np.random.Generator") -> np.ndarray:
    """Indices (n,) of the rows nearest to the centres of k-means, largest clusters first."""
    from scipy.cluster.vq import kmeans2

    rows = np.asarray(rows, np.float64)
    if n >= len(rows):
        return np.arange(len(rows))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about empty clusters and zero distances of duplicate rows
        centres, _ = kmeans2(rows, n, minit="++", seed=generator)
    row_squares = (rows**2).sum(axis=1)[:, None]
    distances = row_squares - 2.0 * rows @ centres.T + (centres**2).sum(axis=1)
    sizes = np.bincount(distances.argmin(axis=1), minlength=n)
    chosen: list[int] = []
    for cluster in np.argsort(-sizes, kind="stable"):
        order = np.argsort(distances[:, cluster], kind="stable")
        chosen.append(int(order[~np.isin(order, chosen)][0]))
    return np.array(chosen)
