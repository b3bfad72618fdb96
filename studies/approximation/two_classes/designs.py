"""Two-class problems on which posteriors are compared with long chains: made ones and real ones.

Every design has labelled rows, a pool to choose from and targets to be judged on. Made designs need
nothing but NumPy. Real ones are drawn from the folders in $PARBALS_DATA; ``pack_real`` writes just
the rows they use, so that the comparison can run where neither the files nor their readers are.
"""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from lib.folders import ROOT
from scipy.special import expit

__all__ = ["Design", "all_designs", "pack_real"]

N_POOL = 1_000
N_TARGETS = 300
N_LABELS = 500
NORMS = (0.01, 1.0, 10.0, 100.0, 1000.0)
DATASETS = ("airline", "credit-card", "ag-news", "cifar10", "sms-spam")
RESCALED = ("ag-news", "cifar10")


class Design(NamedTuple):
    """Labels y (n,) in {0, 1} of rows X (n, D); pool (N, D); target (M, D)."""

    X: np.ndarray
    y: np.ndarray
    pool: np.ndarray
    target: np.ndarray


def all_designs(real: Path | None) -> dict[str, Callable[[], Design]]:
    """Name → builder, in the order of the table; real ones only where their packed rows are."""
    designs: dict[str, Callable[[], Design]] = dict(_suite())
    for n_labels in (20, 100, 500):
        designs[f"made, {n_labels} labels"] = partial(_synthetic, n_labels)
        designs[f"made, separable, {n_labels} labels"] = partial(
            _synthetic, n_labels, separable=True
        )
    for n_labels in (100, 500):
        designs[f"made, 1 % positive, {n_labels} labels"] = partial(_synthetic, n_labels, rare=True)
    for norm in NORMS:
        designs[f"made, norm {norm:g}, 100 labels"] = partial(_synthetic, 100, norm=norm)
    for name in DATASETS if real is not None else ():
        of = partial(_real, real, name)
        for n_labels in (20, 100, 500):
            designs[f"{name}, {n_labels} labels"] = partial(of, n_labels)
        designs[f"{name}, 1 % positive, 500 labels"] = partial(of, 500, rare=True)
        for norm in NORMS if name in RESCALED else ():
            designs[f"{name}, norm {norm:g}, 100 labels"] = partial(of, 100, norm=norm)
    return designs


def _suite() -> Iterator[tuple[str, Callable[[], Design]]]:
    """The designs of the statistics suite; several classes become the first against the rest."""
    sys.path.insert(0, str(ROOT / "tests"))
    from oracles.designs import DESIGNS, design

    def build(name: str) -> Design:
        data = design(name)
        rng = np.random.default_rng(1)
        scale = np.sqrt(np.mean(np.square(data.X)))
        pool, target = (
            scale * rng.standard_normal((n_rows, data.X.shape[1])) for n_rows in (N_POOL, N_TARGETS)
        )
        y = data.y if data.n_classes == 2 else (data.y == 0).astype(int)
        return Design(data.X, y, pool, target)

    for name in DESIGNS:
        yield f"suite, {name}", partial(build, name)


def _synthetic(
    n_labels: int, *, separable: bool = False, rare: bool = False, norm: float | None = None
) -> Design:
    """20 normal features, weights from the prior; ``norm``: that of every row."""
    rng = np.random.default_rng(n_labels)
    X = rng.standard_normal((2 * N_LABELS + N_POOL + N_TARGETS, 20)) / np.sqrt(20.0)
    if norm is not None:
        X *= norm / np.linalg.norm(X, axis=1, keepdims=True)
    logits = X @ (np.sqrt(2.0) * rng.standard_normal(20)) + np.sqrt(2.0) * rng.standard_normal()
    if separable:
        y = (logits > np.median(logits)).astype(int)
    else:
        y = (rng.random(len(X)) < expit(logits)).astype(int)
    labelled = np.arange(2 * N_LABELS)
    rows = _rare(y, labelled, n_labels) if rare else labelled[:n_labels]
    pool = X[2 * N_LABELS :][:N_POOL]
    target = X[-N_TARGETS:]
    return Design(X[rows], y[rows], pool, target)


def _real(
    packed: Path, name: str, n_labels: int, *, rare: bool = False, norm: float | None = None
) -> Design:
    with np.load(packed) as arrays:
        X, y, pool, target = (
            arrays[f"{name}/{array}"].astype(np.float64) for array in ("X", "y", "pool", "target")
        )
    y = y.astype(int)
    rows = _rare(y, np.arange(len(y)), n_labels) if rare else np.arange(n_labels)
    X = X[rows]
    if norm is not None:
        factor = norm / np.sqrt(np.mean(np.square(pool).sum(axis=1)))
        X = factor * X
        pool = factor * pool
        target = factor * target
    return Design(X, y[rows], pool, target)


def _rare(y: np.ndarray, rows: np.ndarray, n_labels: int) -> np.ndarray:
    """The first of these rows, one in a hundred of them positive."""
    positives = rows[y[rows] == 1]
    negatives = rows[y[rows] == 0]
    n_positive = n_labels // 100
    return np.concatenate([positives[:n_positive], negatives[: n_labels - n_positive]])


def pack_real(path: Path) -> list[str]:
    """Write the rows that real designs use, and return a line for each dataset.

    One class against the rest; the rarest third of the labelled rows are there for 1 % positives.
    """
    from parbals.errors import InputError
    from parbals_bench.datasets.base import one_vs_all
    from parbals_bench.datasets.table import load_dataset

    arrays = {}
    lines = []
    for name in DATASETS:
        try:
            data = load_dataset(name)
        except InputError as error:
            lines.append(f"{name} is left out: {error}")
            continue
        if len(data.classes) > 2:
            data = one_vs_all(data, data.classes[0])
        rng = np.random.default_rng(0)
        order = rng.permutation(len(data.X_pool))[: 2 * N_LABELS + N_POOL]
        rows = order[: 2 * N_LABELS]
        pool = order[2 * N_LABELS :]
        target = rng.permutation(len(data.X_target_source))[:N_TARGETS]
        arrays[f"{name}/X"] = np.asarray(data.X_pool[rows], np.float32)
        arrays[f"{name}/y"] = np.asarray(data.y_pool)[rows].astype(np.int8)
        arrays[f"{name}/pool"] = np.asarray(data.X_pool[pool], np.float32)
        arrays[f"{name}/target"] = np.asarray(data.X_target_source[target], np.float32)
        share = arrays[f"{name}/y"].mean()
        lines.append(f"{name}: {data.X_pool.shape[1]} features, {share:.0%} positive")
    np.savez_compressed(path, **arrays)
    return lines
