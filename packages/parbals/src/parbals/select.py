"""Choosing a batch: from predictive samples of any model, or from a fitted model and features.

Everything is checked here, once, before anything is computed; the strategies trust what they get.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
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
from parbals.strategies.table import DEFAULT
from parbals.types import TARGETS, Batch, Loss
from parbals.validate import (
    check_column_names,
    check_features,
    check_positions,
    check_same_samples,
    check_samples,
)

__all__ = ["select_batch", "select_batch_from_model"]


def select_batch(
    pool_probs: Any,
    target_probs: Any = None,
    batch_size: int = 1,
    strategy: str = DEFAULT,
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
    watch: Callable[[np.ndarray], None] | None = None,
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
        pool_features: (N, D) features of the pool, for coreset, badge and glister, in any form that
            :class:`parbals.ActiveLearner` takes; the batch says what was reduced or left out.
        labelled_features: (L, D) features of the labelled points, for coreset and glister.
        labelled_probs: (L, K, C) predictive samples of the labelled points, for galaxy and glister.
        labels: (L,) class numbers 0..C-1 of the labelled points, for galaxy and glister.
        validation: positions among the L labelled points that the model was not fitted on, for
            glister.
        loss: what the model will be judged by, for EPIG and ParBaLS: ``"log"`` or ``"error"``
            (0-1).
        beta: coldness of the power-, softmax- and softrank- strategies; larger is closer to top-B.
        n_configurations: label configurations BatchBALD sums over before it begins to sample them.
        options: further parameters of strategies from other packages.
        watch: is called with the scores (N,) of the whole pool at every step of the batch, or once
            where they stay the same (in closed form: once, before the batch). Many strategies get
            by without most of these scores, so watching takes longer than choosing.
    """
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
        watch=watch,
    )
    target = None if target_probs is None else check_same_samples(target_probs, pool)
    features = None
    if pool_features is not None:
        encoding = learn_encoding(pool_features, "pool_features", "auto", seed=0)
        features = FeatureTable(pool_features, "pool_features", encoding=encoding)
        if features.n_rows != len(pool):
            raise ShapeError(
                f"pool_features has {features.n_rows} rows and pool_probs has {len(pool)}; both "
                "are the pool."
            )
    mean = known = numbers = None
    if labelled_features is not None:
        known = FeatureTable(labelled_features, "labelled_features", like=features).all_rows
    if labelled_probs is not None:
        samples = check_same_samples(labelled_probs, pool, "labelled_probs")
        mean = mean_prediction(samples, weights)
        if known is not None and len(known) != len(mean):
            raise ShapeError(
                f"labelled_features has {len(known)} rows and labelled_probs has {len(mean)}; both "
                "describe the labelled points."
            )
    if labels is not None:
        given = [part for part in (known, mean) if part is not None]
        n_rows = len(given[0]) if given else np.size(labels)
        numbers = check_labels(labels, np.arange(pool.shape[2]), n_rows, "labels")
    batch = solve(
        settings,
        weights,
        pool_probs=pool,
        target_probs=target,
        pool_features=None if features is None else features.all_rows,
        labelled=Labelled(numbers, known, mean, _validation(validation, numbers)),
    )
    return batch if features is None else replace(batch, notes=(*features.notes, *batch.notes))


def select_batch_from_model(
    model: Any,
    X_pool: Any,
    X_target: Any = None,
    batch_size: int = 1,
    strategy: str = DEFAULT,
    *,
    X_labelled: Any = None,
    y_labelled: Any = None,
    validation: Any = None,
    **more: Any,
) -> Batch:
    """Choose a batch for a fitted model, from features.

    With a ``BayesianLogisticRegression`` ParBaLS conditions the posterior itself in every universe:
    a Gaussian (``inference="auto"``) by rank-one updates in closed form; particles ("smc") by new
    weights, resampled and moved when their effective sample size falls. Any other fitted model with
    ``sample_proba`` (N, K, C) goes through :func:`select_batch`.

    Args:
        model: a fitted model.
        X_pool: (N, D) features of the candidates. Those of a Dask array stay in its cluster: for
            strategies in closed form, with ``inference="ep"``, and for "random". Sparse rows are
            filled in: the model decides which columns there are.
        X_target: (M, D) features of points from the distribution the model will be judged on;
            without a shift leave it out: a random 1,000 of the pool then stand for it. Of a Dask
            array a random 1,000 are fetched.
        X_labelled: (L, D) features of the labelled points, for coreset, galaxy and glister. Our own
            particle model remembers those it was fitted on.
        y_labelled: (L,) their labels.
        more: ``n_universes``, ``pending``, ``random_state``, ``loss``, ``beta``,
            ``n_configurations``, ``options`` and ``watch``, as in :func:`select_batch`.
    """
    if not hasattr(model, "sample_proba"):
        raise InputError(
            f"{type(model).__name__} has no sample_proba(X) that returns predictive samples (N, K, "
            "C); compute them yourself and call select_batch."
        )
    ours = isinstance(model, LogisticModel)
    remembered = model.labelled_rows if ours else None
    # What lies in a cluster is checked where and when it is scored.
    pool = FeatureTable(X_pool, "X_pool", checked=is_distributed(X_pool))
    check_column_names(pool.names, getattr(model, "feature_names_in_", None), "X_pool", "the model")
    if ours and pool.n_columns != model.n_features_in_:
        raise ShapeError(
            f"X_pool has {pool.n_columns} features, and the model knows {model.n_features_in_}."
        )
    settings = check_settings(strategy, pool.n_rows, batch_size, **more)
    target = pool
    if X_target is not None:
        target = FeatureTable(X_target, "X_target", like=pool, checked=is_distributed(X_target))
    if target is pool or target.is_distributed:
        order = derive_generator(settings["seed"], "target").permutation(target.n_rows)
        targets = target.rows(np.sort(order[:TARGETS]))
        if target is not pool:
            check_features(targets, "X_target")
    else:
        targets = target.all_rows
    known = labels = None
    if X_labelled is not None:
        known = FeatureTable(X_labelled, "X_labelled", like=pool).all_rows
        if y_labelled is not None:
            labels = check_labels(y_labelled, np.asarray(model.classes_), len(known), "y_labelled")
    elif remembered is not None and len(remembered[0]):
        known, labels = remembered
    labelled = Labelled(labels, known, validation=_validation(validation, labels))
    with warnings.catch_warnings():
        if pool.names is not None:  # they have been compared; scikit-learn cannot know that
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
        rows = pool.source if pool.is_distributed else pool.all_rows
        checked = model if ours else CheckedModel(model)
        return choose_batch(settings, checked, rows, targets, labelled)


def _validation(validation: Any, labels: np.ndarray | None) -> np.ndarray | None:
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
