"""Pools that live in a Dask cluster: the rows stay where they are, and the scoring goes to them.

A function of rows is sent to every chunk, and one float32 for each row comes back; features travel
only for rows that are asked for by position. A chunk that dies with its worker is made again by
Dask from what it was made of, and scored by another.
"""

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from parbals.errors import InputError, ShapeError
from parbals.validate import check_features

__all__ = ["DistributedRows", "PoolFeatures", "each_row", "is_distributed"]


@runtime_checkable
class PoolFeatures(Protocol):
    """Features (N, D) of a pool, wherever they are: rows are read when they are asked for."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Any, /) -> Any: ...


def is_distributed(X: Any) -> bool:
    """Whether X is a collection of Dask."""
    return type(X).__module__.partition(".")[0] == "dask"


def each_row(X: PoolFeatures, function: Callable[[Any], np.ndarray]) -> np.ndarray:
    """(N,) what ``function`` from rows (n, D) to (n,) says of all rows, computed where they lie."""
    return X.each_row(function) if isinstance(X, DistributedRows) else function(X)


class DistributedRows:
    """Rows (N, D) of a Dask array, or those at some positions; indexing fetches rows."""

    def __init__(
        self, array: Any, name: str = "X_pool", positions: np.ndarray | None = None
    ) -> None:
        if not hasattr(array, "to_delayed") or not hasattr(array, "rechunk"):
            raise InputError(
                f"{name} is a Dask {type(array).__name__}; pass a Dask array, such as "
                f"{name}.to_dask_array(lengths=True) of a data frame."
            )
        if array.ndim != 2 or 0 in array.shape:
            raise ShapeError(
                f"{name} has shape {array.shape}; pass a matrix of at least one row and one column."
            )
        if np.isnan(array.shape).any():
            raise ShapeError(
                f"The chunks of {name} have unknown sizes; call {name}.compute_chunk_sizes() first."
            )
        if array.dtype.kind not in "fiub":
            raise InputError(f"{name} has dtype {array.dtype}; pass real numbers.")
        self.name, self.positions, self.dtype = name, positions, array.dtype
        self._array = array.rechunk({1: -1})
        self._sizes = np.array(self._array.chunks[0])
        self._starts = np.cumsum(self._sizes) - self._sizes
        self._blocks = self._array.to_delayed()[:, 0]
        n_rows = array.shape[0] if positions is None else len(positions)
        self.shape = int(n_rows), int(array.shape[1])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | np.ndarray) -> np.ndarray:
        """The features (n, D) of some rows, fetched from their chunks in one graph."""
        wanted = np.arange(*rows.indices(len(self))) if isinstance(rows, slice) else rows
        wanted = wanted if self.positions is None else self.positions[wanted]
        order = np.argsort(wanted, kind="stable")  # Dask takes them by chunk
        fetched = np.empty((len(wanted), self.shape[1]), self.dtype)
        fetched[order] = _computed([self._array[wanted[order]]])[0]
        return fetched

    def each_row(self, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """(N,) float64, ``function`` of all rows; every chunk is checked before it is used."""
        # As a task of its own the function, with all that it holds, is sent once to each worker.
        shared, score = _task(function), _task(_checked_scores)
        parts = _computed(
            [
                score(shared, block, self.name, int(start), (int(size), self.shape[1]))
                for block, start, size in zip(self._blocks, self._starts, self._sizes, strict=True)
                if size
            ]
        )
        scores = np.concatenate(parts).astype(np.float64)
        return scores if self.positions is None else scores[self.positions]

    def check(self) -> None:
        """Refuse entries that are not finite numbers."""
        self.each_row(lambda rows: np.zeros(len(rows), np.float32))

    def at(
        self, positions: np.ndarray, made: Callable[[np.ndarray], np.ndarray] | None = None
    ) -> "DistributedRows":
        """The rows at some positions, left where they are, or what is ``made`` of them there."""
        array = self._array if made is None else self._array.map_blocks(made, dtype=np.float64)
        return DistributedRows(array, self.name, positions)


def _task(function: Any) -> Any:
    import dask

    return dask.delayed(function, pure=False, traverse=False)


def _computed(tasks: Sequence[Any]) -> tuple[Any, ...]:
    """Results of tasks, by the cluster of this process's client, or by its threads without one."""
    import dask

    if importlib.util.find_spec("distributed") is not None:
        # Its defaults are loaded before one of them is changed: a section that is created inside
        # the block is removed as a whole at its end.
        importlib.import_module("distributed")
    # A posterior over many classes is tens of megabytes, and they are meant.
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GB"}):
        return dask.compute(*tasks)


def _checked_scores(
    function: Callable[[np.ndarray], np.ndarray],
    block: Any,
    name: str,
    first_row: int,
    shape: tuple[int, int],
) -> np.ndarray:
    rows = check_features(block, name, first_row=first_row)
    if rows.shape != shape:
        raise ShapeError(
            f"The chunk of {name} that begins at row {first_row} has shape {rows.shape} and was "
            f"declared with {shape}; declare every chunk as it is."
        )
    return np.asarray(function(rows), np.float32)
