"""Whether a class of a project is so rare that it should be looked for."""

from parbals_label.project.consensus import combined_labels
from parbals_label.store.store import Store

__all__ = ["rare_class_hint"]

_RARE = 0.05
_FEWEST = 20
"""Fewer labels than this do not show what is rare."""


def rare_class_hint(store: Store) -> str | None:
    """A sentence where the labels show a class of at most 5 %, and nothing is looked for yet."""
    labels = list(combined_labels(store.votes()).values())
    if store.settings.find is not None or len(labels) < _FEWEST:
        return None
    counts = {label: labels.count(label) for label in store.classes}
    label, count = min(counts.items(), key=lambda pair: pair[1])
    if count > _RARE * len(labels):
        return None
    return (
        f"{label} is rare, {count} of {len(labels)} labels; to find all items of it rather than "
        f"model every class: parbals edit {store.folder} --find {label}"
    )
