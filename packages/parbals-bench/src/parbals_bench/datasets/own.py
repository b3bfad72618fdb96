"""A user's own labelled data: CSV, TSV, JSONL, Parquet or .npz."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from parbals.errors import InputError, LabelError
from parbals.features.table import TableEncoding
from parbals.validate import check_choice
from parbals_label.readers.items import classes_in, plan_items
from parbals_label.readers.numpy_files import open_npz
from parbals_label.readers.open import open_source
from parbals_label.readers.source import Source

from parbals_bench.datasets.base import Data, Dataset, three_parts
from parbals_bench.datasets.embedded import reduced, tfidf_features

__all__ = ["DATASET", "load"]

NAME = "own"
_FEATURES = ("auto", "given", "pca", "tabular", "tfidf")
_PARTS = ("pool", "target", "test")


@dataclass(frozen=True)
class _Rows:
    """Labelled rows."""

    columns: list[dict[str, Any]]
    matrix: np.ndarray | None
    y: np.ndarray

    def take(self, rows: np.ndarray) -> "_Rows":
        matrix = None if self.matrix is None else self.matrix[rows]
        return _Rows([self.columns[i] for i in rows], matrix, self.y[rows])


def load(
    folder: Path | None = None,
    *,
    features: str = "auto",
    seed: int = 0,
    label: str = "label",
    text: str | None = None,
    classes: Sequence[str] | None = None,
) -> Data:
    """A file of the user's own, with the true labels in the column or array ``label``.

    It is divided 60/20/20 by the seed. ``features``: "given" takes the array of an .npz as it is,
    "pca" reduces it to 99 % of its variance, "tabular" makes features of the columns as `parbals
    init` does, "tfidf" reads the column ``text``. "auto" takes the array if there is one, else the
    text if it is named, else the columns.
    """
    if folder is None:
        raise InputError("own data needs a place: pass the file (.csv, .npz, .parquet, …).")
    check_choice(features, _FEATURES, "features")
    path = Path(folder)
    is_npz = path.is_file() and path.suffix.lower() == ".npz"
    source = open_npz(path, label) if is_npz else open_source(path)
    names = list(classes) if classes is not None else classes_in(source, label)
    notes: list[str] = []
    labelled = _labelled(source, label, names, notes)
    divided = zip(_PARTS, three_parts(len(labelled.y), NAME, seed), strict=True)
    parts = {part: labelled.take(rows) for part, rows in divided}
    if not all(len(part.y) for part in parts.values()):
        raise InputError(
            f"{path.name} has too few labelled rows to divide into pool, target and test."
        )
    X = _features(parts, features, text, seed, path.name, notes)
    y_pool, y_test = parts["pool"].y, parts["test"].y
    X_pool, X_target, X_test = (X[part] for part in _PARTS)
    return Data(
        path.stem, X_pool, y_pool, X_target, X_test, y_test, tuple(names), notes=tuple(notes)
    )


def _labelled(source: Source, label: str, classes: list[str], notes: list[str]) -> _Rows:
    number = {name: c for c, name in enumerate(classes)}
    items = list(plan_items(source, label_column=label, classes=classes))
    told = {row: number[name] for row, (_, _, name) in enumerate(items) if name is not None}
    kept = list(told)
    if not kept:
        raise LabelError(f"{source.name}, column {label!r} has no labels.")
    if len(kept) < len(items):
        left_out = f"{len(items) - len(kept):,} rows of {source.name}"
        notes.append(f"{left_out} have no label and were left out")
    matrix = None if source.features is None else _matrix(source.features, source.name)[kept]
    return _Rows([items[row][1] for row in kept], matrix, np.array(list(told.values()), np.int64))


def _matrix(given: np.ndarray, name: str) -> np.ndarray:
    """An array as float32 (N, D), which all of its numbers must fit into."""
    with np.errstate(over="ignore"):
        matrix = np.asarray(given, np.float32)
    if len(bad := np.argwhere(~np.isfinite(matrix))):
        row, column = (int(part) for part in bad[0])
        raise InputError(
            f"{name}, row {row + 1}, column {column + 1} is {given[row, column]}; features must be "
            "finite and fit into 32 bits."
        )
    return matrix


def _features(
    parts: dict[str, _Rows], features: str, text: str | None, seed: int, name: str, notes: list[str]
) -> dict[str, np.ndarray]:
    pool = parts["pool"]
    if features == "auto":
        features = "given" if pool.matrix is not None else "tabular" if text is None else "tfidf"
    if features in ("given", "pca"):
        matrices = {part: rows.matrix for part, rows in parts.items() if rows.matrix is not None}
        if len(matrices) != len(parts):
            raise InputError(
                f'{name} has no array of features; use features="tabular", or features="tfidf" '
                'with text="COLUMN".'
            )
        return matrices if features == "given" else reduced(matrices, "pool")
    return _tfidf(parts, text, seed, name) if features == "tfidf" else _tabular(parts, notes)


def _tfidf(
    parts: dict[str, _Rows], text: str | None, seed: int, name: str
) -> dict[str, np.ndarray]:
    if text is None or text not in parts["pool"].columns[0]:
        there = ", ".join(map(repr, parts["pool"].columns[0]))
        raise InputError(
            f"{name}: tfidf needs the column with the text, and {text!r} is not a column; there "
            f"are: {there}."
        )
    cells = {part: [row.get(text) for row in rows.columns] for part, rows in parts.items()}
    texts = {part: tuple(str(cell or "") for cell in column) for part, column in cells.items()}
    return tfidf_features(texts, "pool", seed, f"{name}, column {text!r}")


def _tabular(parts: dict[str, _Rows], notes: list[str]) -> dict[str, np.ndarray]:
    """What `parbals init` makes of a table, by what the pool holds."""
    tables = {
        part: {name: [row.get(name) for row in rows.columns] for name in rows.columns[0]}
        for part, rows in parts.items()
    }
    encoding = TableEncoding.fit(tables["pool"])
    notes += encoding.notes
    return {part: encoding.transform(table) for part, table in tables.items()}


DATASET = Dataset(
    "Own data",
    load,
    "your own: .csv, .tsv, .jsonl, .parquet or .npz",
    features=_FEATURES[1:],
)
