"""Texts that repeat, are empty or huge: told when they come, and a copy is not asked for again."""

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from parbals.wording import counted

from parbals_label.project.consensus import consensus_labels
from parbals_label.project.features import features_of
from parbals_label.readers.cells import cell_text
from parbals_label.store.store import Store

__all__ = ["contradictions", "find_duplicates", "near_duplicate_notes"]

_HUGE = 20_000
_MOST = 10_000
"""More copies than these, or a fifth of the items, are the data's nature: all are asked for."""
_COMPARED = 20_000
"""Items that are compared with each other, the first ones: some seconds' work."""
_FEWEST = 100
"""Of fewer items features that were learnt from them are too coarse to compare by."""
_ALIKE = 0.97
"""Cosine from which features about their mean are nearly the same."""


def find_duplicates(store: Store, columns: Sequence[str]) -> list[str]:
    """Remember copies, each with the first item of the same words in these columns; notes."""
    first: dict[bytes, int] = {}
    copies, n_empty, n_huge = [], 0, 0
    for item in store.iter_items():
        words = "\0".join(" ".join(cell_text(item.content.get(name)).split()) for name in columns)
        n_huge += len(words) > _HUGE
        if not words.strip("\0"):
            n_empty += 1
            continue
        seen = first.setdefault(blake2b(words.encode(), digest_size=16).digest(), item.position)
        if seen != item.position:
            copies.append((item.position, seen))
    notes = []
    if n_empty:
        notes.append(f"{counted(n_empty, 'text is', 'texts are')} empty.")
    if n_huge:
        notes.append(f"{counted(n_huge, 'text has', 'texts have')} more than {_HUGE:,} characters.")
    is_usual = len(copies) > min(_MOST, store.n_items / 5)
    if copies:
        what = "each is asked for" if is_usual else "the first is asked for, for all of them"
        repeat = counted(len(copies), "text repeats another", "texts repeat others")
        notes.append(f"{repeat} word for word: {what}.")
    store.update_settings(copies=[] if is_usual else copies)
    return notes


def near_duplicate_notes(store: Store) -> list[str]:
    """A note about items whose features are nearly those of an earlier one, without copies."""
    if store.n_items < _FEWEST:
        return []
    rows = np.array(features_of(store)[:_COMPARED], np.float32)
    rows -= rows.mean(axis=0)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    copies, pairs = {copy for copy, _ in store.settings.copies}, list[tuple[int, int]]()
    for start in range(0, len(rows), 512):
        block = rows[start : start + 512]
        alike = np.tril(block @ rows[: start + len(block)].T >= _ALIKE, start - 1)
        for place in np.flatnonzero(alike.any(axis=1)).tolist():
            if start + place not in copies:
                pairs.append((start + place, int(alike[place].argmax())))
    if not pairs:
        return []
    one, other = (item.id for item in store.items(list(pairs[0])))
    among = "" if store.n_items <= _COMPARED else f"Of the first {_COMPARED:,}, "
    are = counted(len(pairs), "item nearly repeats another:", "items nearly repeat others, such as")
    return [f"{among}{are} {one} and {other}."]


def contradictions(store: Store) -> list[tuple[int, str, int, str]]:
    """Copies whose label is another than their first item's: both positions and labels."""
    form, labels = store.form, consensus_labels(store)
    pairs = [pair for pair in store.settings.copies if labels.keys() >= set(pair)]
    labels = {p: form.words(label) for p, label in labels.items()}
    return [(a, labels[a], b, labels[b]) for b, a in pairs if labels[a] != labels[b]]
