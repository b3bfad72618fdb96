"""Backends that compute closed-form scores: NumPy on this CPU, or JAX on accelerators.

Both modules have the same two functions: ``score_pool`` scores every row of a pool before the
batch, and ``open_backend`` opens the :class:`~parbals.strategies.backends.base.Backend` that scores
rows while the batch grows.
"""

from functools import partial

from parbals.machine import on_host, sooner_on_host
from parbals.shapes import Array, Float
from parbals.strategies.backends.base import BackendModule
from parbals.strategies.distributed import DistributedRows, PoolFeatures, map_rows
from parbals.strategies.scoring import ScoreName, ScoringContext, screening_operations

__all__ = ["choose_backend", "score_pool", "uses_numpy"]


def choose_backend(operations: int) -> BackendModule:
    """The backend for this many CPU operations.

    NumPy where there is no accelerator, or where starting one would take longer than the work.
    """
    if uses_numpy(operations):
        from parbals.strategies.backends import numpy

        return numpy
    from parbals.strategies.backends import jax

    return jax


def uses_numpy(operations: int) -> bool:
    """Whether NumPy is the backend for this many CPU operations."""
    return sooner_on_host(operations) or on_host()


def score_pool(
    context: ScoringContext,
    X: PoolFeatures,
    score: ScoreName = "screen",
    backend: BackendModule | None = None,
) -> Float[Array, " N"]:
    """Scores of all rows of X (N, D) before the batch.

    The backend is chosen by the number of rows if None. Rows in a Dask cluster are scored by its
    workers, each of which chooses its own backend.
    """
    if backend is not None and not isinstance(X, DistributedRows):
        return backend.score_pool(context, X, score=score)
    return map_rows(X, partial(_score_rows, context, score=score))


def _score_rows(
    context: ScoringContext, X: PoolFeatures, *, score: ScoreName
) -> Float[Array, " n"]:
    backend = choose_backend(screening_operations(context, len(X)))
    return backend.score_pool(context, X, score=score)
