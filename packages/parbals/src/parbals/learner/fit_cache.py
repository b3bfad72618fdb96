"""Fitted models of a learner, kept until its labels have changed twice."""

from typing import Any, NamedTuple

import numpy as np

from parbals.learner.annotators.fit import AnnotatorFit

__all__ = ["FitCache", "LabelPredictions"]


class LabelPredictions(NamedTuple):
    """Predictions for some of the training labels by models that were not trained on them.

    Attributes:
        rows: (m,) indices into the training labels.
        probs: (m, C) the predictions.
    """

    rows: np.ndarray
    probs: np.ndarray


class FitCache:
    """The two latest models and the latest annotator fit; keys are digests of the labels.

    All states of a learner share one cache. It holds two models because the audit and the next
    choice need models of different labels.

    >>> cache = FitCache()
    >>> for key, model in [(b"a", "first"), (b"b", "second"), (b"c", "third")]:
    ...     cache.add_model(key, model)
    >>> cache.model(b"a"), cache.model(b"b"), cache.latest_model()
    (None, 'second', 'third')
    """

    def __init__(self) -> None:
        self._models: dict[bytes, Any] = {}
        self._out_of_sample: list[tuple[Any, LabelPredictions]] = []
        self._annotator_fits: dict[bytes, AnnotatorFit] = {}

    def model(self, key: bytes) -> Any:
        """Return the model with this key, or None."""
        return self._models.get(key)

    def latest_model(self) -> Any:
        """Return the model that was added last, or None."""
        return next(reversed(self._models.values()), None)

    def add_model(self, key: bytes, model: Any) -> None:
        """Add a model, and drop all others but the one added before it."""
        for older in list(self._models)[:-1]:
            del self._models[older]
        self._models[key] = model

    def out_of_sample(self, model: Any) -> LabelPredictions | None:
        """Return the out-of-sample predictions for the labels of a model, or None."""
        for cached_model, predictions in self._out_of_sample:
            if cached_model is model:
                return predictions
        return None

    def add_out_of_sample(self, model: Any, predictions: LabelPredictions) -> None:
        """Add predictions, and drop all others but those added before them."""
        self._out_of_sample = [*self._out_of_sample[-1:], (model, predictions)]

    def annotator_fit(self, key: bytes) -> AnnotatorFit | None:
        """Return the annotator fit with this key, or None."""
        return self._annotator_fits.get(key)

    def set_annotator_fit(self, key: bytes, fit: AnnotatorFit) -> None:
        """Replace the annotator fit."""
        self._annotator_fits = {key: fit}
