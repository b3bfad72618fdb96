"""Posterior clouds: where the predictive rows of pool and target come from while a batch is built.

A cloud is a set of K posterior samples seen through the pool and the target set. Its rows are
either held (``points`` are the rows themselves) or computed from particles block by block whenever
they are needed (``points`` are whitened design rows and ``particles`` the coordinates z): that is
what keeps ten universes of ten classes within memory. Both kinds go through the same compiled
functions below.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from parbals.arrays import pad_rows
from parbals.posterior.contrasts import class_probs
from parbals.scores.bound import BoundStats, bound_of_block, bound_stats
from parbals.scores.epig import TargetStats, epig_of_block, target_stats
from parbals.scores.losses import Loss, Stakes
from parbals.scores.rows import class_rows, pool_block, target_rows

__all__ = [
    "Cloud",
    "HeldRows",
    "WhitenedRows",
    "block_of_rows",
    "held_cloud",
    "hold_rows",
    "rows_of",
    "whitened_rows",
]


class HeldRows(NamedTuple):
    """Predictive rows themselves, in blocks."""

    rows: Float[Array, "blocks n A K"]


class WhitenedRows(NamedTuple):
    """Whitened design rows A = X L and offsets X mean, in blocks: logits are offset + A z."""

    design: Float[Array, "blocks n d"]
    offset: Float[Array, "blocks n J"]


class Cloud(NamedTuple):
    """K posterior samples seen through the pool and the target set."""

    points: HeldRows | WhitenedRows
    particles: Float[Array, "d J K"] | None
    target: Float[Array, "M A K"]
    n_targets: int
    n_classes: int
    stakes: Stakes | None = None

    def statistics(self, weights: np.ndarray) -> TargetStats:
        return target_stats(self.target, weights, self.n_targets, self.stakes)

    def score_pool(self, weights: np.ndarray, stats: TargetStats, loss: Loss) -> Array:
        """Exact EPIG (or error reduction) of every pool point (padded), (blocks·n,)."""
        return _score_blocks(
            self.points, self.particles, weights, stats, n_classes=self.n_classes, loss=loss
        )

    def bound_pool(self, weights: np.ndarray, stats: TargetStats) -> Array:
        """Certified upper bound on the EPIG of every pool point (padded)."""
        bound = bound_stats(stats, weights)
        return _bound_blocks(self.points, self.particles, weights, bound, n_classes=self.n_classes)

    def score_points(
        self, indices: np.ndarray, weights: np.ndarray, stats: TargetStats, loss: Loss
    ) -> Array:
        """Exact EPIG (or error reduction) of chosen pool points."""
        return _score_chosen(
            self.points,
            self.particles,
            indices,
            weights,
            stats,
            n_classes=self.n_classes,
            loss=loss,
        )


def held_cloud(
    pool_probs: np.ndarray, target_probs: np.ndarray, stakes: Stakes | None = None
) -> Cloud:
    """A cloud of the user's own predictive samples (N, K, C) and (M, K, C)."""
    dtype = np.result_type(pool_probs, target_probs)
    rows = class_rows(pool_probs).astype(dtype, copy=False)
    target = target_rows(target_probs).astype(dtype, copy=False)
    blocks = _in_blocks(rows, pool_block(len(rows), len(target_probs), rows.shape[1]))
    return Cloud(
        HeldRows(jax.device_put(blocks)),
        None,
        jax.device_put(target),
        len(target_probs),
        pool_probs.shape[2],
        stakes,
    )


def whitened_rows(design: np.ndarray, offset: np.ndarray, block: int) -> WhitenedRows:
    """Design rows (N, d) and offsets (N, J), padded to whole blocks."""
    return WhitenedRows(
        jax.device_put(_in_blocks(design.astype(np.float32), block)),
        jax.device_put(_in_blocks(offset.astype(np.float32), block)),
    )


def _in_blocks(array: np.ndarray, block: int) -> np.ndarray:
    n_blocks = -(-len(array) // block)
    return pad_rows(array, n_blocks * block).reshape(n_blocks, block, *array.shape[1:])


def rows_of(
    points: HeldRows | WhitenedRows, particles: Array | None, n_classes: int
) -> Float[Array, "n A K"]:
    """Predictive rows of one block."""
    if isinstance(points, HeldRows):
        return points.rows
    assert particles is not None  # whitened rows always come with particles
    d, n_contrasts, n_samples = particles.shape
    logits = jnp.matmul(
        points.design, particles.reshape(d, -1), precision=jax.lax.Precision.HIGHEST
    )
    logits = logits.reshape(-1, n_contrasts, n_samples) + points.offset[:, :, None]
    if n_classes == 2:
        return jax.nn.sigmoid(np.asarray(np.sqrt(2.0), logits.dtype) * logits)
    return class_probs(logits, n_classes, jnp)


@partial(jax.jit, static_argnames=("n_classes",))
def block_of_rows(
    points: WhitenedRows, particles: Array, *, n_classes: int
) -> Float[Array, "n A K"]:
    """Rows of points that stand in a single block, such as the target set; zero rows stay zero."""
    block = jax.tree.map(lambda x: x[0], points)
    present = jnp.any(block.design != 0, axis=1)[:, None, None]
    return jnp.where(present, rows_of(block, particles, n_classes), 0.0)


@partial(jax.jit, static_argnames=("n_classes",))
def hold_rows(points: WhitenedRows, particles: Array, *, n_classes: int) -> HeldRows:
    """Compute all rows once, where there is memory to keep them."""
    return HeldRows(jax.lax.map(lambda block: rows_of(block, particles, n_classes), points))


@partial(jax.jit, static_argnames=("n_classes", "loss"))
def _score_blocks(
    points: HeldRows | WhitenedRows,
    particles: Array | None,
    weights: Array,
    stats: TargetStats,
    *,
    n_classes: int,
    loss: Loss,
) -> Float[Array, " N"]:
    def score(block: HeldRows | WhitenedRows) -> Array:
        return epig_of_block(rows_of(block, particles, n_classes), weights, stats, loss=loss)

    return jax.lax.map(score, points).reshape(-1)


@partial(jax.jit, static_argnames=("n_classes",))
def _bound_blocks(
    points: HeldRows | WhitenedRows,
    particles: Array | None,
    weights: Array,
    bound: BoundStats,
    *,
    n_classes: int,
) -> Float[Array, " N"]:
    return jax.lax.map(
        lambda b: bound_of_block(rows_of(b, particles, n_classes), weights, bound), points
    ).reshape(-1)


@partial(jax.jit, static_argnames=("n_classes", "loss"))
def _score_chosen(
    points: HeldRows | WhitenedRows,
    particles: Array | None,
    indices: Int[Array, " S"],
    weights: Array,
    stats: TargetStats,
    *,
    n_classes: int,
    loss: Loss,
) -> Float[Array, " S"]:
    chosen = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[indices], points)
    return epig_of_block(rows_of(chosen, particles, n_classes), weights, stats, loss=loss)
