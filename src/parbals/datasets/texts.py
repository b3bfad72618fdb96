"""Text sets published as CSV without a header (class from 1, then texts) or as Parquet (label from
0, text)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from parbals.datasets.base import MissingData, Part
from parbals.datasets.files import class_numbers, count_note, open_member, read_csv, read_parquet

__all__ = ["read_texts"]


def read_texts(
    folder: Path,
    part: str,
    source: MissingData,
    columns: Sequence[str],
    n_classes: int,
    published: int,
    inside: str,
    archive: str,
) -> tuple[Part, tuple[str, ...]]:
    """One part and a note if rows are missing.

    ``inside`` is the publisher's folder within ``archive``.
    """
    csv_names = [f"{part}.csv", f"{part}.csv.gz", f"{inside}/{part}.csv"]
    parquet = next(iter(sorted(folder.glob(f"{part}*.parquet"))), None) if folder.is_dir() else None
    if parquet is not None and not any((folder / name).is_file() for name in csv_names):
        cells: dict[str, list[Any]] = read_parquet(parquet, ("label", "text"))
        y = class_numbers(
            cells["label"], {c: c for c in range(n_classes)}, parquet.name, "label", 1
        )
        return Part([_plain(text) for text in cells["text"]], y, parquet.stem), count_note(
            parquet.name, len(y), published
        )
    with open_member(folder, csv_names, source, (archive,)) as (file, name):
        cells = dict(read_csv(file, name, columns, header=False))
    label, *rest = columns
    first_row = 1
    if cells[label][0].strip().lower() == label:  # some mirrors have added a header
        cells, first_row = {column: values[1:] for column, values in cells.items()}, 2
    y = class_numbers(
        cells[label], {str(c + 1): c for c in range(n_classes)}, name, label, first_row
    )
    texts = [
        " ".join(map(_plain, pieces))
        for pieces in zip(*(cells[column] for column in rest), strict=True)
    ]
    return Part(texts, y, part), count_note(name, len(y), published)


def _plain(text: str) -> str:
    """The publishers wrote a line break as the two characters \\n, and a quote as \\"."""
    return text.replace("\\n", "\n").replace('\\"', '"')
