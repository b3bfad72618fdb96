"""Encode data frames, texts and wide sparse matrices as dense features.

Encodings are fitted on the pool alone and applied to later rows.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from parbals.errors import InputError, ShapeError
from parbals.features.pca import MAX_UNREDUCED_COLUMNS, SparseReduction, is_sparse
from parbals.features.reading import is_missing
from parbals.features.table import TableEncoding, is_text
from parbals.validate import check_choice

if TYPE_CHECKING:
    from parbals.features.text import TextMix

__all__ = [
    "Encoding",
    "FrameEncoding",
    "column_names",
    "frame_columns",
    "is_frame",
    "learn_encoding",
    "restore_encoding",
    "store_encoding",
]

_MAX_FIT_ROWS = 20_000
_RMS_LENGTH = 3.0
_FEATURES = ("auto", "numbers")
_TEXT_COLUMN = "text"
"""Column name of a list of texts."""


class Encoding(Protocol):
    """Encodes rows as numbers; ``notes`` are sentences about what was left out or reduced."""

    notes: tuple[str, ...]

    @property
    def width(self) -> int:
        """Number of features."""

    def transform(self, X: Any, name: str = "X") -> np.ndarray:
        """Features (n, width) of rows, which error messages call ``name``."""


class FrameEncoding:
    """Encode a data frame: features of its texts, followed by those of its other columns.

    The texts of a row are joined by line breaks and encoded by
    :class:`~parbals.features.text.TextMix`, as in a project. If there are texts, the features of
    the other columns are centred, and both blocks are scaled to a root mean square length of 3 over
    the pool, so that neither dominates.

    >>> encoding = FrameEncoding.fit({"size": [1.0, 2.0, 4.0], "colour": ["red", "blue", "red"]})
    >>> encoding.width
    6
    """

    def __init__(
        self,
        table: TableEncoding | None,
        texts: tuple[str, ...] = (),
        mix: "TextMix | None" = None,
        shift: Sequence[float] = (),
        factor: float = 1.0,
    ) -> None:
        self.table = table
        self.texts = texts
        self.mix = mix
        self.shift = np.array(shift, np.float32)
        self.factor = factor
        notes: list[str] = []
        if texts:
            columns = " and ".join(map(repr, texts))
            notes.append(f"{columns}: read as text, by words, form and meaning.")
        if table is not None:
            notes += table.notes
        self.notes = tuple(notes)

    @classmethod
    def fit(cls, columns: Mapping[str, Any], texts: tuple[str, ...] | None = None) -> Self:
        """Learn from columns of equal length; ``texts`` are by default the columns of sentences."""
        if texts is None:
            texts = tuple(name for name, cells in columns.items() if is_text(cells))
        if not texts:
            return cls(TableEncoding.fit(columns))
        from parbals.features.text import TextMix

        try:
            mix = TextMix().fit(_joined_texts(columns, texts))
        except ValueError:  # the texts hold no word
            return cls(TableEncoding.fit(columns))
        table_columns = {name: cells for name, cells in columns.items() if name not in texts}
        try:
            table = TableEncoding.fit(table_columns)
        except InputError:  # only the texts distinguish rows
            return cls(None, texts, mix)
        rows = table.transform(table_columns)
        shift = rows.mean(axis=0)
        length = float(np.sqrt(np.square(rows - shift).sum(axis=1).mean()))
        return cls(
            table=table,
            texts=texts,
            mix=mix,
            shift=shift.tolist(),
            factor=_RMS_LENGTH / length if length else 1.0,
        )

    @property
    def width(self) -> int:
        """Number of features."""
        text_width = 0 if self.mix is None else self.mix.width
        table_width = 0 if self.table is None else self.table.width
        return text_width + table_width

    def transform(self, X: Any, name: str = "X") -> np.ndarray:
        """Features (n, width) of a frame, or of a list of texts."""
        texts = _as_texts(X)
        if texts is None and not is_frame(X):
            raise InputError(
                f"{name} is not a data frame, but the pool is one with columns other than numbers; "
                "pass a frame with the same columns."
            )
        columns = frame_columns(X, name) if texts is None else {_TEXT_COLUMN: texts}
        if self.mix is None:
            assert self.table is not None
            return self.table.transform(columns, name)
        for column in self.texts:
            if column not in columns:
                raise ShapeError(f"{name} has no column {column!r}, which the pool has.")
        text_features = _RMS_LENGTH * self.mix.transform(_joined_texts(columns, self.texts))
        if self.table is None:
            return text_features
        centred = self.table.transform(columns, name) - self.shift
        return np.hstack([text_features, centred * np.float32(self.factor)])

    def to_record(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """The encoding as JSON, and the arrays of its text features."""
        table = {"columns": None} if self.table is None else self.table.as_json()
        record = {
            "kind": "table",
            **table,
            "texts": self.texts,
            "shift": self.shift.tolist(),
            "factor": self.factor,
        }
        return record, {} if self.mix is None else self.mix.as_arrays()

    @classmethod
    def from_record(cls, record: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Self:
        """The encoding from what :meth:`to_record` returned."""
        table = None if record["columns"] is None else TableEncoding.from_json(record)
        if not record["texts"]:
            return cls(table)
        from parbals.features.text import TextMix

        return cls(
            table=table,
            texts=tuple(record["texts"]),
            mix=TextMix.from_arrays(arrays),
            shift=record["shift"],
            factor=record["factor"],
        )


def _joined_texts(columns: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """The texts of each row, joined by line breaks."""
    rows = zip(*(columns[name] for name in names), strict=True)
    return ["\n".join("" if is_missing(cell) else str(cell) for cell in cells) for cells in rows]


def _as_texts(X: Any) -> list[Any] | None:
    """A list, array or column of texts, some of which may be missing; None for anything else."""
    if is_frame(X) or isinstance(X, str) or getattr(X, "ndim", 1) != 1:
        return None
    dtype_kind = getattr(getattr(X, "dtype", None), "kind", "O")
    if dtype_kind not in "OUT":  # for example numbers
        return None
    to_list = getattr(X, "to_list", getattr(X, "to_pylist", getattr(X, "tolist", None)))
    cells = to_list() if to_list is not None else X
    if not isinstance(cells, list | tuple) or not any(isinstance(cell, str) for cell in cells):
        return None
    if not all(isinstance(cell, str) or is_missing(cell) for cell in cells):
        return None
    return list(cells)


def is_frame(X: Any) -> bool:
    """Whether X is a data frame of pandas or polars, or an Arrow table."""
    is_arrow = hasattr(X, "column_names") and hasattr(X, "to_pydict")
    is_pandas_or_polars = hasattr(X, "columns") and hasattr(X, "to_numpy") and hasattr(X, "dtypes")
    return is_arrow or is_pandas_or_polars


def column_names(X: Any) -> tuple[str, ...] | None:
    """The column names of a frame; None for arrays, and if a name is not a string."""
    if not is_frame(X):
        return None
    names = tuple(getattr(X, "column_names", X.columns))
    return names if names and all(isinstance(name, str) for name in names) else None


def learn_encoding(X: Any, name: str, features: str, seed: int) -> Encoding | None:
    """Fit the encoding that a pool needs; None if it is a matrix of numbers.

    Args:
        X: the pool.
        name: what error messages call it.
        features: "auto", or "numbers" to accept numbers only.
        seed: of the truncated SVD.
    """
    check_choice(features, _FEATURES, "features")
    if features == "numbers":
        return None
    if is_sparse(X):
        is_wide = X.shape[1] > MAX_UNREDUCED_COLUMNS
        return SparseReduction.fit(X, name, seed) if is_wide else None
    if texts := _as_texts(X):
        step = max(1, -(-len(texts) // _MAX_FIT_ROWS))
        return FrameEncoding.fit({_TEXT_COLUMN: texts[::step]}, (_TEXT_COLUMN,))
    if not is_frame(X):
        return None
    columns = frame_columns(X, name)
    if all(isinstance(cells, np.ndarray) and _is_complete(cells) for cells in columns.values()):
        return None
    n_rows = len(next(iter(columns.values())))
    step = max(1, -(-n_rows // _MAX_FIT_ROWS))
    return FrameEncoding.fit({key: cells[::step] for key, cells in columns.items()})


def store_encoding(
    encoding: Encoding | None,
) -> tuple[dict[str, Any] | None, dict[str, np.ndarray]]:
    """An encoding as JSON and arrays."""
    if isinstance(encoding, FrameEncoding):
        return encoding.to_record()
    if isinstance(encoding, SparseReduction):
        record = {"kind": "sparse", "kept": encoding.explained}
        return record, {"directions": encoding.directions}
    return None, {}


def restore_encoding(
    record: Mapping[str, Any] | None, arrays: Mapping[str, np.ndarray]
) -> Encoding | None:
    """The encoding from what :func:`store_encoding` returned."""
    if record is None:
        return None
    if record["kind"] == "table":
        return FrameEncoding.from_record(record, arrays)
    return SparseReduction(arrays["directions"], record["kept"])


def _is_complete(cells: np.ndarray) -> bool:
    """Whether cells are numbers, none of them missing."""
    kind = cells.dtype.kind
    return kind in "biu" or (kind == "f" and not np.isnan(cells).any())


def frame_columns(X: Any, name: str) -> dict[str, Any]:
    """The columns of a frame: arrays of numbers or times, otherwise lists of objects."""
    names = [str(column) for column in getattr(X, "column_names", X.columns)]
    if len(set(names)) < len(names):
        duplicate = next(column for column in names if names.count(column) > 1)
        raise InputError(f"{name} has two columns {duplicate!r}; rename one of them.")
    if hasattr(X, "column_names"):  # Arrow
        columns = [X.column(position) for position in range(len(names))]
    elif hasattr(X, "iloc"):  # pandas
        columns = [X.iloc[:, position] for position in range(len(names))]
    else:
        columns = [X[column] for column in names]
    return {key: _cells(column) for key, column in zip(names, columns, strict=True)}


def _cells(column: Any) -> Any:
    """A column as an array of numbers or times, otherwise as a list of objects."""
    array = column.to_numpy()
    if array.dtype.kind in "biufM":
        return array
    is_arrow = hasattr(column, "to_pylist")
    return column.to_pylist() if is_arrow else column.to_list()
