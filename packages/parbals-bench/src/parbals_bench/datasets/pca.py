"""PCA as the experiment prepares embeddings: a transformer over arrays of any size."""

from typing import Any, Self

import numpy as np
from parbals.errors import InputError
from parbals.features.pca import float_blocks, principal
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

__all__ = ["PoolPCA"]


class PoolPCA(TransformerMixin, BaseEstimator):
    """The fewest directions that keep a share ``variance`` of the pool's; nothing is rescaled.

    scikit-learn's PCA copies the whole pool as float64; this one reads it in blocks
    (:func:`parbals.features.pca.principal`). Columns that never change, as some encoders have,
    carry no variance and no weight.
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
        found = principal(table, float(self.variance))
        if not len(found.directions):
            raise InputError("Every column of the pool is constant, so its rows are all alike.")
        self.mean_, self.components_, self.explained_variance_ratio_ = found
        self.n_components_ = len(found.directions)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """(N, D') in the precision of X, at least float32."""
        check_is_fitted(self, "components_")
        table = validate_data(self, X, dtype="numeric", ensure_all_finite=False, reset=False)
        dtype = np.float64 if table.dtype.itemsize == 8 else np.float32
        features = np.empty((len(table), self.n_components_), dtype)
        start = 0
        for block in float_blocks(table):
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
