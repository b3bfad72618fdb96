"""Scores of rows under the posterior before a batch, relative to a fixed set of target points.

With the notation of :mod:`parbals.posterior.closed.latents`, a design row x is whitened and split
into its component e orthogonal to the labelled rows and its coordinates z in their span, and

    cov(f_a(x), f_a(x')) = e·e' + (z R_a)·(z' R_a).

Functions with an argument ``xp`` take NumPy arrays and, given ``jax.numpy``, JAX arrays.
"""

from types import ModuleType
from typing import Any, Literal, NamedTuple

import numpy as np

from parbals.arrays import block_rows, bucket, pad_rows
from parbals.posterior.closed.latents import Latents
from parbals.posterior.closed.whitening import Whitening
from parbals.posterior.predictive import add_bias
from parbals.scores.decisions import Decisions, decision_gain, decisions_at
from parbals.scores.gaussian import (
    Covariances,
    approximate_gains,
    label_gains,
    label_series,
    probs_and_gains,
    quadratic_gain,
    screening_scores,
    series_epig,
)
from parbals.shapes import Array, Float, Int
from parbals.types import ClassWeights

__all__ = [
    "RowOperations",
    "Rows",
    "ScoreName",
    "ScoringContext",
    "TargetTerms",
    "Targets",
    "affordable_rows",
    "batch_operations",
    "build_context",
    "combine_terms",
    "compute_scores",
    "covariance",
    "initial_scores",
    "point_terms",
    "project_design",
    "project_rows",
    "row_operations",
    "screening_operations",
    "target_terms",
    "targets_at",
]

_SOFTMAX_BLOCK_ENTRIES = 4_096  # latents times targets per block: fits the cache
_AFFORDABLE_OPERATIONS = 1e11  # one constant for every machine, so that all choose alike
_OPERATIONS_PER_STEP = 5_000  # per target, latent and universe: a step screens some 600 rows

ScoreName = Literal["screen", "quadratic", "epig", "decision"]
"""Names of the four scores.

* ``screen``: a cheap approximation of EPIG that shortlists candidates.
* ``quadratic``: EPIG to first order in the covariances, for any number of classes.
* ``epig``: EPIG by its series, for two classes.
* ``decision``: the expected gain in accuracy.

The first three are in :mod:`parbals.scores.gaussian`, the last is in
:mod:`parbals.scores.decisions`.
"""


class Rows(NamedTuple):
    """Points projected onto the posterior before the batch."""

    orthogonal: Float[Array, "n D"]  # e; no columns where the labelled rows span everything
    factor: Float[Array, "A n r"]  # z R_a
    mean: Float[Array, "A n"]
    variance: Float[Array, "A n"]

    def at(self, places: Int[Array, " m"]) -> "Rows":
        """The rows at some places."""
        return Rows(
            orthogonal=self.orthogonal[places],
            factor=self.factor[:, places],
            mean=self.mean[:, places],
            variance=self.variance[:, places],
        )


class Targets(NamedTuple):
    """Moments of the target logits, with their class probabilities and gains."""

    mean: Float[Array, "A *U M"]
    variance: Float[Array, "A *U M"]
    probs: Float[Array, "A *U M"]  # of every class; with two classes of the second only
    gains: Float[Array, "A *U M"]


class ScoringContext(NamedTuple):
    """A Gaussian posterior over weights and the targets that scores refer to, in float32."""

    whitening: Whitening
    basis: Float[Array, "d r"]  # orthonormal basis of the span of the labelled rows
    location: Float[Array, "r A"]  # posterior means, in coordinates of the basis
    roots: Float[Array, "A r r"]
    whitened_targets: Float[Array, "M d"]
    target_rows: Rows
    targets: Targets
    share: Float[Array, " M"]  # weight of each target: 1 / number of targets, 0 for padding
    class_weights: ClassWeights | None = None


class RowOperations(NamedTuple):
    """Floating-point operations to screen one row, by each of the two algorithms."""

    by_pairs: int  # through the covariances of the row with every target
    by_form: int  # through a quadratic form of the row's whitened coordinates


def affordable_rows(latents: Latents, n_targets: int) -> int:
    """Number of rows that a CPU screens within a second or two."""
    return int(_AFFORDABLE_OPERATIONS // max(_operations_per_row(latents, n_targets), 1))


def screening_operations(context: ScoringContext, n_rows: int) -> int:
    """CPU operations to screen ``n_rows`` candidates before the batch."""
    return n_rows * _operations_per_row(context, len(context.share))


def batch_operations(
    latents: Latents, n_rows: int, n_targets: int, batch_size: int, n_universes: int
) -> int:
    """CPU operations to screen ``n_rows`` candidates and to grow a batch from them.

    The latter are approximate, calibrated on measured run times.
    """
    n_pairs = n_universes * len(latents.roots) * n_targets
    screening = n_rows * _operations_per_row(latents, n_targets)
    return screening + _OPERATIONS_PER_STEP * batch_size * n_pairs


def _operations_per_row(posterior: "Latents | ScoringContext", n_targets: int) -> int:
    """CPU operations per row: whitening it and screening it by the cheaper algorithm."""
    n_columns, n_inside = posterior.basis.shape
    screening = min(row_operations(n_columns, n_inside, len(posterior.roots), n_targets))
    return screening + 2 * (posterior.whitening.left.size + posterior.whitening.right.size)


def row_operations(n_columns: int, n_inside: int, n_latents: int, n_targets: int) -> RowOperations:
    """Operations to screen one whitened row of ``n_columns``, ``n_inside`` of them in the span."""
    return RowOperations(
        by_pairs=n_targets * (2 * n_columns + n_latents * (2 * n_inside + 7)),
        by_form=n_latents * 4 * n_columns**2,
    )


def build_context(
    latents: Latents,
    X_target: Float[Array, "m D"],
    class_weights: ClassWeights | None = None,
    *,
    is_padded: bool = True,
) -> ScoringContext:
    """The scoring context of a posterior and target features.

    Computed by NumPy: targets are few, and compiling a JAX program would take longer. Sizes are
    padded to powers of two for JAX; NumPy alone is up to a fifth faster without.
    """
    n_targets = len(X_target)
    size = n_targets
    basis = latents.basis
    location = latents.location
    roots = latents.roots
    if is_padded:
        size = bucket(n_targets)
        basis, location, roots = _padded(basis, location, roots)
    whitened = latents.whitening.rows(pad_rows(add_bias(X_target), size))
    target_rows = project_rows(basis, location, roots, whitened)
    context = ScoringContext(
        whitening=latents.whitening,
        basis=basis,
        location=location,
        roots=roots,
        whitened_targets=whitened,
        target_rows=target_rows,
        targets=targets_at(target_rows.mean, target_rows.variance),
        share=pad_rows(np.full(n_targets, 1.0 / max(n_targets, 1)), size),
        class_weights=class_weights,
    )
    single: ScoringContext = _as_float32(context)
    return single


def targets_at(mean: Float[Array, "A m"], variance: Float[Array, "A m"]) -> Targets:
    """Targets with these moments; class probabilities and gains are computed in blocks."""
    n_latents, n_targets = mean.shape
    probs = np.empty_like(mean)
    gains = np.empty_like(mean)
    for block in block_rows(n_targets, max(16, _SOFTMAX_BLOCK_ENTRIES // n_latents)):
        probs[:, block], gains[:, block] = probs_and_gains(mean[:, block], variance[:, block])
    return Targets(mean, variance, probs, gains)


def _as_float32(value: Any) -> Any:
    """An array, None, or a tuple of these at any depth, in single precision."""
    if value is None:
        return None
    if not isinstance(value, tuple):
        return np.ascontiguousarray(value, np.float32)
    items = map(_as_float32, value)
    is_named_tuple = hasattr(value, "_fields")
    return type(value)(*items) if is_named_tuple else tuple(items)


def _padded(
    basis: Float[Array, "d n"], location: Float[Array, "n A"], roots: Float[Array, "A n n"]
) -> tuple[Float[Array, "d r"], Float[Array, "r A"], Float[Array, "A r r"]]:
    """Pad the posterior's coordinates to a power of two, or to all columns if these are fewer.

    Labels arrive one by one; padding keeps JAX from compiling a program for every number of them.
    """
    n_columns, n_inside = basis.shape
    size = bucket(n_inside)
    if n_inside == n_columns:
        return basis, location, roots
    if size >= n_columns:
        identity = np.eye(n_columns)
        all_roots = identity + basis @ (roots - np.eye(n_inside)) @ basis.T
        return identity, basis @ location, all_roots
    extra = size - n_inside
    basis = np.pad(basis, ((0, 0), (0, extra)))
    location = np.pad(location, ((0, extra), (0, 0)))
    roots = np.pad(roots, ((0, 0), (0, extra), (0, extra)))
    return basis, location, roots


def project_design(context: ScoringContext, design: Float[Array, "n d"]) -> Rows:
    """Whiten design rows and project them onto the posterior."""
    whitened = context.whitening.rows(design)
    return project_rows(context.basis, context.location, context.roots, whitened)


# Small float32 products of some BLAS raise the invalid flag on finite numbers.
@np.errstate(invalid="ignore")
def project_rows(
    basis: Float[Array, "d r"],
    location: Float[Array, "r A"],
    roots: Float[Array, "A r r"],
    whitened: Float[Array, "n d"],
) -> Rows:
    """Project whitened rows onto the posterior: orthogonal component, factor and moments."""
    inside = whitened @ basis
    spans_everything = basis.shape[0] == basis.shape[1]
    orthogonal = whitened[:, :0] if spans_everything else whitened - inside @ basis.T
    factor = inside @ roots
    variance = (orthogonal**2).sum(axis=1) + (factor**2).sum(axis=2)
    return Rows(orthogonal, factor, (inside @ location).T, variance)


@np.errstate(invalid="ignore")
def covariance(rows: Rows, other_rows: Rows) -> Float[Array, "A n m"]:
    """cov(f_a(x), f_a(x')) for every x in ``rows`` and x' in ``other_rows``."""
    orthogonal = rows.orthogonal @ other_rows.orthogonal.T
    return orthogonal + rows.factor @ other_rows.factor.swapaxes(1, 2)


def initial_scores(
    context: ScoringContext, features: Float[Array, "n D"], score: ScoreName, xp: ModuleType = np
) -> Float[Array, " n"]:
    """Scores of rows of features before the batch."""
    design = xp.concatenate([features, xp.ones_like(features[:, :1])], axis=1)
    rows = project_design(context, design)
    target_rows = context.target_rows
    orthogonal = target_rows.orthogonal @ rows.orthogonal.T  # equal in all latents
    base = xp.broadcast_to(orthogonal, (len(rows.factor), *orthogonal.shape))
    covariances = Covariances(base, rows.factor, target_rows.factor)
    return compute_scores(
        score, rows.mean, rows.variance, covariances, context.targets, context, xp
    )


def compute_scores(
    score: ScoreName,
    mean: Float[Array, "A *U n"],
    variance: Float[Array, "A *U n"],
    covariances: Covariances,
    targets: Targets,
    context: ScoringContext,
    xp: ModuleType = np,
) -> Float[Array, "*U n"]:
    """Scores of points with these moments at targets (A, *U, M); NumPy takes one universe."""
    points = point_terms(score, mean, variance, xp)
    at_targets = target_terms(score, targets, context, xp)
    return combine_terms(score, points, at_targets, covariances, context.share, xp)


def point_terms(
    score: ScoreName,
    mean: Float[Array, "A *U n"],
    variance: Float[Array, "A *U n"],
    xp: ModuleType = np,
) -> Float[Array, "T *U n"]:
    """What a score needs to know of points besides their covariances with the targets."""
    if score == "screen":
        return approximate_gains(mean, variance, xp)
    if score == "epig":
        return label_series(mean[0], variance[0], xp)
    return label_gains(mean, variance, xp)


def target_terms(
    score: ScoreName, targets: Targets, context: ScoringContext, xp: ModuleType = np
) -> "TargetTerms":
    """What a score needs to know of the targets, however many points are scored."""
    if score == "epig":
        return label_series(targets.mean[0], targets.variance[0], xp)
    if score == "decision":
        return decisions_at(
            targets.probs, targets.mean, targets.variance, xp, context.class_weights
        )
    return targets.gains


def combine_terms(
    score: ScoreName,
    points: Float[Array, "T *U n"],
    targets: "TargetTerms",
    covariances: Covariances,
    share: Float[Array, " M"],
    xp: ModuleType = np,
) -> Float[Array, "*U n"]:
    """Scores from the terms of points and targets and the covariances between them."""
    if isinstance(targets, Decisions):
        return decision_gain(covariances, points, targets, share, xp)
    if score == "epig":
        (latent,) = covariances.latents()
        return series_epig(points, targets, latent.table(), share, xp)
    form = screening_scores if score == "screen" else quadratic_gain
    return form(covariances, points, targets, share, xp)


TargetTerms = Float[Array, "T *U M"] | Decisions
