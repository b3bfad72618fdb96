"""Bring your own model: what it must offer, and adapters for scikit-learn ensembles.

A model is anything with ``fit(X, y)`` and ``sample_proba(X)``:

* ``fit`` receives features (n, D) and class *numbers* 0..C-1, and starts from scratch;
* ``sample_proba(X)`` returns (N, K, C): class probabilities under K samples of the model (posterior
  draws, ensemble members, dropout masks). The k-th sample must be the same function in every call
  until the next ``fit``, because the covariance of two points' predictions is estimated from it;
* ``sample_weights`` (K,), optional, are the weights of the samples.

If annotators are noisy and ``fit`` has a parameter ``sample_weight``, as scikit-learn's ensembles
do, every label is weighted by how much the answers tell (:func:`weighted_labels`). A model without
that parameter is fitted to the most probable classes as if they were certain, and to answers of
programs only where those are decisive.

The object that is passed is a template and is not changed: every fit starts with a fresh copy of it
(``sklearn.base.clone`` if it has ``get_params``, otherwise ``copy.deepcopy``). A model that cannot
be copied is fitted itself, with a warning.
"""

import copy
import inspect
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np

from parbals.errors import InputError, ParbalsWarning, first_line
from parbals.posterior.estimator import LogisticModel

__all__ = [
    "USER_MODEL_N_CANDIDATES",
    "USER_MODEL_N_TARGETS",
    "EnsembleModel",
    "LogisticModel",
    "SampleModel",
    "accepts_sample_weight",
    "as_sample_model",
    "fresh_copy",
    "weighted_labels",
]

USER_MODEL_N_CANDIDATES = 1_000
"""Default number of candidates that are scored by a user's model."""
USER_MODEL_N_TARGETS = 200
"""Default number of target points for a user's model. With 1,000, the ranking of candidates changes
far less than from one random forest to the next.
"""

_MIN_WEIGHT = 0.01
"""Items, and classes of an item, that weigh less are left out: they would only take time."""
_ENSEMBLES_OF_SAMPLES = {"BaseForest", "BaseBagging", "VotingClassifier"}
"""Base classes of ensembles whose members are samples of the model. Members of boosting are added
up, and those of one-vs-rest classifiers predict only some of the classes.
"""


@runtime_checkable
class SampleModel(Protocol):
    """The interface of a user's model for :class:`parbals.ActiveLearner`.

    >>> class Coin:
    ...     def fit(self, X, y):
    ...         return self
    ...
    ...     def sample_proba(self, X):
    ...         return np.full((len(X), 10, 2), 0.5)
    >>> isinstance(Coin(), SampleModel)
    True
    """

    def fit(self, X: np.ndarray, y: np.ndarray) -> Any:
        """Fit the model to features (n, D) and class numbers (n,)."""

    def sample_proba(self, X: np.ndarray) -> np.ndarray:
        """Return class probabilities (N, K, C) under K samples of the model."""


class EnsembleModel:
    """The members of a scikit-learn ensemble (forest, extra trees, bagging, voting) as samples.

    The ensemble may be the last step of a pipeline. A leaf of a tree with n labels and class
    frequencies f predicts (n f + 1/C) / (n + 1), its posterior mean. In fully grown trees f is
    zero or one: a single label would then give weight zero to every tree that did not expect it.
    Other members give their own predictions, and zero to a class that they have not seen.

    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X = np.arange(8.0)[:, None]
    >>> model = EnsembleModel(RandomForestClassifier(5, random_state=0), n_classes=2)
    >>> model.fit(X, (X[:, 0] > 3).astype(int)).sample_proba(X).shape
    (8, 5, 2)

    Args:
        ensemble: a classifier of scikit-learn.
        n_classes: C.
        labels: the class labels, in order, if the ensemble is not fitted to class numbers.
    """

    def __init__(self, ensemble: Any, n_classes: int, labels: Sequence[Any] | None = None) -> None:
        self.ensemble = ensemble
        self.n_classes = n_classes
        self.labels = range(n_classes) if labels is None else list(labels)
        self._is_weighted = False

    def fit(self, X: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None = None) -> Self:
        """Fit the ensemble to features (n, D), class numbers (n,) and, optionally, weights (n,)."""
        self._is_weighted = sample_weight is not None
        if sample_weight is None:
            self.ensemble.fit(X, y)
        else:
            prefix = f"{self.ensemble.steps[-1][0]}__" if _is_pipeline(self.ensemble) else ""
            self.ensemble.fit(X, y, **{f"{prefix}sample_weight": sample_weight})
        return self

    def sample_proba(self, X: np.ndarray) -> np.ndarray:
        """Return class probabilities (N, K, C), one sample for each of the K members."""
        ensemble = _last_step(self.ensemble)
        if ensemble is not self.ensemble and len(self.ensemble.steps) > 1:
            X = self.ensemble[:-1].transform(X)
            X = X.to_numpy() if hasattr(X, "to_numpy") else X  # a data frame, by set_output
        members = list(ensemble.estimators_)
        columns = getattr(ensemble, "estimators_features_", [slice(None)] * len(members))
        # scikit-learn fits members to indices into ensemble.classes_, which lacks unseen classes.
        ensemble_classes = np.array([self.labels.index(y) for y in ensemble.classes_.tolist()])
        probs = np.zeros((X.shape[0], len(members), self.n_classes))
        for k, (member, member_columns) in enumerate(zip(members, columns, strict=True)):
            member_rows = X[:, member_columns]
            member_classes = ensemble_classes[np.asarray(member.classes_).astype(int)]
            probs[:, k, member_classes] = member.predict_proba(member_rows)
            if hasattr(member, "tree_"):
                tree = member.tree_
                counts = tree.weighted_n_node_samples if self._is_weighted else tree.n_node_samples
                n_labels = counts[member.apply(member_rows)][:, None]
                probs[:, k] = (n_labels * probs[:, k] + 1.0 / self.n_classes) / (n_labels + 1.0)
        return probs / probs.sum(axis=2, keepdims=True)


def as_sample_model(model: Any, n_classes: int) -> SampleModel:
    """Return the model itself if it has ``sample_proba``; an adapter if it is an ensemble."""
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
        model_copy: LogisticModel = fresh_copy(model)
        model_copy.classes = np.arange(n_classes)  # all classes, even before they have labels
        return model_copy
    if isinstance(model, SampleModel):
        return model
    _check_column_choice(model)
    last = _last_step(model)
    base_names = {base.__name__ for base in type(last).__mro__}
    if _ENSEMBLES_OF_SAMPLES & base_names:
        _check_members(last)
        return EnsembleModel(model, n_classes)
    raise InputError(
        f"{type(last).__name__} has no sample_proba(X) that returns predictive samples (N, K, C), "
        "nor members that are such; use a random forest, extra trees, bagging or soft voting, or "
        "wrap it in a class with fit(X, y) and sample_proba(X), as docs/howto/own-model.md does."
    )


def accepts_sample_weight(model: Any) -> bool:
    """Whether ``fit`` of a model has a parameter ``sample_weight``.

    >>> from sklearn.ensemble import RandomForestClassifier
    >>> accepts_sample_weight(EnsembleModel(RandomForestClassifier(), n_classes=2))
    True
    """
    if isinstance(model, EnsembleModel):
        return accepts_sample_weight(_last_step(model.ensemble))
    member = getattr(model, "estimator", None)  # bagging passes weights on to its members
    if hasattr(member, "fit") and not accepts_sample_weight(member):
        return False
    try:
        return "sample_weight" in inspect.signature(model.fit).parameters
    except (TypeError, ValueError):  # a compiled function
        return False


def weighted_labels(likelihoods: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return items as often as they have possible classes: rows (m,), classes (m,), weights (m,).

    The likelihoods w (n, C) of an item's answers, of which the largest is 1, are a mixture: with
    probability b = min_c w_c the answers say nothing about the class, and otherwise they have the
    likelihoods (w_c - b) / (1 - b). So the item weighs 1 - b, divided among the classes in
    proportion to (w_c - b) f_c, where f are the class frequencies. An item whose answers say
    nothing is left out; one with a gold label weighs 1.

    >>> rows, classes, weights = weighted_labels(np.array([[1.0, 0.0], [0.25, 1.0], [1.0, 1.0]]))
    >>> rows.tolist(), classes.tolist(), weights.round(2).tolist()
    ([0, 1], [0, 1], [1.0, 0.75])
    """
    scaled = likelihoods / likelihoods.max(axis=1, keepdims=True)
    uninformative = scaled.min(axis=1, keepdims=True)
    frequencies = (scaled / scaled.sum(axis=1, keepdims=True)).mean(axis=0)
    weights = (scaled - uninformative) * frequencies
    weights *= (1.0 - uninformative) / np.maximum(weights.sum(axis=1, keepdims=True), 1e-12)
    weights[weights < _MIN_WEIGHT] = 0.0
    rows, classes = np.nonzero(weights)
    return rows, classes, weights[rows, classes]


def _is_pipeline(model: Any) -> bool:
    steps = getattr(model, "steps", None)
    return isinstance(steps, list) and bool(steps)


def _last_step(model: Any) -> Any:
    """Return the last step of a pipeline, or the model itself."""
    return model.steps[-1][1] if _is_pipeline(model) else model


def _check_column_choice(model: Any) -> None:
    """Refuse a pipeline that chooses columns by name: models receive numbers without names."""
    steps = getattr(model, "steps", None)
    transformers = [step for _, step in steps] if isinstance(steps, list) else []
    for transformer in transformers:
        for _, _, columns in getattr(transformer, "transformers", []):
            names: list[Any] = []
            if isinstance(columns, str):
                names = [columns]
            elif isinstance(columns, Iterable):
                names = list(columns)
            if names and isinstance(names[0], str):
                step_name = type(transformer).__name__
                raise InputError(
                    f"{step_name} in your pipeline chooses the column {names[0]!r} by its name, "
                    "but a model receives the encoded features, which are numbers without names; "
                    f"leave {step_name} out (data frames are encoded for you), or pass its output "
                    "as X_pool."
                )


def fresh_copy(model: Any, *, warn: bool = True) -> Any:
    """Return an independent copy, unfitted if possible; if it cannot be copied, the model."""
    if isinstance(model, EnsembleModel):
        return EnsembleModel(fresh_copy(model.ensemble, warn=warn), model.n_classes, model.labels)
    if hasattr(model, "get_params"):
        from sklearn.base import clone

        try:
            return clone(model)
        except Exception:  # it does not follow scikit-learn's rules for parameters
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
    named_members = getattr(model, "estimators", None) or []
    members = [pair[-1] for pair in named_members if isinstance(pair, tuple)]
    for member in [getattr(model, "estimator", None), *members]:
        if not (member is None or isinstance(member, str) or hasattr(member, "predict_proba")):
            raise InputError(
                f"{type(member).__name__}, a member of {name}, has no predict_proba; use members "
                "that have one, such as trees or logistic regression."
            )
