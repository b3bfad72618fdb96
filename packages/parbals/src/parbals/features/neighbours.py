"""What the rows of a pool know of each other: the neighbourhood of every row as further columns.

Rows that lie together often belong to one class, which a linear model of the rows alone learns from
labels in each of their directions. It is told at once if each row x is joined by its smoothed row

    s(x) = (1 - a) z(x) + a · mean of s(x') over the 20 rows x' of the pool nearest to x, a = 0.9,

where z(x) are coordinates along the pool's principal directions, 128 at most. This is the filter
s = (1 - a) (I - a W)⁻¹ z of Zhou et al. (2004), W the graph of nearest neighbours, applied to
features in place of labels. A row of the pool is a neighbour of itself, so s is a function of x,
for rows inside and outside the pool alike. Target rows, if there are any, count as rows of the
pool. The columns are principal coordinates of s over the pool.

Neighbours are exact: blocks of distances are computed, and ties are decided by the content of rows,
so that nothing depends on their order. The fixed point is solved to a thousandth, to which a row
of the pool and an equal new row agree.
"""

import hashlib
from typing import Any, NamedTuple, Self

import numpy as np

from parbals.arrays import block_rows, without_broken_rows
from parbals.features.pca import principal_components
from parbals.machine import several_threads
from parbals.shapes import Array, Float, Int

__all__ = ["MAX_ROWS", "MIN_ROWS", "Neighbourhoods", "nearest_rows"]

MIN_ROWS = 100
"""Smaller pools have no neighbourhoods."""
MAX_ROWS = 100_000
"""In larger pools the search would take too long: its time grows with the square of the rows."""
_N_NEIGHBOURS = 20
_SMOOTHING = 0.9  # a
_MAX_DIRECTIONS = 128
_PCA_ROWS = 4_096
_TOLERANCE = 1e-3  # of s, relative to its largest entry
_MAX_STEPS = 60
_BLOCK_ENTRIES = 1 << 23  # distances in the memory of a thread: 32 MB
_GROUP_ROWS = 16  # whose least distance bounds the distance of the nearest neighbours


class Neighbourhoods(NamedTuple):
    """The rows of a pool, smoothed; N rows, q directions, b columns.

    >>> generator = np.random.default_rng(0)
    >>> centres = 9.0 * np.repeat(np.eye(2), 60, axis=0)
    >>> rows = centres + generator.standard_normal((120, 2))
    >>> neighbourhoods = Neighbourhoods.of(rows)
    >>> columns = neighbourhoods.columns(rows)
    >>> bool(np.ptp(columns[:60, 0]) < 0.3 * np.ptp(rows[:60], axis=0).max())
    True
    """

    order: Int[Array, " N"]  # positions of the pool's rows by their content, as all arrays below
    mean: Float[Array, " D"]
    directions: Float[Array, "q D"]
    coordinates: Float[Array, "N q"]  # z
    smoothed: Float[Array, "N q"]  # s
    mean_distances: Float[Array, " N"]  # to the 20 neighbours: typical rows have small ones
    centre: Float[Array, " q"]
    axes: Float[Array, "q b"]  # principal axes of s

    @classmethod
    def of(cls, rows: Float[Array, "N D"]) -> Self:
        """Smooth all rows of a pool."""
        order = _content_order(rows)
        rows = rows[order]
        sample = without_broken_rows(np.asarray(rows[:_PCA_ROWS], np.float64))
        mean, directions, _ = principal_components(sample)
        directions = directions[:_MAX_DIRECTIONS]
        coordinates = _along(rows, mean, directions)
        neighbours = nearest_rows(coordinates, coordinates)
        smoothed = _smoothed(coordinates, neighbours)
        _, axes, _ = principal_components(smoothed)
        return cls(
            order=order,
            mean=mean,
            directions=directions,
            coordinates=coordinates,
            smoothed=smoothed,
            mean_distances=_mean_distances(coordinates, neighbours),
            centre=smoothed.mean(axis=0),
            axes=axes.T,
        )

    @property
    def n_columns(self) -> int:
        """b."""
        return self.axes.shape[1]

    def columns(self, rows: Float[Array, "n D"]) -> Float[Array, "n b"]:
        """The neighbourhood columns of rows inside or outside the pool."""
        coordinates = _along(rows, self.mean, self.directions)
        neighbours = nearest_rows(coordinates, self.coordinates)
        return self._along_axes(_step(coordinates, self.smoothed, neighbours))

    def columns_of_pool(self) -> Float[Array, "N b"]:
        """The neighbourhood columns of the pool's rows, in their order."""
        columns = np.empty((len(self.order), self.n_columns), np.float32)
        columns[self.order] = self._along_axes(self.smoothed)
        return columns

    def _along_axes(self, smoothed: Float[Array, "n q"]) -> Float[Array, "n b"]:
        return np.asarray((smoothed - self.centre) @ self.axes, np.float32)


def nearest_rows(queries: Float[Array, "n q"], rows: Float[Array, "N q"]) -> Int[Array, "n k"]:
    """Positions of the 20 rows nearest to each query, the nearest first, the earlier of equals.

    >>> nearest_rows(np.array([[0.9]]), np.arange(5.0)[:, None]).tolist()
    [[1, 0, 2, 3, 4]]
    """
    n_rows = len(rows)
    n_nearest = min(_N_NEIGHBOURS, n_rows)
    # |x - x'|² - |x|² = (-2 x, 1) · (x', |x'|²): one product.
    extended_rows = np.column_stack([rows, np.square(rows).sum(axis=1)]).T
    nearest = np.empty((len(queries), n_nearest), np.int32)

    def search(block: slice) -> None:
        ones = np.ones((block.stop - block.start, 1), queries.dtype)
        distances = np.hstack([-2.0 * queries[block], ones]) @ extended_rows
        nearest[block] = _smallest(distances, n_nearest)

    with several_threads() as workers:
        workers.map(search, block_rows(len(queries), max(1, _BLOCK_ENTRIES // n_rows)))
    return nearest


def _smallest(distances: Float[Array, "n N"], size: int) -> Int[Array, "n size"]:
    """Positions of the smallest entries of every row, ascending.

    The ``size``-th smallest minimum of groups of columns is no smaller than the ``size``-th
    smallest entry, and few entries are below it.
    """
    n_rows, n_columns = distances.shape
    n_grouped = n_columns - n_columns % _GROUP_ROWS
    n_groups = n_grouped // _GROUP_ROWS
    if n_groups < 2 * size:
        bound = np.full(n_rows, np.inf, distances.dtype)
    else:
        # Columns of a group are n_groups apart, so that the minimum is one of contiguous rows.
        grouped = distances[:, :n_grouped].reshape(n_rows, _GROUP_ROWS, n_groups)
        minima = grouped.min(axis=1)
        bound = np.partition(minima, size - 1, axis=1)[:, size - 1]
    is_near = distances <= bound[:, None]
    smallest = np.empty((n_rows, size), np.int32)
    for row in range(n_rows):
        near = np.flatnonzero(is_near[row])
        order = np.argsort(distances[row, near], kind="stable")[:size]
        smallest[row] = near[order]
    return smallest


def _smoothed(
    coordinates: Float[Array, "N q"], neighbours: Int[Array, "N k"]
) -> Float[Array, "N q"]:
    """The fixed point s = (1 - a) z + a W s."""
    smoothed = coordinates
    size = float(np.abs(coordinates).max(initial=0.0))
    for _ in range(_MAX_STEPS):
        previous = smoothed
        smoothed = _step(coordinates, previous, neighbours)
        if np.abs(smoothed - previous).max(initial=0.0) <= (1.0 - _SMOOTHING) * _TOLERANCE * size:
            break
    return smoothed


def _mean_distances(
    coordinates: Float[Array, "N q"], neighbours: Int[Array, "N k"]
) -> Float[Array, " N"]:
    """Mean distance of every row from its neighbours."""
    total = np.zeros(len(coordinates))
    for column in neighbours.T:
        total += np.linalg.norm(coordinates - coordinates[column], axis=1)
    return total / neighbours.shape[1]


def _step(
    coordinates: Float[Array, "n q"],
    smoothed: Float[Array, "N q"],
    neighbours: Int[Array, "n k"],
) -> Float[Array, "n q"]:
    """(1 - a) z + a · mean of s over the neighbours."""
    total = np.zeros_like(coordinates)
    for column in neighbours.T:
        total += smoothed[column]
    mean = total / np.float32(neighbours.shape[1])
    return np.asarray((1.0 - _SMOOTHING) * coordinates + _SMOOTHING * mean, np.float32)


def _along(
    rows: Float[Array, "n D"], mean: Float[Array, " D"], directions: Float[Array, "q D"]
) -> Float[Array, "n q"]:
    return np.asarray((rows - mean) @ directions.T, np.float32)


def _content_order(rows: Any) -> Int[Array, " N"]:
    """An order of rows that depends on their content alone."""
    contents = np.ascontiguousarray(rows)
    digests = [hashlib.blake2b(row, digest_size=8).digest() for row in contents]
    return np.argsort(np.array(digests), kind="stable")
