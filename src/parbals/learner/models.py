"""Bring your own model: what it must offer, and adapters for scikit-learn ensembles.

A model is anything with ``fit(X, y)`` and ``sample_proba(X)``:

* ``fit`` receives features (n, D) and class *numbers* 0..C-1, and forgets what it was fitted on before;
* ``sample_proba(X)`` returns (N, K, C): class probabilities under K samples of the model (posterior draws, ensemble
  members, dropout masks). The k-th sample must be the same function in every call until the next ``fit``:
  that is what lets two points' predictions vary together;
* ``sample_weights`` (K,), optional, weigh the samples.
"""

from typing import Any, Protocol, Self, runtime_checkable

import numpy as np

from parbals.errors import InputError

__all__ = ["EnsembleModel", "SampleModel", "as_sample_model"]


@runtime_checkable
class SampleModel(Protocol):
    """What :class:`parbals.ActiveLearner` needs of a model."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> Any:
        """Learn from features (n, D) and class numbers (n,)."""

    def sample_proba(self, X: np.ndarray) -> np.ndarray:
        """(N, K, C) class probabilities under K samples of the model."""


class EnsembleModel:
    """The members of a scikit-learn ensemble (random forest, extra trees, bagging, voting) as samples.

    A member that has not seen a class gives it probability zero.
    """

    def __init__(self, ensemble: Any, n_classes: int) -> None:
        self.ensemble = ensemble
        self.n_classes = n_classes

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        self.ensemble.fit(X, y)
        return self

    def sample_proba(self, X: np.ndarray) -> np.ndarray:
        members = list(self.ensemble.estimators_)
        columns = getattr(self.ensemble, "estimators_features_", [slice(None)] * len(members))
        # Ensembles number the classes they saw and fit their members on those numbers.
        seen = np.asarray(self.ensemble.classes_).astype(int)
        probs = np.zeros((len(X), len(members), self.n_classes))
        for k, (member, used) in enumerate(zip(members, columns, strict=True)):
            known = seen[np.asarray(member.classes_).astype(int)]
            probs[:, k, known] = member.predict_proba(X[:, used])
        return probs / probs.sum(axis=2, keepdims=True)


def as_sample_model(model: Any, n_classes: int) -> SampleModel:
    """The model itself if it gives samples, else an adapter; or one sentence about what is missing."""
    if isinstance(model, SampleModel):
        return model
    members = getattr(model, "estimators_", None) is not None or hasattr(model, "n_estimators")
    if hasattr(model, "fit") and hasattr(model, "predict_proba") and (members or hasattr(model, "estimators")):
        return EnsembleModel(model, n_classes)
    raise InputError(
        f"{type(model).__name__} has no sample_proba(X) that returns predictive samples (N, K, C) and is not a "
        "scikit-learn ensemble; add fit(X, y) and sample_proba(X), see parbals.learner.models."
    )
