"""The posterior before a batch, seen through the target set, and the scores it gives to rows.

With the notation of :mod:`parbals.posterior.closed.channels`, a design row x is whitened, split
into its part e across the labelled rows and its coordinates z within them, and

    cov(f_a(x), f_a(x')) = e·e' + (z R_a)·(z' R_a).

Functions take NumPy arrays and, given JAX's module, JAX's: :mod:`parbals.strategies.host` walks
over the rows of a pool on a CPU, :mod:`parbals.strategies.device` on accelerators.
"""

from types import ModuleType
from typing import Any, Literal, NamedTuple

import numpy as np

from parbals.arrays import block_rows, bucket, exact_products, pad_rows
from parbals.posterior.closed.channels import Channels
from parbals.posterior.closed.whitening import Whitening
from parbals.posterior.predictive import add_bias
from parbals.scores.decisions import decision_gain, decisions_at
from parbals.scores.gaussian import (
    closed_epig,
    probs_and_gains,
    quadratic_gain,
    rough_gains,
    screen,
    target_gains,
)
from parbals.types import Stakes

__all__ = [
    "Rows",
    "Score",
    "Surface",
    "affordable_rows",
    "covariance_between",
    "look_at",
    "scores_of",
    "screening_operations",
    "surface_of",
]

_GAINS_ENTRIES = 4_096  # channels times targets that NumPy works on at a time, in cache
_AFFORDABLE = 1e11  # operations; the same on every machine, so that choices are


Score = Literal["screen", "form", "epig", "decision"]
"""What says which points are worth a closer look, the quadratic form, EPIG, or the expected gain in
accuracy: :mod:`parbals.scores.gaussian`.
"""


class Rows(NamedTuple):
    """Design rows as the posterior sees them."""

    across: Any  # e (n, D); no columns where the labelled rows span everything
    inside: Any  # z (n, r)
    mean: Any  # (A, n)
    variance: Any  # (A, n)


class Surface(NamedTuple):
    """Posterior and target set, float32. Targets are padded; padding weighs nothing."""

    whitening: Whitening
    basis: Any  # (d, r)
    location: Any  # (r, A) posterior means within the rows
    roots: Any  # (A, r, r)
    target: Rows
    probs: Any  # (A, M) class probabilities, or the second's alone of two
    gains: Any  # (A, M)
    factor: Any  # (A, r, M): (z R_a)ᵀ of the targets
    share: Any  # (M,) 1 / number of targets, 0 for padding
    stakes: Stakes | None = None


def affordable_rows(channels: Channels, n_targets: int) -> int:
    """How many rows a walk on a CPU looks at in a second or two."""
    (n_columns, n_inside), n_channels = channels.basis.shape, len(channels.roots)
    operations = min(screening_operations(n_columns, n_inside, n_channels, n_targets))
    operations += 2 * (channels.whitening.left.size + channels.whitening.right.size)
    return int(_AFFORDABLE // max(operations, 1))


def screening_operations(
    n_columns: int, n_inside: int, n_channels: int, n_targets: int
) -> tuple[int, int]:
    """Of a row: by its pairs with the targets, and by a quadratic form of its coordinates."""
    by_pairs = n_targets * (2 * n_columns + n_channels * (2 * n_inside + 7))
    by_form = n_channels * 2 * (n_columns**2 + n_inside**2)
    return by_pairs, by_form


def surface_of(channels: Channels, X_target: np.ndarray, stakes: Stakes | None = None) -> Surface:
    """The surface of a posterior over target features (M, D), in NumPy.

    The targets are few, and loading a program for them would take longer than the work.
    """
    n_targets = len(X_target)
    size = bucket(n_targets)
    posterior = _padded(channels.basis, channels.location, channels.roots)
    seen = (channels.whitening, *posterior)
    target, factor = _look(*seen, pad_rows(add_bias(X_target), size))
    blocks = block_rows(size, max(16, _GAINS_ENTRIES // len(channels.roots)))
    parts = [probs_and_gains(target.mean[:, b], target.variance[:, b]) for b in blocks]
    probs, gains = (np.concatenate(part, axis=1) for part in zip(*parts, strict=True))
    share = pad_rows(np.full(n_targets, 1.0 / max(n_targets, 1)), size)
    whole = *seen, target, probs, gains, factor.swapaxes(1, 2), share, stakes
    return Surface(*_single(whole))


def _single(parts: Any) -> Any:
    """Arrays, or tuples of them, in single precision."""
    if parts is None:
        return None
    if not isinstance(parts, tuple):
        return np.ascontiguousarray(parts, np.float32)
    singles = map(_single, parts)
    return type(parts)(*singles) if hasattr(parts, "_fields") else tuple(singles)


def _padded(
    basis: np.ndarray, location: np.ndarray, roots: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
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


def look_at(surface: Surface, rows: Any, xp: ModuleType = np) -> tuple[Rows, Any]:
    """Design rows (n, d), and z R_a of them (A, n, r)."""
    with exact_products(xp):
        return _look(surface.whitening, surface.basis, surface.location, surface.roots, rows)


def _look(
    whitening: Whitening, basis: Any, location: Any, roots: Any, rows: Any
) -> tuple[Rows, Any]:
    whitened = whitening.rows(rows)
    inside = whitened @ basis
    spans = basis.shape[0] == basis.shape[1]
    across = whitened[:, :0] if spans else whitened - inside @ basis.T
    factor = inside @ roots
    variance = (across**2).sum(axis=1) + (factor**2).sum(axis=2)
    return Rows(across, inside, (inside @ location).T, variance), factor


def covariance_between(one: Surface, other: Surface, rows: slice | np.ndarray) -> np.ndarray:
    """cov(f_a(x), f_a(x')) (A, n, m) of the points of two surfaces, in NumPy."""
    across = one.target.across[rows] @ other.target.across.T
    return np.asarray(across + one.factor[:, :, rows].swapaxes(1, 2) @ other.factor)


def scores_of(surface: Surface, features: Any, score: Score, xp: ModuleType = np) -> Any:
    """(n,) a score of rows of features (n, D); the EPIG itself, "epig", of two classes alone."""
    design = xp.concatenate([features, xp.ones_like(features[:, :1])], axis=1)
    rows, factor = look_at(surface, design, xp)
    here, there = (rows.mean[0], rows.variance[0]), surface.target
    with exact_products(xp):
        shared = rows.across @ there.across.T

    def covariance(parts: tuple[Any, Any], columns: Any = slice(None)) -> Any:
        """(n, M) of one channel."""
        with exact_products(xp):
            return shared[:, columns] + parts[0] @ parts[1][:, columns]

    if score == "epig":
        table = covariance((factor[0], surface.factor[0]))
        return closed_epig(*here, there.mean[0], there.variance[0], table, surface.share, xp)
    parts, moments = (factor, surface.factor), (rows.mean, rows.variance)
    if score == "screen":
        gains = rough_gains(*moments, xp)
        return screen(parts, gains, surface.gains, surface.share, xp, covariance)
    gains = target_gains(*moments, xp)
    if score == "decision":
        decisions = decisions_at(surface.probs, there.mean, there.variance, xp, surface.stakes)
        return decision_gain(parts, gains, decisions, surface.share, xp, covariance)
    return quadratic_gain(parts, gains, surface.gains, surface.share, xp, covariance)
