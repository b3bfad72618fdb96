"""Own models in a suite: ``model = "module:name"`` names a classifier of scikit-learn.

Members of a forest or of another ensemble are samples of the model. Any other classifier with
``predict_proba`` is bagged: its samples are copies fitted to bootstrap samples of each class.
"""

from importlib.metadata import EntryPoint
from typing import Any, NamedTuple, Self

import numpy as np
from parbals.errors import InputError
from parbals.learner.models import SampleModel, as_sample_model, fresh_copy

__all__ = ["N_BAGGED", "OwnModel", "load_model"]

N_BAGGED = 20
"""Copies of a classifier that is no ensemble."""
_EXAMPLE = 'model = "sklearn.ensemble:RandomForestClassifier"'


class _Diagnostics(NamedTuple):
    """What records say about a fit."""

    inference: str


class OwnModel:
    """Samples of a user's model, and their mean as prediction.

    >>> model = OwnModel("sklearn.ensemble:RandomForestClassifier", n_classes=2, seed=0)
    >>> X = np.arange(8.0)[:, None]
    >>> model.fit(X, np.arange(8) // 4).predict_proba(X).shape
    (8, 2)
    """

    def __init__(self, reference: str, n_classes: int, seed: int) -> None:
        model = load_model(reference)
        self._model = _as_samples(model, n_classes, seed % 2**32)
        self.classes_ = np.arange(n_classes)
        self.diagnostics_ = _Diagnostics(reference)

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        """Fit features (n, D) and class numbers (n,)."""
        self._model.fit(X, y)
        return self

    def sample_proba(self, X: np.ndarray) -> np.ndarray:
        """Class probabilities (N, K, C) under the K samples."""
        return self._model.sample_proba(X)

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """Averaged class probabilities (N, C)."""
        return np.asarray(self.sample_proba(X).mean(axis=1))


def load_model(reference: str) -> Any:
    """An unfitted model: what the class or function ``module:name`` returns without arguments."""
    try:
        factory = EntryPoint("model", reference, "").load()
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(
            f"The model {reference!r} cannot be loaded ({error}); write module:name, for example "
            f"{_EXAMPLE}."
        ) from None
    if not callable(factory):
        raise InputError(
            f"The model {reference!r} is no class and no function; write {_EXAMPLE}, or name a "
            "function that returns a classifier."
        )
    try:
        model = factory()
    except TypeError as error:
        raise InputError(
            f"The model {reference!r} cannot be made without arguments ({error}); name a function "
            "that returns it."
        ) from None
    if not hasattr(model, "fit") or not (
        hasattr(model, "predict_proba") or hasattr(model, "sample_proba")
    ):
        raise InputError(
            f"The model {reference!r} gives a {type(model).__name__}, which has no fit and "
            "predict_proba; name a classifier that predicts probabilities."
        )
    return model


class _Bagged:
    """Copies of a classifier, each fitted to a bootstrap sample within every class.

    Whatever classes the labels have, every copy has seen them.
    """

    def __init__(self, classifier: Any, n_classes: int, seed: int) -> None:
        self._classifier = classifier
        self._n_classes = n_classes
        self._seed = seed
        self._members: list[Any] = []

    def fit(self, X: np.ndarray, y: np.ndarray) -> Self:
        generator = np.random.default_rng(self._seed)
        rows_of_class = [np.flatnonzero(y == number) for number in np.unique(y)]
        self._members = []
        for _ in range(N_BAGGED):
            drawn = np.concatenate([generator.choice(rows, len(rows)) for rows in rows_of_class])
            self._members.append(fresh_copy(self._classifier).fit(X[drawn], y[drawn]))
        return self

    def sample_proba(self, X: np.ndarray) -> np.ndarray:
        probs = np.zeros((len(X), len(self._members), self._n_classes))
        for k, member in enumerate(self._members):
            probs[:, k, np.asarray(member.classes_, int)] = member.predict_proba(X)
        return probs


def _as_samples(model: Any, n_classes: int, seed: int) -> SampleModel:
    if hasattr(model, "get_params"):
        names = [name for name in model.get_params() if name.split("__")[-1] == "random_state"]
        model.set_params(**dict.fromkeys(names, seed))
    try:
        return as_sample_model(model, n_classes)
    except InputError:  # no ensemble
        return _Bagged(model, n_classes, seed)
