"""Duplicate, empty and very long texts: noted when items are added, and labelled once."""

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from parbals.wording import counted

from parbals_label.project.consensus import consensus_labels
from parbals_label.project.features import features_of
from parbals_label.readers.cells import cell_text
from parbals_label.store.store import Store

__all__ = ["contradictions", "find_duplicates", "near_duplicate_notes"]

_MANY_CHARACTERS = 20_000
_MAX_DUPLICATES = 10_000
_MIN_ITEMS_PER_DUPLICATE = 5
"""More duplicates are in the nature of the data: then every item is labelled."""
_MAX_COMPARED = 20_000
"""Items that are compared with each other, the first ones: takes some seconds."""
_MIN_ITEMS = 100
"""Features that are fitted to fewer items are too coarse to compare by."""
_MIN_COSINE = 0.97
"""Cosine of centred features from which two items are nearly duplicates."""
_BLOCK_ROWS = 512


def find_duplicates(store: Store, columns: Sequence[str]) -> list[str]:
    """Store which items repeat the words of an earlier one in these columns; notes for people."""
    first_position: dict[bytes, int] = {}
    duplicates: list[tuple[int, int]] = []
    n_empty = 0
    n_long = 0
    for item in store.iter_items():
        cells = (cell_text(item.content.get(name)) for name in columns)
        words = "\0".join(" ".join(cell.split()) for cell in cells)
        n_long += len(words) > _MANY_CHARACTERS
        if not words.strip("\0"):
            n_empty += 1
            continue
        digest = blake2b(words.encode(), digest_size=16).digest()
        first = first_position.setdefault(digest, item.position)
        if first != item.position:
            duplicates.append((item.position, first))
    notes = []
    if n_empty:
        notes.append(f"{counted(n_empty, 'text is', 'texts are')} empty.")
    if n_long:
        texts = counted(n_long, "text has", "texts have")
        notes.append(f"{texts} more than {_MANY_CHARACTERS:,} characters.")
    are_common = len(duplicates) > min(_MAX_DUPLICATES, store.n_items / _MIN_ITEMS_PER_DUPLICATE)
    if duplicates:
        consequence = "every item is labelled" if are_common else "each text is labelled once"
        notes.append(f"{counted(len(duplicates), 'duplicate')}: {consequence}.")
    store.update_settings(copies=[] if are_common else duplicates)
    return notes


def near_duplicate_notes(store: Store) -> list[str]:
    """A note about items whose features nearly equal those of an earlier one, if there are any."""
    if store.n_items < _MIN_ITEMS:
        return []
    rows = np.array(features_of(store)[:_MAX_COMPARED], np.float32)
    rows -= rows.mean(axis=0)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    duplicates = {duplicate for duplicate, _ in store.settings.copies}
    pairs: list[tuple[int, int]] = []
    for start in range(0, len(rows), _BLOCK_ROWS):
        block = rows[start : start + _BLOCK_ROWS]
        cosines = block @ rows[: start + len(block)].T
        is_similar = np.tril(cosines >= _MIN_COSINE, start - 1)  # to earlier items only
        for row in np.flatnonzero(is_similar.any(axis=1)).tolist():
            if start + row not in duplicates:
                pairs.append((start + row, int(is_similar[row].argmax())))
    if not pairs:
        return []
    later, earlier = (item.id for item in store.items(list(pairs[0])))
    among = "" if store.n_items <= _MAX_COMPARED else f"Of the first {_MAX_COMPARED:,}, "
    count_text = counted(len(pairs), "near duplicate:", "near duplicates, such as")
    return [f"{among}{count_text} {later} and {earlier}."]


def contradictions(store: Store) -> list[tuple[int, str, int, str]]:
    """Duplicates with another label than the first item: both positions and labels, first first."""
    form = store.form
    labels = {position: form.words(label) for position, label in consensus_labels(store).items()}
    return [
        (first, labels[first], duplicate, labels[duplicate])
        for duplicate, first in store.settings.copies
        if duplicate in labels and first in labels and labels[first] != labels[duplicate]
    ]
