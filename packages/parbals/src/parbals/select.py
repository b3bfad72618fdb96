"""Select a batch from predictive samples of any model, or from a fitted model and features.

All input is validated here, once, before anything is computed; strategies trust it.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np

from parbals.arrays import mean_prediction
from parbals.errors import InputError, ShapeError
from parbals.features.frames import learn_encoding
from parbals.labels import check_labels
from parbals.learner.features import FeatureTable
from parbals.posterior.estimator import LogisticModel
from parbals.randomness import Seed, derive_generator
from parbals.strategies.choose import CheckedModel, check_settings, choose_batch, solve
from parbals.strategies.distributed import is_distributed
from parbals.strategies.problem import Labelled
from parbals.strategies.table import DEFAULT_STRATEGY, strategy_named
from parbals.types import DEFAULT_N_TARGETS, Batch, Loss
from parbals.validate import (
    check_column_names,
    check_features,
    check_positions,
    check_probs,
    check_same_samples,
    check_samples,
)

__all__ = ["select_batch", "select_batch_from_model"]


def select_batch(
    pool_probs: Any,
    target_probs: Any = None,
    batch_size: int = 1,
    strategy: str = DEFAULT_STRATEGY,
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
    predict: Callable[[np.ndarray], np.ndarray] | None = None,
    watch: Callable[[np.ndarray], None] | None = None,
) -> Batch:
    """Choose a batch from the predictive samples of ANY model.

    ParBaLS strategies condition each universe by reweighting the K samples, so the effective sample
    size shrinks with every point of the batch. The result reports it, and a warning is emitted when
    it collapses; more samples or smaller batches help. (:func:`select_batch_from_model` moves the
    samples instead.)

    >>> import numpy as np, parbals
    >>> logits = np.random.default_rng(0).normal(size=(50, 200, 3))
    >>> probs = np.exp(logits) / np.exp(logits).sum(axis=2, keepdims=True)
    >>> batch = parbals.select_batch(probs, batch_size=5, random_state=0)
    >>> len(batch.indices)
    5

    Args:
        pool_probs: (N, K, C) class probabilities of the candidates under K posterior samples.
        target_probs: (M, K, C) class probabilities, under the same K samples, of points from the
            distribution the model will be used on, for EPIG and ParBaLS. By default the pool is the
            target, or a random 1,000 of its points if it is larger.
        batch_size: B, the number of points to choose.
        strategy: a name from ``parbals strategies``.
        n_universes: U, the number of labellings that ParBaLS averages over.
        sample_weights: (K,) weights of the posterior samples; equal by default.
        pending: pool positions that are already being labelled. They are never chosen, and
            batch-aware strategies treat them as part of the batch from the start.
        random_state: an integer makes the choice reproducible.
        pool_features: (N, D) features of the pool, for strategies that need features, in any form
            that :class:`parbals.ActiveLearner` accepts; the batch's notes say what was reduced.
        labelled_features: (L, D) features of the labelled points, for coreset, kmeans, typiclust,
            probcover and glister.
        labelled_probs: (L, K, C) predictive samples of the labelled points, for galaxy and glister.
        labels: (L,) class numbers 0..C-1 of the labelled points, for galaxy and glister.
        validation: positions among the L labelled points that the model was not fitted on, for
            glister.
        loss: the loss that the model should minimise, for EPIG and ParBaLS: ``"log"`` or
            ``"error"`` (0-1).
        beta: inverse temperature of the power-, softmax- and softrank- strategies; larger values
            are closer to top-B.
        n_configurations: number of label configurations above which BatchBALD samples them.
        options: parameters of strategies from other packages.
        predict: a function from rows (n, D) of features to class probabilities (n, C), for
            dropquery, which predicts rows that are not in the pool.
        watch: a function that is called with the scores (N,) of the whole pool at every step of the
            batch, or once if they do not change (in closed form: once, before the batch). Many
            strategies do not need most of these scores, so watching takes longer than choosing.
    """
    if isinstance(target_probs, Integral):
        raise InputError(
            f"target_probs is the number {target_probs}; to choose {target_probs} points with the "
            f"pool as the target, write select_batch(pool_probs, batch_size={target_probs})."
        )
    pool, weights = check_samples(pool_probs, sample_weights)
    settings = check_settings(
        strategy,
        len(pool),
        batch_size,
        pending=pending,
        n_universes=n_universes,
        random_state=random_state,
        loss=loss,
        beta=beta,
        n_configurations=n_configurations,
        options=options,
        n_classes=pool.shape[2],
        watch=watch,
    )
    target = None
    if target_probs is not None:
        target = check_same_samples(target_probs, pool)
    elif strategy_named(strategy).needs_target:
        target = pool[_target_positions(len(pool), settings["seed"])]
    features = None
    if pool_features is not None:
        encoding = learn_encoding(pool_features, "pool_features", "auto", seed=0)
        features = FeatureTable(pool_features, "pool_features", encoding=encoding)
        if features.n_rows != len(pool):
            raise ShapeError(
                f"pool_features has {features.n_rows} rows and pool_probs has {len(pool)}; both "
                "are the pool."
            )
    batch = solve(
        settings,
        weights,
        pool_probs=pool,
        target_probs=target,
        pool_features=None if features is None else features.all_rows,
        labelled=_check_labelled(
            labelled_features, labelled_probs, labels, validation, features, pool, weights
        ),
        predict=None if predict is None else partial(_check_predictions, predict, pool.shape[2]),
    )
    if features is None:
        return batch
    return replace(batch, notes=(*features.notes, *batch.notes))


def _check_labelled(
    labelled_features: Any,
    labelled_probs: Any,
    labels: Any,
    validation: Any,
    pool_features: FeatureTable | None,
    pool: np.ndarray,
    weights: np.ndarray,
) -> Labelled:
    """Validated features, predictions and labels of the labelled points."""
    features = None
    mean_probs = None
    class_numbers = None
    n_labelled = None
    if labelled_features is not None:
        table = FeatureTable(labelled_features, "labelled_features", like=pool_features)
        features = table.all_rows
        n_labelled = len(features)
    if labelled_probs is not None:
        samples = check_same_samples(labelled_probs, pool, "labelled_probs")
        mean_probs = mean_prediction(samples, weights)
        if n_labelled is not None and n_labelled != len(mean_probs):
            raise ShapeError(
                f"labelled_features has {n_labelled} rows and labelled_probs has "
                f"{len(mean_probs)}; both describe the labelled points."
            )
        n_labelled = len(mean_probs)
    if labels is not None:
        if n_labelled is None:
            n_labelled = np.size(labels)
        class_numbers = check_labels(labels, np.arange(pool.shape[2]), n_labelled, "labels")
    return Labelled(
        labels=class_numbers,
        features=features,
        probs=mean_probs,
        validation=_check_validation(validation, class_numbers),
    )


def _check_predictions(
    predict: Callable[[np.ndarray], np.ndarray], n_classes: int, rows: np.ndarray
) -> np.ndarray:
    """Validated predictions (n, C) of a user's function for rows (n, D)."""
    probs = np.asarray(predict(rows))
    if probs.shape != (len(rows), n_classes):
        raise ShapeError(
            f"predict returned an array of shape {probs.shape} for {len(rows)} rows; return one "
            f"row of {n_classes} class probabilities for each."
        )
    return check_probs(probs[:, None], "predict(X)")[:, 0]


def _target_positions(n_rows: int, seed: int) -> np.ndarray:
    """Positions of at most ``DEFAULT_N_TARGETS`` random rows, ascending."""
    order = derive_generator(seed, "target").permutation(n_rows)
    return np.sort(order[:DEFAULT_N_TARGETS])


def select_batch_from_model(
    model: Any,
    X_pool: Any,
    X_target: Any = None,
    batch_size: int = 1,
    strategy: str = DEFAULT_STRATEGY,
    *,
    X_labelled: Any = None,
    y_labelled: Any = None,
    validation: Any = None,
    **kwargs: Any,
) -> Batch:
    """Choose a batch for a fitted model, from features.

    With a ``BayesianLogisticRegression`` ParBaLS conditions the posterior itself in every universe:
    a Gaussian (``inference="auto"``) by rank-one updates in closed form; particles ("smc") by new
    weights, resampled and moved when their effective sample size falls. Any other fitted model with
    ``sample_proba`` (N, K, C) is sampled once, as in :func:`select_batch`.

    >>> import numpy as np, parbals
    >>> X = np.random.default_rng(0).normal(size=(80, 3))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> model = parbals.BayesianLogisticRegression(random_state=0).fit(X[:20], y[:20])
    >>> batch = parbals.select_batch_from_model(model, X[20:], batch_size=5, random_state=0)
    >>> len(batch.indices)
    5

    Args:
        model: a fitted model.
        X_pool: (N, D) features of the candidates. A Dask array is
            scored in its cluster, which closed-form strategies with ``inference="ep"``, and
            "random", can do. Sparse rows are made dense, because the model determines the columns.
        X_target: (M, D) features of points from the distribution the model will be used on; by
            default a random 1,000 of the pool. A random 1,000 of a Dask array are fetched.
        batch_size: B, the number of points to choose.
        strategy: a name from ``parbals strategies``.
        X_labelled: (L, D) features of the labelled points, for coreset, kmeans, typiclust,
            probcover, galaxy and glister. A ``BayesianLogisticRegression`` with particles remembers
            the points it was fitted on.
        y_labelled: (L,) labels of the labelled points.
        validation: positions among the L labelled points that the model was not fitted on, for
            glister.
        kwargs: ``n_universes``, ``pending``, ``random_state``, ``loss``, ``beta``,
            ``n_configurations``, ``options`` and ``watch``, as in :func:`select_batch`;
            ``n_classes``, for probcover, if ``model`` has no ``classes_``.
    """
    if not hasattr(model, "sample_proba"):
        raise InputError(
            f"{type(model).__name__} has no sample_proba(X) that returns predictive samples (N, K, "
            "C); compute them yourself and call select_batch."
        )
    is_parbals_model = isinstance(model, LogisticModel)
    # An unfitted model raises NotFittedError here.
    training_rows = model.labelled_rows if is_parbals_model else None
    # Rows in a cluster are validated where and when they are scored.
    pool = FeatureTable(X_pool, "X_pool", checked=is_distributed(X_pool))
    check_column_names(pool.names, getattr(model, "feature_names_in_", None), "X_pool", "the model")
    if is_parbals_model and pool.n_columns != model.n_features_in_:
        raise ShapeError(
            f"X_pool has {pool.n_columns} features, and the model knows {model.n_features_in_}."
        )
    if kwargs.get("n_classes") is None and hasattr(model, "classes_"):
        kwargs["n_classes"] = len(model.classes_)
    settings = check_settings(strategy, pool.n_rows, batch_size, **kwargs)
    target_rows = None
    # A strategy that uses no predictions represents the pool itself, not a sample of it.
    if X_target is not None or strategy_named(strategy).uses_predictions:
        target_rows = _check_target_rows(X_target, pool, settings["seed"])
    labelled = Labelled()
    if X_labelled is not None:
        labelled = _check_labelled_rows(model, pool, X_labelled, y_labelled)
    elif training_rows is not None and len(training_rows[0]):
        features, class_numbers = training_rows
        labelled = Labelled(labels=class_numbers, features=features)
    labelled = replace(labelled, validation=_check_validation(validation, labelled.labels))
    with warnings.catch_warnings():
        if pool.names is not None:  # compared above, which scikit-learn cannot know
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
        pool_rows = pool.source if pool.is_distributed else pool.all_rows
        checked_model = model if is_parbals_model else CheckedModel(model)
        return choose_batch(settings, checked_model, pool_rows, target_rows, labelled)


def _check_target_rows(X_target: Any, pool: FeatureTable, seed: int) -> np.ndarray:
    """Validated features (M, D) of the targets, drawn from the pool if there are none."""
    if X_target is None:
        return pool.rows(_target_positions(pool.n_rows, seed))
    target = FeatureTable(X_target, "X_target", like=pool, checked=is_distributed(X_target))
    if not target.is_distributed:
        return target.all_rows
    rows = target.rows(_target_positions(target.n_rows, seed))
    check_features(rows, "X_target")
    return rows


def _check_labelled_rows(
    model: Any, pool: FeatureTable, X_labelled: Any, y_labelled: Any
) -> Labelled:
    """Validated features and class numbers of the labelled points."""
    features = FeatureTable(X_labelled, "X_labelled", like=pool).all_rows
    class_numbers = None
    if y_labelled is not None:
        classes = np.asarray(model.classes_)
        class_numbers = check_labels(y_labelled, classes, len(features), "y_labelled")
    return Labelled(labels=class_numbers, features=features)


def _check_validation(validation: Any, labels: np.ndarray | None) -> np.ndarray | None:
    """Positions among the labelled points that the model was not fitted on."""
    if validation is None:
        return None
    if labels is None:
        raise InputError(
            "validation names positions among the labelled points; pass labels as well."
        )
    positions = check_positions(validation, len(labels), "validation")
    if len(positions) == 0:
        raise InputError("validation is empty; name at least one labelled point, or leave it out.")
    return positions
