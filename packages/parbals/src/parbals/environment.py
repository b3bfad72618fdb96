"""Environment variables that libraries read when they are loaded."""

__all__ = ["SHARE_GPU"]

SHARE_GPU = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
"""JAX takes a GPU's memory as it needs it, and not three quarters of it at its first array.

Commands and the processes that they start use it, because PyTorch shares the GPU with JAX there.
The library leaves the variable to the program that imports it.
"""
