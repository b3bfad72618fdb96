"""What turns a pool that is not a plain matrix into one: tables with gaps, wide sparse rows.

Fitted on the pool alone; rows that come later go through the same.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from parbals.errors import InputError
from parbals.features.sparse import WIDE, SparseReduction, is_sparse
from parbals.features.table import TableEncoding
from parbals.validate import check_choice

__all__ = ["Encoding", "FrameEncoding", "is_frame", "learn_encoding", "restored", "stored"]

_LEARN_FROM = 20_000
_FEATURES = ("auto", "numbers")


class Encoding(Protocol):
    """Rows as numbers; ``notes`` are sentences about what was left out, joined or reduced."""

    notes: tuple[str, ...]

    @property
    def width(self) -> int: ...

    def transform(self, X: Any, name: str = "X") -> np.ndarray: ...


class FrameEncoding:
    """A data frame through :class:`~parbals.features.table.TableEncoding`."""

    def __init__(self, table: TableEncoding) -> None:
        self.table, self.notes = table, table.notes

    @property
    def width(self) -> int:
        return self.table.width

    def transform(self, X: Any, name: str = "X") -> np.ndarray:
        if not is_frame(X):
            raise InputError(
                f"{name} is not a data frame, but the pool is one with columns other than numbers; "
                "pass a frame with the same columns."
            )
        return self.table.transform(_columns(X, name), name)


def is_frame(X: Any) -> bool:
    """Whether X is a data frame of pandas or polars, or a table of Arrow."""
    named = hasattr(X, "column_names") and hasattr(X, "to_pydict")
    return named or (hasattr(X, "columns") and hasattr(X, "to_numpy") and hasattr(X, "dtypes"))


def learn_encoding(X: Any, name: str, features: str, seed: int) -> Encoding | None:
    """What the pool needs; None where it is a matrix of numbers, and is taken as it is.

    ``features`` is "auto", or "numbers" where anything else is to be refused.
    """
    check_choice(features, _FEATURES, "features")
    if features == "numbers":
        return None
    if is_sparse(X):
        return SparseReduction.fit(X, name, seed) if X.shape[1] > WIDE else None
    if not is_frame(X):
        return None
    columns = _columns(X, name)
    if all(isinstance(cells, np.ndarray) and _is_plain(cells) for cells in columns.values()):
        return None
    n_rows = len(next(iter(columns.values())))
    step = max(1, -(-n_rows // _LEARN_FROM))
    return FrameEncoding(TableEncoding.fit({key: cells[::step] for key, cells in columns.items()}))


def stored(encoding: Encoding | None) -> tuple[dict[str, Any] | None, np.ndarray | None]:
    """An encoding as plain JSON and at most one array."""
    if isinstance(encoding, FrameEncoding):
        return {"kind": "table", **encoding.table.as_json()}, None
    if isinstance(encoding, SparseReduction):
        return {"kind": "sparse", "kept": encoding.kept}, encoding.directions
    return None, None


def restored(record: Mapping[str, Any] | None, array: np.ndarray | None) -> Encoding | None:
    """What ``stored`` was given."""
    if record is None:
        return None
    if record["kind"] == "table":
        return FrameEncoding(TableEncoding.from_json(record))
    if array is None:
        raise ValueError("the directions are missing")
    return SparseReduction(array, record["kept"])


def _is_plain(cells: np.ndarray) -> bool:
    """Numbers (also those that Python keeps as objects) of which none is missing."""
    if cells.dtype.kind in "biu":
        return True
    return cells.dtype.kind == "f" and not np.isnan(cells).any()


def _columns(X: Any, name: str) -> dict[str, Any]:
    names = [str(column) for column in getattr(X, "column_names", X.columns)]
    if len(set(names)) < len(names):
        twice = next(column for column in names if names.count(column) > 1)
        raise InputError(f"{name} has two columns {twice!r}; rename one of them.")
    if hasattr(X, "column_names"):
        columns = [X.column(place) for place in range(len(names))]
    elif hasattr(X, "iloc"):
        columns = [X.iloc[:, place] for place in range(len(names))]
    else:
        columns = [X[column] for column in names]
    return {key: _cells(column) for key, column in zip(names, columns, strict=True)}


def _cells(column: Any) -> Any:
    """One column: an array where it holds numbers or moments, else a list of objects."""
    if hasattr(column, "to_pylist"):  # Arrow
        array = column.to_numpy()
        return array if array.dtype.kind in "biufM" else column.to_pylist()
    array = column.to_numpy()
    return array if array.dtype.kind in "biufM" else column.to_list()
