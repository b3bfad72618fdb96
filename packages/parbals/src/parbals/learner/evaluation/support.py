"""Which rows of a target set are far from everything in the pool.

No label of the pool says much about such rows: more items like them have to be collected. A row's
distance from the pool is the Euclidean distance to its nearest pool row, after whitening by the
pool's covariance plus its mean variance (so that directions without variance are not inflated).
Distances of target rows are compared with those of pool rows to their nearest *other* pool row. If
a target row came from the pool's distribution, its conformal p-value

    p = (1 + number of pool rows that are at least as far) / (1 + number of pool rows)

would be at most α with probability α. The procedure of Benjamini and Hochberg at level 0.05 then
decides which rows are far: on average at most one in twenty of them is an ordinary one, and a
target set without shift has any with a probability of at most 0.05. (The distance of a pool row is
to one row less than that of a target row, which errs on the side of calling fewer rows far.)

The rule finds rows at places where the pool has none. It does not find a class that the pool lacks
but whose items lie among others.
"""

from typing import NamedTuple

import numpy as np

from parbals.arrays import block_rows

__all__ = ["FALSE_SHARE", "MAX_REFERENCE_ROWS", "MAX_SEARCHED_ROWS", "FarRows", "far_rows"]

FALSE_SHARE = 0.05
"""Level of Benjamini and Hochberg's procedure: the share of ordinary rows among the far ones."""
MAX_REFERENCE_ROWS = 5_000
"""Pool rows that target rows are compared with."""
MAX_SEARCHED_ROWS = 2_000
"""Target rows that are searched."""
_MAX_CALIBRATION_ROWS = 2_000
"""Pool rows whose own distances target rows are compared with."""
_BLOCK_ROWS = 512
_EPS = 1e-12
"""Variance below which a pool's rows are all equal."""


class FarRows(NamedTuple):
    """Target rows that are far from the pool.

    Attributes:
        positions: (n,) of the rows, the farthest first.
        n_searched: number of target rows that were searched.
    """

    positions: np.ndarray
    n_searched: int

    @property
    def share(self) -> float:
        """Share of the searched rows that are far."""
        return len(self.positions) / self.n_searched


def far_rows(pool_rows: np.ndarray, target_rows: np.ndarray) -> FarRows:
    """Find target rows that are far from the pool.

    >>> generator = np.random.default_rng(1)
    >>> pool = generator.standard_normal((2_000, 3))
    >>> target = generator.standard_normal((100, 3))
    >>> far_rows(pool, target).positions
    array([], dtype=int64)
    >>> target[[7, 30]] += 8.0
    >>> sorted(far_rows(pool, target).positions.tolist())
    [7, 30]

    Args:
        pool_rows: (N, D).
        target_rows: (M, D).
    """
    whiten = _whitening(pool_rows)
    pool = whiten(pool_rows)
    target = whiten(target_rows)
    # Evenly spaced ones: deterministic, and independent of how the pool is sorted in blocks.
    n_calibration = min(len(pool), _MAX_CALIBRATION_ROWS)
    calibration = np.linspace(0, len(pool) - 1, n_calibration).astype(np.int64)
    pool_distances = np.sort(_nearest(pool[calibration], pool, leave_out=calibration))
    distances = _nearest(target, pool)
    n_as_far = n_calibration - np.searchsorted(pool_distances, distances, side="left")
    p_values = (1.0 + n_as_far) / (1.0 + n_calibration)
    positions = _benjamini_hochberg(p_values, FALSE_SHARE)
    order = np.argsort(-distances[positions], kind="stable")
    return FarRows(positions[order], len(target))


class _Whitening(NamedTuple):
    """The map x → (x - mean) factors."""

    mean: np.ndarray
    factors: np.ndarray

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray((rows - self.mean) @ self.factors)


def _whitening(rows: np.ndarray) -> _Whitening:
    """Return the whitening by the covariance (D, D) of rows plus their mean variance."""
    rows = rows.astype(np.float64)
    mean = rows.mean(axis=0)
    centred = rows - mean
    variances, directions = np.linalg.eigh(centred.T @ centred / len(rows))
    variances = np.maximum(variances, 0.0)
    return _Whitening(mean, directions / np.sqrt(variances + max(variances.mean(), _EPS)))


def _nearest(rows: np.ndarray, pool: np.ndarray, leave_out: np.ndarray | None = None) -> np.ndarray:
    """Distances (n,) of rows to their nearest pool row; ``leave_out`` (n,) is their own."""
    squared_norms = np.square(pool).sum(axis=1)
    nearest = np.empty(len(rows))
    for block in block_rows(len(rows), _BLOCK_ROWS):
        rows_of_block = rows[block]
        squares = (
            np.square(rows_of_block).sum(axis=1)[:, None]
            + squared_norms
            - 2.0 * rows_of_block @ pool.T
        )
        if leave_out is not None:
            squares[np.arange(len(rows_of_block)), leave_out[block]] = np.inf
        nearest[block] = squares.min(axis=1)
    return np.sqrt(np.maximum(nearest, 0.0))


def _benjamini_hochberg(p_values: np.ndarray, level: float) -> np.ndarray:
    """Positions, ascending, of the p-values (n,) that the procedure rejects."""
    order = np.argsort(p_values, kind="stable")
    bounds = level * np.arange(1, len(order) + 1) / len(order)
    rejected = np.flatnonzero(p_values[order] <= bounds)
    n_rejected = int(rejected[-1]) + 1 if len(rejected) else 0
    return np.sort(order[:n_rejected]).astype(np.int64)
