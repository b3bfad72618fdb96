"""What a strategy is given: one frozen record, checked before, the same for every strategy."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from parbals.arrays import effective_sample_size, mean_prediction
from parbals.errors import InputError
from parbals.posterior.closed.latents import Latents
from parbals.posterior.closed.whitening import Whitening
from parbals.posterior.predictive import add_bias, mean_proba
from parbals.posterior.smc import Population
from parbals.types import Batch, Loss

__all__ = ["GaussianView", "Labelled", "ModelView", "Problem", "batch_of"]


@dataclass(frozen=True)
class ModelView:
    """Particles and design rows, for strategies that condition the model itself."""

    population: Population
    pool: np.ndarray  # (N, D+1)
    target: np.ndarray  # (M, D+1)


@dataclass(frozen=True)
class GaussianView:
    """A Gaussian posterior and features, for scores in closed form."""

    posterior: Any  # of classes, of several labels an item, or of numbers
    pool: Any  # (N, D), an array or, of classes, rows in a cluster
    target: np.ndarray  # (M, D)

    @cached_property
    def lanes(self) -> "tuple[GaussianView, ...]":
        """One for each label where items have several, over rows that are whitened once for all."""
        parts = getattr(self.posterior, "parts", None)
        if parts is None:
            return (self,)
        if len(parts) == 1:  # two classes, to the last digit
            return (replace(self, posterior=parts[0]),)
        whitening = parts[0].whitening
        pool, target = (whitening.rows(add_bias(X)) for X in (self.pool, self.target))
        deviations = np.append(np.ones(pool.shape[1] - 1), pool[0, -1])
        plain = Whitening.diagonal(deviations)  # which leaves the intercept to be scaled
        pool, target = (rows[:, :-1].astype(np.float32) for rows in (pool, target))
        return tuple(
            GaussianView(
                replace(part, latents=replace(part.latents, whitening=plain)), pool, target
            )
            for part in parts
        )

    @property
    def tells_by_variance(self) -> bool:
        """Whether labels are numbers or ranks, of which :mod:`parbals.strategies.numbers` knows."""
        return hasattr(self.posterior, "noise_at")

    @property
    def latents(self) -> Latents:
        latents: Latents = self.posterior.latents
        return latents

    @property
    def n_classes(self) -> int:
        return int(self.posterior.n_classes)


@dataclass(frozen=True)
class Labelled:
    """The points whose labels are known; what a strategy does not need may be missing."""

    labels: np.ndarray | None = None  # (L,) class numbers
    features: np.ndarray | None = None  # (L, D)
    probs: np.ndarray | None = None  # (L, C) averaged predictions
    validation: np.ndarray | None = None  # positions among the L that the model was not fitted on


@dataclass(frozen=True)
class Problem:
    """Choose ``batch_size`` of N pool points.

    Parts that a strategy does not need may be missing; ``require_...`` gives a part, or says in one
    sentence what to pass. Arrays are never written to.
    """

    strategy: str
    n_pool: int
    batch_size: int
    weights: np.ndarray  # (K,), normalised
    pending: np.ndarray  # pool positions that are out for labelling
    n_universes: int
    seed: int
    pool_probs: np.ndarray | None = None  # (N, K, C)
    target_probs: np.ndarray | None = None  # (M, K, C)
    pool_features: np.ndarray | None = None  # (N, D)
    labelled: Labelled = Labelled()
    model: ModelView | None = None  # in place of samples, for strategies that condition the model
    gaussian: GaussianView | None = None  # in place of samples, for strategies in closed form
    beta: float = 1.0
    loss: Loss = "log"
    class_weights: Any = None  # ClassWeights, of several labels an item a tuple of them, or None
    n_configurations: int = 4096
    options: Mapping[str, Any] = field(default_factory=dict)  # of strategies that are not ours
    watch: Callable[[np.ndarray], None] | None = None  # is told what each step chose by

    def candidates(self) -> np.ndarray:
        """(N,) True where a point may still be chosen."""
        free = np.ones(self.n_pool, bool)
        free[self.pending] = False
        return free

    def show(self, scores: np.ndarray | Callable[[], np.ndarray]) -> None:
        """Give the scores (N,) of one step to ``watch``, if there is one.

        A function is called only then. Scores that hold for the whole batch are shown once.
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
        return self.given(self.pool_probs, "pool_probs: predictive samples of the pool")

    def require_target(self) -> np.ndarray:
        """Predictive samples (M, K, C) of the target set."""
        return self.given(
            self.target_probs,
            "target_probs: predictive samples of points from the distribution the model will be "
            "judged on (without a shift, a random part of the pool)",
        )

    def require_features(self) -> np.ndarray:
        """Features (N, D) of the pool."""
        return self.given(self.pool_features, "pool_features: the features (N, D) of the pool")

    def require_labels(self) -> tuple[np.ndarray, np.ndarray]:
        """Class numbers (L,) and averaged predictions (L, C) of the labelled points."""
        what = (
            "labels and labelled_probs: the labels known so far and the model's predictive samples "
            "of those points"
        )
        labels = self.labelled.labels
        some = labels if labels is not None and len(labels) else None
        return self.given(some, what), self.given(self.labelled.probs, what)

    def given(self, part: np.ndarray | None, what: str) -> np.ndarray:
        """A part, or an error that says ``what`` it is."""
        if part is None:
            raise InputError(f"{self.strategy} needs {what}.")
        return part


def batch_of(problem: Problem, indices: np.ndarray, scores: np.ndarray, **overrides: Any) -> Batch:
    """A batch whose scores stayed the same while it grew, unless ``overrides`` say otherwise."""
    n, is_closed = len(indices), problem.gaussian is not None
    n_free = problem.n_pool - len(problem.pending)
    size = np.inf if is_closed else float(effective_sample_size(problem.weights))
    fields: dict[str, Any] = {
        "indices": indices.astype(np.int64),
        "scores": scores.astype(np.float64),
        "initial_scores": scores.astype(np.float64),
        "effective_sample_size": np.full(n, size),
        "strategy": problem.strategy,
        "n_exact": np.full(n, n_free),
        "n_samples": 0 if is_closed else len(problem.weights),
        "n_candidates": n_free,
    }
    return Batch(**{**fields, **overrides})
