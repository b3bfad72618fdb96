"""Labels that are numbers: ``task="regression"``, by :mod:`parbals.posterior.closed.regression`."""

from collections.abc import Hashable, Sequence
from numbers import Real
from typing import Any

import numpy as np

from parbals.errors import InputError, LabelError
from parbals.learner.tasks.base import Setup, Task
from parbals.posterior.closed.regression import RegressionPosterior, fit_regression
from parbals.posterior.predictive import add_bias
from parbals.types import Diagnostics

__all__ = ["Numbers", "NumbersModel"]

_LARGEST = 1e100  # whose square is finite


class NumbersModel:
    """A Gaussian posterior over linear functions, for prepared rows (N, D)."""

    def __init__(self, gaussian: RegressionPosterior) -> None:
        self.gaussian = gaussian
        sentence = (
            f"The prior is learnt from {len(gaussian.y)} labels: predictions vary over the pool "
            f"{np.sqrt(gaussian.ratio):.2g} times as much as the noise of a label."
        )
        self.diagnostics_ = Diagnostics("exact", 0, np.inf, prior=sentence)

    def predict(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and deviation (N,) of a new label, noise included."""
        return self.gaussian.predict(add_bias(np.asarray(rows, np.float64)))


class Numbers(Task):
    """A finite number an item; it is kept as it is."""

    name = "regression"
    metrics = ("rmse",)
    uncertainty = ("confidence",)
    has_samples = False
    dtype = np.float64

    def __init__(self, classes: Sequence[Hashable] | None) -> None:
        if classes is not None:
            raise InputError('task="regression" has no classes; leave them out.')
        self.classes = ()

    def encoded(self, label: Any, what: str) -> float:
        is_number = isinstance(label, Real) and not isinstance(label, bool)
        if not is_number or not abs(label) <= _LARGEST:  # NaN compares with nothing
            raise LabelError(
                f"{what} is {label!r:.40}; a label is a number between -1e100 and 1e100, and "
                "nothing was recorded."
            )
        return float(label)

    def decoded(self, number: Any) -> float:
        return float(number)

    def balance(self, numbers: np.ndarray) -> dict[Any, int]:
        return {}

    def check_settings(self, inference: str, prior_scale: Any, **others: Any) -> None:
        super().check_settings(inference, prior_scale, **others)
        if prior_scale != "auto":
            raise InputError('task="regression" learns its prior; leave prior_scale out.')

    def fit(self, setup: Setup, rows: np.ndarray, numbers: np.ndarray, seed: int) -> NumbersModel:
        design = add_bias(rows.astype(np.float64))
        return NumbersModel(fit_regression(design, numbers, setup.pool_moments))
