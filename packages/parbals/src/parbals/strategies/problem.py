"""The input of a strategy: one frozen, validated record for all strategies."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from parbals.arrays import effective_sample_size, mean_prediction
from parbals.errors import InputError
from parbals.posterior.closed.latents import Latents
from parbals.posterior.closed.whitening import Whitening
from parbals.posterior.predictive import add_bias, mean_proba
from parbals.posterior.smc import Population
from parbals.types import Batch, Loss

__all__ = ["GaussianView", "Labelled", "ModelView", "Problem", "batch_of"]

_Value = TypeVar("_Value")


@dataclass(frozen=True)
class ModelView:
    """Particles and design rows, for strategies that condition the model."""

    population: Population
    pool: np.ndarray  # (N, D+1)
    target: np.ndarray  # (M, D+1)


@dataclass(frozen=True)
class GaussianView:
    """A Gaussian posterior and features, for closed-form scores."""

    posterior: Any  # of a multi-class, multi-label, ordinal or regression task
    pool: Any  # (N, D), an array or, for multi-class tasks, rows in a cluster
    target: np.ndarray  # (M, D)

    @cached_property
    def label_views(self) -> "tuple[GaussianView, ...]":
        """One view per label of a multi-label task, otherwise this view alone.

        The labels share one whitening: rows are whitened once, and only the intercept is left to
        be scaled.
        """
        posteriors = getattr(self.posterior, "posteriors", None)
        if posteriors is None:
            return (self,)
        if len(posteriors) == 1:  # exactly the binary task
            return (replace(self, posterior=posteriors[0]),)
        whitening = posteriors[0].whitening
        pool = whitening.rows(add_bias(self.pool))
        target = whitening.rows(add_bias(self.target))
        scales = np.append(np.ones(pool.shape[1] - 1), pool[0, -1])
        intercept_scaling = Whitening.diagonal(scales)
        pool_features = pool[:, :-1].astype(np.float32)
        target_features = target[:, :-1].astype(np.float32)
        views = []
        for posterior in posteriors:
            latents = replace(posterior.latents, whitening=intercept_scaling)
            label_posterior = replace(posterior, latents=latents)
            views.append(GaussianView(label_posterior, pool_features, target_features))
        return tuple(views)

    @property
    def has_numeric_labels(self) -> bool:
        """Whether the task is regression or ordinal: :mod:`parbals.strategies.regression`."""
        return hasattr(self.posterior, "noise_at")

    @property
    def latents(self) -> Latents:
        """The posterior's independent Gaussian weight vectors."""
        latents: Latents = self.posterior.latents
        return latents

    @property
    def n_classes(self) -> int:
        """C."""
        return int(self.posterior.n_classes)


@dataclass(frozen=True)
class Labelled:
    """The labelled points; fields that a strategy does not need may be None."""

    labels: np.ndarray | None = None  # (L,) class numbers
    features: np.ndarray | None = None  # (L, D)
    probs: np.ndarray | None = None  # (L, C) averaged predictions
    validation: np.ndarray | None = None  # positions among the L that the model was not fitted on


@dataclass(frozen=True)
class Problem:
    """Choose ``batch_size`` of N pool points.

    Fields that a strategy does not need may be None. The methods ``require_...`` return a field, or
    raise an error that says what to pass. Strategies must not write to the arrays.

    A strategy reads, for example:

    >>> from parbals.strategies import Problem
    >>> probs = np.array([[[0.9, 0.1]], [[0.6, 0.4]], [[0.2, 0.8]]])  # (N, K, C)
    >>> problem = Problem(
    ...     strategy="mine",
    ...     n_pool=3,
    ...     batch_size=1,
    ...     weights=np.ones(1),
    ...     pending=np.array([0]),
    ...     n_universes=1,
    ...     seed=0,
    ...     pool_probs=probs,
    ... )
    >>> problem.mean_probs.tolist()
    [[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]]
    >>> problem.candidates().tolist()
    [False, True, True]
    """

    strategy: str
    n_pool: int
    batch_size: int
    weights: np.ndarray  # (K,), normalised
    pending: np.ndarray  # pool positions that are being labelled
    n_universes: int
    seed: int
    pool_probs: np.ndarray | None = None  # (N, K, C)
    target_probs: np.ndarray | None = None  # (M, K, C)
    pool_features: np.ndarray | None = None  # (N, D)
    target_features: np.ndarray | None = None  # (M, D)
    labelled: Labelled = Labelled()
    model: ModelView | None = None  # replaces samples in strategies that condition the model
    gaussian: GaussianView | None = None  # replaces samples in closed-form strategies
    beta: float = 1.0
    loss: Loss = "log"
    class_weights: Any = None  # ClassWeights, a tuple of them for multi-label tasks, or None
    n_configurations: int = 4096
    options: Mapping[str, Any] = field(default_factory=dict)  # of strategies from other packages
    n_classes: int | None = None  # C, None if it is not known
    predict: Callable[[np.ndarray], np.ndarray] | None = None  # rows (n, D) to p̄ (n, C)
    watch: Callable[[np.ndarray], None] | None = None  # called with the scores of each step

    def candidates(self) -> np.ndarray:
        """(N,) True where a point may be chosen."""
        free = np.ones(self.n_pool, bool)
        free[self.pending] = False
        return free

    def show(self, scores: np.ndarray | Callable[[], np.ndarray]) -> None:
        """Pass the scores (N,) of one step to ``watch``, if there is one.

        A function is only called if there is. Scores that hold for the whole batch are shown once.
        """
        if self.watch is not None:
            self.watch(np.array(scores() if callable(scores) else scores, np.float64))

    @cached_property
    def mean_probs(self) -> np.ndarray:
        """(N, C) float64 averaged predictions p̄ of the pool."""
        if self.model is None:
            return mean_prediction(self.require_probs(), self.weights)
        population = self.model.population
        return mean_proba(
            self.model.pool, population.coefficients, population.n_classes, self.weights
        )

    def samples(self) -> tuple[np.ndarray, np.ndarray]:
        """Predictive samples of pool and target, (N, K, C) and (M, K, C)."""
        return self.require_probs(), self.require_target()

    def require_probs(self) -> np.ndarray:
        """Predictive samples (N, K, C) of the pool."""
        return self._require(self.pool_probs, "pool_probs: predictive samples of the pool")

    def require_target(self) -> np.ndarray:
        """Predictive samples (M, K, C) of the target set."""
        return self._require(
            self.target_probs,
            "target_probs: predictive samples of points from the distribution the model will be "
            "used on (without a shift, a random subset of the pool)",
        )

    def require_features(self) -> np.ndarray:
        """Features (N, D) of the pool."""
        return self._require(self.pool_features, "pool_features: the features (N, D) of the pool")

    def require_labels(self) -> tuple[np.ndarray, np.ndarray]:
        """Class numbers (L,) and averaged predictions (L, C) of the labelled points."""
        description = (
            "labels and labelled_probs: the labels known so far and the model's predictive samples "
            "of those points"
        )
        labels = self.labelled.labels
        if labels is not None and len(labels) == 0:
            labels = None
        return (
            self._require(labels, description),
            self._require(self.labelled.probs, description),
        )

    def require_n_classes(self) -> int:
        """C, the number of classes."""
        return self._require(self.n_classes, "n_classes: the number of classes")

    def require_predict(self) -> Callable[[np.ndarray], np.ndarray]:
        """The model's averaged prediction, from any rows (n, D) to probabilities (n, C)."""
        return self._require(
            self.predict,
            "predict: a function from rows (n, D) to class probabilities (n, C) "
            "(select_batch_from_model has it from the model)",
        )

    def predict_classes(self, rows: np.ndarray) -> np.ndarray:
        """The most probable class (n,) of any rows (n, D), not only those of the pool."""
        return np.asarray(self.require_predict()(rows).argmax(axis=1))

    def require_labelled_features(self) -> np.ndarray:
        """Features (L, D) of the labelled points."""
        return self._require(
            self.labelled.features,
            "labelled_features: the features (L, D) of the labelled points",
        )

    def _require(self, value: _Value | None, description: str) -> _Value:
        """The value, or an error with its description if it is None."""
        if value is None:
            raise InputError(f"{self.strategy} needs {description}.")
        return value


def batch_of(problem: Problem, indices: np.ndarray, scores: np.ndarray, **overrides: Any) -> Batch:
    """Make the batch of a strategy from the chosen pool positions and their scores.

    Args:
        problem: the problem it solves.
        indices: (B,) pool positions in the order of choice.
        scores: (B,) their scores.
        overrides: other fields of :class:`parbals.Batch`. By default scores did not change while
            the batch grew, and all candidates were scored.
    """
    batch_size = len(indices)
    is_closed_form = problem.gaussian is not None
    n_free = problem.n_pool - len(problem.pending)
    sample_size = np.inf if is_closed_form else float(effective_sample_size(problem.weights))
    fields: dict[str, Any] = {
        "indices": indices.astype(np.int64),
        "scores": scores.astype(np.float64),
        "initial_scores": scores.astype(np.float64),
        "effective_sample_size": np.full(batch_size, sample_size),
        "strategy": problem.strategy,
        "n_exact": np.full(batch_size, n_free),
        "n_samples": 0 if is_closed_form else len(problem.weights),
        "n_candidates": n_free,
    }
    return Batch(**{**fields, **overrides})
