"""Predictive samples from classifiers of scikit-activeml."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from parbals.errors import InputError
from parbals.learner.models import as_sample_model
from parbals.posterior.estimator import LogisticModel
from parbals.randomness import derive_generator
from parbals.strategies.table import Strategy

__all__ = ["NoModel", "classes_of", "fitted_copy", "sample_model"]


def fitted_copy(clf: Any, X: Any, y: Any, weights: Any) -> Any:
    """A fitted copy of the classifier, or of every classifier in a list."""
    if isinstance(clf, list | tuple):
        return [fitted_copy(member, X, y, weights) for member in clf]
    options = {} if weights is None else {"sample_weight": np.asarray(weights)}
    return clone(clf).fit(X, y, **options)


def sample_model(
    strategy: Strategy,
    clf: Any,
    fitted: Any,
    data: tuple[Any, Any, Any],
    is_labelled: np.ndarray,
    n_members: int,
    seed: int,
) -> Any:
    """A model with ``sample_proba`` and ``classes_``; None if there is only one class.

    Args:
        strategy: the strategy, which may need averages only.
        clf: the classifier.
        fitted: the classifier after fitting on ``data``.
        data: X, y and sample weights (or None).
        is_labelled: (n,) whether a row has a label.
        n_members: size of a bootstrap committee.
        seed: of the bootstrap.
    """
    classes = classes_of(fitted)
    if len(classes) < 2:
        return None
    if isinstance(fitted, list | tuple):
        return _Committee(fitted)
    estimator = getattr(fitted, "estimator_", None)
    if isinstance(estimator, LogisticModel) and len(estimator.classes_) == len(classes):
        return estimator
    if hasattr(estimator, "estimators_"):
        with suppress(InputError):  # the members of a boosting ensemble are no posterior samples
            model: Any = as_sample_model(estimator, len(classes))
            model.labels = classes
            model.classes_ = np.arange(len(classes))
            return model
    if strategy.averages:
        return _Committee([fitted])
    return _bootstrap_committee(clf, classes, data, is_labelled, n_members, seed)


def _bootstrap_committee(
    clf: Any,
    classes: list[Any],
    data: tuple[Any, Any, Any],
    is_labelled: np.ndarray,
    n_members: int,
    seed: int,
) -> "_Committee":
    """Copies of a classifier, each fitted on labels drawn with replacement."""
    unfitted = clone(clf)
    unfitted.classes = classes  # a draw may not contain all of them
    X, y, weights = data
    generator = derive_generator(seed, "committee")
    labelled_rows = np.flatnonzero(is_labelled)
    members = []
    for _ in range(n_members):
        rows = generator.choice(labelled_rows, len(labelled_rows))
        member_weights = None if weights is None else np.asarray(weights)[rows]
        members.append(
            fitted_copy(unfitted, np.asarray(X)[rows], np.asarray(y)[rows], member_weights)
        )
    return _Committee(members)


def classes_of(fitted: Any) -> list[Any]:
    """The classes of a fitted classifier, or of the first classifier in a list."""
    first = fitted[0] if isinstance(fitted, list | tuple) else fitted
    check_is_fitted(first)
    return first.classes_.tolist()


class _Committee:
    """Fitted classifiers with the same classes, as a model with samples (N, K, C)."""

    def __init__(self, members: Sequence[Any]) -> None:
        self.members = members
        self.classes_ = np.arange(len(members[0].classes_))

    def sample_proba(self, X: np.ndarray) -> np.ndarray:
        """(N, K, C) class probabilities by every member."""
        probs = np.stack([member.predict_proba(X) for member in self.members], axis=1)
        return probs / probs.sum(axis=2, keepdims=True)


class NoModel:
    """Stands in for a model in strategies that use no predictions."""

    classes_ = np.arange(2)
    sample_proba = None
