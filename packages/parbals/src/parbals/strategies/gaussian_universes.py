"""Universes of a Gaussian posterior: what each has learnt from its labels of the partial batch.

A label at point i changes mean, variance and covariance of every channel a by the covariance with
that point,

    m ← m + α_a c_a(·, i),   v ← v - β_a c_a(·, i)²,   c_a ← c_a - β_a c_a(·, i) c_a(i, ·),

α and β the derivatives of the logarithm of the label's probability. With b(x) the covariances of a
point, before the batch, with the R points labelled so far, a universe is therefore

    m(x) = m⁰(x) + s·b(x),      c(x, x') = c⁰(x, x') - b(x)ᵀ W b(x'),

a vector s and a matrix W (R, R) a channel: nothing of the pool's size, and the covariances of the
labelled points with the targets are the same in all universes.

What the softmax gives at a target, its probabilities and gains, costs the most and moves little: a
universe computes it again where a logit has moved by a tenth of its deviation since. All points are
compared by the same targets, so that their order hardly feels it. Functions take NumPy arrays and,
given JAX's module, JAX's.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from parbals.arrays import exact_products
from parbals.mixture import label_evidence
from parbals.race import GUMBEL_VARIANCE, class_evidence
from parbals.strategies.surface import Surface, look_at

__all__ = [
    "Pool",
    "Seen",
    "Universes",
    "begin",
    "branched",
    "is_moved",
    "observe",
    "pool_of",
    "seen_by",
]

_FEWEST_LABELS = 8
_MOVED = 0.1  # deviations


class Pool(NamedTuple):
    """Rows before the batch."""

    across: Any  # (n, D)
    factor: Any  # (A, n, r)
    mean: Any  # (A, n)
    variance: Any  # (A, n)
    covariance: Any  # (A, n, M) with the targets


class Universes(NamedTuple):
    """What U universes have learnt; there is room for R labels."""

    n_labels: Any
    across: Any  # (R, D) of the labelled points
    factor: Any  # (A, R, r)
    at_targets: Any  # (A, R, M): b of the targets
    shift: Any  # (A, U, R): s
    weights: Any  # (A, U, R, R): W
    target_mean: Any  # (A, U, M)
    target_variance: Any  # (A, U, M)
    target_probs: Any  # (A, U, M), as of when the moments were those of the last two
    target_gains: Any  # (A, U, M)
    looked_mean: Any  # (A, U, M)
    looked_variance: Any  # (A, U, M)


class Seen(NamedTuple):
    """Some rows as the universes see them."""

    mean: Any  # (A, U, s)
    variance: Any  # (A, U, s)
    parts: tuple[Any, Any, Any]  # c⁰ (A, s, M), -bᵀW (A, U, s, R), b (A, R, M)
    covariance: Callable[..., Any]  # from a channel's parts to its table (U, s, M)


def pool_of(surface: Surface, design: Any, xp: ModuleType = np) -> Pool:
    """Design rows (n, d) as the posterior before the batch sees them."""
    rows, factor = look_at(surface, design, xp)
    with exact_products(xp):
        covariance = rows.across @ surface.target.across.T + factor @ surface.factor
    return Pool(rows.across, factor, rows.mean, rows.variance, covariance)


def begin(surface: Surface, n_universes: int, rank: int, xp: ModuleType = np) -> Universes:
    """Universes without a label, and with room for ``rank``."""
    target, of = surface.target, np.float32
    n_channels, n_inside, n_targets = surface.factor.shape
    each = n_channels, n_universes
    mean, variance, probs, gains = (
        xp.broadcast_to(part[:, None], (*each, n_targets))
        for part in (target.mean, target.variance, surface.probs, surface.gains)
    )
    return Universes(
        n_labels=xp.asarray(0),
        across=xp.zeros((rank, target.across.shape[1]), of),
        factor=xp.zeros((n_channels, rank, n_inside), of),
        at_targets=xp.zeros((n_channels, rank, n_targets), of),
        shift=xp.zeros((*each, rank), of),
        weights=xp.zeros((*each, rank, rank), of),
        target_mean=mean,
        target_variance=variance,
        target_probs=probs,
        target_gains=gains,
        looked_mean=mean,
        looked_variance=variance,
    )


def branched(universes: Universes, parents: np.ndarray) -> Universes:
    """A universe for each of the parents, which it is a copy of."""
    shared = {"n_labels", "across", "factor", "at_targets"}
    names = set(Universes._fields) - shared
    return universes._replace(**{name: getattr(universes, name)[:, parents] for name in names})


def is_moved(universes: Universes, xp: ModuleType = np) -> Any:
    """(U, M) whether the softmax of a target is to be looked at again; with two classes always."""
    mean, variance = universes.target_mean, universes.target_variance
    if len(mean) == 1:
        return xp.ones(mean.shape[1:], bool)
    spread = variance + GUMBEL_VARIANCE
    is_far = xp.abs(mean - universes.looked_mean) > _MOVED * xp.sqrt(spread)
    is_narrow = universes.looked_variance - variance > 2.0 * _MOVED * spread
    return (is_far | is_narrow).any(axis=0)


def observe(
    pool: Pool, universes: Universes, index: Any, labels: Any, xp: ModuleType = np
) -> Universes:
    """Condition every universe on its label, of labels (U,), of one row."""
    with exact_products(xp):
        return _observe(pool, universes, index, labels, xp)


def _observe(
    pool: Pool, universes: Universes, index: Any, labels: Any, xp: ModuleType
) -> Universes:
    across, inside = pool.across[index], pool.factor[:, index]
    before = _before(universes, across[None], inside[:, None])[:, 0]  # (A, R)
    known = xp.einsum("ar,aurp->aup", before, universes.weights)
    slope, curvature = _evidence(
        pool.mean[:, index, None] + xp.einsum("aur,ar->au", universes.shift, before),
        xp.maximum(pool.variance[:, index, None] - xp.einsum("aur,ar->au", known, before), 0.0),
        labels,
        xp,
    )
    # What is new of the covariance with this row: with it before, less what others explain.
    seen = universes.n_labels
    new = (xp.arange(known.shape[2]) == seen).astype(known.dtype) - known
    at_targets = _put(universes.at_targets, (slice(None), seen), pool.covariance[:, index])
    moved = xp.einsum("aur,arm->aum", new, at_targets)
    lowered = universes.target_variance - curvature[:, :, None] * xp.square(moved)
    return universes._replace(
        n_labels=seen + 1,
        across=_put(universes.across, seen, across),
        factor=_put(universes.factor, (slice(None), seen), inside),
        at_targets=at_targets,
        shift=universes.shift + slope[:, :, None] * new,
        weights=universes.weights
        + curvature[:, :, None, None] * new[..., None] * new[..., None, :],
        target_mean=universes.target_mean + slope[:, :, None] * moved,
        target_variance=xp.maximum(lowered, 0.0),
    )


def _evidence(mean: Any, variance: Any, labels: Any, xp: ModuleType) -> tuple[Any, Any]:
    """α and β (A, U) of every universe's label, of moments (A, U)."""
    if len(mean) > 1:
        _, slope, curvature = class_evidence(mean.T, variance.T, labels, xp)
        return slope.T, xp.maximum(curvature.T, 0.0)
    signs = (2.0 * labels - 1.0).astype(mean.dtype)
    _, slope, curvature = label_evidence(mean, variance, signs, xp)
    return slope, xp.maximum(curvature, 0.0)


def seen_by(pool: Pool, universes: Universes, indices: Any, xp: ModuleType = np) -> Seen:
    """Some rows, at indices (s,), with all that the universes know."""
    with exact_products(xp):
        before = _before(universes, pool.across[indices], pool.factor[:, indices])
        known = -(before[:, None] @ universes.weights)  # (A, U, s, R)
        less = (known * before[:, None]).sum(axis=3)
        shift = universes.shift @ before.swapaxes(1, 2)  # (A, U, s)

    def covariance(parts: tuple[Any, Any, Any], columns: Any = slice(None)) -> Any:
        whole, known, at_targets = parts
        table = _first_labels(known, at_targets[:, columns], universes.n_labels, xp)
        table += whole[:, columns]
        return table

    return Seen(
        pool.mean[:, indices][:, None] + shift,
        xp.maximum(pool.variance[:, indices][:, None] + less, 0.0),
        (pool.covariance[:, indices], known, universes.at_targets),
        covariance,
    )


def _first_labels(known: Any, at_targets: Any, n_labels: Any, xp: ModuleType) -> Any:
    """The product (*U, s, M) of (*U, s, R) and (R, M), over the labels that there are.

    A program has sizes that are fixed: there it is over little more than those.
    """
    if xp is np:
        return known[..., :n_labels] @ at_targets[:n_labels]
    import jax

    sizes = [_FEWEST_LABELS]
    while sizes[-1] < known.shape[-1]:
        sizes.append(2 * sizes[-1])
    with exact_products(xp):
        products = [lambda size=size: known[..., :size] @ at_targets[:size] for size in sizes]
        return jax.lax.switch(xp.searchsorted(xp.asarray(sizes), n_labels), products)


def _before(universes: Universes, across: Any, factor: Any) -> Any:
    """b (A, s, R) of rows (s, D), (A, s, r); 0 where there is no labelled point yet."""
    return across @ universes.across.T + factor @ universes.factor.swapaxes(1, 2)


def _put(array: Any, place: Any, values: Any) -> Any:
    """A copy with other values at a place."""
    if isinstance(array, np.ndarray):
        array = array.copy()
        array[place] = values
        return array
    return array.at[place].set(values)
