"""Empirical-Bayes priors: scale and shape (``prior_scale="auto"``), or the scale alone ("even").

"Even" is for rows of an encoder that was fine-tuned on the labels. The labels have shaped the
variance of its directions, and a prior that follows them would count the labels twice. All
directions get the same variance, and an intercept may be as large as the logits: classes lie far
apart, and their boundary may be anywhere.

All labels are used: labels that a strategy chose are unbiased only together with the labels it
chose them by. A subset of them is a sample of hard items, and its evidence favours scales that are
too small. Only thousands of labels are represented by a random subset, drawn by the content of the
rows (:func:`random_subset`), whatever their order. A prior is reused until a hundredth of that
subset has changed.

Answers of noisy annotators count by their likelihoods, not as the most likely classes: answers of a
program that guesses say nothing about the scale, but taken as labels they would shrink it.
"""

from typing import Any, NamedTuple

import numpy as np

from parbals.posterior.closed.binary_problems import BinaryProblems
from parbals.posterior.closed.labels import label_keys
from parbals.posterior.closed.prior_shapes import Shapes, fit_shapes
from parbals.posterior.closed.sites import Sites
from parbals.posterior.closed.whitening import POWERS, PoolMoments, Whitening
from parbals.shapes import Array, Bool, Float, Int
from parbals.wording import percent

__all__ = ["Prior", "fixed_prior", "learn_prior", "make_prior", "random_subset"]

_MAX_LABELS = 2_000  # that represent more: as informative of a scale, at a tenth of the work
_MIN_OVERLAP = 0.99  # of two such subsets, for a prior to be reused


class Prior(NamedTuple):
    """The prior of a model, and how it was obtained."""

    whitening: Whitening
    scale: float
    shape: str
    description: str
    neighbourhood_share: float = 0.0
    """Share of the neighbourhoods' columns in the prior variance of a logit over the pool."""
    sites: Sites | None = None
    """Nearly converged sites of two classes' labels, from which a fit may start."""
    subset_keys: np.ndarray | None = None
    """Keys of the labels it was learnt from, if those are a subset of all labels."""


def make_prior(
    scale: float | str,
    rows: np.ndarray,
    labels: Any,
    n_classes: int,
    pool: PoolMoments | None,
    previous: Prior | None = None,
    likelihoods: np.ndarray | None = None,
) -> Prior:
    """Return the prior for the setting ``prior_scale``: "auto", "even" or a number.

    ``previous``: a prior that is returned if it still applies. Other arguments as for
    :func:`learn_prior`.

    >>> make_prior(0.5, np.zeros((0, 3)), np.zeros(0, int), 2, pool=None).scale
    0.5
    """
    if isinstance(scale, str):
        return learn_prior(
            rows, labels, n_classes, pool, previous, likelihoods, even=scale == "even"
        )
    if previous is not None and previous.scale == scale:
        return previous
    return fixed_prior(float(scale), rows.shape[1])


def fixed_prior(scale: float, n_features: int) -> Prior:
    """Independent N(0, scale²) weights and biases.

    >>> fixed_prior(2.0, n_features=2).whitening.deviations
    array([2., 2., 2.])
    """
    return Prior(
        whitening=Whitening.diagonal(np.full(n_features + 1, scale)),
        scale=scale,
        shape="given",
        description=f"Every weight has the given prior deviation, {scale:g}.",
    )


def learn_prior(
    rows: Float[Array, "n D"],
    labels: Int[Array, " n"] | Bool[Array, "n L"],
    n_classes: int,
    pool: PoolMoments | None,
    previous: Prior | None = None,
    likelihoods: Float[Array, "n C"] | None = None,
    *,
    even: bool = False,
) -> Prior:
    """Learn the prior from labelled rows (n, D) by maximising the evidence.

    Without a pool its moments are those of the labelled rows. These say too little about
    directions, unless there are twice as many rows as columns: all directions are then alike.

    Args:
        rows: features (n, D).
        labels: class numbers (n,); of multi-label items, whether each has each label (n, L).
        n_classes: C; two for multi-label items.
        pool: how features vary.
        previous: a prior learnt with this pool, returned if its subset of many labels is nearly the
            current one.
        likelihoods: of noisy annotators' answers under every class; ``labels`` are then the most
            likely classes.
        even: learn the scale alone.

    >>> X = np.random.default_rng(0).standard_normal((60, 2))
    >>> prior = learn_prior(X, (X[:, 0] > 0).astype(int), 2, PoolMoments.of(X))
    >>> prior.shape, prior.scale > 3.0
    ('directions', True)
    """
    if len(rows) > _MAX_LABELS:
        return _learn_from_subset(rows, labels, n_classes, pool, previous, likelihoods, even=even)
    n_rows, n_columns = rows.shape
    has_shape = not even and (pool is not None or n_rows >= 2 * n_columns)
    if pool is None:
        pool = PoolMoments.of(rows) if n_rows else PoolMoments.unknown(n_columns)
    powers = POWERS if has_shape else POWERS[:1]
    shapes = Shapes.of(pool, powers, by_columns=has_shape and pool.has_mixed_units)
    shapes = shapes._replace(wide_intercept=even)
    problems = BinaryProblems.of(labels, n_columns, likelihoods)
    sites = None
    if len(problems.signs):
        shapes, sites = fit_shapes(shapes, problems, rows)
    shape = "directions" if has_shape else "even"
    if shapes.uses_columns:
        shape = "columns"
    is_binary = n_classes == 2 and (labels.ndim == 1 or labels.shape[1] == 1)
    return Prior(
        whitening=shapes.whitening,
        scale=shapes.scale,
        shape=shape,
        description=_describe(shapes, shape, n_rows if len(problems.signs) else 0),
        neighbourhood_share=shapes.neighbourhood_share,
        sites=sites if is_binary else None,
    )


def _learn_from_subset(
    rows: Float[Array, "n D"],
    labels: Int[Array, " n"] | Bool[Array, "n L"],
    n_classes: int,
    pool: PoolMoments | None,
    previous: Prior | None,
    likelihoods: Float[Array, "n C"] | None,
    *,
    even: bool,
) -> Prior:
    """Learn the prior from a random subset of many labels, or reuse the previous one."""
    # Likelihoods change a little with every answer; the prior need not.
    keys = label_keys(rows, labels if likelihoods is None else likelihoods.round(1))
    subset = random_subset(keys)
    if previous is not None and previous.subset_keys is not None:
        overlap = np.isin(keys[subset], previous.subset_keys).mean()
        if overlap >= _MIN_OVERLAP:
            return previous
    pool = pool or PoolMoments.of(rows)
    prior = learn_prior(
        rows[subset],
        labels[subset],
        n_classes,
        pool,
        likelihoods=None if likelihoods is None else likelihoods[subset],
        even=even,
    )
    return prior._replace(sites=None, subset_keys=keys[subset])


def random_subset(keys: np.ndarray) -> np.ndarray:
    """Positions of at most 2,000 labels, those with the smallest keys (n,): a random sample.

    >>> random_subset(np.array([7, 3, 5]))
    array([0, 1, 2])
    """
    return np.sort(np.argsort(keys, kind="stable")[:_MAX_LABELS])


def _describe(shapes: Shapes, shape: str, n_labels: int) -> str:
    """Describe a learnt prior in one sentence."""
    shape_description = {
        "directions": "directions in which the pool varies more have larger weights",
        "columns": "columns are standardised",
        "even": "all directions are treated alike",
    }
    source = (
        f"learnt from {n_labels} labels"
        if n_labels
        else "the initial one, because learning it needs labels of two classes"
    )
    neighbourhoods = ""
    if shapes.pool.neighbourhood_variances.any():
        share = percent(shapes.neighbourhood_share)
        neighbourhoods = f"; {share} of its variance is that of neighbouring items"
    return (
        f"The prior is {source}: the logit of a class has a deviation of {shapes.scale:.2g} over "
        f"the pool{neighbourhoods}; {shape_description[shape]}."
    )
