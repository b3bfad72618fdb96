"""Which items are being measured, and whose labels count.

A random sample measures the error of the model's predictions. Its items are *being measured* until
every one of them has its labels, or was skipped; items of a sample that is kept open
(``settings.audit``) always are. Labels of a sample that is not complete train no model, those of a
kept one never do. While an item is being measured nobody is shown what the model
predicts for it, because a visible prediction biases annotators, and with them the measurement.
Every reader of predictions asks :func:`measured_positions`.
"""

from collections import Counter
from collections.abc import Collection

import numpy as np
from parbals.learner.evaluation.certify import CERTIFY

from parbals_label.store.records import BatchRecord
from parbals_label.store.store import Store

__all__ = [
    "SAMPLE_SIZE",
    "held_back_positions",
    "is_complete",
    "measurable_positions",
    "measured_positions",
    "never_chosen",
    "open_sample",
    "sampled_positions",
    "unlabelled_measured_positions",
]

SAMPLE_SIZE = 60
"""Items of a measurement, unless another number is asked for."""


def open_sample(store: Store) -> BatchRecord | None:
    """The latest random sample, unless it is complete."""
    sample = store.latest_batch(CERTIFY)
    if sample is None or is_complete(store, sample):
        return None
    return sample


def is_complete(store: Store, sample: BatchRecord) -> bool:
    """Whether every item of a sample has its labels from people, or was skipped."""
    positions = [item.position for item in sample.items]
    missing = _without_labels(store, positions, sample.settings.get("answers_wanted", 1))
    return not missing or store.passes().keys() >= missing


def _without_labels(store: Store, positions: Collection[int], n_wanted: int) -> set[int]:
    """Those of the items that have fewer labels of people than they need."""
    n_labels = Counter(answer.position for answer in store.counted_answers(positions))
    return {position for position in positions if n_labels[position] < n_wanted}


def held_back_positions(store: Store) -> frozenset[int]:
    """Positions of the sample that is not complete: until it is, its labels train no model."""
    sample = open_sample(store)
    return frozenset() if sample is None else frozenset(item.position for item in sample.items)


def measured_positions(store: Store) -> frozenset[int]:
    """Positions of items that are being measured, with duplicates of their texts."""
    positions = {*store.settings.audit, *held_back_positions(store)}
    return _with_duplicates(store, positions)


def never_chosen(store: Store) -> frozenset[int]:
    """Positions that nobody is asked about: duplicates, unreadable items, items of target sets."""
    settings = store.settings
    duplicates = (duplicate for duplicate, _ in settings.copies)
    return frozenset([*duplicates, *settings.unreadable, *settings.target_items])


def unlabelled_measured_positions(store: Store) -> frozenset[int]:
    """Positions of items that are being measured and whose sample still needs their label.

    Exports, training data and predictions of new items leave these out.
    """
    settings = store.settings
    unlabelled = _without_labels(store, settings.audit, settings.answers_wanted)
    return _with_duplicates(store, unlabelled | held_back_positions(store))


def sampled_positions(store: Store) -> frozenset[int]:
    """Positions of the random items of all measurements, kept ones and others."""
    sampled = {item.position for record in store.batches(CERTIFY) for item in record.items}
    return frozenset(sampled.union(store.settings.audit))


def measurable_positions(store: Store) -> np.ndarray:
    """Positions that a new sample is drawn from, ascending.

    These are readable items of the pool without a label that are not assigned to anybody; unopened
    items in the queue of the page are among them.
    """
    unopened = {position for positions in store.unopened().values() for position in positions}
    excluded = {*store.labelled(), *store.pending()} - unopened
    excluded.update(store.settings.target_items, store.settings.unreadable)
    is_measurable = np.ones(store.n_items, bool)
    is_measurable[list(excluded)] = False
    return np.flatnonzero(is_measurable)


def _with_duplicates(store: Store, positions: set[int]) -> frozenset[int]:
    """Positions with those of items that have the same text: they have the same prediction."""
    if not positions:
        return frozenset()
    firsts = dict(store.settings.copies)
    measured_firsts = {firsts.get(position, position) for position in positions}
    duplicates = {duplicate for duplicate, first in firsts.items() if first in measured_firsts}
    return frozenset(positions | measured_firsts | duplicates)
