"""Our model as a classifier of scikit-activeml."""

from typing import Any, Self

import numpy as np

from parbals.files import need
from parbals.posterior.estimator import LogisticModel

__all__ = ["BayesianClassifier"]

_base, _utils, _validation = need(
    "skactiveml.base skactiveml.utils sklearn.utils.validation",
    "The query strategies for scikit-activeml",
    "parbals[skactiveml]",
)
_Classifier: Any = _base.SkactivemlClassifier


class BayesianClassifier(_Classifier):
    """:class:`parbals.BayesianLogisticRegression` as a classifier of scikit-activeml.

    Its posterior samples are a committee for the strategies over there too:
    ``BatchBALD(sample_predictions_method_name="sample_proba")``, and the same of
    ``QueryByCommittee`` and ``GreedyBALD``.

    Args:
        n_samples, prior_scale, inference: as in :class:`parbals.BayesianLogisticRegression`. Rows
            without a label take part in choosing the prior.
        classes, missing_label, cost_matrix, random_state: as in ``SkactivemlClassifier``.
    """

    def __init__(
        self,
        n_samples: int = 400,
        prior_scale: float | str = "auto",
        inference: str = "auto",
        classes: Any = None,
        missing_label: Any = _utils.MISSING_LABEL,
        cost_matrix: Any = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(classes, missing_label, cost_matrix, random_state)
        self.n_samples = n_samples
        self.prior_scale = prior_scale
        self.inference = inference

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from the labelled ones of the rows X (n, D), y (n,)."""
        X, numbers, weights = self._validate_data(X, y, sample_weight)
        if weights is not None and np.ptp(weights) > 0:
            raise ValueError(
                "BayesianClassifier gives every label the same weight; leave sample_weight out."
            )
        if not X.size:
            raise ValueError("BayesianClassifier needs the features of some rows; X is empty.")
        known = numbers >= 0
        self.model_ = None
        if len(self.classes_) > 1:
            model = LogisticModel(
                self.n_samples,
                self.prior_scale,
                self.inference,
                np.arange(len(self.classes_)),
                int(self.random_state_.randint(2**31 - 1)),
            )
            self.model_ = (
                model.fit(X[known], numbers[known], X_pool=X)
                if known.any()
                else model.fit_prior(X.shape[1], X_pool=X)
            )
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """(N, C) probabilities in the order of ``classes_``."""
        X = self._rows(X)
        return np.ones((len(X), 1)) if self.model_ is None else self.model_.predict_proba(X)

    def sample_proba(self, X: Any, n_samples: int | None = None) -> np.ndarray:
        """(K, N, C): of every posterior sample, or of the first ``n_samples``."""
        X = self._rows(X)
        if self.model_ is None:
            return np.ones((n_samples or self.n_samples, len(X), 1))
        samples = self.model_.sample_proba(X)[:, :n_samples].astype(np.float64)
        return (samples / samples.sum(axis=2, keepdims=True)).swapaxes(0, 1)

    def _rows(self, X: Any) -> np.ndarray:
        _validation.check_is_fitted(self, "classes_")
        X = _validation.check_array(X)
        _utils.check_n_features(self, X, reset=False)
        return X
