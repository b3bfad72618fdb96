"""Classes that somebody has described: a model before the first label, and a better one after few.

A description of class c becomes a row e_c where the items' features lie: the encoder's row of a
sentence, or the mean of the items that another model finds to be of the class. The model takes it
for an item of class c that was labelled three times. To a linear model with a Gaussian prior that
is a prior mean: before any label the posterior mean of w_c is along T Tᵀ e_c, T Tᵀ the prior's
covariance, and labels move it from there. Scale and shape of the prior are still learnt from the
labels alone: descriptions are no sample of the items.

Descriptions may be wrong, or mean nothing to the encoder. So the labels themselves judge them: the
model is fitted with and without, and with them it is where the labels, each left out, are at least
as likely (Σ ln p_-i(y_i)). Without a label there is nothing to judge by, and with hundreds nothing
to gain: those do without.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from parbals.errors import InputError
from parbals.learner.features import FeatureTable
from parbals.posterior.estimator import LogisticModel
from parbals.validate import check_features

__all__ = ["Described", "as_shares", "described_rows", "with_descriptions"]

_LABELS = 3
"""One description counts as so many: more gained nothing on AG News, one a little less."""
_ENOUGH = 500
"""Labels beside which descriptions are not worth a second fit."""


class Described(NamedTuple):
    """Class numbers (k,) and rows (k, D) that stand for their descriptions."""

    numbers: np.ndarray
    rows: np.ndarray


def with_descriptions(alone: LogisticModel, described: Described, n_labels: int) -> LogisticModel:
    """A model of ``n_labels`` labels, conditioned on descriptions if they help.

    Its prior stays the one that the labels, or nobody yet, have taught it. Descriptions come last,
    so that the first rows of the posterior are the labels.
    """
    if n_labels >= _ENOUGH:
        return alone
    told = np.repeat(described.rows, _LABELS, axis=0), np.repeat(described.numbers, _LABELS)
    helped = alone.condition(*told)
    if not n_labels:
        return helped
    labels = alone.labelled_rows[1]
    return helped if _left_out(helped, labels) >= _left_out(alone, labels) else alone


def _left_out(model: LogisticModel, numbers: np.ndarray) -> float:
    """ln p of the labels, each by all but itself; without a closed form nothing is known."""
    if model.gaussian is None:
        return -np.inf
    places, probs = model.gaussian.leave_one_out(all_labels=True)
    real = places < len(numbers)
    own = probs[real][np.arange(real.sum()), numbers[places[real]]]
    return float(np.log(np.maximum(own, 1e-300)).sum())


def described_rows(
    pool: FeatureTable,
    classes: Sequence[Any],
    descriptions: Mapping[Any, Any] | None,
    encoder: Callable[[list[str]], Any] | None,
    scores: Any,
) -> Described | None:
    """What the learner was told of its classes, as rows like the pool's; None if nothing."""
    if scores is not None:
        if descriptions:
            raise InputError("Give class_descriptions or class_scores, not both.")
        return Described(np.arange(len(classes)), _means(pool, len(classes), scores))
    if not descriptions:
        return None
    for label in descriptions:
        if label not in classes:
            raise InputError(f"class_descriptions names {label!r}; the classes are {classes}.")
    values = list(descriptions.values())
    if any(isinstance(value, str) for value in values):
        if encoder is None:
            raise InputError(
                "Sentences in class_descriptions need encoder=..., which makes rows of them as it "
                "made X_pool of texts; or give rows."
            )
        values = encoder([str(value) for value in values])
    rows = check_features(np.asarray(values, np.float64), "class_descriptions", pool.n_columns)
    return Described(np.array([list(classes).index(label) for label in descriptions]), rows)


def as_shares(scores: np.ndarray) -> np.ndarray:
    """(N, C) scores that are no probabilities become some: softmax of their z-scores."""
    if (scores >= 0).all() and np.allclose(scores.sum(axis=1), 1.0, atol=1e-3):
        return scores
    apart = scores - scores.mean(axis=1, keepdims=True)
    shares = np.exp((apart - apart.max(axis=1, keepdims=True)) / max(float(apart.std()), 1e-300))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def _means(pool: FeatureTable, n_classes: int, scores: Any) -> np.ndarray:
    """(C, D) means of the pool's rows, each weighted by how surely it is of the class.

    A mean lies nearer to the middle than items do; it is moved out to their distance.
    """
    shares = np.asarray(scores, np.float64)
    if shares.shape != (pool.n_rows, n_classes) or not np.isfinite(shares).all():
        raise InputError(
            f"class_scores has shape {shares.shape}; give finite numbers for {pool.n_rows} items "
            f"and {n_classes} classes."
        )
    shares = as_shares(shares)
    sums, middle, square = np.zeros((n_classes, pool.n_columns)), np.zeros(pool.n_columns), 0.0
    for rows, block in pool.blocks(4_096):
        block = np.asarray(block, np.float64)
        sums += shares[rows].T @ block
        middle += block.sum(axis=0) / pool.n_rows
        square += float(np.square(block).sum()) / pool.n_rows
    length = np.sqrt(max(square - float(middle @ middle), 0.0))
    away = sums / np.maximum(shares.sum(axis=0), 1e-300)[:, None] - middle
    size = np.linalg.norm(away, axis=1, keepdims=True)
    return middle + away * (length / np.maximum(size, 1e-300))
