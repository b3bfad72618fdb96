"""Columns of a project's items as features: numbers, categories, dates, yes and no, with gaps."""

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from parbals.arrays import block_rows, release_pages
from parbals.errors import InputError
from parbals.features.reading import guess_reading
from parbals.features.table import TableEncoding, is_text, tells_apart

from parbals_label.encoders.embedding import Progress
from parbals_label.encoders.scratch import ROWS, scratch
from parbals_label.project.features import Items
from parbals_label.readers.numbers import feature_blocks
from parbals_label.readers.source import Source

__all__ = [
    "all_numbers",
    "beside",
    "columns_of",
    "encode_table",
    "fit_table",
    "holds_classes",
    "reads_as_numbers",
    "sort_columns",
]

_LEARN_FROM = 20_000
_LENGTH = 3.0
"""As long as the rows of encoded texts and images are, so that neither drowns the other."""
_SEEN = 1_000


def fit_table(items: Items, n_items: int, columns: Sequence[str]) -> TableEncoding:
    """Bins, values and means of the items, of 20,000 evenly spread where there are more."""
    step = max(1, -(-n_items // _LEARN_FROM))
    sample = columns_of((content for _, content in islice(items(), 0, None, step)), columns)
    return TableEncoding.fit(sample, is_asked_for=True)


def encode_table(
    items: Items,
    n_items: int,
    columns: Sequence[str],
    workspace: Path | None,
    progress: Progress = lambda stage, done, total: None,
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Features (N, D) float32 in a file, and what is to be said about the columns."""
    encoding = fit_table(items, n_items, columns)
    rows = scratch((n_items, encoding.width), workspace)
    walk, done = items(), 0
    while part := [content for _, content in islice(walk, ROWS)]:
        rows[done : done + len(part)] = encoding.transform(columns_of(part, columns))
        release_pages(rows)
        done += len(part)
        progress("encoding", done, n_items)
    return rows, encoding.notes


def beside(encoded: np.ndarray, table: np.ndarray, workspace: Path | None) -> np.ndarray:
    """Both side by side; the table's rows are centred and get the length that encoded rows have."""
    blocks = list(block_rows(len(table), ROWS))
    centre = sum(table[block].sum(axis=0, dtype=np.float64) for block in blocks) / len(table)
    total = sum(float(np.square(table[block] - centre).sum()) for block in blocks)
    factor = _LENGTH / np.sqrt(total / len(table)) if total else 1.0
    n_encoded = encoded.shape[1]
    rows = scratch((len(table), n_encoded + table.shape[1]), workspace)
    for block in blocks:
        rows[block, :n_encoded] = encoded[block]
        rows[block, n_encoded:] = (table[block] - centre) * factor
        release_pages(rows)
    return rows


def all_numbers(source: Source, columns: Sequence[str]) -> bool:
    """Whether every cell of the columns is a plain number, so that they need no pipeline."""
    try:
        for _ in feature_blocks(source, columns):
            pass
    except InputError:
        return False
    return True


def reads_as_numbers(source: Source, column: str) -> bool:
    """Whether a column holds numbers, dates or times rather than names or texts."""
    cells = [row.values[column] for row in islice(source.rows(), _SEEN)]
    return guess_reading(cells) is not None


def holds_classes(source: Source, column: str, classes: Sequence[str]) -> bool:
    """Whether the entries of a column are classes: taken for features it would give them away."""
    cells = (row.values[column] for row in islice(source.rows(), _SEEN))
    entries = {cell.strip().casefold() for cell in cells if isinstance(cell, str) and cell.strip()}
    return bool(entries) and entries <= {name.strip().casefold() for name in classes}


def sort_columns(source: Source, columns: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    """Columns nobody asked for: those of a table, sentences, and those that only name the rows."""
    seen = columns_of((row.values for row in islice(source.rows(), _SEEN)), columns)
    texts = [name for name in columns if is_text(seen[name])]
    names = [name for name in columns if name not in texts and tells_apart(name, seen[name])]
    return [name for name in columns if name not in {*texts, *names}], texts, names


def columns_of(contents: Iterable[dict[str, Any]], names: Sequence[str]) -> dict[str, list[Any]]:
    """Name → cells; None where an item has none."""
    table: dict[str, list[Any]] = {name: [] for name in names}
    for content in contents:
        for name, cells in table.items():
            cells.append(content.get(name))
    return table
