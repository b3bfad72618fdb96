"""Our model as a classifier of scikit-activeml, and samples of what their classifiers predict."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Self

import numpy as np

from parbals.errors import InputError
from parbals.files import need
from parbals.learner.models import as_sample_model
from parbals.posterior.estimator import LogisticModel
from parbals.randomness import derive_generator
from parbals.strategies.table import Strategy

__all__ = ["BayesianClassifier", "Nothing", "classes_of", "fitted_copy", "samples_of"]

_base, _utils, _sklearn, _validation = need(
    "skactiveml.base skactiveml.utils sklearn.base sklearn.utils.validation",
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


def fitted_copy(clf: Any, X: Any, y: Any, weights: Any) -> Any:
    """A fitted copy of the classifier, of every one of a list."""
    if isinstance(clf, list | tuple):
        return [fitted_copy(member, X, y, weights) for member in clf]
    more = () if weights is None else (np.asarray(weights),)
    return _sklearn.clone(clf).fit(X, y, *more)


def samples_of(
    strategy: Strategy,
    clf: Any,
    fitted: Any,
    data: Any,
    known: np.ndarray,
    n_members: int,
    seed: int,
) -> Any:
    """Something with ``sample_proba`` and ``classes_``; None where there is one class only.

    ``fitted`` is ``clf`` after fitting on ``data``: X, y and weights, labels ``known`` or missing.
    """
    classes = classes_of(fitted)
    if len(classes) < 2:
        return None
    if isinstance(fitted, BayesianClassifier):
        return fitted.model_
    if isinstance(fitted, list | tuple):
        return _Committee(fitted)
    inner = getattr(fitted, "estimator_", None)
    if isinstance(inner, LogisticModel) and len(inner.classes_) == len(classes):
        return inner
    if hasattr(inner, "estimators_"):
        with suppress(InputError):  # boosting and its like: its members are no samples of the whole
            model: Any = as_sample_model(inner, len(classes))
            model.labels, model.classes_ = classes, np.arange(len(classes))
            return model
    if strategy.averages:
        return _Committee([fitted])
    member = _sklearn.clone(clf)
    member.classes = classes  # whichever of them a draw shows
    draw, places = derive_generator(seed, "committee"), np.flatnonzero(known)
    drawn = [draw.choice(places, len(places)) for _ in range(n_members)]
    parts = [[None if x is None else np.asarray(x)[rows] for x in data] for rows in drawn]
    return _Committee([fitted_copy(member, *part) for part in parts])


def classes_of(fitted: Any) -> list[Any]:
    """The classes of a fitted classifier, or of the first of a list."""
    first = fitted[0] if isinstance(fitted, list | tuple) else fitted
    _validation.check_is_fitted(first)
    return first.classes_.tolist()


class _Committee:
    """Fitted classifiers of theirs that know the same classes, as samples (N, K, C)."""

    def __init__(self, members: Sequence[Any]) -> None:
        self.members = members
        self.classes_ = np.arange(len(members[0].classes_))

    def sample_proba(self, X: np.ndarray) -> np.ndarray:
        probs = np.stack([member.predict_proba(X) for member in self.members], axis=1)
        return probs / probs.sum(axis=2, keepdims=True)


class Nothing:
    """For strategies that look at no prediction."""

    classes_ = np.arange(2)
    sample_proba = None
