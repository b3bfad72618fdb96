"""A user's own labelled data: CSV, TSV, JSONL, Parquet, .npz, or a Hugging Face dataset folder."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from parbals.errors import InputError, LabelError
from parbals.features.reading import looks_like_id
from parbals.validate import check_choice
from parbals_label.readers.items import classes_in, plan_items
from parbals_label.readers.numbers import numeric_features
from parbals_label.readers.numpy_files import open_npz
from parbals_label.readers.open import open_source
from parbals_label.readers.source import Row, Source, where

from parbals_bench.datasets.base import Data, Dataset, halves, three_parts
from parbals_bench.datasets.embedded import tfidf_features
from parbals_bench.datasets.pca import PoolPCA
from parbals_bench.datasets.tabular import CellError, TabularFeatures

__all__ = ["DATASET", "load"]

NAME = "own"
_FEATURES = ("auto", "given", "pca", "tabular", "tfidf")
_PARTS = ("pool", "target", "test")
_VALIDATION = ("validation", "val", "dev")


@dataclass(frozen=True)
class _Rows:
    """Labelled rows of one file or split; ``numbers`` are where a person finds them in the file."""

    name: str
    columns: list[dict[str, Any]]
    matrix: np.ndarray | None
    y: np.ndarray
    numbers: np.ndarray

    def take(self, rows: np.ndarray) -> "_Rows":
        matrix = None if self.matrix is None else self.matrix[rows]
        columns = [self.columns[i] for i in rows]
        return _Rows(self.name, columns, matrix, self.y[rows], self.numbers[rows])


def load(
    folder: Path | None = None,
    *,
    features: str = "auto",
    seed: int = 0,
    label: str = "label",
    text: str | None = None,
    classes: Sequence[str] | None = None,
) -> Data:
    """A file or folder of the user's own, with the true labels in the column or array ``label``.

    A Hugging Face folder with splits train and test keeps them (and validation as target source, or
    half of test); anything else is divided 60/20/20 by the seed. ``features``: "given" takes the
    array of an .npz as it is, "pca" reduces it to 99 % of its variance, "tabular" makes bins and
    slots of the columns, "tfidf" reads the column ``text``. "auto" takes the array if there is one,
    else the text if it is named, else the columns.
    """
    if folder is None:
        raise InputError(
            "own data needs a place: pass the file (.csv, .npz, .parquet, …) or the dataset folder."
        )
    check_choice(features, _FEATURES, "features")
    path = Path(folder)
    splits = _splits(path)
    sources = {part: _opened(path, split, label) for part, split in splits.items()}
    first = next(iter(sources.values()))
    names = list(classes) if classes is not None else classes_in(first, label)
    notes: list[str] = []
    parts = {part: _labelled(source, label, names, notes) for part, source in sources.items()}
    if "pool" not in parts:
        divided = zip(_PARTS, three_parts(len(parts["all"].y), NAME, seed), strict=True)
        parts = {part: parts["all"].take(rows) for part, rows in divided}
    elif "target" not in parts:
        to_target, to_test = halves(len(parts["test"].y), NAME)
        parts |= {"target": parts["test"].take(to_target), "test": parts["test"].take(to_test)}
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


def _splits(path: Path) -> dict[str, str | None]:
    """Which split of a Hugging Face DatasetDict plays which part; anything else is one part."""
    listing = path / "dataset_dict.json"
    if not listing.is_file():
        return {"all": None}
    try:
        splits = json.loads(listing.read_text("utf-8"))["splits"]
        there = [split for split in splits if isinstance(split, str)]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise InputError(
            f"{path.name}/dataset_dict.json cannot be read; save the dataset again."
        ) from None
    if "train" not in there or "test" not in there:
        raise InputError(
            f"{path.name} has the splits {', '.join(there)}; train and test are needed."
        )
    target = next((split for split in _VALIDATION if split in there), None)
    return {"pool": "train", **({"target": target} if target else {}), "test": "test"}


def _opened(path: Path, split: str | None, label: str) -> Source:
    if path.is_file() and path.suffix.lower() == ".npz":
        return open_npz(path, label)
    return open_source(path, split=split)


def _labelled(source: Source, label: str, classes: list[str], notes: list[str]) -> _Rows:
    number = {name: c for c, name in enumerate(classes)}
    walked: list[int] = []
    columns, kept, y = [], [], []

    def numbered() -> Iterator[Row]:
        walked.clear()  # every walk begins again
        for row in source.rows():
            walked.append(row.number)
            yield row

    items = plan_items(replace(source, rows=numbered), label_column=label, classes=classes)
    for row, (_, content, name) in enumerate(items):
        if name is not None:
            columns.append(content)
            kept.append(row)
            y.append(number[name])
    if not y:
        raise LabelError(f"{source.name}, column {label!r} has no labels.")
    if len(y) < len(walked):
        notes.append(
            f"{len(walked) - len(y):,} rows of {source.name} have no label and were left out"
        )
    matrix = None if source.features is None else numeric_features(source)[kept]
    numbers = np.array(walked, np.int64)[kept]
    return _Rows(source.name, columns, matrix, np.array(y, np.int64), numbers)


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
        if features == "given":
            return matrices
        pca = PoolPCA(0.99).fit(matrices["pool"])
        return {part: pca.transform(matrix) for part, matrix in matrices.items()}
    return _tfidf(parts, text, seed, name) if features == "tfidf" else _tabular(parts, name, notes)


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


def _tabular(parts: dict[str, _Rows], name: str, notes: list[str]) -> dict[str, np.ndarray]:
    columns = list(parts["pool"].columns[0])
    tables = {}
    for part, rows in parts.items():
        tables[part] = np.empty((len(rows.columns), len(columns)), dtype=object)
        for place, column in enumerate(columns):
            tables[part][:, place] = [row.get(column) for row in rows.columns]
    pool = tables["pool"]
    dropped = [i for i, column in enumerate(columns) if looks_like_id(column, pool[:, i])]
    if len(dropped) == len(columns):
        raise InputError(
            f"{name} has no column besides the label that says something about more than one row."
        )
    if dropped:
        notes.append(
            "columns left out because they only tell rows apart: "
            f"{', '.join(columns[i] for i in dropped)}"
        )
    encoder = TabularFeatures(dropped=dropped)
    with _placed(parts["pool"], columns):
        encoder.fit(pool)
    features = {}
    for part, table in tables.items():
        with _placed(parts[part], columns):
            features[part] = encoder.transform(table)
    return features


@contextmanager
def _placed(rows: _Rows, columns: list[str]) -> Iterator[None]:
    """A fault in a cell names the row and the column of the file."""
    try:
        yield
    except CellError as error:
        place = where(rows.name, int(rows.numbers[error.row]), columns[error.place])
        raise InputError(
            f"{place} is {error.shown}, {error.fault}; correct the cell, or remove the row."
        ) from None


DATASET = Dataset(
    "Own data",
    load,
    "your own: .csv, .tsv, .jsonl, .parquet, .npz or a Hugging Face folder",
    features=_FEATURES[1:],
)
