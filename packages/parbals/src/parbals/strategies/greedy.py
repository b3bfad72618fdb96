"""The greedy loop: a batch is built one point at a time, whatever its universes are made of.

    for index in pending:  observe it in every universe
    B times:               take the free point that is best over all universes, and observe it

A point that is out for labelling is part of the batch already, so it is observed first. What a
universe is, how it finds its best point and what it learns from one, is its own business:
:class:`Universes` is all that the loop knows of it.
"""

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from typing import Protocol

import numpy as np

__all__ = ["Step", "Universes", "columns", "grow"]


@dataclass(frozen=True)
class Step:
    """What one step of the loop chose."""

    index: int  # a position in the pool
    score: float  # its mean over the universes
    n_scored: int  # points that were scored to find it
    sample_size: float = np.inf  # mean effective one of the universes; infinite without samples


class Universes(Protocol):
    """States of the partial batch, one for each labelling that its points might get."""

    def best(self, free: np.ndarray) -> Step:
        """The point with the highest mean score of those where free (N,) is True."""

    def observe(self, index: int) -> None:
        """Condition every universe on its own label of a pool point."""


def grow(
    universes: Universes, free: np.ndarray, pending: Iterable[int], batch_size: int
) -> list[Step]:
    """Choose ``batch_size`` points where free (N,) is True, given the pending ones."""
    for index in pending:
        universes.observe(int(index))
    free, steps = free.copy(), list[Step]()
    for _ in range(batch_size):
        if steps:
            universes.observe(steps[-1].index)
        steps.append(universes.best(free))
        free[steps[-1].index] = False
    return steps


def columns(steps: list[Step]) -> list[np.ndarray]:
    """Positions, scores, numbers of points scored and sample sizes of the steps, (B,) each."""
    return [np.array(column) for column in zip(*map(astuple, steps), strict=True)]
