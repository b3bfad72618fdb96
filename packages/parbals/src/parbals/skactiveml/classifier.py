"""Samples of what the classifiers of scikit-activeml predict."""

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

__all__ = ["Nothing", "classes_of", "fitted_copy", "samples_of"]


def fitted_copy(clf: Any, X: Any, y: Any, weights: Any) -> Any:
    """A fitted copy of the classifier, of every one of a list."""
    if isinstance(clf, list | tuple):
        return [fitted_copy(member, X, y, weights) for member in clf]
    more = {} if weights is None else {"sample_weight": np.asarray(weights)}
    return clone(clf).fit(X, y, **more)


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
    member = clone(clf)
    member.classes = classes  # whichever of them a draw shows
    draw, places = derive_generator(seed, "committee"), np.flatnonzero(known)
    drawn = [draw.choice(places, len(places)) for _ in range(n_members)]
    parts = [[None if x is None else np.asarray(x)[rows] for x in data] for rows in drawn]
    return _Committee([fitted_copy(member, *part) for part in parts])


def classes_of(fitted: Any) -> list[Any]:
    """The classes of a fitted classifier, or of the first of a list."""
    first = fitted[0] if isinstance(fitted, list | tuple) else fitted
    check_is_fitted(first)
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
