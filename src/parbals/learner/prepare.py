"""Standardising and PCA, only where the user asks for them; fitted on the pool alone."""

from typing import Any

import numpy as np

from parbals.errors import InputError
from parbals.learner.table import FeatureTable
from parbals.randomness import derive_generator

__all__ = ["Preparation"]

_FITTED_ON = 20_000
"""Pool rows, drawn at random, that means, deviations and directions are estimated from."""


class Preparation:
    """x → (x - mean) / deviation → principal directions; the identity unless asked otherwise."""

    def __init__(self, shift: np.ndarray | None = None, matrix: np.ndarray | None = None) -> None:
        self.shift = shift  # (D,)
        self.matrix = matrix  # (D, D') or None: only shift and scale

    @classmethod
    def fit(
        cls, pool: FeatureTable, standardise: bool, pca: float | int | None, seed: int
    ) -> "Preparation":
        """``pca``: a share of the variance to keep, 0 < pca < 1, or a number of directions."""
        if not isinstance(standardise, bool):
            raise InputError(f"standardise is {standardise!r}; pass True or False.")
        if pca is not None:
            _check_pca(pca, pool)
        if not standardise and pca is None:
            return cls()
        rows = pool.sample(derive_generator(seed, "preparation"), _FITTED_ON).astype(np.float64)
        shift = rows.mean(axis=0)
        deviation = rows.std(axis=0) if standardise else np.ones(rows.shape[1])
        scale = 1.0 / np.where(deviation > 0, deviation, 1.0)
        if pca is None:
            return cls(shift, np.diag(scale))
        from sklearn.decomposition import PCA

        directions = PCA(pca, svd_solver="full").fit((rows - shift) * scale).components_
        return cls(shift, scale[:, None] * directions.T)

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Prepared rows (n, D')."""
        if self.shift is None or self.matrix is None:
            return rows
        return (rows - self.shift) @ self.matrix


def _check_pca(pca: Any, pool: FeatureTable) -> None:
    most = min(pool.n_rows, pool.n_columns)
    share = isinstance(pca, float) and 0.0 < pca < 1.0
    number = isinstance(pca, int) and not isinstance(pca, bool) and 1 <= pca <= most
    if not share and not number:
        raise InputError(
            f"pca is {pca!r}; pass the share of variance to keep (0.99) or a number of directions "
            f"from 1 to {most}."
        )
