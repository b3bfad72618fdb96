"""Class descriptions: predictions before the first label, and better ones after few.

A description of class c becomes a row e_c in the feature space of the items: the encoding of a
sentence, or the weighted mean of the items that another model assigns to the class. The model
treats it as an item of class c that was labelled three times. For a linear model with a Gaussian
prior this sets the prior mean: before any label the posterior mean of w_c is along T Tᵀ e_c, where
T Tᵀ is the covariance of the prior. The scale and shape of that covariance are still learnt from
the labels alone, because descriptions are not a random sample of the items.

Descriptions may be wrong, or mean nothing to the encoder. So the model is fitted with and without
them, and they are used if the leave-one-out likelihood Σ ln p_-i(y_i) of the labels is at least as
high with them. With hundreds of labels there is nothing to gain, and they are dropped.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from parbals.errors import InputError
from parbals.learner.features import FeatureTable
from parbals.posterior.estimator import LogisticModel
from parbals.validate import check_features

__all__ = [
    "ClassDescriptions",
    "as_probabilities",
    "condition_on_descriptions",
    "encode_descriptions",
]

_LABELS_PER_DESCRIPTION = 3
"""A description counts as so many labels. On AG News one was a little worse, more no better."""
_MAX_LABELS = 500
"""Number of labels from which on descriptions are not worth a second fit."""
_BLOCK_ROWS = 4_096
_EPS = 1e-300


class ClassDescriptions(NamedTuple):
    """Descriptions of k classes as feature rows.

    Attributes:
        class_numbers: (k,) of the described classes.
        rows: (k, D) their features.
    """

    class_numbers: np.ndarray
    rows: np.ndarray


def condition_on_descriptions(
    model: LogisticModel, descriptions: ClassDescriptions, n_labels: int
) -> LogisticModel:
    """Condition a model of ``n_labels`` labels on class descriptions, if they help.

    The prior stays that of the model. In the posterior, the rows of the descriptions come after
    those of the labels.
    """
    if n_labels >= _MAX_LABELS:
        return model
    conditioned = model.condition(
        np.repeat(descriptions.rows, _LABELS_PER_DESCRIPTION, axis=0),
        np.repeat(descriptions.class_numbers, _LABELS_PER_DESCRIPTION),
    )
    if not n_labels:
        return conditioned
    _, labels = model.labelled_rows
    with_descriptions = _leave_one_out_log_likelihood(conditioned, labels)
    without_descriptions = _leave_one_out_log_likelihood(model, labels)
    return conditioned if with_descriptions >= without_descriptions else model


def _leave_one_out_log_likelihood(model: LogisticModel, labels: np.ndarray) -> float:
    """Compute Σ ln p_-i(y_i) of the labels; -∞ for a model without a closed form."""
    if model.gaussian is None:
        return -np.inf
    rows, probs = model.gaussian.leave_one_out(all_labels=True)
    is_label = rows < len(labels)  # the rows of descriptions come after those of the labels
    label_of_row = labels[rows[is_label]]
    label_probs = probs[is_label][np.arange(len(label_of_row)), label_of_row]
    return float(np.log(np.maximum(label_probs, _EPS)).sum())


def encode_descriptions(
    pool: FeatureTable,
    classes: Sequence[Any],
    descriptions: Mapping[Any, Any] | None,
    encoder: Callable[[list[str]], Any] | None,
    scores: Any,
) -> ClassDescriptions | None:
    """Return descriptions, or scores of another model, as rows like the pool's; None if neither.

    Args:
        pool: the features.
        classes: the class labels.
        descriptions: {class: sentence} or {class: row (D,)}.
        encoder: encodes sentences as rows (n, D).
        scores: (N, C) scores of each class for each item.
    """
    if scores is not None:
        if descriptions:
            raise InputError("Give class_descriptions or class_scores, not both.")
        rows = _class_means(pool, len(classes), scores)
        return ClassDescriptions(np.arange(len(classes)), rows)
    if not descriptions:
        return None
    for label in descriptions:
        if label not in classes:
            raise InputError(f"class_descriptions names {label!r}; the classes are {classes}.")
    values = list(descriptions.values())
    if any(isinstance(value, str) for value in values):
        if encoder is None:
            raise InputError(
                "Sentences in class_descriptions need encoder=..., which encodes them as it "
                "encoded the texts of X_pool; or give rows."
            )
        values = encoder([str(value) for value in values])
    rows = check_features(np.asarray(values, np.float64), "class_descriptions", pool.n_columns)
    class_numbers = np.array([list(classes).index(label) for label in descriptions])
    return ClassDescriptions(class_numbers, rows)


def as_probabilities(scores: np.ndarray) -> np.ndarray:
    """Return probabilities (N, C) as they are, and other scores as the softmax of their z-scores.

    >>> as_probabilities(np.array([[2.0, -2.0], [1.0, -1.0]])).round(2)
    array([[0.93, 0.07],
           [0.78, 0.22]])
    """
    if (scores >= 0).all() and np.allclose(scores.sum(axis=1), 1.0, atol=1e-3):
        return scores
    centred = scores - scores.mean(axis=1, keepdims=True)
    deviation = max(float(centred.std()), _EPS)
    exponentials = np.exp((centred - centred.max(axis=1, keepdims=True)) / deviation)
    return np.asarray(exponentials / exponentials.sum(axis=1, keepdims=True))


def _class_means(pool: FeatureTable, n_classes: int, scores: Any) -> np.ndarray:
    """Compute the means (C, D) of the pool's rows, weighted by the probability of each class.

    Means lie closer to the centre of the pool than items do. Each is moved away from it, to the
    root mean square distance of the items.
    """
    scores = np.asarray(scores, np.float64)
    if scores.shape != (pool.n_rows, n_classes) or not np.isfinite(scores).all():
        raise InputError(
            f"class_scores has shape {scores.shape}; give finite numbers for {pool.n_rows} items "
            f"and {n_classes} classes."
        )
    probs = as_probabilities(scores)
    weighted_sums = np.zeros((n_classes, pool.n_columns))
    centre = np.zeros(pool.n_columns)
    mean_square = 0.0
    for rows, block in pool.blocks(_BLOCK_ROWS):
        block = np.asarray(block, np.float64)
        weighted_sums += probs[rows].T @ block
        centre += block.sum(axis=0) / pool.n_rows
        mean_square += float(np.square(block).sum()) / pool.n_rows
    item_distance = np.sqrt(max(mean_square - float(centre @ centre), 0.0))
    class_weights = np.maximum(probs.sum(axis=0), _EPS)[:, None]
    offsets = weighted_sums / class_weights - centre
    distances = np.maximum(np.linalg.norm(offsets, axis=1, keepdims=True), _EPS)
    return centre + offsets * (item_distance / distances)
