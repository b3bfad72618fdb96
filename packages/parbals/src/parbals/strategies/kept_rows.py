"""Rows of a pool as the posterior before a batch sees them, computed when they are asked for."""

import numpy as np

from parbals.arrays import block_rows
from parbals.machine import Workers
from parbals.posterior.predictive import add_bias
from parbals.strategies.distributed import DistributedRows
from parbals.strategies.gaussian_universes import Pool, pool_of
from parbals.strategies.surface import Surface

__all__ = ["KeptRows"]

_KEPT_ENTRIES = 2**25  # covariances with the targets: 128 MB
_FEWEST = 128


class KeptRows:
    """Rows of a pool as the posterior before the batch sees them, kept once they are computed.

    Rows in a cluster are fetched ``ahead``, all at once.
    """

    def __init__(
        self,
        surface: Surface,
        X: np.ndarray | DistributedRows,
        ahead: np.ndarray,
        workers: Workers,
    ) -> None:
        self._surface, self._X, self._workers = surface, X, workers
        self._fetched = dict[int, np.ndarray]()
        if isinstance(X, DistributedRows):
            self._fetch(ahead)
        n_channels, n_inside, n_targets = surface.factor.shape
        self._most = most = max(_FEWEST, _KEPT_ENTRIES // surface.gains.size)
        # Pages that are not written to take no memory.
        self._kept = Pool(
            across=np.empty((most, surface.target.across.shape[1]), np.float32),
            factor=np.empty((n_channels, most, n_inside), np.float32),
            mean=np.empty((n_channels, most), np.float32),
            variance=np.empty((n_channels, most), np.float32),
            covariance=np.empty((n_channels, most, n_targets), np.float32),
        )
        self._places = dict[int, int]()

    def design(self, indices: np.ndarray) -> np.ndarray:
        """Design rows (s, d)."""
        if isinstance(self._X, DistributedRows):
            self._fetch(np.array([i for i in indices.tolist() if i not in self._fetched], int))
            rows = np.stack([self._fetched[i] for i in indices.tolist()])
        else:
            rows = self._X[indices]
        return add_bias(rows, np.float32)

    def _fetch(self, indices: np.ndarray) -> None:
        if len(indices):
            self._fetched.update(zip(indices.tolist(), self._X[indices], strict=True))

    def at(self, indices: np.ndarray) -> Pool:
        """The rows at these positions (s,)."""
        places = self._places
        new = [i for i in indices.tolist() if i not in places]
        if len(places) + len(new) > self._most:
            places.clear()
            new = indices.tolist()
        if new:
            self._keep(new)
        at = np.array([places[i] for i in indices.tolist()])
        across, *others = self._kept
        return Pool(across[at], *(part[:, at] for part in others))

    def _keep(self, indices: list[int]) -> None:
        """Compute rows, a share of them in each thread."""
        design, first = self.design(np.array(indices)), len(self._places)

        def compute(block: slice) -> None:
            across, *others = pool_of(self._surface, design[block])
            places = slice(first + block.start, first + block.stop)
            self._kept.across[places] = across
            for kept, part in zip(self._kept[1:], others, strict=True):
                kept[:, places] = part

        n_rows = -(-len(indices) // self._workers.n_threads)
        self._workers.map(compute, block_rows(len(indices), n_rows))
        self._places.update(zip(indices, range(first, first + len(indices)), strict=True))
