"""Which items are being measured, and whose labels count.

A random sample measures the error of the model's predictions. Its items are *being measured* until
none of them is open (:mod:`parbals_label.project.sample_answers`); items of a sample that is kept
open (``settings.audit``) always are. Labels of a sample that is not complete train no model, those
of a kept one never do. While an item is being measured nobody is shown what the model predicts for
it, because a visible prediction biases annotators, and with them the measurement.
Every reader of predictions asks :func:`measured_positions`.
"""

from collections import Counter

import numpy as np
from parbals.learner.evaluation.certify import CERTIFY

from parbals_label.project.sample_answers import read_answers
from parbals_label.store.records import BatchRecord
from parbals_label.store.store import Store

__all__ = [
    "SAMPLE_SIZE",
    "held_back_positions",
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
    if sample is None or read_answers(store, sample).is_complete:
        return None
    return sample


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
    n_labels = Counter(answer.position for answer in store.counted_answers(settings.audit))
    unlabelled = {p for p in settings.audit if n_labels[p] < settings.answers_wanted}
    return _with_duplicates(store, unlabelled | held_back_positions(store))


def sampled_positions(store: Store) -> frozenset[int]:
    """Positions of the random items of all measurements, kept ones and others."""
    sampled = {item.position for record in store.batches(CERTIFY) for item in record.items}
    return frozenset(sampled.union(store.settings.audit))


def measurable_positions(store: Store) -> np.ndarray:
    """Positions that a new sample is drawn from, ascending: the items that an export predicts.

    These are all readable items of the pool without a label, whether they are assigned to somebody
    or not. A duplicate of an item with a label has that label, as in an export.
    """
    labelled = set(store.labelled())
    excluded = labelled | {copy for copy, first in store.settings.copies if first in labelled}
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
