"""The greedy loop: a batch is built one point at a time, whatever its universes are made of.

    for index in pending:  observe it in every universe
    B times:               take the free point that is best over all universes, and observe it

A point that is out for labelling is part of the batch already, so it is observed first. What a
universe is, how it finds its best point and what it learns from one, is its own business:
:class:`Universes` is all that the loop knows of it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

__all__ = ["Step", "StepArrays", "Universes", "grow", "stack_steps"]


@dataclass(frozen=True)
class Step:
    """What one step of the loop chose."""

    index: int  # a position in the pool
    score: float  # its mean over the universes
    n_scored: int  # points that were scored to find it
    sample_size: float = np.inf  # mean effective one of the universes; infinite without samples


class StepArrays(NamedTuple):
    """The fields of B steps, (B,) each."""

    indices: np.ndarray
    scores: np.ndarray
    n_scored: np.ndarray
    sample_sizes: np.ndarray


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
    free = free.copy()
    steps: list[Step] = []
    for _ in range(batch_size):
        if steps:
            universes.observe(steps[-1].index)
        steps.append(universes.best(free))
        free[steps[-1].index] = False
    return steps


def stack_steps(steps: list[Step]) -> StepArrays:
    """The fields of all steps as arrays."""
    return StepArrays(
        indices=np.array([step.index for step in steps]),
        scores=np.array([step.score for step in steps]),
        n_scored=np.array([step.n_scored for step in steps]),
        sample_sizes=np.array([step.sample_size for step in steps]),
    )
