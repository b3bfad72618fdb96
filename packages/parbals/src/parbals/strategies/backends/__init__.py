"""What the scores in closed form are computed by: NumPy on this CPU, or JAX on accelerators.

Both modules have the same two functions: ``walk`` scores every row of a pool before the batch, and
``opened`` gives the :class:`~parbals.strategies.backends.base.Backend` that a growing batch asks
for scores.
"""

from parbals.machine import on_host, sooner_on_host
from parbals.strategies.backends.base import Module

__all__ = ["by_numpy", "chosen_backend"]


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
