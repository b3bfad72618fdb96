"""From settings, features and a model to a batch: one way for every caller.

The callers, :mod:`parbals.select` and the learner, validate what users pass in, once.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from parbals.arrays import mean_prediction
from parbals.errors import InputError, ShapeError
from parbals.randomness import Seed, seed_from
from parbals.strategies.distributed import DistributedRows
from parbals.strategies.problem import GaussianView, Labelled, ModelView, Problem
from parbals.strategies.table import Strategy, strategy_named
from parbals.types import LOSSES, Batch, ClassWeights
from parbals.validate import (
    check_batch_size,
    check_choice,
    check_positions,
    check_positive,
    check_positive_int,
    check_probs,
    check_weights,
)

__all__ = ["CheckedModel", "check_settings", "choose_batch", "has_closed_form", "solve"]


def check_settings(
    strategy: str,
    n_pool: int,
    batch_size: Any,
    *,
    pending: Any = None,
    n_universes: Any = 10,
    random_state: Seed = None,
    loss: Any = "log",
    class_weights: ClassWeights | None = None,
    beta: Any = 1.0,
    n_configurations: Any = 4096,
    options: Mapping[str, Any] | None = None,
    n_classes: Any = None,
    watch: Callable[[np.ndarray], None] | None = None,
) -> dict[str, Any]:
    """Validated arguments of :class:`Problem` that do not depend on the data."""
    entry = strategy_named(strategy)
    options = dict(options or {})
    unknown = sorted(set(options) - set(entry.options))
    if unknown:
        takes = f"it takes {', '.join(entry.options)}" if entry.options else "it takes none"
        raise InputError(f"{strategy} has no option {unknown[0]!r}; {takes}.")
    check_choice(loss, LOSSES, "loss")
    pending = check_positions([] if pending is None else pending, n_pool, "pending", "the pool")
    return {
        "strategy": strategy,
        "n_pool": n_pool,
        "batch_size": check_batch_size(batch_size, n_pool - len(pending)),
        "pending": pending,
        "n_universes": check_positive_int(n_universes, "n_universes"),
        "seed": seed_from(random_state),
        "loss": loss,
        "class_weights": class_weights,
        "beta": check_positive(beta, "beta"),
        "n_configurations": check_positive_int(n_configurations, "n_configurations"),
        "options": options,
        "n_classes": None if n_classes is None else check_positive_int(n_classes, "n_classes"),
        "watch": watch,
    }


def choose_batch(
    settings: Mapping[str, Any], model: Any, X_pool: Any, X_target: Any, labelled: Labelled
) -> Batch:
    """Choose a batch from validated features and a model with validated samples.

    ``X_pool`` (N, D) may be rows of a file or a cluster for closed-form strategies. ``model`` and
    ``X_target`` (M, D) may be None for a strategy that uses no predictions; k-means then
    represents the pool.
    """
    entry = strategy_named(settings["strategy"])
    if has_closed_form(entry, model):
        target = X_pool[:0] if X_target is None else X_target
        return solve(settings, np.ones(1), gaussian=GaussianView(model.gaussian, X_pool, target))
    if isinstance(X_pool, DistributedRows):  # too large to fetch
        if entry.uses_predictions or entry.needs_features:
            raise InputError(
                f"{entry.title or settings['strategy']} with this model needs samples or "
                "features of the whole pool, which stays in its cluster; use a model with "
                'inference="ep" and a closed-form strategy (EPIG, ParBaLS; BALD with '
                "two classes), or fetch a subset of the pool: X_pool[positions].compute()."
            )
        return solve(settings, np.ones(1))
    weights = getattr(model, "sample_weights", None)
    if not entry.uses_predictions:
        weights = check_weights(weights, 1 if weights is None else len(weights))
        return solve(
            settings, weights, pool_features=X_pool, target_features=X_target, labelled=labelled
        )
    if entry.needs_model:
        return solve(
            settings,
            np.ones(1),
            pool_features=X_pool,
            labelled=labelled,
            predict=model.predict_proba,
        )
    population = getattr(model, "population", None)
    if entry.conditions_model and population is not None:
        view = ModelView(population, population.rows(X_pool), population.rows(X_target))
        return solve(settings, population.weights, model=view)
    # Single precision is enough for scores.
    pool = model.sample_proba(X_pool).astype(np.float32, copy=False)
    target = model.sample_proba(X_target).astype(pool.dtype) if entry.needs_target else None
    weights = check_weights(weights, pool.shape[1])
    if entry.needs_labels and labelled.features is not None:
        probs = mean_prediction(model.sample_proba(labelled.features), weights)
        labelled = replace(labelled, probs=probs)
    return solve(
        settings,
        weights,
        pool_probs=pool,
        target_probs=target,
        pool_features=X_pool,
        labelled=labelled,
    )


def has_closed_form(entry: Strategy, model: Any) -> bool:
    """Whether the strategy computes its scores from a Gaussian model without samples.

    The gain on targets has a closed form for any number of classes, BALD for two.
    """
    gaussian = getattr(model, "gaussian", None)
    if gaussian is None or not entry.uses_predictions:
        return False
    if not gaussian.has_samples:
        return True
    return entry.closed_form and (entry.needs_target or len(gaussian.latents.roots) == 1)


def solve(settings: Mapping[str, Any], weights: np.ndarray, **fields: Any) -> Batch:
    """Build the problem, check that it has what the strategy needs, and run the strategy."""
    problem = Problem(weights=weights, **settings, **fields)
    entry = strategy_named(problem.strategy)
    if entry.needs_target and problem.model is None and problem.gaussian is None:
        problem.require_target()
    if entry.needs_features:
        problem.require_features()
    if entry.needs_labels:
        problem.require_labels()
    if entry.needs_classes:
        problem.require_n_classes()
    if entry.needs_model:
        problem.require_predict()
    return entry.select(problem)


class CheckedModel:
    """A user's fitted model whose output is validated in every call."""

    def __init__(self, model: Any, n_classes: int | None = None) -> None:
        self.model = model
        self.sample_weights = _as_numpy(getattr(model, "sample_weights", None))
        self.diagnostics_ = getattr(model, "diagnostics_", None)
        self._n_classes = n_classes
        self._n_samples: int | None = None

    def sample_proba(self, X: np.ndarray) -> np.ndarray:
        """(N, K, C) probabilities of the rows of X, with the same K and C in every call."""
        probs = check_probs(_as_numpy(self.model.sample_proba(X)), "sample_proba(X)")
        n_points, n_samples, n_classes = probs.shape
        if n_points != len(X):
            raise ShapeError(
                f"sample_proba returned {n_points} points for {len(X)} rows; return an array "
                "(rows, samples, classes)."
            )
        if n_classes != (self._n_classes or n_classes):
            raise ShapeError(
                f"sample_proba returned {n_classes} classes instead of {self._n_classes}; return "
                "a column for every class, zero for those without labels."
            )
        if n_samples != (self._n_samples or n_samples):
            raise ShapeError(
                f"sample_proba returned {n_samples} samples instead of {self._n_samples} as "
                "before; return the same samples in every call until the next fit."
            )
        if self.sample_weights is not None:
            check_weights(self.sample_weights, n_samples)
        self._n_classes = n_classes
        self._n_samples = n_samples
        return probs

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """(N, C) averaged prediction of the rows of X."""
        probs = self.sample_proba(X)
        return mean_prediction(probs, check_weights(self.sample_weights, probs.shape[1]))


def _as_numpy(value: Any) -> Any:
    """A PyTorch tensor, on any device and with or without gradients, as an array."""
    is_tensor = hasattr(value, "detach") and hasattr(value, "cpu")
    return value.detach().cpu().numpy() if is_tensor else value
