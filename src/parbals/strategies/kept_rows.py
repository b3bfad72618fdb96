"""Rows of a pool as the posterior before a batch sees them, computed when they are asked for."""

import numpy as np

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
        self, surface: Surface, X: np.ndarray | DistributedRows, ahead: np.ndarray
    ) -> None:
        self._surface, self._X = surface, X
        self._fetched = dict[int, np.ndarray]()
        if isinstance(X, DistributedRows):
            self._fetch(ahead)
        self._most = max(_FEWEST, _KEPT_ENTRIES // surface.gains.size)
        self._kept: Pool | None = None
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
            self._keep(new, pool_of(self._surface, self.design(np.array(new))))
        assert self._kept is not None
        at = np.array([places[i] for i in indices.tolist()])
        across, *others = self._kept
        return Pool(across[at], *(part[:, at] for part in others))

    def _keep(self, indices: list[int], rows: Pool) -> None:
        if self._kept is None:  # pages that are not written to take no memory
            across, *others = rows
            self._kept = Pool(
                np.empty((self._most, across.shape[1]), np.float32),
                *(np.empty((len(x), self._most, *x.shape[2:]), np.float32) for x in others),
            )
        first = len(self._places)
        self._kept.across[first : first + len(indices)] = rows.across
        for kept, part in zip(self._kept[1:], rows[1:], strict=True):
            kept[:, first : first + len(indices)] = part
        self._places.update(zip(indices, range(first, first + len(indices)), strict=True))
