"""Texts that repeat, are empty or huge: told when they come, and a copy is not asked for again."""

from collections.abc import Sequence
from hashlib import blake2b

from parbals_label.project.consensus import combined_labels
from parbals_label.readers.cells import cell_text
from parbals_label.store.store import Store

__all__ = ["contradictions", "look_through"]

_HUGE = 20_000
_MOST = 10_000
"""More copies than these, or a fifth of the items, are the data's nature: all are asked for."""


def look_through(
    store: Store, columns: Sequence[str]
) -> tuple[list[tuple[int, int]], tuple[str, ...]]:
    """Copies, each with the first item that has the same words in these columns; and notes."""
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
        notes.append(f"{n_empty:,} texts are empty.")
    if n_huge:
        notes.append(f"{n_huge:,} texts have more than {_HUGE:,} characters.")
    is_usual = len(copies) > min(_MOST, store.n_items / 5)
    if copies:
        what = "each is asked for" if is_usual else "the first is asked for, for all of them"
        notes.append(f"{len(copies):,} texts repeat others word for word: {what}.")
    return [] if is_usual else copies, tuple(notes)


def contradictions(store: Store) -> list[tuple[int, str, int, str]]:
    """Copies whose label is another than their first item's: both positions and labels."""
    labels = combined_labels(store.votes())
    pairs = [pair for pair in store.settings.copies if labels.keys() >= set(pair)]
    return [(a, labels[a], b, labels[b]) for b, a in pairs if labels[a] != labels[b]]
