"""Choosing a batch: from predictive samples of any model, or from our own model."""

from typing import Any

import numpy as np

from parbals.batches.problem import ModelView, Problem
from parbals.batches.table import strategy_named
from parbals.errors import InputError
from parbals.randomness import Seed, derive_generator, seed_from
from parbals.types import Batch
from parbals.validate import (
    check_batch_size,
    check_features,
    check_pending,
    check_positive_int,
    check_probs,
    check_same_samples,
    check_weights,
)

__all__ = ["select_batch", "select_batch_from_model"]

_DEFAULT_TARGETS = 1_000


def select_batch(
    pool_probs: Any,
    target_probs: Any = None,
    batch_size: int = 1,
    strategy: str = "parbals-epig",
    *,
    n_universes: int = 10,
    sample_weights: Any = None,
    pending: Any = None,
    random_state: Seed = None,
) -> Batch:
    """Choose a batch from the predictive samples of ANY model.

    ParBaLS strategies condition each universe by reweighting the K samples, because samples are all
    there is: the effective sample size shrinks with every point of the batch. It is reported in the
    result, and a warning is given when it collapses; more samples or smaller batches help.
    (:func:`select_batch_from_model` moves the samples instead.)

    Args:
        pool_probs: (N, K, C) class probabilities of the candidates under K posterior samples.
        target_probs: (M, K, C) the same for points from the distribution the model will be judged
            on; the K samples must be the same. Needed by EPIG and ParBaLS.
        batch_size: B, how many points to choose.
        strategy: see ``parbals.batches.table``.
        n_universes: U, how many labellings ParBaLS averages over.
        sample_weights: (K,) weights of the posterior samples; equal if not given.
        pending: pool positions already out for labelling: never chosen, and for ParBaLS part of the
            partial batch from the start.
        random_state: an integer makes the choice reproducible.
    """
    chosen = strategy_named(strategy)
    pool = check_probs(pool_probs, "pool_probs")
    target = None
    if target_probs is not None:
        target = check_probs(target_probs, "target_probs")
        check_same_samples(pool, target)
    weights = check_weights(sample_weights, pool.shape[1])
    pending = check_pending(pending, len(pool))
    problem = Problem(
        strategy=strategy,
        n_pool=len(pool),
        batch_size=check_batch_size(batch_size, len(pool) - len(pending)),
        weights=weights,
        pending=pending,
        n_universes=check_positive_int(n_universes, "n_universes"),
        seed=seed_from(random_state),
        pool_probs=pool,
        target_probs=target,
    )
    if chosen.needs_target:
        problem.require_target()
    return chosen.select(problem)


def select_batch_from_model(
    model: Any,
    X_pool: Any,
    X_target: Any = None,
    batch_size: int = 1,
    strategy: str = "parbals-epig",
    *,
    n_universes: int = 10,
    pending: Any = None,
    random_state: Seed = None,
) -> Batch:
    """Choose a batch for a fitted model, from features.

    With a ``BayesianLogisticRegression(inference="smc")`` ParBaLS conditions the posterior itself in every
    universe: particles are reweighted, and resampled and moved when their effective sample size
    falls. Any other fitted model with ``sample_proba`` (N, K, C) goes through :func:`select_batch`.

    Args:
        model: a fitted model.
        X_pool: (N, D) features of the candidates.
        X_target: (M, D) features of points from the distribution the model will be judged on; without
            a shift leave it out: a random 1,000 of the pool then stand for it.
        batch_size, strategy, n_universes, pending, random_state: as in :func:`select_batch`.
    """
    chosen = strategy_named(strategy)
    if not hasattr(model, "sample_proba"):
        raise InputError(
            f"{type(model).__name__} has no sample_proba(X) that returns predictive samples (N, K, C); "
            "compute them yourself and call select_batch."
        )
    X_pool = check_features(X_pool, "X_pool")
    pending = check_pending(pending, len(X_pool))
    batch_size = check_batch_size(batch_size, len(X_pool) - len(pending))
    check_positive_int(n_universes, "n_universes")
    seed = seed_from(random_state)
    if X_target is None:
        drawn = derive_generator(seed, "target").permutation(len(X_pool))[:_DEFAULT_TARGETS]
        X_target = X_pool[np.sort(drawn)]
    X_target = check_features(X_target, "X_target", X_pool.shape[1])
    population = getattr(model, "population", None)
    if chosen.batch_aware and population is not None:
        check_features(X_pool[:1], "X_pool", population.X.shape[1] - 1)
        return chosen.select(
            Problem(
                strategy=strategy,
                n_pool=len(X_pool),
                batch_size=batch_size,
                weights=population.weights,
                pending=pending,
                n_universes=n_universes,
                seed=seed,
                model=ModelView.of(population, X_pool, X_target),
            )
        )
    return select_batch(
        model.sample_proba(X_pool),
        model.sample_proba(X_target) if chosen.needs_target else None,
        batch_size,
        strategy,
        n_universes=n_universes,
        sample_weights=getattr(model, "sample_weights", None),
        pending=pending,
        random_state=seed,
    )
