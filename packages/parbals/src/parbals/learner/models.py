"""Bring your own model: what it must offer, and adapters for scikit-learn ensembles.

A model is anything with ``fit(X, y)`` and ``sample_proba(X)``:

* ``fit`` receives features (n, D) and class *numbers* 0..C-1, and forgets what it was fitted on
  before;
* ``sample_proba(X)`` returns (N, K, C): class probabilities under K samples of the model (posterior
  draws, ensemble members, dropout masks). The k-th sample must be the same function in every call
  until the next ``fit``: that is what lets two points' predictions vary together;
* ``sample_weights`` (K,), optional, weigh the samples.

The object that is passed is a template and stays as it is: every fit begins with a fresh copy of it
(``sklearn.base.clone`` where it has ``get_params``, else ``copy.deepcopy``). What cannot be copied
is fitted itself, with a warning.
"""

import copy
import warnings
from collections.abc import Sequence
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np

from parbals.errors import InputError, ParbalsWarning, first_line
from parbals.posterior.estimator import LogisticModel

__all__ = ["SAMPLED_CANDIDATES", "SAMPLED_TARGETS", "EnsembleModel", "LogisticModel", "SampleModel"]
__all__ += ["as_sample_model", "fresh_copy"]

SAMPLED_CANDIDATES, SAMPLED_TARGETS = 1_000, 200
"""Unless told otherwise: the trees of another forest change the order far more than 800 targets."""

_SAMPLES = {"BaseForest", "BaseBagging", "VotingClassifier"}
"""Their members are samples of the whole; those of boosting are added up, and those of one class
against the others know some of the classes only.
"""


@runtime_checkable
class SampleModel(Protocol):
    """What :class:`parbals.ActiveLearner` needs of a model."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> Any:
        """Learn from features (n, D) and class numbers (n,)."""

    def sample_proba(self, X: np.ndarray) -> np.ndarray:
        """(N, K, C) class probabilities under K samples of the model."""


class EnsembleModel:
    """The members of a scikit-learn ensemble (forest, extra trees, bagging, voting) as samples.

    The ensemble may be the last step of a pipeline. A leaf of a tree with n labels and shares f
    gives (n f + 1/C) / (n + 1): its posterior mean. The shares themselves are zeros and ones where
    trees are grown to the end, and one label that most trees had not expected would leave a single
    one of them with any weight. Other members give what they predict, and zero to a class that they
    have not seen. ``labels``: what the classes are called, in order, where the ensemble was not
    fitted on class numbers.
    """

    def __init__(self, ensemble: Any, n_classes: int, labels: Sequence[Any] | None = None) -> None:
        self.ensemble = ensemble
        self.n_classes = n_classes
        self.labels = range(n_classes) if labels is None else list(labels)

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        """Fit the ensemble to features (n, D) and class numbers (n,)."""
        self.ensemble.fit(X, y)
        return self

    def sample_proba(self, X: np.ndarray) -> np.ndarray:
        """(N, K, C) class probabilities, one sample for each of the K members."""
        ensemble = _last_step(self.ensemble)
        if ensemble is not self.ensemble and len(self.ensemble.steps) > 1:
            X = self.ensemble[:-1].transform(X)
            X = X.to_numpy() if hasattr(X, "to_numpy") else X  # a data frame, by set_output
        members = list(ensemble.estimators_)
        columns = getattr(ensemble, "estimators_features_", [slice(None)] * len(members))
        # Ensembles number the classes they saw and fit their members on those numbers.
        seen = np.array([self.labels.index(y) for y in ensemble.classes_.tolist()])
        probs = np.zeros((X.shape[0], len(members), self.n_classes))
        for k, (member, used) in enumerate(zip(members, columns, strict=True)):
            known = seen[np.asarray(member.classes_).astype(int)]
            probs[:, k, known] = member.predict_proba(X[:, used])
            if hasattr(member, "tree_"):
                n_labels = member.tree_.n_node_samples[member.apply(X[:, used])][:, None]
                probs[:, k] = (n_labels * probs[:, k] + 1.0 / self.n_classes) / (n_labels + 1.0)
        return probs / probs.sum(axis=2, keepdims=True)


def as_sample_model(model: Any, n_classes: int) -> SampleModel:
    """The model itself if it gives samples, else an adapter; an error says what is missing."""
    if isinstance(model, type):
        raise InputError(
            f"model is the class {model.__name__}; pass an object of it: {model.__name__}(...)."
        )
    if isinstance(model, LogisticModel):
        if model.classes is not None and len(model.classes) != n_classes:
            raise InputError(
                f"The model declares {len(model.classes)} classes, and the learner has "
                f"{n_classes}; leave classes out of the model."
            )
        own: LogisticModel = fresh_copy(model)
        own.classes = np.arange(n_classes)  # also those that no label has shown
        return own
    if isinstance(model, SampleModel):
        return model
    last = _last_step(model)
    if _SAMPLES & {kind.__name__ for kind in type(last).__mro__}:
        _check_members(last)
        return EnsembleModel(model, n_classes)
    raise InputError(
        f"{type(last).__name__} has no sample_proba(X) that returns predictive samples (N, K, C), "
        "nor members that are such; use a random forest, extra trees, bagging or soft voting, or "
        "wrap it in a class with fit(X, y) and sample_proba(X), as docs/howto/own-model.md does."
    )


def _last_step(model: Any) -> Any:
    """The model itself, or the one that a pipeline ends in."""
    steps = getattr(model, "steps", None)
    return steps[-1][1] if isinstance(steps, list) and steps else model


def fresh_copy(model: Any, *, warn: bool = True) -> Any:
    """A copy that shares nothing with the model, unfitted if possible; else the model itself."""
    if isinstance(model, EnsembleModel):
        return EnsembleModel(fresh_copy(model.ensemble, warn=warn), model.n_classes, model.labels)
    if hasattr(model, "get_params"):
        from sklearn.base import clone

        try:
            return clone(model)
        except Exception:  # it does not keep to scikit-learn's rules for parameters
            pass
    try:
        return copy.deepcopy(model)
    except Exception as error:
        if warn:
            warnings.warn(
                f"{type(model).__name__} cannot be copied ({first_line(error)}), so it is fitted "
                "itself; do not fit it elsewhere or share it between learners, or give it a "
                "__deepcopy__ method.",
                ParbalsWarning,
                stacklevel=3,
            )
        return model


def _check_members(model: Any) -> None:
    """Refuse an ensemble whose members give no probabilities."""
    name = type(model).__name__
    if getattr(model, "voting", None) == "hard":
        raise InputError(f'{name} votes without probabilities; pass voting="soft".')
    named = getattr(model, "estimators", None)
    members = [pair[-1] for pair in named if isinstance(pair, tuple)] if named else []
    for member in [getattr(model, "estimator", None), *members]:
        if not (member is None or isinstance(member, str) or hasattr(member, "predict_proba")):
            raise InputError(
                f"{type(member).__name__}, a member of {name}, has no predict_proba; use members "
                "that have one, such as trees or logistic regression."
            )
