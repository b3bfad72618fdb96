"""Rows and labels of the measurements; every call with the same sizes gives the same."""

import os
from pathlib import Path
from typing import Any

import numpy as np
from lib.workload import Problem, Sizes, make_problem

__all__ = ["batch_problem", "mapped_pool", "pool_and_labels"]

BLOCK = 100_000


def batch_problem(sizes: dict[str, Any]) -> Problem:
    """Labelled rows, a pool and targets."""
    problem_sizes = Sizes(
        "",
        n_labelled=sizes["n"],
        n_features=sizes["D"],
        n_pool=sizes["N"],
        n_target=sizes["M"],
    )
    return make_problem(problem_sizes, sizes["C"])


def pool_and_labels(
    sizes: dict[str, Any], n_labels: int | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A pool (N, D) float32, positions of n labelled rows, and their classes (n,)."""
    X = np.empty((sizes["N"], sizes["D"]), np.float32)
    _fill(X)
    positions, y = labels_of(X, sizes, n_labels)
    return X, positions, y


def mapped_pool(sizes: dict[str, Any]) -> Path:
    """A file of float16 rows (N, D), written once for all trees of a run."""
    path = Path(sizes["folder"]) / f"pool-{sizes['N']}-{sizes['D']}.npy"
    if not path.exists():
        draft = path.with_suffix(".tmp")
        shape = (sizes["N"], sizes["D"])
        X = np.lib.format.open_memmap(draft, "w+", np.float16, shape)
        _fill(X)
        X.flush()
        del X
        os.replace(draft, path)
    return path


def labels_of(
    X: np.ndarray, sizes: dict[str, Any], n_labels: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Random positions and the classes of their rows, drawn from a softmax model."""
    generator = np.random.default_rng(1)
    n_classes = sizes["C"]
    positions = generator.choice(len(X), n_labels or sizes["n"], replace=False)
    weights = 6.0 * generator.standard_normal((X.shape[1], n_classes), np.float32)
    noise = generator.gumbel(size=(len(positions), n_classes))
    y = (X[np.sort(positions)].astype(np.float32) @ weights + noise).argmax(axis=1)
    return np.sort(positions), y


def _fill(X: np.ndarray) -> None:
    """Rows of norm 1 with a falling spectrum, block by block."""
    generator = np.random.default_rng(0)
    scale = 1.0 / np.sqrt(1.0 + np.arange(X.shape[1], dtype=np.float32))
    for start in range(0, len(X), BLOCK):
        shape = X[start : start + BLOCK].shape
        rows = generator.standard_normal(shape, np.float32) * scale
        X[start : start + BLOCK] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
