"""Universes of a Gaussian posterior: what each has learnt from its labels of the partial batch.

A label at point i changes mean, variance and covariance of every channel a by the covariance with
that point,

    m ← m + α_a c_a(·, i),   v ← v - β_a c_a(·, i)²,   c_a ← c_a - β_a c_a(·, i) c_a(i, ·),

α and β the derivatives of the logarithm of the label's probability. With b(x) the covariances of a
point, before the batch, with the R points labelled so far, a universe is therefore

    m(x) = m⁰(x) + s·b(x),      c(x, x') = c⁰(x, x') - b(x)ᵀ W b(x'),

a vector s and a matrix W (R, R) a channel: nothing of the pool's size, and the covariances of the
labelled points with the targets are the same in all universes.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from parbals.mixture import label_evidence
from parbals.race import class_evidence
from parbals.strategies.surface import Surface, look_at

__all__ = ["Pool", "Seen", "Universes", "begin", "observe", "pool_of", "seen_by"]

_FEWEST_LABELS = 8


class Pool(NamedTuple):
    """Rows before the batch."""

    across: Float[Array, "n D"]
    factor: Float[Array, "A n r"]
    mean: Float[Array, "A n"]
    variance: Float[Array, "A n"]
    covariance: Float[Array, "A n M"]  # with the targets


class Universes(NamedTuple):
    """What U universes have learnt; there is room for R labels."""

    n_labels: Int[Array, ""]
    across: Float[Array, "R D"]  # of the labelled points
    factor: Float[Array, "A R r"]
    at_targets: Float[Array, "A R M"]  # b of the targets
    shift: Float[Array, "A U R"]  # s
    weights: Float[Array, "A U R R"]  # W
    target_mean: Float[Array, "A U M"]
    target_variance: Float[Array, "A U M"]


class Seen(NamedTuple):
    """Some rows as the universes see them."""

    mean: Float[Array, "A U s"]
    variance: Float[Array, "A U s"]
    parts: Any  # of every channel; ``covariance`` makes its table (U, s, M) of them
    covariance: Callable[[Any], Array]


def pool_of(surface: Surface, design: Float[Array, "n d"]) -> Pool:
    """Design rows as the posterior before the batch sees them."""
    rows, factor = look_at(surface, design)
    shared = _product(rows.across, surface.target.across.T)
    covariance = shared + _product(factor, surface.factor)
    return Pool(rows.across, factor, rows.mean, rows.variance, covariance)


def begin(surface: Surface, n_universes: int, rank: int) -> Universes:
    """Universes without a label, and with room for ``rank``."""
    target = surface.target
    n_channels, n_inside, n_targets = surface.factor.shape
    each = n_channels, n_universes
    return Universes(
        n_labels=jnp.asarray(0),
        across=jnp.zeros((rank, target.across.shape[1])),
        factor=jnp.zeros((n_channels, rank, n_inside)),
        at_targets=jnp.zeros((n_channels, rank, n_targets)),
        shift=jnp.zeros((*each, rank)),
        weights=jnp.zeros((*each, rank, rank)),
        target_mean=jnp.broadcast_to(target.mean[:, None], (*each, n_targets)),
        target_variance=jnp.broadcast_to(target.variance[:, None], (*each, n_targets)),
    )


def observe(pool: Pool, universes: Universes, index: Array, labels: Int[Array, " U"]) -> Universes:
    """Condition every universe on its label of one row."""
    across, inside = pool.across[index], pool.factor[:, index]
    before = _before(universes, across[None], inside[:, None])[:, 0]  # (A, R)
    known = _einsum("ar,aurp->aup", before, universes.weights)
    slope, curvature = _evidence(
        pool.mean[:, index, None] + _einsum("aur,ar->au", universes.shift, before),
        _positive(pool.variance[:, index, None] - _einsum("aur,ar->au", known, before)),
        labels,
    )
    # What is new of the covariance with this row: with it before, less what others explain.
    seen = universes.n_labels
    new = (jnp.arange(known.shape[2]) == seen) - known
    at_targets = universes.at_targets.at[:, seen].set(pool.covariance[:, index])
    moved = _einsum("aur,arm->aum", new, at_targets)
    lowered = universes.target_variance - curvature[:, :, None] * jnp.square(moved)
    return Universes(
        n_labels=seen + 1,
        across=universes.across.at[seen].set(across),
        factor=universes.factor.at[:, seen].set(inside),
        at_targets=at_targets,
        shift=universes.shift + slope[:, :, None] * new,
        weights=universes.weights
        + curvature[:, :, None, None] * new[..., None] * new[..., None, :],
        target_mean=universes.target_mean + slope[:, :, None] * moved,
        target_variance=_positive(lowered),
    )


def _evidence(
    mean: Float[Array, "A U"], variance: Float[Array, "A U"], labels: Int[Array, " U"]
) -> tuple[Float[Array, "A U"], Float[Array, "A U"]]:
    """α and β of every universe's label."""
    if len(mean) > 1:
        _, slope, curvature = class_evidence(mean.T, variance.T, labels, jnp)
        return slope.T, _positive(curvature.T)
    _, slope, curvature = label_evidence(mean, variance, 2.0 * labels - 1.0, jnp)
    return slope, _positive(curvature)


def seen_by(pool: Pool, universes: Universes, indices: Int[Array, " s"]) -> Seen:
    """Some rows with all that the universes know."""
    before = _before(universes, pool.across[indices], pool.factor[:, indices])
    known = _einsum("asr,aurp->ausp", before, universes.weights)
    explained = _einsum("ausp,asp->aus", known, before)

    def covariance(parts: tuple[Array, Array, Array]) -> Array:
        whole, known, at_targets = parts
        return whole - _first_labels(known, at_targets, universes.n_labels)

    return Seen(
        pool.mean[:, indices][:, None] + _einsum("aur,asr->aus", universes.shift, before),
        _positive(pool.variance[:, indices][:, None] - explained),
        (pool.covariance[:, indices], known, universes.at_targets),
        covariance,
    )


def _first_labels(
    known: Float[Array, "U s R"], at_targets: Float[Array, "R M"], n_labels: Array
) -> Float[Array, "U s M"]:
    """The product of both, computed over little more than the labels that there are."""
    sizes = [_FEWEST_LABELS]
    while sizes[-1] < known.shape[2]:
        sizes.append(2 * sizes[-1])
    products = [lambda size=size: _product(known[..., :size], at_targets[:size]) for size in sizes]
    return jax.lax.switch(jnp.searchsorted(jnp.asarray(sizes), n_labels), products)


def _before(
    universes: Universes, across: Float[Array, "s D"], factor: Float[Array, "A s r"]
) -> Float[Array, "A s R"]:
    """b of some rows; 0 where there is no labelled point yet."""
    return _einsum("sd,pd->sp", across, universes.across) + _einsum(
        "asr,apr->asp", factor, universes.factor
    )


def _positive(values: Array) -> Array:
    return jnp.maximum(values, 0.0)


_einsum = partial(jnp.einsum, precision=jax.lax.Precision.HIGHEST)
_product = partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)
