"""Change a project's classes: add, rename, merge, remove and order them."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from parbals.errors import InputError
from parbals.learner.evaluation.certify import CERTIFY

from parbals_label.answer_form import class_list
from parbals_label.store.store import Store

__all__ = ["change_classes"]

_MIN_CLASSES = 2
_NO_CHANGES: Mapping[str, str] = MappingProxyType({})


def change_classes(
    store: Store,
    *,
    renamed: Mapping[str, str] = _NO_CHANGES,
    merged: Mapping[str, str] = _NO_CHANGES,
    added: Sequence[str] = (),
    removed: Sequence[str] = (),
    order: Sequence[str] = (),
) -> dict[str, Any]:
    """Rename and merge classes, and return the settings to update: {} or the new list of classes.

    Call it in ``Store.transaction``, so that all changes are made or none.

    Args:
        store: the project.
        renamed: old name → new name.
        merged: class → the class that it becomes part of.
        added: new classes.
        removed: classes to remove.
        order: all classes, or the first ones, in their new order.
    """
    for old, new in renamed.items():
        store.rename_class(old, new)
    for old, new in merged.items():
        store.rename_class(old, new, merge=True)
    if (merged or removed or order) and store.batches(CERTIFY):
        raise InputError(
            "A random sample evaluates predictions of the classes as they are: classes can still "
            "be added and renamed, not removed, merged or reordered."
        )
    names = [*store.classes, *added]
    for name in (*removed, *order):
        if name not in names:
            raise InputError(f"There is no class {name!r}; the classes are {class_list(names)}.")
    remaining = [name for name in names if name not in removed]
    if removed and len(remaining) < _MIN_CLASSES:
        raise InputError(
            f"{removed[0]!r} cannot be removed: two classes must remain. To replace it, rename it "
            f"(--rename-class {removed[0]}=NEW)."
        )
    first = [name for name in dict.fromkeys(order) if name in remaining]
    ordered = [*first, *(name for name in remaining if name not in first)]
    return {} if ordered == list(store.classes) else {"classes": ordered}
