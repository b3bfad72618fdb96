"""Scores in closed form by JAX, on accelerators or on several devices.

The walk takes rows in blocks, from memory or from a mapped file: only one block of the table of
pairs exists at a time, and the next block is copied while this one is scored. The rows of a block
are spread over the local devices, each of which holds the whole surface, so that devices exchange
nothing.

A growing batch asks one device. What has been computed of a row stays there; a step sends what
universes have learnt, and small programs of fixed sizes, compiled once, give back one number for
each row that is asked for.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from parbals.accelerators import COMPILED_SOON, devices, platform, working_precision
from parbals.arrays import block_rows, bucket, pad_rows
from parbals.scores.gaussian import Covariances, probs_and_gains
from parbals.shapes import Array, Float, Int
from parbals.strategies.backends import Places, PoolRows
from parbals.strategies.learnt import Learnt, seen_by
from parbals.strategies.surface import (
    Rows,
    Score,
    Surface,
    Targets,
    covariance,
    rows_of,
    scores_before,
    scores_by,
)

__all__ = ["JaxBackend", "opened", "walk"]

_TABLE_BYTES = {"cpu": 2**25, "gpu": 2**31}
_IN_FLIGHT = 3  # blocks
_KEPT_ENTRIES = {"cpu": 2**25, "gpu": 2**28}
"""Covariances of kept rows with the targets: 128 MB and 1 GB."""
_FEWEST_KEPT, _MOST_KEPT = 1_024, 8_192
"""Rows: all that a step asks for, and more than most batches do."""
_RENEWED = {"cpu": 2**10, "gpu": 2**14}  # targets of all universes at a time
_FEWEST_LABELS = 32
"""Smaller batches run through the programs of this size: one of 10 and one of 20 share them."""

_compiled = partial(jax.jit, compiler_options=COMPILED_SOON)


def walk(surface: Surface, X: Float[Array, "N D"], *, score: Score) -> Float[Array, " N"]:
    """A score of every row before the batch, in memory or in a mapped file."""
    with _exactly():
        found = devices()
        mesh = Mesh(np.array(found), ("rows",))
        by_rows, everywhere = (NamedSharding(mesh, PartitionSpec(*a)) for a in (("rows",), ()))
        surface = jax.device_put(surface, everywhere)
        block = _block_size(surface, -(-len(X) // len(found))) * len(found)
        waiting, scores = list[Any](), list[np.ndarray]()
        for rows in block_rows(len(X), block):
            part = jax.device_put(pad_rows(_small(X[rows]), block), by_rows)
            waiting.append(_scores_of_block(surface, part, score=score))
            if len(waiting) > _IN_FLIGHT:
                scores.append(np.asarray(waiting.pop(0)))
        scores.extend(np.asarray(part) for part in waiting)
    return np.concatenate(scores)[: len(X)].astype(np.float64)


@contextmanager
def _exactly() -> Iterator[None]:
    """Single precision, and products in all of it, whatever the caller has told JAX."""
    with working_precision(np.dtype(np.float32)), jax.default_matmul_precision("highest"):
        yield


def _block_size(surface: Surface, n_rows: int) -> int:
    """Rows of a device that are scored together."""
    (n_columns, n_inside), n_channels = surface.basis.shape, len(surface.roots)
    pair_bytes = 4 * max(len(surface.share) * n_channels, n_columns + n_inside * n_channels)
    return min(bucket(max(_TABLE_BYTES[platform()] // pair_bytes, 128)), bucket(n_rows))


def _small(rows: Float[Array, "n D"]) -> Float[Array, "n D"]:
    """Half precision travels as it is, half the bytes; anything else as float32."""
    return rows if rows.dtype in (np.float16, np.float32) else rows.astype(np.float32)


@partial(_compiled, static_argnames=("score",))
def _scores_of_block(
    surface: Surface, features: Float[Array, "n D"], *, score: Score
) -> Float[Array, " n"]:
    return scores_before(surface, features.astype(jnp.float32), score, jnp)


class _Kept(NamedTuple):
    """Rows that have been computed, and their covariances with the targets."""

    rows: Rows
    before: Float[Array, "A n M"]


@contextmanager
def opened(surface: Surface, rows: PoolRows, score: Score, n_labels: int) -> "Iterator[JaxBackend]":
    """A backend for as many labels as will come."""
    with _exactly():
        yield JaxBackend(surface, rows, score, n_labels)


class JaxBackend:
    """A :class:`~parbals.strategies.backends.Backend` on the first device."""

    def __init__(self, surface: Surface, rows: PoolRows, score: Score, n_labels: int) -> None:
        self._surface, self._rows, self._score = jax.device_put(surface), rows, score
        self._n_labels = bucket(n_labels, _FEWEST_LABELS)
        n_channels, n_targets, n_inside = surface.target_rows.factor.shape
        most = _KEPT_ENTRIES[platform()] // surface.targets.gains.size
        most = min(max(most, _FEWEST_KEPT), _MOST_KEPT)
        self._places, n_rows = Places(most), most + _FEWEST_KEPT  # new ones come in whole blocks
        across = surface.target_rows.across.shape[1]
        self._kept = _nothing(n_channels, n_rows, across, n_inside, n_targets)

    def renew(
        self, mean: Float[Array, "A n"], variance: Float[Array, "A n"]
    ) -> tuple[Float[Array, "A n"], Float[Array, "A n"]]:
        size = _RENEWED[platform()]
        parts = []
        for some in block_rows(mean.shape[1], size):
            room = (0, 0), (0, size - (some.stop - some.start))
            parts.append(_renew(*(np.pad(part[:, some], room) for part in (mean, variance))))
        probs, gains = (np.concatenate(x, 1) for x in zip(*jax.device_get(parts), strict=True))
        return probs[:, : mean.shape[1]], gains[:, : mean.shape[1]]

    def follow(self, learnt: Learnt, members: Int[Array, " U"]) -> None:
        """Every universe for itself, and room for labels to come: all sizes stay."""
        across, factor, *moments = learnt.points

        def roomy(array: np.ndarray, *axes: int) -> np.ndarray:
            sizes = [self._n_labels - n if i in axes else 0 for i, n in enumerate(array.shape)]
            return np.pad(array, [(0, size) for size in sizes])

        self._learnt = jax.device_put(
            learnt._replace(
                points=Rows(roomy(across, 0), roomy(factor, 1), *(roomy(m, 1) for m in moments)),
                at_targets=roomy(learnt.at_targets, 1),
                shift=roomy(learnt.shift[:, members], 2),
                weights=roomy(learnt.weights[:, members], 2, 3),
                targets=Targets(*(part[:, members] for part in learnt.targets)),
                looked_mean=learnt.looked_mean[:, :0],  # not needed there
                looked_variance=learnt.looked_variance[:, :0],
            )
        )

    def screen(self, indices: Int[Array, " n"]) -> Float[Array, " n"]:
        return self._scores(indices, "screen")

    def score(self, indices: Int[Array, " n"]) -> Float[Array, " n"]:
        return self._scores(indices, self._score)

    def _scores(self, indices: Int[Array, " n"], score: Score) -> Float[Array, " n"]:
        places, new, first = self._places.of(indices)
        if len(new):
            design = pad_rows(self._rows.design(new), bucket(len(new), 128))
            self._kept = _keep(self._kept, self._surface, design, first)
        size = bucket(len(places), 64)
        asked = self._kept, self._learnt, self._surface, pad_rows(places, size)
        return np.asarray(_scores_of_kept(*asked, score=score))[: len(indices)]


@partial(jax.jit, static_argnums=range(5))
def _nothing(n_channels: int, n_rows: int, across: int, inside: int, n_targets: int) -> _Kept:
    """Room for rows."""
    zeros: Any = partial(jnp.zeros, dtype=jnp.float32)
    each = n_channels, n_rows
    rows = Rows(zeros((n_rows, across)), zeros((*each, inside)), zeros(each), zeros(each))
    return _Kept(rows, zeros((*each, n_targets)))


@partial(_compiled, donate_argnums=0)
def _keep(
    kept: _Kept, surface: Surface, design: Float[Array, "n d"], first: Int[Array, ""]
) -> _Kept:
    """With design rows at consecutive places."""
    rows = rows_of(surface, design)
    before = covariance(rows, surface.target_rows)

    def put(whole: Any, part: Any, axis: int = 1) -> Any:
        return jax.lax.dynamic_update_slice_in_dim(whole, part, first, axis)

    across, *others = map(put, kept.rows, rows, (0, 1, 1, 1))
    return _Kept(Rows(across, *others), put(kept.before, before))


@partial(_compiled, static_argnames=("score",))
def _scores_of_kept(
    kept: _Kept, learnt: Learnt, surface: Surface, places: Int[Array, " n"], *, score: Score
) -> Float[Array, " n"]:
    """The mean over the universes."""
    across, *others = kept.rows
    rows = Rows(across[places], *(part[:, places] for part in others))
    seen = seen_by(rows, learnt, jnp)
    before, labelled = (x.swapaxes(1, 2) for x in (kept.before[:, places], learnt.at_targets))
    covariances = Covariances(before, seen.pull, labelled)
    moments = seen.mean, seen.variance
    return scores_by(score, *moments, covariances, learnt.targets, surface, jnp).mean(axis=0)


@_compiled
def _renew(
    mean: Float[Array, "A n"], variance: Float[Array, "A n"]
) -> tuple[Float[Array, "A n"], Float[Array, "A n"]]:
    return probs_and_gains(mean, variance, jnp)
