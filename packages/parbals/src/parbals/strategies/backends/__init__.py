"""What the scores in closed form are computed by: NumPy on this CPU, or JAX on accelerators.

Both modules have the same two functions: ``walk`` scores every row of a pool before the batch, and
``opened`` gives the :class:`~parbals.strategies.backends.base.Backend` that a growing batch asks
for scores.
"""

from functools import partial

from parbals.machine import on_host, sooner_on_host
from parbals.shapes import Array, Float
from parbals.strategies.backends.base import Module
from parbals.strategies.distributed import DistributedRows, PoolFeatures, each_row
from parbals.strategies.surface import Score, Surface, walk_operations

__all__ = ["by_numpy", "chosen_backend", "start_scores"]


def chosen_backend(operations: int) -> Module:
    """The module for a piece of work: NumPy's where there is no accelerator, or starting it would
    take longer.
    """
    if by_numpy(operations):
        from parbals.strategies.backends import numpy

        return numpy
    from parbals.strategies.backends import jax

    return jax


def by_numpy(operations: int) -> bool:
    return sooner_on_host(operations) or on_host()


def start_scores(
    surface: Surface, X: PoolFeatures, score: Score = "screen", module: Module | None = None
) -> Float[Array, " N"]:
    """A score of every row of X (N, D), by a backend or by the one for so many rows.

    Rows in a cluster are scored by their workers, each of which has its own.
    """
    if module is not None and not isinstance(X, DistributedRows):
        return module.walk(surface, X, score=score)
    return each_row(X, partial(_walk, surface, score=score))


def _walk(surface: Surface, X: PoolFeatures, *, score: Score) -> Float[Array, " n"]:
    return chosen_backend(walk_operations(surface, len(X))).walk(surface, X, score=score)
