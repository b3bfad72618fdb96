"""Choosing a batch: from predictive samples of any model, or from our own model."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from parbals.errors import InputError, ShapeError
from parbals.randomness import Seed, derive_generator, seed_from
from parbals.scores.losses import LOSSES, Loss
from parbals.scores.uncertainty import mean_prediction
from parbals.strategies.problem import Labelled, ModelView, Problem
from parbals.strategies.table import Strategy, strategy_named
from parbals.types import Batch
from parbals.validate import (
    check_batch_size,
    check_choice,
    check_column_names,
    check_features,
    check_labels,
    check_pending,
    check_positions,
    check_positive,
    check_positive_int,
    check_probs,
    check_same_samples,
    check_weights,
    column_names,
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
    pool_features: Any = None,
    labelled_features: Any = None,
    labelled_probs: Any = None,
    labels: Any = None,
    validation: Any = None,
    loss: Loss = "log",
    beta: float = 1.0,
    n_configurations: int = 4096,
    options: Mapping[str, Any] | None = None,
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
        strategy: a name from ``parbals strategies``.
        n_universes: U, how many labellings ParBaLS averages over.
        sample_weights: (K,) weights of the posterior samples; equal if not given.
        pending: pool positions already out for labelling: never chosen, and part of the batch from
            the start for strategies that look at the batch as a whole.
        random_state: an integer makes the choice reproducible.
        pool_features: (N, D) features of the pool, for coreset, badge and glister.
        labelled_features: (L, D) features of the labelled points, for coreset and glister.
        labelled_probs: (L, K, C) predictive samples of the labelled points, for galaxy and glister.
        labels: (L,) class numbers 0..C-1 of the labelled points, for galaxy and glister.
        validation: positions among the L labelled points that the model was not fitted on, for
            glister.
        loss: what the model will be judged by, for EPIG and ParBaLS: ``"log"`` or ``"error"``
            (0-1).
        beta: coldness of the power-, softmax- and softrank- strategies; larger is closer to top-B.
        n_configurations: label configurations BatchBALD sums over before it begins to sample them.
        options: further settings of strategies from other packages.
    """
    chosen = strategy_named(strategy)
    pool = check_probs(pool_probs, "pool_probs")
    target = None
    if target_probs is not None:
        target = check_probs(target_probs, "target_probs")
        check_same_samples(pool, target)
    weights = check_weights(sample_weights, pool.shape[1])
    pending = check_pending(pending, len(pool))
    check_choice(loss, LOSSES, "loss")
    features = None if pool_features is None else check_features(pool_features, "pool_features")
    if features is not None and len(features) != len(pool):
        raise ShapeError(
            f"pool_features has {len(features)} rows and pool_probs has {len(pool)}; both are the "
            "pool."
        )
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
        pool_features=features,
        labelled=_labelled(
            pool, features, weights, labelled_features, labelled_probs, labels, validation
        ),
        beta=check_positive(beta, "beta"),
        loss=loss,
        n_configurations=check_positive_int(n_configurations, "n_configurations"),
        options=_options(chosen, strategy, options),
    )
    if chosen.needs_target:
        problem.require_target()
    if chosen.needs_features:
        problem.require_features()
    if chosen.needs_labels:
        problem.require_labels()
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
    X_labelled: Any = None,
    y_labelled: Any = None,
    validation: Any = None,
    loss: Loss = "log",
    beta: float = 1.0,
    n_configurations: int = 4096,
    options: Mapping[str, Any] | None = None,
) -> Batch:
    """Choose a batch for a fitted model, from features.

    With a ``BayesianLogisticRegression(inference="smc")`` ParBaLS conditions the posterior itself
    in every universe: particles are reweighted, and resampled and moved when their effective sample
    size falls. Any other fitted model with ``sample_proba`` (N, K, C) goes through
    :func:`select_batch`.

    Args:
        model: a fitted model.
        X_pool: (N, D) features of the candidates.
        X_target: (M, D) features of points from the distribution the model will be judged on;
            without a shift leave it out: a random 1,000 of the pool then stand for it.
        X_labelled: (L, D) features of the labelled points, for coreset, galaxy and glister. Our own
            particle model remembers those it was fitted on.
        y_labelled: (L,) their labels. batch_size, strategy, n_universes, pending, random_state,
            validation, loss, beta, n_configurations, options:
            as in :func:`select_batch`.
    """
    chosen = strategy_named(strategy)
    if not hasattr(model, "sample_proba"):
        raise InputError(
            f"{type(model).__name__} has no sample_proba(X) that returns predictive samples (N, K, "
            "C); compute them yourself and call select_batch."
        )
    names = _checked_names(
        model, {"X_pool": X_pool, "X_target": X_target, "X_labelled": X_labelled}
    )
    X_pool = check_features(X_pool, "X_pool")
    pending = check_pending(pending, len(X_pool))
    batch_size = check_batch_size(batch_size, len(X_pool) - len(pending))
    check_positive_int(n_universes, "n_universes")
    check_choice(loss, LOSSES, "loss")
    seed = seed_from(random_state)
    if X_target is None:
        drawn = derive_generator(seed, "target").permutation(len(X_pool))[:_DEFAULT_TARGETS]
        X_target = X_pool[np.sort(drawn)]
    X_target = check_features(X_target, "X_target", X_pool.shape[1])
    population = getattr(model, "population", None)
    if chosen.conditions_model and population is not None:
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
                loss=loss,
                options=_options(chosen, strategy, options),
            )
        )
    labels = None
    if X_labelled is not None:
        X_labelled = check_features(X_labelled, "X_labelled", X_pool.shape[1])
        if y_labelled is not None:
            labels = check_labels(
                y_labelled, np.asarray(model.classes_), len(X_labelled), "y_labelled"
            )
    elif population is not None and (chosen.needs_labels or chosen.needs_features):
        X_labelled, labels = population.X[:, :-1], population.labels

    def sampled(X: np.ndarray) -> np.ndarray:
        with warnings.catch_warnings():
            if names is not None:  # they have been compared; scikit-learn cannot know that
                warnings.filterwarnings("ignore", message="X does not have valid feature names")
            return model.sample_proba(X)

    return select_batch(
        sampled(X_pool),
        sampled(X_target) if chosen.needs_target else None,
        batch_size,
        strategy,
        n_universes=n_universes,
        sample_weights=getattr(model, "sample_weights", None),
        pending=pending,
        random_state=seed,
        pool_features=X_pool,
        labelled_features=X_labelled,
        labelled_probs=sampled(X_labelled)
        if chosen.needs_labels and X_labelled is not None
        else None,
        labels=labels,
        validation=validation,
        loss=loss,
        beta=beta,
        n_configurations=n_configurations,
        options=options,
    )


def _checked_names(model: Any, tables: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The column names of the pool, after comparing those of every table with the model's, or else
    the pool's."""
    names = column_names(tables["X_pool"])
    known = getattr(model, "feature_names_in_", None)
    expected, whose = (names, "X_pool") if known is None else (tuple(known), "the model")
    for name, table in tables.items():
        check_column_names(column_names(table), expected, name, whose)
        if known is None and expected is None:
            expected, whose = column_names(table), name
    return names


def _labelled(
    pool: np.ndarray,
    pool_features: np.ndarray | None,
    weights: np.ndarray,
    features: Any,
    probs: Any,
    labels: Any,
    validation: Any,
) -> Labelled:
    """The labelled points, whatever of them was given; every part must have the same length."""
    lengths: dict[str, int] = {}
    mean = numbers = positions = None
    if features is not None:
        n_features = None if pool_features is None else pool_features.shape[1]
        features = check_features(features, "labelled_features")
        if n_features is not None and features.shape[1] != n_features:
            raise ShapeError(
                f"labelled_features has {features.shape[1]} columns and pool_features has "
                f"{n_features}; both are the same features."
            )
        lengths["labelled_features"] = len(features)
    if probs is not None:
        samples = check_probs(probs, "labelled_probs")
        check_same_samples(pool, samples, "labelled_probs")
        mean = mean_prediction(samples, weights)
        lengths["labelled_probs"] = len(mean)
    if len(set(lengths.values())) > 1:
        told = " and ".join(f"{name} has {n} rows" for name, n in lengths.items())
        raise ShapeError(f"{told}; both describe the labelled points.")
    if labels is not None:
        n_labels = next(iter(lengths.values()), np.size(labels))
        numbers = check_labels(labels, np.arange(pool.shape[2]), n_labels, "labels")
    if validation is not None:
        if numbers is None:
            raise InputError(
                "validation names positions among the labelled points; pass labels as well."
            )
        positions = check_positions(validation, len(numbers), "validation")
        if len(positions) == 0:
            raise InputError(
                "validation is empty; name at least one labelled point, or leave it out."
            )
    return Labelled(numbers, features, mean, positions)


def _options(strategy: Strategy, name: str, options: Mapping[str, Any] | None) -> dict[str, Any]:
    given = dict(options or {})
    unknown = sorted(set(given) - set(strategy.options))
    if unknown:
        takes = f"it takes {', '.join(strategy.options)}" if strategy.options else "it takes none"
        raise InputError(f"{name} has no option {unknown[0]!r}; {takes}.")
    return given
