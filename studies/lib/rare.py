"""Pools with a rare class, made by leaving most of it out."""

from functools import cache

import numpy as np

__all__ = ["N_POOL", "RARE", "load", "rare_pool"]

N_POOL = 2_000
RARE = 20


@cache
def load(data: str) -> tuple[np.ndarray, np.ndarray, int]:
    """Features and class numbers of all rows whose labels are known, and how many classes."""
    from parbals_bench.run.loading import load_data

    loaded = load_data(data)
    X = np.concatenate([loaded.X_pool, loaded.X_test])
    return X, np.concatenate([loaded.y_pool, loaded.y_test]), len(loaded.classes)


def rare_pool(y: np.ndarray, seed: int) -> np.ndarray:
    """``N_POOL`` row numbers in random order, of which ``RARE`` are of class 1."""
    order = np.random.default_rng(seed).permutation(len(y))
    is_one = y[order] == 1
    pool = np.concatenate([order[is_one][:RARE], order[~is_one][: N_POOL - RARE]])
    return np.random.default_rng(seed).permutation(pool)
