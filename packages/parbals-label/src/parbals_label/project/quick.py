"""The fallback queue: choose items at once where somebody waits and no model is at hand.

Before the first labels it chooses the items nearest to the centres of k-means, which represent the
target set, or else the whole pool (the best cold start in its study); after that, the items whose
stored predictions are least certain. Either takes milliseconds to a second, whatever the project's
strategy costs. Unopened items are replaced as soon as the strategy has chosen.
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
from parbals_label.project.target import target_features
from parbals_label.store.batches import ItemsUnavailableError
from parbals_label.store.store import Store

__all__ = ["QUICK", "QUICK_BATCH", "START", "quick_batch"]

START = "k-means"
"""The strategy name of items that are chosen before there is a model."""
QUICK = "confidence"
"""The strategy name of items that are chosen by stored predictions."""
QUICK_BATCH = 20
_MAX_CANDIDATES = 2_000
"""Rows that are clustered, or items whose predictions are compared: 0.4 to 0.9 CPU-seconds."""
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
    """Choose ``n`` of the available items by predictions, by k-means, or at random."""
    n_excluded = len(store.settings.audit) + len(store.settings.target_items)
    n_taken = store.n_items - len(available) - n_excluded
    generator = derive_generator(store.settings.seed, "quick", n_taken)
    predictions = _current_predictions(store)
    if predictions is not None:
        available = _sampled(available, n, generator)
        scores = uncertainty(store.form, predictions[available])
        best = np.argsort(-scores, kind="stable")[:n]
        return _Choice(QUICK, available[best], scores[best].astype(float))
    no_scores = np.full(n, np.nan)
    if n_taken <= 0:
        with suppress(ProjectError):  # no features, or damaged ones: the model's process reports it
            chosen = _typical_items(store, available, n, generator)
            return _Choice(START, chosen, no_scores)
    return _Choice(RANDOM_STRATEGY, generator.permutation(available)[:n], no_scores)


def _current_predictions(store: Store) -> np.ndarray | None:
    """The stored predictions (N, C); None unless they have all items and classes."""
    with suppress(ProjectError):
        predictions = predictions_of(store)
        width = 2 if store.form.task == NUMBERS else len(store.classes)
        if predictions is not None and predictions.shape == (store.n_items, width):
            return predictions
    return None


def _sampled(positions: np.ndarray, n: int, generator: "np.random.Generator") -> np.ndarray:
    """At most 2,000 of the positions, or ``n`` if that is more, ascending."""
    size = max(n, _MAX_CANDIDATES)
    if len(positions) <= size:
        return positions
    return np.sort(generator.choice(positions, size, replace=False))


def _typical_items(
    store: Store, available: np.ndarray, n: int, generator: "np.random.Generator"
) -> np.ndarray:
    """Available positions (n,) whose items represent the target set, or else the pool."""
    target = target_features(store)
    if target is None:
        candidates = _sampled(available, n, generator)
        rows = features_of(store)[candidates]
        return candidates[_nearest_to_medoids(rows, rows, n, generator)]
    # Items of a filter's target set are often few, so that a sample of the pool would miss them.
    typical = target[_sampled(np.arange(len(target)), n, generator)]
    rows = features_of(store)[available]
    return available[_nearest_to_medoids(rows, typical, n, generator)]


def _nearest_to_medoids(
    rows: np.ndarray, typical: np.ndarray, n: int, generator: "np.random.Generator"
) -> np.ndarray:
    """Indices (n,) of the rows nearest to the medoids of k-means clusters of ``typical`` rows.

    The largest clusters come first. A medoid is the typical row nearest to its cluster's centre.
    """
    from scipy.cluster.vq import kmeans2

    if n >= len(rows):
        return np.arange(len(rows))
    typical = np.asarray(typical, np.float64)
    n_clusters = min(n, len(typical))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about empty clusters and zero distances of duplicate rows
        centres, _ = kmeans2(typical, n_clusters, minit="++", seed=generator)
    distances = _squared_distances(typical, centres)
    sizes = np.bincount(distances.argmin(axis=1), minlength=n_clusters)
    medoids = typical[distances.argmin(axis=0)]
    distances = _squared_distances(rows, medoids)
    chosen: list[int] = []
    by_size = np.argsort(-sizes, kind="stable")
    for cluster in by_size[np.arange(n) % n_clusters]:
        distances[chosen[-1:]] = np.inf
        chosen.append(int(distances[:, cluster].argmin()))
    return np.array(chosen)


def _squared_distances(rows: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Squared distances (n, m) of rows (n, D) to others (m, D)."""
    squares = np.einsum("nd,nd->n", rows, rows)[:, None]
    distances: np.ndarray = squares - 2.0 * rows @ others.T + (others**2).sum(axis=1)
    return distances
