"""Changes of a project's classes: added, renamed, merged, removed, ordered."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from parbals.errors import InputError
from parbals.learner.evaluation.certify import CERTIFY

from parbals_label.store.store import Store

__all__ = ["change_classes"]

_NONE: Mapping[str, str] = MappingProxyType({})


def change_classes(
    store: Store,
    *,
    renamed: Mapping[str, str] = _NONE,
    merged: Mapping[str, str] = _NONE,
    added: Sequence[str] = (),
    removed: Sequence[str] = (),
    order: Sequence[str] = (),
) -> dict[str, Any]:
    """Rename and merge classes, and what settings say of the others then: {} or their new list.

    To be called in ``Store.together``, so that all of it holds or nothing. ``order`` names all of
    the classes, or the first ones.
    """
    for old, new in renamed.items():
        store.rename_class(old, new)
    for old, new in merged.items():
        store.rename_class(old, new, merge=True)
    if (merged or removed or order) and store.batches(CERTIFY):
        raise InputError(
            "A certificate's sample was drawn by predictions of the classes as they are: classes "
            "can still be added and renamed, not removed or moved."
        )
    names = [*store.classes, *added]
    for name in (*removed, *order):
        if name not in names:
            raise InputError(f"There is no class {name!r}; the classes are {', '.join(names)}.")
    kept = [name for name in names if name not in removed]
    first = [name for name in dict.fromkeys(order) if name in kept]
    names = [*first, *(name for name in kept if name not in first)]
    return {} if names == list(store.classes) else {"classes": names}
