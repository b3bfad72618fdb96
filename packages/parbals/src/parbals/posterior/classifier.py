"""The Bayesian classifier as a scikit-learn estimator."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags
from sklearn.utils.validation import validate_data

from parbals.posterior.estimator import LogisticModel

__all__ = ["BayesianLogisticRegression"]


class BayesianLogisticRegression(ClassifierMixin, LogisticModel, BaseEstimator):
    __doc__ = LogisticModel.__doc__

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_posterior")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.random_state is None
        return tags

    def _rows(self, X: Any, *, is_fit: bool = False) -> np.ndarray:
        # Data frames are passed on whole, so that scikit-learn can compare their column names.
        return validate_data(self, X, reset=is_fit, dtype=np.float64, ensure_all_finite=False)
