"""Undo the draw of a random sample while nobody has answered one of its items.

Its items are free again, but it counts as one of the samples that share one error level: whoever
draws until a sample looks easy has smaller and smaller shares of it. A sample that is kept is not
undone, because all its looks have the whole level.
"""

from parbals.errors import InputError

from parbals_label.project.measured import open_sample
from parbals_label.store.records import MEASUREMENT_UNDONE
from parbals_label.store.store import Store

__all__ = ["undo_sample", "undoable_sample_size"]


def undoable_sample_size(store: Store) -> int:
    """The number of items of the sample that can be undone; 0 where there is none."""
    sample = open_sample(store)
    if sample is None or sample.settings.get("target"):
        # Rows of a target set became items of the project when they were drawn, and stay.
        return 0
    answered = {*store.labelled(), *store.passes()}
    is_untouched = answered.isdisjoint(item.position for item in sample.items)
    return len(sample.items) if is_untouched else 0


def undo_sample(store: Store) -> int:
    """Undo the latest draw of a sample; the number of items that are free again."""
    with store.transaction():
        n_items = undoable_sample_size(store)
        sample = open_sample(store)
        if sample is None or not n_items:
            raise InputError(
                "There is no sample to undo: none was drawn, or somebody has answered some of it, "
                "or it is kept or of the target set."
            )
        store.remove_batch(sample.batch)
        store.log(MEASUREMENT_UNDONE, count=n_items)
    return n_items
