"""PCA to a share of the variance, fitted on the pool alone, over arrays of any size."""

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from parbals.errors import InputError

__all__ = ["PoolPCA"]

_ROWS = 8_192
_NEGLIGIBLE = 1e-12


class PoolPCA(TransformerMixin, BaseEstimator):
    """The fewest directions that keep a share ``variance`` of the pool's; nothing is rescaled.

    scikit-learn's PCA copies the whole pool as float64. This one reads it in blocks, so
    memory-mapped float16 embeddings of any number of rows work, and every block is widened before
    anything is added up (float16 overflows at 65,504). Columns that never change, as some encoders
    have, carry no variance and no weight.
    """

    def __init__(self, variance: float = 0.99) -> None:
        self.variance = variance

    def fit(self, X: Any, y: Any = None) -> Self:
        """Mean and directions of the pool."""
        if not isinstance(self.variance, (int, float)) or not 0.0 < self.variance <= 1.0:
            raise InputError(
                f"variance is {self.variance!r}; pass the share to keep, such as 0.99."
            )
        table = validate_data(
            self, X, dtype="numeric", ensure_all_finite=False, ensure_min_samples=2
        )
        self.mean_ = sum(block.sum(axis=0) for block in _blocks(table)) / len(table)
        values, vectors = self._directions(table)
        kept = np.cumsum(values) / values.sum()
        n_kept = min(
            int(np.searchsorted(kept, self.variance * (1.0 - 1e-12))) + 1,
            int(np.count_nonzero(values)),
        )
        components = vectors[:n_kept]
        largest = np.abs(components).argmax(axis=1)
        # An eigenvector's sign is arbitrary: the same pool is to give the same features anywhere.
        self.components_ = components * np.sign(components[np.arange(n_kept), largest])[:, None]
        self.explained_variance_ratio_ = values[:n_kept] / values.sum()
        self.n_components_ = n_kept
        return self

    def _directions(self, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Variances, largest first, and directions (rows), zero where a column is constant."""
        moments = sum(np.square(block - self.mean_).sum(axis=0) for block in _blocks(table))
        # Rounding of the mean leaves a trace of variance in a column that is constant.
        varies = moments > _NEGLIGIBLE * len(table) * np.square(self.mean_)
        if not varies.any():
            raise InputError("Every column of the pool is constant, so its rows are all alike.")
        centred = ((block - self.mean_)[:, varies] for block in _blocks(table))
        if len(table) < table.shape[1]:  # the short side decides the cost
            _, roots, axes = np.linalg.svd(np.concatenate(list(centred)), full_matrices=False)
            values = np.square(roots)
        else:
            values, columns = np.linalg.eigh(sum(block.T @ block for block in centred))
            values, axes = np.maximum(values[::-1], 0.0), columns.T[::-1]
        vectors = np.zeros((len(axes), table.shape[1]))
        vectors[:, varies] = axes
        return values / (len(table) - 1), vectors

    def transform(self, X: Any) -> np.ndarray:
        """(N, D') in the precision of X, at least float32."""
        check_is_fitted(self, "components_")
        table = validate_data(self, X, dtype="numeric", ensure_all_finite=False, reset=False)
        wide = np.float64 if table.dtype.itemsize == 8 else np.float32
        features = np.empty((len(table), self.n_components_), wide)
        start = 0
        for block in _blocks(table):
            features[start : start + len(block)] = (block - self.mean_) @ self.components_.T
            start += len(block)
        return features

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """poolpca0, poolpca1, …"""
        check_is_fitted(self, "components_")
        return np.array([f"poolpca{i}" for i in range(self.n_components_)], dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _blocks(table: np.ndarray) -> Iterator[np.ndarray]:
    """Row blocks as float64, each checked."""
    for start in range(0, len(table), _ROWS):
        block = np.asarray(table[start : start + _ROWS], np.float64)
        if not np.isfinite(block).all():
            row, column = (int(i) for i in np.argwhere(~np.isfinite(block))[0])
            raise InputError(
                f"Row {start + row}, column {column} is {block[row, column]}; features must not "
                "contain NaN or inf."
            )
        yield block
