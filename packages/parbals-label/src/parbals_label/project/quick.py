"""Items at once: what is chosen where somebody waits and no model is at hand.

Before the first labels these are the items nearest to the centres of k-means, which stand for the
whole pool (in the study of the cold start no other start was as good); after that, those of which
the stored predictions are least sure. Either way it is a matter of milliseconds to a second,
whatever the project's own strategy costs; what waits unseen is replaced as soon as that has chosen.
"""

import warnings
from contextlib import suppress

import numpy as np
from parbals.errors import ProjectError
from parbals.learner.evaluation.audit import AUDIT, interleave, n_audit_items_due
from parbals.randomness import derive_generator
from parbals.strategies.table import UNIFORM

from parbals_label.answer_form import NUMBERS
from parbals_label.project.features import features_of, predictions_of
from parbals_label.project.predicted import uncertainty
from parbals_label.store.batches import ItemsUnavailableError
from parbals_label.store.store import Store

__all__ = ["QUICK", "QUICK_BATCH", "START", "quick_batch"]

START = "k-means"
"""What chose the first items, beside the names of strategies."""
QUICK = "confidence"
"""Chooses where somebody waits and the default would take too long."""
QUICK_BATCH = 20
_CANDIDATES = 2_000
"""Free items that are looked at: k-means of as many took 0.4 to 0.9 CPU-seconds."""
_NOTE = "Chosen at once, so that nobody waits."


def quick_batch(store: Store, n: int = QUICK_BATCH, *, queued: bool = True) -> int | None:
    """Choose and record at most ``n`` free items; the batch's number, None where none is free.

    On the page there are never more than can be labelled (``Queue.room``). Items of the audit have
    their share of them, as in any other batch.
    """
    is_free = np.ones(store.n_items, bool)
    labelled = set(store.labelled()) - store.audit_labelled_by_programs()
    copies = [copy for copy, _ in store.settings.copies]
    is_free[[*labelled, *store.pending(), *store.passes(), *copies]] = False
    audit = np.array(store.settings.audit, np.int64)
    n_out, n_audit_out = int((~is_free).sum()), int((~is_free[audit]).sum())
    waiting = audit[is_free[audit]]
    is_free[audit] = False
    free = np.flatnonzero(is_free)
    n = min(n, len(free) + len(waiting), store.queue_capacity() if queued else n)
    if n == 0:
        return None
    n_audit = n_audit_items_due(n, n_audit_out, n_out - n_audit_out, len(waiting), len(free))
    strategy, chosen, scores = AUDIT, free[:0], np.zeros(0)
    if n > n_audit:
        strategy, chosen, scores = _choose(store, free, n - n_audit)
    drawn = waiting[:n_audit]
    order = interleave(chosen, drawn)
    positions = np.concatenate([chosen, drawn])[order]
    values = np.concatenate([scores, np.full(n_audit, np.nan)])[order]
    rows = [(p, s, s) for p, s in zip(positions.tolist(), values.tolist(), strict=True)]
    remembered = {"n_labelled": store.n_labelled, "n_audit": n_audit, "notes": [_NOTE]}
    try:
        return store.record_batch(strategy, store.settings.seed, rows, remembered, queued=queued)
    except ItemsUnavailableError:  # somebody else has just taken all of them
        return None


def _choose(store: Store, free: np.ndarray, n: int) -> tuple[str, np.ndarray, np.ndarray]:
    """Strategy, positions (n,) best first, and their scores; at most 2,000 free ones are seen."""
    n_taken = store.n_items - len(free) - len(store.settings.audit)
    generator = derive_generator(store.settings.seed, "quick", n_taken)
    if len(free) > _CANDIDATES:
        free = np.sort(generator.choice(free, max(n, _CANDIDATES), replace=False))
    predictions = _predictions(store)
    if predictions is not None:
        unsure = uncertainty(store.form, predictions[free])
        best = np.argsort(-unsure, kind="stable")[:n]
        return QUICK, free[best], unsure[best].astype(float)
    if n_taken <= 0:
        with suppress(ProjectError):  # no features, or damaged ones: the model's side says so
            medoids = _medoids(features_of(store)[free], n, generator)
            return START, free[medoids], np.full(n, np.nan)
    return UNIFORM, generator.permutation(free)[:n], np.full(n, np.nan)


def _predictions(store: Store) -> np.ndarray | None:
    """The stored ones (N, C); None where there are none of all items and classes."""
    with suppress(ProjectError):
        found = predictions_of(store)
        width = 2 if store.form.task == NUMBERS else len(store.classes)
        if found is not None and found.shape == (store.n_items, width):
            return found
    return None


def _medoids(rows: np.ndarray, n: int, generator: np.random.Generator) -> np.ndarray:
    """Places (n,) of the rows nearest to the centres of k-means, those of large clusters first."""
    from scipy.cluster.vq import kmeans2

    rows = np.asarray(rows, np.float64)
    if n >= len(rows):
        return np.arange(len(rows))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of empty clusters and distances of 0, where rows repeat
        centres, _ = kmeans2(rows, n, minit="++", seed=generator)
    squares = (rows**2).sum(axis=1)[:, None] - 2.0 * rows @ centres.T + (centres**2).sum(axis=1)
    sizes = np.bincount(squares.argmin(axis=1), minlength=n)
    chosen: list[int] = []
    for cluster in np.argsort(-sizes, kind="stable"):
        order = np.argsort(squares[:, cluster], kind="stable")
        chosen.append(int(order[~np.isin(order, chosen)][0]))
    return np.array(chosen)
