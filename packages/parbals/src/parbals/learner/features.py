"""Feature matrices in any form: NumPy, memory maps, frames, SciPy sparse, PyTorch, Dask.

The data stay in their original form, and only rows that are needed become dense floats, so that a
memory-mapped pool of a million rows takes no memory. Data that are not a numeric matrix are first
encoded by an :class:`~parbals.features.frames.Encoding`. Rows may be standardised; their means and
standard deviations are those of the pool.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from parbals.arrays import block_rows, drawn_positions, release_pages, without_broken_rows
from parbals.errors import InputError, ShapeError
from parbals.features.frames import Encoding, column_names, frame_columns, is_frame
from parbals.features.pca import is_sparse
from parbals.randomness import derive_generator
from parbals.strategies.distributed import DistributedRows, is_distributed
from parbals.validate import check_column_names, check_features

__all__ = ["FeatureTable", "LazyRows", "Preparation"]

_BLOCK_ENTRIES = 1 << 22
"""How many numbers are read at a time."""
_GATHER_ROWS = 512
"""Rows that are read from a memory map before its pages are released."""
_MAX_SCALING_ROWS = 20_000
"""Pool rows, drawn at random, from which means and standard deviations are estimated."""


class FeatureTable:
    """A matrix (N, D) of finite numbers, in any form; checked once, block by block.

    >>> table = FeatureTable(np.arange(6).reshape(3, 2))
    >>> table.n_rows, table.n_columns
    (3, 2)
    >>> table.rows(np.array([2, 0]))
    array([[4., 5.],
           [0., 1.]])

    Attributes:
        source: the data, readable by slices and by arrays of positions.
        encoding: what encoded the data, or None for a numeric matrix.
        names: of the columns, or None.
        n_rows: N.
        n_columns: D.
    """

    def __init__(
        self,
        X: Any,
        name: str = "X_pool",
        like: "FeatureTable | None" = None,
        *,
        checked: bool = False,
        encoding: Encoding | None = None,
    ) -> None:
        """Wrap and check features.

        Args:
            X: the data.
            name: of the data in error messages.
            like: a table with the same columns, in the same order if both have names. Its encoding
                is applied, unless ``X`` is a matrix as wide as the encoding and so encoded already.
            checked: the data are known to be finite numbers.
            encoding: applied to data that are not a numeric matrix.
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
        self.n_rows = int(shape[0])
        self.n_columns = int(shape[1])
        if like is not None:
            if self.n_columns != like.n_columns:
                raise ShapeError(
                    f"{name} has {self.n_columns} columns, but the pool has {like.n_columns}."
                )
            check_column_names(self.names, like.names, name, "the pool")
        if not checked:
            self._check_values(name)

    def _check_values(self, name: str) -> None:
        """Refuse rows that are not finite numbers."""
        if isinstance(self.source, DistributedRows):
            self.source.check()
            return
        for rows, block in self.blocks(self._block_size):
            check_features(block, name, first_row=rows.start)

    @property
    def _block_size(self) -> int:
        """Rows that are read at a time."""
        return max(1, _BLOCK_ENTRIES // self.n_columns)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about how the rows were encoded."""
        return () if self.encoding is None else self.encoding.notes

    @property
    def is_distributed(self) -> bool:
        """Whether the rows are in a Dask cluster."""
        return isinstance(self.source, DistributedRows)

    def rows(self, rows: np.ndarray | slice) -> np.ndarray:
        """Return rows (n, D) as float32 or float64, in the given order."""
        if isinstance(self.source, np.memmap) and isinstance(rows, np.ndarray):
            block = _gather(self.source, rows)
        else:
            block = self.source[rows]
        block = block.toarray() if hasattr(block, "toarray") else np.asarray(block)
        return block if block.dtype in (np.float32, np.float64) else block.astype(np.float64)

    @property
    def all_rows(self) -> np.ndarray:
        """All rows (N, D), in memory."""
        # Columns of a data frame are contiguous, and another memory layout rounds differently.
        return np.ascontiguousarray(self.rows(slice(None)))

    def blocks(self, size: int) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield all rows, ``size`` at a time."""
        for rows in block_rows(self.n_rows, size):
            yield rows, self.rows(rows)
            release_pages(self.source)

    def duplicates_of(self, positions: np.ndarray, among: np.ndarray | None = None) -> np.ndarray:
        """Return positions of other rows that equal one at ``positions``, ascending.

        ``among`` restricts the search to these positions. Distributed rows are not searched, and
        the result is empty.
        """
        if not len(positions) or self.is_distributed:
            return np.zeros(0, np.int64)
        originals = self.rows(positions)
        original_bytes = {row.tobytes() for row in originals}
        searched = np.arange(self.n_rows) if among is None else among
        duplicates = []
        for block in block_rows(len(searched), self._block_size):
            rows = self.rows(block if among is None else searched[block])
            release_pages(self.source)
            # Whole rows are compared only where the first column agrees.
            similar = np.flatnonzero(np.isin(rows[:, 0], originals[:, 0]))
            block_positions = searched[block]
            for index in similar.tolist():
                if rows[index].tobytes() in original_bytes:
                    duplicates.append(block_positions[index])
        return np.setdiff1d(np.array(duplicates, np.int64), positions)

    def sample(
        self, generator: np.random.Generator, size: int, *, leave_out: np.ndarray | None = None
    ) -> np.ndarray:
        """Return at most ``size`` random rows by ascending position, none at ``leave_out``."""
        return self.rows_at(drawn_positions(generator, self.n_rows, size, leave_out))

    def rows_at(self, positions: np.ndarray) -> np.ndarray:
        """Return the rows at ascending positions; all of them without a copy."""
        return self.rows(slice(None) if len(positions) == self.n_rows else positions)


class LazyRows:
    """Rows (n, D) at some positions that are read on access, never all at once."""

    def __init__(
        self, read: Callable[[np.ndarray], np.ndarray], positions: np.ndarray, n_columns: int
    ) -> None:
        self._read = read
        self._positions = positions
        self.shape = (len(positions), n_columns)

    def __len__(self) -> int:
        return len(self._positions)

    def __getitem__(self, rows: slice | np.ndarray) -> np.ndarray:
        return self._read(self._positions[rows])


class Preparation:
    """Standardisation x → (x - mean) / standard deviation, or the identity.

    >>> table = FeatureTable([[0.0, 5.0], [2.0, 5.0]])
    >>> Preparation.fit(table, standardise=True, seed=0)(table.all_rows)
    array([[-1.,  0.],
           [ 1.,  0.]])

    Attributes:
        shift: (D,) means; None for the identity.
        scale: (D,) 1 / standard deviations; None for the identity.
    """

    def __init__(self, shift: np.ndarray | None = None, scale: np.ndarray | None = None) -> None:
        self.shift = shift
        self.scale = scale

    @classmethod
    def fit(cls, pool: FeatureTable, standardise: bool, seed: int) -> "Preparation":
        """Estimate means and standard deviations of a pool if ``standardise``."""
        if not isinstance(standardise, bool):
            raise InputError(f"standardise is {standardise!r}; pass True or False.")
        if not standardise:
            return cls()
        generator = derive_generator(seed, "preparation")
        rows = pool.sample(generator, _MAX_SCALING_ROWS).astype(np.float64)
        rows = without_broken_rows(rows)
        deviation = rows.std(axis=0)
        return cls(rows.mean(axis=0), 1.0 / np.where(deviation > 0, deviation, 1.0))

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Return prepared rows (n, D)."""
        if self.shift is None or self.scale is None:
            return rows
        return (rows - self.shift) * self.scale


def _gather(source: np.memmap, positions: np.ndarray) -> np.ndarray:
    """Read scattered rows of a memory map, releasing its pages now and then.

    The operating system loads sixteen pages around each row, which would soon fill the memory.
    """
    rows = np.empty((len(positions), source.shape[1]), source.dtype)
    for block in block_rows(len(positions), _GATHER_ROWS):
        rows[block] = source[positions[block]]
        release_pages(source)
    return rows


def _readable(X: Any, name: str) -> Any:
    """Return an object with ``shape`` whose rows can be read by slices and position arrays."""
    if isinstance(X, str | Path):
        return _map_file(Path(X), name)
    if isinstance(X, np.ndarray):
        return _numeric(X, name)
    if is_distributed(X):
        return DistributedRows(X, name)
    if is_sparse(X):
        return X.tocsr()
    if hasattr(X, "detach") and hasattr(X, "cpu"):  # PyTorch
        return _numeric(X.detach().cpu().numpy(), name)
    if is_frame(X):
        return _numeric(np.column_stack(list(frame_columns(X, name).values())), name)
    return check_features(X, name)


def _map_file(path: Path, name: str) -> np.ndarray:
    """Memory-map an ``.npy`` file of numbers."""
    try:
        return _numeric(np.load(path, mmap_mode="r", allow_pickle=False), name)
    except FileNotFoundError:
        raise InputError(f"{name} names the file {path}, which does not exist.") from None
    except (ValueError, OSError, EOFError) as error:
        raise InputError(
            f"{name} names the file {path}, which is not a numeric .npy array ({error})."
        ) from None


def _numeric(array: np.ndarray, name: str) -> np.ndarray:
    """Return an array of numbers; an error names values that are not numbers."""
    return array if array.dtype.kind in "fiub" else check_features(array, name)
