"""What a strategy is given: one frozen record, checked once, the same for every strategy."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from parbals.arrays import effective_sample_size
from parbals.errors import InputError
from parbals.posterior.predictive import add_bias
from parbals.posterior.smc import Population
from parbals.scores.losses import Loss
from parbals.scores.uncertainty import mean_prediction
from parbals.types import Batch

__all__ = ["Labelled", "ModelView", "Problem", "batch_of"]


@dataclass(frozen=True)
class ModelView:
    """Particles and design rows, for strategies that condition the model itself."""

    population: Population
    pool: np.ndarray  # (N, D+1)
    target: np.ndarray  # (M, D+1)

    @classmethod
    def of(cls, population: Population, X_pool: np.ndarray, X_target: np.ndarray) -> "ModelView":
        return cls(population, add_bias(X_pool), add_bias(X_target))


@dataclass(frozen=True)
class Labelled:
    """The points whose labels are known; whatever a strategy does not need may be missing."""

    labels: np.ndarray | None = None  # (L,) class numbers
    features: np.ndarray | None = None  # (L, D)
    probs: np.ndarray | None = None  # (L, C) averaged predictions
    validation: np.ndarray | None = None  # positions among the L that the model was not fitted on


@dataclass(frozen=True)
class Problem:
    """Choose ``batch_size`` of N pool points.

    Either predictive samples are given (``pool_probs``), or a ``model`` from which they are
    computed block by block; ``target_probs`` likewise. Arrays are never written to.
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
    model: ModelView | None = None
    beta: float = 1.0
    loss: Loss = "log"
    n_configurations: int = 4096
    options: Mapping[str, Any] = field(default_factory=dict)  # of strategies that are not ours

    def candidates(self) -> np.ndarray:
        """(N,) True where a point may still be chosen."""
        free = np.ones(self.n_pool, bool)
        free[self.pending] = False
        return free

    def samples(self) -> tuple[np.ndarray, np.ndarray]:
        """Predictive samples of pool and target, (N, K, C) and (M, K, C)."""
        if self.pool_probs is None:
            raise InputError(f"{self.strategy} needs pool_probs: predictive samples of the pool.")
        return self.pool_probs, self.require_target()

    @cached_property
    def mean_probs(self) -> np.ndarray:
        """(N, C) float64 averaged predictions p̄ of the pool."""
        assert (
            self.pool_probs is not None
        )  # only ParBaLS, which does not ask, is given a model instead
        return mean_prediction(self.pool_probs, self.weights)

    def require_target(self) -> np.ndarray:
        if self.target_probs is None:
            raise InputError(
                f"{self.strategy} needs target_probs: predictive samples of points from the "
                "distribution the model will be judged on (without a shift, a random part of the "
                "pool)."
            )
        return self.target_probs

    def require_features(self) -> np.ndarray:
        if self.pool_features is None:
            raise InputError(
                f"{self.strategy} needs pool_features: the features (N, D) of the pool."
            )
        return self.pool_features

    def require_labels(self) -> tuple[np.ndarray, np.ndarray]:
        """Class numbers (L,) and averaged predictions (L, C) of the labelled points."""
        labelled = self.labelled
        if labelled.labels is None or labelled.probs is None or len(labelled.labels) == 0:
            raise InputError(
                f"{self.strategy} needs labels and labelled_probs: the labels known so far and the "
                "model's predictive samples of those points."
            )
        return labelled.labels, labelled.probs


def batch_of(problem: Problem, indices: np.ndarray, scores: np.ndarray, **overrides: Any) -> Batch:
    """A batch whose scores did not change while it was built, unless ``overrides`` say otherwise."""
    n = len(indices)
    fields: dict[str, Any] = {
        "indices": indices.astype(np.int64),
        "scores": scores.astype(np.float64),
        "initial_scores": scores.astype(np.float64),
        "effective_sample_size": np.full(n, float(effective_sample_size(problem.weights))),
        "strategy": problem.strategy,
        "n_exact": np.full(n, int(problem.candidates().sum())),
        "n_samples": len(problem.weights),
    }
    return Batch(**{**fields, **overrides})
