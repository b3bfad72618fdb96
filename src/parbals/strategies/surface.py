"""The posterior before a batch, seen through the target set, and the scores it gives the pool.

With the notation of :mod:`parbals.posterior.channels`, a design row x is whitened, split into its
part e across the labelled rows and its coordinates z within them, and

    cov(f_a(x), f_a(x')) = e·e' + (z R_a)·(z' R_a).

Rows come in blocks, as float32, from memory or from a mapped file: only one block of the table of
pairs exists at a time, and on an accelerator the next block is copied while this one is scored. The
rows of a block are spread over the local devices, each of which holds the whole surface, so that
devices exchange nothing. Rows in a Dask cluster are scored by its workers in the same way.
"""

from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float

from parbals.arrays import block_rows, bucket, pad_rows
from parbals.numerics import COMPILED_SOON, working_precision
from parbals.posterior.channels import Channels
from parbals.posterior.predictive import add_bias
from parbals.posterior.whitening import Whitening
from parbals.scores.gaussian import (
    closed_epig,
    decision_gain,
    decisions_at,
    quadratic_gain,
    target_gains,
)
from parbals.scores.losses import Stakes
from parbals.strategies.distributed import DistributedRows, each_row

__all__ = [
    "Rows",
    "Score",
    "Surface",
    "affordable_rows",
    "covariance_between",
    "look_at",
    "platform",
    "start_scores",
    "surface_of",
]

_TABLE_BYTES = {"cpu": 2**25, "gpu": 2**31}
_IN_FLIGHT = 3
_GAINS_ENTRIES = 16_384  # channels times targets that NumPy works on at a time, in cache
_AFFORDABLE = 1e11  # operations; the same on every machine, so that choices are


Score = Literal["form", "epig", "decision"]
"""The quadratic form, EPIG, or the expected gain in accuracy: :mod:`parbals.scores.gaussian`."""


class Rows(NamedTuple):
    """Design rows as the posterior sees them."""

    across: Float[Array, "n D"]  # e; no columns where the labelled rows span everything
    inside: Float[Array, "n r"]  # z
    mean: Float[Array, "A n"]
    variance: Float[Array, "A n"]


class Surface(NamedTuple):
    """Posterior and target set. Targets are padded; padding weighs nothing."""

    whitening: Whitening
    basis: Float[Array, "d r"]
    location: Float[Array, "r A"]  # posterior means within the rows
    roots: Float[Array, "A r r"]
    target: Rows
    gains: Float[Array, "A M"]
    factor: Float[Array, "A r M"]  # (z R_a)ᵀ of the targets
    share: Float[Array, " M"]  # 1 / number of targets, 0 for padding
    stakes: Stakes | None = None


def platform() -> str:
    """``cpu``, or ``gpu`` for any accelerator: what decides how much is done at once."""
    return "cpu" if _devices()[0].platform == "cpu" else "gpu"


def _devices() -> list[jax.Device]:
    """All devices of this process, or the one that the user told JAX to use."""
    told = getattr(jax.config, "jax_default_device", None)
    if isinstance(told, jax.Device):
        return [told]
    return jax.local_devices(backend=told)[:1] if told else jax.local_devices()


def affordable_rows(channels: Channels, n_targets: int) -> int:
    """How many rows a walk on a CPU looks at in a second or two."""
    (n_columns, n_inside), n_channels = channels.basis.shape, len(channels.roots)
    operations = n_targets * (2 * n_columns + n_channels * (2 * n_inside + 7))
    operations += 2 * (channels.whitening.left.size + channels.whitening.right.size)
    return int(_AFFORDABLE // max(operations, 1))


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
    parts = [target_gains(target.mean[:, b], target.variance[:, b], np) for b in blocks]
    share = pad_rows(np.full(n_targets, 1.0 / max(n_targets, 1)), size)
    whole = *seen, target, np.concatenate(parts, axis=1), factor.swapaxes(1, 2), share, stakes
    return Surface(*jax.tree.map(lambda x: np.ascontiguousarray(x, np.float32), whole))


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


def look_at(surface: Surface, rows: Float[Array, "n d"]) -> tuple[Rows, Float[Array, "A n r"]]:
    """Design rows, and z R_a of them."""
    with jax.default_matmul_precision("highest"):
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


def start_scores(
    surface: Surface, X: np.ndarray | DistributedRows, score: Score = "form"
) -> np.ndarray:
    """(N,) a score of every row of X (N, D); the EPIG itself, "epig", of two classes alone."""
    return each_row(X, partial(_walk, surface, score=score))


def _walk(surface: Surface, X: np.ndarray, *, score: Score) -> np.ndarray:
    """The scores of rows in memory or in a mapped file."""
    with working_precision(np.dtype(np.float32)):
        return _walk_in_blocks(surface, X, score)


def _walk_in_blocks(surface: Surface, X: np.ndarray, score: Score) -> np.ndarray:
    devices = _devices()
    mesh = Mesh(np.array(devices), ("rows",))
    by_rows, everywhere = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in (("rows",), ()))
    surface = jax.device_put(surface, everywhere)
    (n_columns, n_inside), n_channels = surface.basis.shape, len(surface.roots)
    pair_bytes = 4 * max(len(surface.share) * n_channels, n_columns + n_inside * n_channels)
    block = bucket(max(_TABLE_BYTES[platform()] // pair_bytes, 128))
    block = len(devices) * min(block, bucket(-(-len(X) // len(devices))))
    waiting: list[Array] = []
    scores: list[np.ndarray] = []
    for rows in block_rows(len(X), block):
        part = jax.device_put(pad_rows(_small(X[rows]), block), by_rows)
        waiting.append(_start_of_block(surface, part, score=score))
        if len(waiting) > _IN_FLIGHT:
            scores.append(np.asarray(waiting.pop(0)))
    scores.extend(np.asarray(part) for part in waiting)
    return np.concatenate(scores)[: len(X)].astype(np.float64)


@partial(jax.jit, static_argnames=("score",), compiler_options=COMPILED_SOON)
def _start_of_block(
    surface: Surface, features: Float[Array, "n D"], *, score: Score
) -> Float[Array, " n"]:
    features = features.astype(jnp.float32)
    design = jnp.concatenate([features, jnp.ones_like(features[:, :1])], axis=1)
    rows, factor = look_at(surface, design)
    here, there = (rows.mean[0], rows.variance[0]), surface.target
    shared = _product(rows.across, there.across.T)

    def covariance(parts: tuple[Array, Array]) -> Array:
        """(n, M) of one channel."""
        return shared + _product(*parts)

    if score == "epig":
        table = covariance((factor[0], surface.factor[0]))
        return closed_epig(*here, there.mean[0], there.variance[0], table, surface.share)
    gains, parts = target_gains(rows.mean, rows.variance), (factor, surface.factor)
    if score == "decision":
        decisions = decisions_at(there.mean, there.variance, stakes=surface.stakes)
        return decision_gain(parts, gains, decisions, surface.share, table=covariance)
    return quadratic_gain(parts, gains, surface.gains, surface.share, table=covariance)


def _small(rows: np.ndarray) -> np.ndarray:
    """Half precision travels as it is, half the bytes; anything else as float32."""
    return rows if rows.dtype in (np.float16, np.float32) else rows.astype(np.float32)


def _product(left: Array, right: Array) -> Array:
    return jnp.matmul(left, right, precision=jax.lax.Precision.HIGHEST)
