"""Undo the draw of a random sample while nobody has answered one of its items.

Nothing is known from such a sample, so that it does not count among those that share one error
level. A sample that is drawn again at once is the same one: nobody can look for a better one.
"""

from parbals.errors import InputError

from parbals_label.project.measured import open_sample
from parbals_label.store.records import MEASUREMENT_UNDONE
from parbals_label.store.store import Store

__all__ = ["undo_sample", "undoable_sample_size"]


def undoable_sample_size(store: Store) -> int:
    """The number of items of the sample that can be undone; 0 where there is none."""
    return len(_undoable_positions(store)[1])


def undo_sample(store: Store) -> int:
    """Undo the latest draw of a sample; the number of items that are free again."""
    with store.transaction():
        batch, positions = _undoable_positions(store)
        if not positions:
            raise InputError(
                "There is no sample to undo: none was drawn, or somebody has answered some of it, "
                "or it is of the target set."
            )
        if batch is None:
            store.update_settings(audit=[], audit_excluded=[])
        else:
            store.remove_batch(batch)
        store.log(MEASUREMENT_UNDONE, count=len(positions))
    return len(positions)


def _undoable_positions(store: Store) -> tuple[int | None, list[int]]:
    """The batch of the sample that nobody has answered, None for the kept one; and its positions.

    Rows of a target set became items of the project when they were drawn, and stay.
    """
    answered = {*store.labelled(), *store.passes()}
    sample = open_sample(store)
    if sample is not None:
        positions = [item.position for item in sample.items]
        can_undo = not sample.settings.get("target") and answered.isdisjoint(positions)
        return sample.batch, positions if can_undo else []
    kept = list(store.settings.audit)
    return None, kept if answered.isdisjoint(kept) else []
