"""Condition the universes of a Gaussian posterior on their labels of the partial batch.

A label at point i is a rank-one update: it changes mean, variance and covariance of every latent a
by the covariance with that point,

    m ← m + α_a c_a(·, i),   v ← v - β_a c_a(·, i)²,   c_a ← c_a - β_a c_a(·, i) c_a(i, ·),

where α and -β are the first and second derivative of the label's log probability. Let b(x) be the
covariances, before the batch, of a point with the R points labelled so far. A universe is then

    m(x) = m⁰(x) + s·b(x),      c(x, x') = c⁰(x, x') - b(x)ᵀ K Kᵀ b(x'),

a vector s (R,) and an upper triangular matrix K (R, R) per latent: b(x)ᵀ K has one number for each
label, √β times the covariance of x with that label's point when the label came, so a further label
leaves the others as they are. Nothing here has the size of the pool, and the
covariances of the labelled points with the targets are shared by all universes. The updates are so
small that NumPy computes them, whichever backend scores the rows.
"""

from types import ModuleType
from typing import NamedTuple

import numpy as np

from parbals.mixture import label_evidence
from parbals.race import GUMBEL_VARIANCE, class_evidence
from parbals.shapes import Array, Bool, Float, Int
from parbals.strategies.scoring import Rows, ScoringContext, covariance

__all__ = [
    "ConditionedRows",
    "UniverseState",
    "branch_state",
    "condition_rows",
    "condition_state",
    "initial_state",
    "is_softmax_stale",
    "is_stale",
    "label_derivatives",
    "mark_softmax_fresh",
]

_RESOLUTION = np.float32(1e-5)  # of a variance that many labels have been subtracted from
_STALE_AFTER = 0.1  # standard deviations that a target logit may move


class UniverseState(NamedTuple):
    """U universes after R labels."""

    labelled: Rows  # the R labelled points
    target_cov: Float[Array, "A R M"]  # b of the targets
    mean_coef: Float[Array, "A U R"]  # s
    cov_root: Float[Array, "A U R R"]  # K
    target_mean: Float[Array, "A U M"]
    target_variance: Float[Array, "A U M"]
    softmax_mean: Float[Array, "A U M"]  # moments at which the softmax was last computed
    softmax_variance: Float[Array, "A U M"]


class ConditionedRows(NamedTuple):
    """Moments of some rows in every universe."""

    mean: Float[Array, "A U n"]
    variance: Float[Array, "A U n"]
    cov_update: Float[Array, "A U n R"]  # -bᵀKKᵀ; adds cov_update @ target_cov to the covariances


def initial_state(context: ScoringContext) -> UniverseState:
    """One universe without a label."""
    target_rows = context.target_rows
    n_latents, n_targets = context.targets.mean.shape
    target_mean = context.targets.mean[:, None]
    target_variance = context.targets.variance[:, None]
    return UniverseState(
        labelled=Rows(
            orthogonal=target_rows.orthogonal[:0],
            factor=target_rows.factor[:, :0],
            mean=target_rows.mean[:, :0],
            variance=target_rows.variance[:, :0],
        ),
        target_cov=np.zeros((n_latents, 0, n_targets), np.float32),
        mean_coef=np.zeros((n_latents, 1, 0), np.float32),
        cov_root=np.zeros((n_latents, 1, 0, 0), np.float32),
        target_mean=target_mean,
        target_variance=target_variance,
        softmax_mean=target_mean,
        softmax_variance=target_variance,
    )


def branch_state(state: UniverseState, parents: Int[Array, " U"]) -> UniverseState:
    """Copy universes: the new universe u is a copy of universe ``parents[u]``."""
    if np.array_equal(parents, np.arange(state.mean_coef.shape[1])):
        return state
    return state._replace(
        mean_coef=state.mean_coef[:, parents],
        cov_root=state.cov_root[:, parents],
        target_mean=state.target_mean[:, parents],
        target_variance=state.target_variance[:, parents],
        softmax_mean=state.softmax_mean[:, parents],
        softmax_variance=state.softmax_variance[:, parents],
    )


def condition_state(
    context: ScoringContext, state: UniverseState, row: Rows, labels: Int[Array, " U"]
) -> UniverseState:
    """Condition every universe on its label of one row."""
    conditioned = condition_rows(row, state.labelled, state.mean_coef, state.cov_root)
    slope, curvature = label_derivatives(
        conditioned.mean[:, :, 0], conditioned.variance[:, :, 0], row.variance, labels
    )
    # Coefficients of the covariance with this row in the universe: c(·, i) = b · coefficients.
    ones = np.ones((*slope.shape, 1), np.float32)
    coefficients = np.concatenate([conditioned.cov_update[:, :, 0], ones], axis=2)
    target_cov = np.concatenate([state.target_cov, covariance(row, context.target_rows)], axis=1)
    row_target_cov = coefficients @ target_cov  # (A, U, M)
    cov_root = _append_zeros(state.cov_root)
    cov_root[..., -1] = np.sqrt(curvature)[:, :, None] * coefficients
    target_variance = state.target_variance - curvature[:, :, None] * np.square(row_target_cov)
    return state._replace(
        labelled=_append_row(state.labelled, row),
        target_cov=target_cov,
        mean_coef=_append_zeros(state.mean_coef) + slope[:, :, None] * coefficients,
        cov_root=cov_root,
        target_mean=state.target_mean + slope[:, :, None] * row_target_cov,
        target_variance=np.maximum(target_variance, 0.0),
    )


def _append_row(rows: Rows, row: Rows) -> Rows:
    return Rows(
        orthogonal=np.concatenate([rows.orthogonal, row.orthogonal]),
        factor=np.concatenate([rows.factor, row.factor], axis=1),
        mean=np.concatenate([rows.mean, row.mean], axis=1),
        variance=np.concatenate([rows.variance, row.variance], axis=1),
    )


def _append_zeros(array: Float[Array, "A U *R"]) -> Float[Array, "A U *S"]:
    """Grow every axis of labels by one zero."""
    n_latents, n_universes, *n_labels = array.shape
    # Twenty times faster than np.pad.
    grown = np.zeros((n_latents, n_universes, *(n + 1 for n in n_labels)), array.dtype)
    grown[tuple(map(slice, array.shape))] = array
    return grown


def label_derivatives(
    mean: Float[Array, "A U"],
    variance: Float[Array, "A U"],
    variance_before: Float[Array, "A #U"],
    labels: Int[Array, " U"],
) -> tuple[Float[Array, "A U"], Float[Array, "A U"]]:
    """α and β of every universe's label of a row with these moments.

    Both are 0 where so little is left of the variance before the batch that it is rounding error:
    updates by such a variance would grow from label to label.
    """
    is_multiclass = len(mean) > 1
    if is_multiclass:
        _, slope, curvature = class_evidence(mean.T, variance.T, labels)
        slope = slope.T
        curvature = curvature.T
    else:
        signs = (2.0 * labels - 1.0).astype(mean.dtype)[None]
        _, slope, curvature = label_evidence(mean, variance, signs)
    is_known = variance <= _RESOLUTION * variance_before
    return np.where(is_known, 0.0, slope), np.where(is_known, 0.0, np.maximum(curvature, 0.0))


@np.errstate(invalid="ignore")  # see scoring.project_rows
def condition_rows(
    rows: Rows,
    labelled: Rows,
    mean_coef: Float[Array, "A U R"],
    cov_root: Float[Array, "A U R R"],
    xp: ModuleType = np,
) -> ConditionedRows:
    """Moments of rows in every universe, given the labelled points and the coefficients s and K."""
    labelled_cov = covariance(rows, labelled)[:, None]  # b (A, 1, n, R)
    root = labelled_cov @ cov_root  # (A, U, n, R)
    mean_change = mean_coef @ labelled_cov[:, 0].swapaxes(1, 2)
    return ConditionedRows(
        mean=rows.mean[:, None] + mean_change,
        variance=xp.maximum(rows.variance[:, None] - xp.square(root).sum(axis=3), 0.0),
        cov_update=-(root @ cov_root.swapaxes(2, 3)),
    )


def is_softmax_stale(state: UniverseState) -> Bool[Array, "U M"]:
    """Whether the softmax of a target needs to be recomputed (:func:`is_stale`)."""
    return is_stale(
        state.target_mean, state.target_variance, state.softmax_mean, state.softmax_variance
    )


def is_stale(
    mean: Float[Array, "A U M"],
    variance: Float[Array, "A U M"],
    softmax_mean: Float[Array, "A U M"],
    softmax_variance: Float[Array, "A U M"],
) -> Bool[Array, "U M"]:
    """Whether the softmax of a target needs to be recomputed; with two classes it always does.

    The softmax (class probabilities and gains) is the most expensive part and changes little. It is
    recomputed where a logit has moved by a tenth of its standard deviation. All points are compared
    at the same targets, so stale values hardly affect their order.
    """
    if len(mean) == 1:
        return np.ones(mean.shape[1:], bool)
    spread = variance + GUMBEL_VARIANCE
    has_shifted = np.abs(mean - softmax_mean) > _STALE_AFTER * np.sqrt(spread)
    has_narrowed = softmax_variance - variance > 2.0 * _STALE_AFTER * spread
    return (has_shifted | has_narrowed).any(axis=0)


def mark_softmax_fresh(state: UniverseState, refreshed: Bool[Array, "U M"]) -> UniverseState:
    """Record that the softmax was recomputed at the ``refreshed`` targets."""
    return state._replace(
        softmax_mean=np.where(refreshed, state.target_mean, state.softmax_mean),
        softmax_variance=np.where(refreshed, state.target_variance, state.softmax_variance),
    )
