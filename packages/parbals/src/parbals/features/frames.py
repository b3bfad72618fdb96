"""What turns a pool that is not a plain matrix into one: frames with gaps and texts, sparse rows.

Fitted on the pool alone; rows that come later go through the same.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from parbals.errors import InputError, ShapeError
from parbals.features.pca import WIDE, SparseReduction, is_sparse
from parbals.features.reading import is_missing
from parbals.features.table import TableEncoding, is_text
from parbals.validate import check_choice

if TYPE_CHECKING:
    from parbals.features.text import TextMix

__all__ = ["Encoding", "FrameEncoding", "column_names", "frame_columns", "is_frame"]
__all__ += ["learn_encoding", "restored", "stored"]

_LEARN_FROM = 20_000
_LENGTH = 3.0
_FEATURES = ("auto", "numbers")
_TEXT = "text"
"""The name of the one column that a list of texts is."""


class Encoding(Protocol):
    """Rows as numbers; ``notes`` are sentences about what was left out, joined or reduced."""

    notes: tuple[str, ...]

    @property
    def width(self) -> int: ...

    def transform(self, X: Any, name: str = "X") -> np.ndarray: ...


class FrameEncoding:
    """A data frame: its texts as in a project, beside them the columns of its table.

    Texts of a row are joined by line breaks and read by :class:`~parbals.features.text.TextMix`.
    Where there are some, the table's rows are centred, and both have a root mean square length of 3
    over the pool, so that neither drowns the other.
    """

    def __init__(
        self,
        table: TableEncoding | None,
        texts: tuple[str, ...] = (),
        mix: "TextMix | None" = None,
        shift: Sequence[float] = (),
        factor: float = 1.0,
    ) -> None:
        self.table, self.texts, self.mix, self.factor = table, texts, mix, factor
        self.shift = np.array(shift, np.float32)
        named = " and ".join(map(repr, texts))
        notes = (f"{named}: read as text, by words, form and meaning.",) if texts else ()
        self.notes = (*notes, *(() if table is None else table.notes))

    @classmethod
    def fit(cls, columns: Mapping[str, Any], texts: tuple[str, ...] | None = None) -> Self:
        """Learn from columns of equal length; ``texts`` are by default those with sentences."""
        if texts is None:
            texts = tuple(name for name, cells in columns.items() if is_text(cells))
        if not texts:
            return cls(TableEncoding.fit(columns))
        from parbals.features.text import TextMix

        try:
            mix = TextMix().fit(_joined(columns, texts))
        except ValueError:  # signs alone, without a word
            return cls(TableEncoding.fit(columns))
        others = {name: cells for name, cells in columns.items() if name not in texts}
        try:
            table = TableEncoding.fit(others)
        except InputError:  # nothing but texts tells the rows apart
            return cls(None, texts, mix)
        rows = table.transform(others)
        shift = rows.mean(axis=0)
        length = float(np.sqrt(np.square(rows - shift).sum(axis=1).mean()))
        return cls(table, texts, mix, shift.tolist(), _LENGTH / length if length else 1.0)

    @property
    def width(self) -> int:
        beside = 0 if self.table is None else self.table.width
        return beside + (0 if self.mix is None else self.mix.width)

    def transform(self, X: Any, name: str = "X") -> np.ndarray:
        listed = _texts(X)
        if listed is None and not is_frame(X):
            raise InputError(
                f"{name} is not a data frame, but the pool is one with columns other than numbers; "
                "pass a frame with the same columns."
            )
        columns = frame_columns(X, name) if listed is None else {_TEXT: listed}
        if self.mix is None:
            assert self.table is not None
            return self.table.transform(columns, name)
        for column in self.texts:
            if column not in columns:
                raise ShapeError(f"{name} has no column {column!r}, which the pool has.")
        rows = _LENGTH * self.mix.transform(_joined(columns, self.texts))
        if self.table is None:
            return rows
        table = (self.table.transform(columns, name) - self.shift) * np.float32(self.factor)
        return np.hstack([rows, table])

    def stored(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """As plain JSON, and what was learnt of texts as arrays."""
        record: dict[str, Any] = {"kind": "table"}
        record |= {"columns": None} if self.table is None else self.table.as_json()
        record |= {"texts": self.texts, "shift": self.shift.tolist(), "factor": self.factor}
        return record, {} if self.mix is None else self.mix.as_arrays()

    @classmethod
    def restored(cls, record: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Self:
        """What ``stored`` gave."""
        table = None if record["columns"] is None else TableEncoding.from_json(record)
        if not record["texts"]:
            return cls(table)
        from parbals.features.text import TextMix

        mix = TextMix.from_arrays(arrays)
        return cls(table, tuple(record["texts"]), mix, record["shift"], record["factor"])


def _joined(columns: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """The texts of each row."""
    rows = zip(*(columns[name] for name in names), strict=True)
    return ["\n".join("" if is_missing(c) else str(c) for c in cells) for cells in rows]


def _texts(X: Any) -> list[Any] | None:
    """A list, array or column of texts, some of which may be missing; None for anything else."""
    if is_frame(X) or isinstance(X, str) or getattr(X, "ndim", 1) != 1:
        return None
    if getattr(getattr(X, "dtype", None), "kind", "O") not in "OUT":  # such as numbers
        return None
    as_list = getattr(X, "to_list", getattr(X, "to_pylist", getattr(X, "tolist", None)))
    cells = as_list() if as_list is not None else X
    if not isinstance(cells, list | tuple) or not any(isinstance(cell, str) for cell in cells):
        return None
    return list(cells) if all(isinstance(c, str) or is_missing(c) for c in cells) else None


def is_frame(X: Any) -> bool:
    """Whether X is a data frame of pandas or polars, or a table of Arrow."""
    named = hasattr(X, "column_names") and hasattr(X, "to_pydict")
    return named or (hasattr(X, "columns") and hasattr(X, "to_numpy") and hasattr(X, "dtypes"))


def column_names(X: Any) -> tuple[str, ...] | None:
    """The column names of a frame; None for arrays, and where not every name is a string."""
    names = tuple(getattr(X, "column_names", X.columns)) if is_frame(X) else ()
    return names if names and all(isinstance(name, str) for name in names) else None


def learn_encoding(X: Any, name: str, features: str, seed: int) -> Encoding | None:
    """What the pool needs; None where it is a matrix of numbers, and is taken as it is.

    ``features`` is "auto", or "numbers" where anything else is to be refused.
    """
    check_choice(features, _FEATURES, "features")
    if features == "numbers":
        return None
    if is_sparse(X):
        return SparseReduction.fit(X, name, seed) if X.shape[1] > WIDE else None
    if listed := _texts(X):
        step = max(1, -(-len(listed) // _LEARN_FROM))
        return FrameEncoding.fit({_TEXT: listed[::step]}, (_TEXT,))
    if not is_frame(X):
        return None
    columns = frame_columns(X, name)
    if all(isinstance(cells, np.ndarray) and _is_plain(cells) for cells in columns.values()):
        return None
    n_rows = len(next(iter(columns.values())))
    step = max(1, -(-n_rows // _LEARN_FROM))
    return FrameEncoding.fit({key: cells[::step] for key, cells in columns.items()})


def stored(encoding: Encoding | None) -> tuple[dict[str, Any] | None, dict[str, np.ndarray]]:
    """An encoding as plain JSON and arrays."""
    if isinstance(encoding, FrameEncoding):
        return encoding.stored()
    if isinstance(encoding, SparseReduction):
        return {"kind": "sparse", "kept": encoding.kept}, {"directions": encoding.directions}
    return None, {}


def restored(record: Mapping[str, Any] | None, arrays: Mapping[str, np.ndarray]) -> Encoding | None:
    """What ``stored`` was given."""
    if record is None:
        return None
    if record["kind"] == "table":
        return FrameEncoding.restored(record, arrays)
    return SparseReduction(arrays["directions"], record["kept"])


def _is_plain(cells: np.ndarray) -> bool:
    """Numbers (also those that Python keeps as objects) of which none is missing."""
    kind = cells.dtype.kind
    return kind in "biu" or (kind == "f" and not np.isnan(cells).any())


def frame_columns(X: Any, name: str) -> dict[str, Any]:
    """The columns of a frame: arrays where they hold numbers or moments, else lists of objects."""
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
    array = column.to_numpy()
    if array.dtype.kind in "biufM":
        return array
    return column.to_pylist() if hasattr(column, "to_pylist") else column.to_list()  # Arrow, others
