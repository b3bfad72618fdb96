"""Pools in a Dask cluster: rows stay on their workers, which score them.

A function of rows is sent to every chunk, and one float32 per row comes back; features are fetched
only for rows that are requested by position. If a worker dies, Dask recomputes its chunks from
their graph on another worker.
"""

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from parbals.errors import InputError, ShapeError
from parbals.validate import check_features

__all__ = ["DistributedRows", "PoolFeatures", "is_distributed", "map_rows"]


@runtime_checkable
class PoolFeatures(Protocol):
    """Features (N, D) of a pool: rows in memory, in a file or in a cluster, read on request."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Any, /) -> Any: ...


def is_distributed(X: Any) -> bool:
    """Whether X is a Dask collection."""
    return type(X).__module__.partition(".")[0] == "dask"


def map_rows(X: PoolFeatures, function: Callable[[Any], np.ndarray]) -> np.ndarray:
    """(N,) values of all rows by a ``function`` from (n, D) to (n,), run where the rows are."""
    return X.map_rows(function) if isinstance(X, DistributedRows) else function(X)


class DistributedRows:
    """Rows (N, D) of a Dask array, or its rows at some positions; indexing fetches rows."""

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
        self.name = name
        self.positions = positions
        self.dtype = array.dtype
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
        array_rows = np.arange(*rows.indices(len(self))) if isinstance(rows, slice) else rows
        if self.positions is not None:
            array_rows = self.positions[array_rows]
        order = np.argsort(array_rows, kind="stable")  # Dask fetches sorted rows chunk by chunk
        fetched = np.empty((len(array_rows), self.shape[1]), self.dtype)
        fetched[order] = _compute([self._array[array_rows[order]]])[0]
        return fetched

    def map_rows(self, function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """(N,) float64 values of all rows by ``function``; every chunk is validated first."""
        # As a separate task the function and its data are sent once to each worker.
        shared_function = _task(function)
        map_block = _task(_map_checked_block)
        values_by_block = _compute(
            [
                map_block(shared_function, block, self.name, int(start), (int(size), self.shape[1]))
                for block, start, size in zip(self._blocks, self._starts, self._sizes, strict=True)
                if size
            ]
        )
        values = np.concatenate(values_by_block).astype(np.float64)
        return values if self.positions is None else values[self.positions]

    def check(self) -> None:
        """Raise an error if an entry is not a finite number."""
        self.map_rows(lambda rows: np.zeros(len(rows), np.float32))

    def take(
        self, positions: np.ndarray, transform: Callable[[np.ndarray], np.ndarray] | None = None
    ) -> "DistributedRows":
        """The rows at some positions, left in the cluster and ``transform``-ed there."""
        array = self._array
        if transform is not None:
            array = array.map_blocks(transform, dtype=np.float64)
        return DistributedRows(array, self.name, positions)


def _task(function: Any) -> Any:
    import dask

    return dask.delayed(function, pure=False, traverse=False)


def _compute(tasks: Sequence[Any]) -> tuple[Any, ...]:
    """Results of tasks, computed by this process's Dask client, or by threads without one."""
    import dask

    if importlib.util.find_spec("distributed") is not None:
        # Load its defaults before one of them is changed. Otherwise the block below creates the
        # section "distributed" and removes all of it at its end, with the defaults.
        importlib.import_module("distributed")
    # A posterior over many classes takes tens of megabytes: no reason for a warning.
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GB"}):
        return dask.compute(*tasks)


def _map_checked_block(
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
