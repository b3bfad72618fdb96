"""What the sets of the WILDS benchmark have in common: a column that names each row's split."""

from collections.abc import Mapping

import numpy as np

from parbals.datasets.files import count_note
from parbals.errors import InputError

__all__ = ["rows_of_splits"]


def rows_of_splits(
    split: np.ndarray, published: Mapping[str, int], name: str
) -> tuple[dict[str, np.ndarray], tuple[str, ...]]:
    """Row numbers of each split, in file order, and notes on those that are smaller than published."""
    rows = {part: np.flatnonzero(split == part) for part in published}
    notes: list[str] = []
    for part, found in rows.items():
        if not len(found):
            raise InputError(f"{name} has no row whose split is {part!r}; is it the file of WILDS?")
        notes += count_note(f"{name} ({part})", len(found), published[part])
    return rows, tuple(notes)
