"""What both backends are: scores of rows of a pool, by position, that a growing batch asks for."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Protocol, runtime_checkable

import numpy as np

from parbals.posterior.predictive import add_bias
from parbals.shapes import Array, Bool, Float, Int
from parbals.strategies.distributed import DistributedRows, PoolFeatures
from parbals.strategies.learnt import Learnt
from parbals.strategies.surface import Score, Surface

__all__ = ["Backend", "Module", "Places", "PoolRows"]


class PoolRows:
    """Design rows of a pool, by position; those in a cluster are fetched ``ahead``, all at once."""

    def __init__(self, X: PoolFeatures, ahead: Int[Array, " n"]) -> None:
        self._X, self.ahead, self._fetched = X, ahead, dict[int, np.ndarray]()
        if isinstance(X, DistributedRows):
            self._fetch(ahead)

    def design(self, indices: Int[Array, " n"]) -> Float[Array, "n d"]:
        if not isinstance(self._X, DistributedRows):
            return add_bias(self._X[indices], np.float32)
        self._fetch(np.array([i for i in indices.tolist() if i not in self._fetched], int))
        return add_bias(np.stack([self._fetched[i] for i in indices.tolist()]), np.float32)

    def _fetch(self, indices: Int[Array, " n"]) -> None:
        if len(indices):
            self._fetched.update(zip(indices.tolist(), self._X[indices], strict=True))


class Places:
    """Which row of a pool is kept at which of ``size`` places; all are freed when they are full."""

    def __init__(self, size: int) -> None:
        self.size, self._place_of = size, dict[int, int]()

    def of(self, indices: Int[Array, " n"]) -> tuple[Int[Array, " n"], Int[Array, " new"], int]:
        """Places of rows, those rows that are new, and the first place, of consecutive ones, of
        the new.
        """
        places, asked = self._place_of, indices.tolist()
        found = np.fromiter((places.get(index, -1) for index in asked), int, len(asked))
        new = indices[found < 0]
        if len(places) + len(new) > self.size:
            places.clear()
            new, found = indices, np.full(len(asked), -1)
        first = len(places)
        found[found < 0] = range(first, first + len(new))
        places.update(zip(new.tolist(), range(first, first + len(new)), strict=True))
        return found, new, first


@runtime_checkable
class Backend(Protocol):
    """Scores of rows of the pool, means over all universes; it remembers rows it has seen."""

    def branch(self, parents: Int[Array, " U"]) -> None:
        """The distinct universes are from now on copies of these."""

    def renew(self, learnt: Learnt, members: Int[Array, " U"], moved: Bool[Array, "V M"]) -> None:
        """Score from now on by what V distinct universes have learnt, ``members`` says which of
        them each is; the softmax is computed anew at targets that have moved.
        """

    def screen(self, indices: Int[Array, " n"], chunk: int) -> Iterator[Float[Array, " m"]]:
        """What says which rows are worth a closer look, of a chunk of them after the other."""

    def score(self, indices: Int[Array, " n"]) -> Float[Array, " n"]:
        """What rows are compared by."""


@runtime_checkable
class Module(Protocol):
    """What both modules have."""

    def walk(self, surface: Surface, X: PoolFeatures, *, score: Score) -> Float[Array, " N"]: ...

    def opened(
        self, surface: Surface, rows: PoolRows, score: Score, n_labels: int
    ) -> AbstractContextManager[Backend]: ...
