"""Regression: ``task="regression"``, by :mod:`parbals.posterior.closed.regression`."""

from collections.abc import Hashable, Sequence
from numbers import Real
from typing import Any

import numpy as np

from parbals.errors import InputError, LabelError
from parbals.learner.tasks.base import FitSettings, Task
from parbals.posterior.closed.regression import RegressionPosterior, fit_regression
from parbals.posterior.predictive import add_bias
from parbals.types import Diagnostics

__all__ = ["Regression", "RegressionModel"]

_MAX_LABEL = 1e100  # so that its square is finite


class RegressionModel:
    """Bayesian linear regression on prepared rows (N, D)."""

    def __init__(self, gaussian: RegressionPosterior) -> None:
        self.gaussian = gaussian
        sentence = (
            f"The prior is learnt from {len(gaussian.y)} labels: predictions vary over the pool "
            f"{np.sqrt(gaussian.signal_to_noise):.2g} times as much as the noise of a label."
        )
        self.diagnostics_ = Diagnostics("exact", 0, np.inf, prior=sentence)

    def predict(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean (N,) and standard deviation (N,) of new labels, noise included."""
        return self.gaussian.predict(add_bias(np.asarray(rows, np.float64)))


class Regression(Task):
    """A finite number per item, which is its own encoding.

    >>> Regression(None).encode(2, "label")
    2.0
    """

    name = "regression"
    metrics = ("rmse",)
    uncertainty_strategies = ("confidence",)
    has_samples = False
    dtype = np.float64

    def __init__(self, classes: Sequence[Hashable] | None) -> None:
        if classes is not None:
            raise InputError('task="regression" has no classes; leave them out.')
        self.classes = ()

    def encode(self, label: Any, name: str) -> float:
        is_number = isinstance(label, Real) and not isinstance(label, bool)
        if not is_number or not abs(label) <= _MAX_LABEL:  # no comparison holds for NaN
            raise LabelError(
                f"{name} is {label!r:.40}; a label is a number between -1e100 and 1e100, and "
                "nothing was recorded."
            )
        return float(label)

    def decode(self, encoded: Any) -> float:
        return float(encoded)

    def class_counts(self, labels: np.ndarray) -> dict[Any, int]:
        return {}

    def check_settings(self, inference: str, prior_scale: Any, **settings: Any) -> None:
        super().check_settings(inference, prior_scale, **settings)
        if prior_scale != "auto":
            raise InputError('task="regression" learns its prior; leave prior_scale out.')

    def fit(self, rows: np.ndarray, labels: np.ndarray, settings: FitSettings) -> RegressionModel:
        design = add_bias(rows.astype(np.float64))
        return RegressionModel(fit_regression(design, labels, settings.pool_moments))
