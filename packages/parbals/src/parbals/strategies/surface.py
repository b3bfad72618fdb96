"""The posterior before a batch, seen through the target set, and the scores it gives to rows.

With the notation of :mod:`parbals.posterior.closed.latents`, a design row x is whitened, split
into its part e across the labelled rows and its coordinates z within them, and

    cov(f_a(x), f_a(x')) = e·e' + (z R_a)·(z' R_a).

Functions take NumPy arrays and, given JAX's module, JAX's.
"""

from types import ModuleType
from typing import Any, Literal, NamedTuple

import numpy as np

from parbals.arrays import block_rows, bucket, pad_rows
from parbals.posterior.closed.latents import Latents
from parbals.posterior.closed.whitening import Whitening
from parbals.posterior.predictive import add_bias
from parbals.scores.decisions import decision_gain, decisions_at
from parbals.scores.gaussian import (
    Covariances,
    closed_epig,
    probs_and_gains,
    quadratic_gain,
    rough_gains,
    screen,
    target_gains,
)
from parbals.shapes import Array, Float
from parbals.types import ClassWeights

__all__ = ["Rows", "Score", "Surface", "Targets", "affordable_rows", "batch_operations"]
__all__ += ["covariance", "rows_of", "scores_before", "scores_by", "screening_operations"]
__all__ += ["surface_of", "walk_operations", "within"]

_GAINS_ENTRIES = 4_096  # latents times targets that NumPy works on at a time, in cache
_AFFORDABLE = 1e11  # operations; the same on every machine, so that choices are
_EACH_STEP = 5_000  # operations of a target, latent and universe: it meets some 600 rows

Score = Literal["screen", "form", "epig", "decision"]
"""What says which points are worth a closer look, the quadratic form, EPIG (of two classes alone),
or the expected gain in accuracy: :mod:`parbals.scores.gaussian`, :mod:`parbals.scores.decisions`.
"""


class Rows(NamedTuple):
    """Points as the posterior before the batch sees them."""

    across: Float[Array, "n D"]  # e; no columns where the labelled rows span everything
    factor: Float[Array, "A n r"]  # z R_a
    mean: Float[Array, "A n"]
    variance: Float[Array, "A n"]


class Targets(NamedTuple):
    """The logits of the targets, and what the softmax makes of them."""

    mean: Float[Array, "A *U M"]
    variance: Float[Array, "A *U M"]
    probs: Float[Array, "A *U M"]  # of the classes, or the second's alone of two
    gains: Float[Array, "A *U M"]


class Surface(NamedTuple):
    """A posterior over weights and the targets it is looked at through, in single precision."""

    whitening: Whitening
    basis: Float[Array, "d r"]  # of the labelled rows
    location: Float[Array, "r A"]  # posterior means within the labelled rows
    roots: Float[Array, "A r r"]
    target_rows: Rows
    targets: Targets
    share: Float[Array, " M"]  # 1 / number of targets, 0 for padding
    class_weights: ClassWeights | None = None


def affordable_rows(latents: Latents, n_targets: int) -> int:
    """How many rows a walk on a CPU looks at in a second or two."""
    return int(_AFFORDABLE // max(_operations(latents, n_targets), 1))


def walk_operations(surface: "Surface", n_rows: int) -> int:
    """Of a CPU that screens rows before the batch."""
    return n_rows * _operations(surface, len(surface.share))


def batch_operations(surface: "Surface", batch_size: int, n_universes: int) -> int:
    """Of a CPU that grows a batch, about, from what it takes."""
    return _EACH_STEP * batch_size * n_universes * surface.targets.gains.size


def _operations(posterior: "Latents | Surface", n_targets: int) -> int:
    """Of a row."""
    (n_columns, n_inside), n_latents = posterior.basis.shape, len(posterior.roots)
    operations = min(screening_operations(n_columns, n_inside, n_latents, n_targets))
    return operations + 2 * (posterior.whitening.left.size + posterior.whitening.right.size)


def screening_operations(
    n_columns: int, n_inside: int, n_latents: int, n_targets: int
) -> tuple[int, int]:
    """Of a row: by its pairs with the targets, and by a quadratic form of its coordinates."""
    by_pairs = n_targets * (2 * n_columns + n_latents * (2 * n_inside + 7))
    by_form = n_latents * 2 * (n_columns**2 + n_inside**2)
    return by_pairs, by_form


def surface_of(
    latents: Latents, X_target: Float[Array, "m D"], class_weights: ClassWeights | None = None
) -> Surface:
    """The surface of a posterior over target features, in NumPy and padded to a power of two.

    The targets are few, and loading a program for them would take longer than the work.
    """
    n_targets = len(X_target)
    size = bucket(n_targets)
    posterior = latents.whitening, *_padded(latents.basis, latents.location, latents.roots)
    whitened = latents.whitening.rows(pad_rows(add_bias(X_target), size))
    rows = within(*posterior[1:], whitened)
    blocks = block_rows(size, max(16, _GAINS_ENTRIES // len(latents.roots)))
    parts = [probs_and_gains(rows.mean[:, b], rows.variance[:, b]) for b in blocks]
    probs, gains = (np.concatenate(part, axis=1) for part in zip(*parts, strict=True))
    share = pad_rows(np.full(n_targets, 1.0 / max(n_targets, 1)), size)
    targets = Targets(rows.mean, rows.variance, probs, gains)
    return Surface(*_single((*posterior, rows, targets, share, class_weights)))


def _single(parts: Any) -> Any:
    """Arrays, or tuples of them, in single precision."""
    if parts is None:
        return None
    if not isinstance(parts, tuple):
        return np.ascontiguousarray(parts, np.float32)
    singles = map(_single, parts)
    return type(parts)(*singles) if hasattr(parts, "_fields") else tuple(singles)


def _padded(
    basis: Float[Array, "d n"], location: Float[Array, "n A"], roots: Float[Array, "A n n"]
) -> tuple[Float[Array, "d r"], Float[Array, "r A"], Float[Array, "A r r"]]:
    """The same posterior in a power of two of coordinates, or in all: labels come one by one."""
    (n_columns, n_inside), size = basis.shape, bucket(basis.shape[1])
    if n_inside == n_columns:
        return basis, location, roots
    if size >= n_columns:
        whole = np.eye(n_columns)
        return whole, basis @ location, whole + basis @ (roots - np.eye(n_inside)) @ basis.T
    more = size - n_inside
    widths = ((0, 0), (0, more)), ((0, more), (0, 0)), ((0, 0), (0, more), (0, more))
    basis, location, roots = map(np.pad, (basis, location, roots), widths)
    return basis, location, roots


def rows_of(surface: Surface, design: Float[Array, "n d"]) -> Rows:
    """Design rows as the posterior sees them."""
    whitened = surface.whitening.rows(design)
    return within(surface.basis, surface.location, surface.roots, whitened)


# Small float32 products of some BLAS raise the flag on finite numbers.
@np.errstate(invalid="ignore")
def within(
    basis: Float[Array, "d r"],
    location: Float[Array, "r A"],
    roots: Float[Array, "A r r"],
    whitened: Float[Array, "n d"],
) -> Rows:
    """The same of rows that have been whitened."""
    inside = whitened @ basis
    spans = basis.shape[0] == basis.shape[1]
    across = whitened[:, :0] if spans else whitened - inside @ basis.T
    factor = inside @ roots
    variance = (across**2).sum(axis=1) + (factor**2).sum(axis=2)
    return Rows(across, factor, (inside @ location).T, variance)


@np.errstate(invalid="ignore")
def covariance(one: Rows, other: Rows) -> Float[Array, "A n m"]:
    """cov(f_a(x), f_a(x')) of all x of the one and all x' of the other."""
    return one.across @ other.across.T + one.factor @ other.factor.swapaxes(1, 2)


def scores_before(
    surface: Surface, features: Float[Array, "n D"], score: Score, xp: ModuleType = np
) -> Float[Array, " n"]:
    """Scores of rows of features before the batch."""
    design = xp.concatenate([features, xp.ones_like(features[:, :1])], axis=1)
    rows, there = rows_of(surface, design), surface.target_rows
    across = there.across @ rows.across.T  # the same in all latents
    base = xp.broadcast_to(across, (len(rows.factor), *across.shape))
    covariances = Covariances(base, rows.factor, there.factor)
    return scores_by(score, rows.mean, rows.variance, covariances, surface.targets, surface, xp)


def scores_by(
    score: Score,
    mean: Float[Array, "A *U n"],
    variance: Float[Array, "A *U n"],
    covariances: Covariances,
    targets: Targets,
    surface: Surface,
    xp: ModuleType = np,
) -> Float[Array, "*U n"]:
    """A score of points with these moments, at targets (A, *U, M); NumPy takes one universe."""
    share = surface.share
    if score == "screen":
        return screen(covariances, rough_gains(mean, variance, xp), targets.gains, share, xp)
    if score == "epig":
        (table,) = (latent.table() for latent in covariances.latents())
        there = targets.mean[0], targets.variance[0]
        return closed_epig(mean[0], variance[0], *there, table, share, xp)
    gains = target_gains(mean, variance, xp)
    if score == "form":
        return quadratic_gain(covariances, gains, targets.gains, share, xp)
    decisions = decisions_at(
        targets.probs, targets.mean, targets.variance, xp, surface.class_weights
    )
    return decision_gain(covariances, gains, decisions, share, xp)
