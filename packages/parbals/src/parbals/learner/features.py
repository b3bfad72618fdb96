"""Features as people have them: NumPy, memory maps, frames, SciPy sparse, PyTorch, Dask.

What came in is kept as it is, and only the rows that are needed are turned into dense floats, so
that a memory-mapped pool of a million rows costs no memory. What is not a plain matrix of numbers
goes through an :class:`~parbals.features.frames.Encoding` first. Rows are standardised where the
user asks for it, by the pool alone.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from parbals.arrays import block_rows, drawn_positions, release_pages
from parbals.errors import InputError, ShapeError
from parbals.features.frames import Encoding, column_names, frame_columns, is_frame
from parbals.features.pca import is_sparse
from parbals.randomness import derive_generator
from parbals.strategies.distributed import DistributedRows, is_distributed
from parbals.validate import check_column_names, check_features

__all__ = ["FeatureTable", "LazyRows", "Preparation"]

_BLOCK_ENTRIES = 1 << 22
_GATHERED_AT_ONCE = 512
_FITTED_ON = 20_000
"""Pool rows, drawn at random, that means and deviations are estimated from."""


class FeatureTable:
    """A matrix (N, D) of finite numbers, in any form; checked once, a block at a time."""

    def __init__(
        self,
        X: Any,
        name: str = "X_pool",
        like: "FeatureTable | None" = None,
        *,
        checked: bool = False,
        encoding: Encoding | None = None,
    ) -> None:
        """``like``: a table with the same columns, and in the same order where both have names.

        Its ``encoding`` is used as well; rows that went through it already are taken as they are.
        """
        self.encoding: Encoding | None = like.encoding if like is not None else encoding
        if self.encoding is not None:
            is_encoded = not is_frame(X) and np.shape(X)[1:] == (self.encoding.width,)
            X = X if is_encoded else self.encoding.transform(X, name)
        self.names = None if self.encoding is not None else column_names(X)
        self.source = _readable(X, name)
        shape = self.source.shape
        if len(shape) != 2 or 0 in shape:
            raise ShapeError(
                f"{name} has shape {tuple(shape)}; pass a matrix of at least one row and one "
                "column."
            )
        self.n_rows, self.n_columns = int(shape[0]), int(shape[1])
        if like is not None:
            if self.n_columns != like.n_columns:
                raise ShapeError(
                    f"{name} has {self.n_columns} columns, but the pool has {like.n_columns}."
                )
            check_column_names(self.names, like.names, name, "the pool")
        if checked:
            return
        if isinstance(self.source, DistributedRows):
            self.source.check()
            return
        for rows, part in self.blocks(max(1, _BLOCK_ENTRIES // self.n_columns)):
            check_features(part, name, first_row=rows.start)

    @property
    def notes(self) -> tuple[str, ...]:
        """What there is to say about how the rows became numbers."""
        return () if self.encoding is None else self.encoding.notes

    @property
    def is_distributed(self) -> bool:
        """Whether the rows live in a Dask cluster."""
        return isinstance(self.source, DistributedRows)

    def rows(self, rows: np.ndarray | slice) -> np.ndarray:
        """The given rows (n, D), float32 or float64, in the given order."""
        if isinstance(self.source, np.memmap) and isinstance(rows, np.ndarray):
            part = _gathered(self.source, rows)
        else:
            part = self.source[rows]
        part = part.toarray() if hasattr(part, "toarray") else np.asarray(part)
        return part if part.dtype in (np.float32, np.float64) else part.astype(np.float64)

    @property
    def whole(self) -> np.ndarray:
        """All rows (N, D), in memory."""
        # A data frame's columns lie one after the other, and other layouts round in another order.
        return np.ascontiguousarray(self.rows(slice(None)))

    def rows_in_place(
        self, positions: np.ndarray, prepare: "Preparation"
    ) -> "DistributedRows | LazyRows":
        """The given rows, prepared where they lie, block by block as they are read."""
        if not isinstance(self.source, DistributedRows):
            return LazyRows(self, positions, prepare)
        return self.source.take(positions, None if prepare.shift is None else prepare)

    def blocks(self, size: int) -> Iterator[tuple[slice, np.ndarray]]:
        """All rows, ``size`` at a time."""
        for rows in block_rows(self.n_rows, size):
            yield rows, self.rows(rows)
            release_pages(self.source)

    def copies_of(self, positions: np.ndarray, among: np.ndarray | None = None) -> np.ndarray:
        """Other rows, of all or ``among`` these, that equal one of those at ``positions`` in every
        column, ascending; none of Dask's rows.
        """
        if not len(positions) or self.is_distributed:
            return np.zeros(0, np.int64)
        given = self.rows(positions)
        wanted, found = {row.tobytes() for row in given}, []
        places = np.arange(self.n_rows) if among is None else among
        for block in block_rows(len(places), max(1, _BLOCK_ENTRIES // self.n_columns)):
            part = self.rows(block if among is None else places[block])
            release_pages(self.source)
            near = np.flatnonzero(np.isin(part[:, 0], given[:, 0]))  # few are left to compare
            found += [places[block][i] for i in near.tolist() if part[i].tobytes() in wanted]
        return np.setdiff1d(np.array(found, np.int64), positions)

    def sample(
        self, generator: np.random.Generator, size: int, *, leave_out: np.ndarray | None = None
    ) -> np.ndarray:
        """At most ``size`` different rows, in the order they stand in; none at ``leave_out``."""
        places = drawn_positions(generator, self.n_rows, size, leave_out)
        return self.rows(slice(None) if len(places) == self.n_rows else places)


class LazyRows:
    """Prepared rows (n, D) of a table at some positions: a pool that is never in memory whole."""

    def __init__(self, table: FeatureTable, positions: np.ndarray, prepare: "Preparation") -> None:
        self._table, self._positions, self._prepare = table, positions, prepare
        self.shape = len(positions), table.n_columns

    def __len__(self) -> int:
        return len(self._positions)

    def __getitem__(self, rows: slice | np.ndarray) -> np.ndarray:
        return self._prepare(self._table.rows(self._positions[rows]))


class Preparation:
    """x → (x - mean) / deviation; the identity unless asked otherwise."""

    def __init__(self, shift: np.ndarray | None = None, scale: np.ndarray | None = None) -> None:
        self.shift, self.scale = shift, scale  # (D,) each

    @classmethod
    def fit(cls, pool: FeatureTable, standardise: bool, seed: int) -> "Preparation":
        if not isinstance(standardise, bool):
            raise InputError(f"standardise is {standardise!r}; pass True or False.")
        if not standardise:
            return cls()
        rows = pool.sample(derive_generator(seed, "preparation"), _FITTED_ON).astype(np.float64)
        deviation = rows.std(axis=0)
        return cls(rows.mean(axis=0), 1.0 / np.where(deviation > 0, deviation, 1.0))

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Prepared rows (n, D)."""
        if self.shift is None or self.scale is None:
            return rows
        return (rows - self.shift) * self.scale


def _gathered(source: np.memmap, positions: np.ndarray) -> np.ndarray:
    """Rows from all over a mapped file, which maps sixteen pages around each: let go in between."""
    part = np.empty((len(positions), source.shape[1]), source.dtype)
    for block in block_rows(len(positions), _GATHERED_AT_ONCE):
        part[block] = source[positions[block]]
        release_pages(source)
    return part


def _readable(X: Any, name: str) -> Any:
    """Something with ``shape`` whose rows can be taken by slices and by position arrays."""
    if isinstance(X, str | Path):
        return _mapped(Path(X), name)
    if isinstance(X, np.ndarray):
        return _numeric(X, name)
    if is_distributed(X):
        return DistributedRows(X, name)
    if is_sparse(X):
        return X.tocsr()
    if hasattr(X, "detach") and hasattr(X, "cpu"):
        return _numeric(X.detach().cpu().numpy(), name)
    if is_frame(X):
        return _numeric(np.column_stack(list(frame_columns(X, name).values())), name)
    return check_features(X, name)


def _mapped(path: Path, name: str) -> np.ndarray:
    try:
        return _numeric(np.load(path, mmap_mode="r", allow_pickle=False), name)
    except FileNotFoundError:
        raise InputError(f"{name} names the file {path}, which does not exist.") from None
    except (ValueError, OSError, EOFError) as error:
        raise InputError(
            f"{name} names the file {path}, which is not a numeric .npy array ({error})."
        ) from None


def _numeric(array: np.ndarray, name: str) -> np.ndarray:
    # Objects may hold numbers; what does not is named by the check.
    return array if array.dtype.kind in "fiub" else check_features(array, name)
