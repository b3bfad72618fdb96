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

from parbals.arrays import block_rows, bucket, pad_rows
from parbals.machine import devices, several_threads, working_precision
from parbals.scores.gaussian import Covariances, probs_and_gains
from parbals.shapes import Array, Bool, Float, Int
from parbals.strategies.backends.base import Places, PoolRows
from parbals.strategies.distributed import PoolFeatures
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

_COMPILED_SOON = {"xla_gpu_autotune_level": "0"}
"""On a GPU, choosing the fastest of all kernels for every product takes half a minute, and gains a
few hundredths of a second."""
_TABLE_BYTES = {"cpu": 2**25, "gpu": 2**31}
_IN_FLIGHT = 3  # blocks
_KEPT_ENTRIES = {"cpu": 2**25, "gpu": 2**28}
"""Covariances of kept rows with the targets: 128 MB and 1 GB."""
_FEWEST_KEPT, _MOST_KEPT = 1_024, 8_192
"""Rows: all that a step asks for, and more than most batches do."""
_NEW = {"cpu": 128, "gpu": 512}  # rows that are computed together, at least
_FEWEST_LABELS = 32
"""Smaller batches run through the programs of this size: one of 10 and one of 20 share them."""

_compiled = partial(jax.jit, compiler_options=_COMPILED_SOON)


def walk(surface: Surface, X: PoolFeatures, *, score: Score) -> Float[Array, " N"]:
    """A score of every row before the batch, in memory or in a mapped file."""
    with _exactly():
        found = devices()
        mesh = Mesh(np.array(found), ("rows",))
        by_rows, everywhere = (NamedSharding(mesh, PartitionSpec(*a)) for a in (("rows",), ()))
        surface = jax.device_put(surface, everywhere)
        block = _block_size(surface, -(-len(X) // len(found))) * len(found)
        waiting, scores = list[Any](), list[np.ndarray]()
        for rows in block_rows(len(X), block):
            part = X[rows]
            if part.dtype != np.float16:  # which travels as it is, half the bytes
                part = part.astype(np.float32, copy=False)
            part = jax.device_put(pad_rows(part, block), by_rows)
            waiting.append(_scores_of_block(surface, part, score=score))
            if len(waiting) > _IN_FLIGHT:
                scores.append(np.asarray(waiting.pop(0)))
        scores.extend(np.asarray(part) for part in waiting)
    return np.concatenate(scores)[: len(X)].astype(np.float64)


def platform() -> str:
    """``cpu``, or ``gpu`` for any accelerator: what decides how much is done at once."""
    return "cpu" if devices()[0].platform == "cpu" else "gpu"


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


@partial(_compiled, static_argnames=("score",))
def _scores_of_block(
    surface: Surface, features: Float[Array, "n D"], *, score: Score
) -> Float[Array, " n"]:
    return scores_before(surface, features.astype(jnp.float32), score, jnp)


class _Kept(NamedTuple):
    """Rows that have been computed, and their covariances with the targets."""

    rows: Rows
    before: Float[Array, "A n M"]


class _Known(NamedTuple):
    """What all universes, each for itself, have learnt; there is room for labels to come."""

    points: _Kept  # that were labelled
    shift: Float[Array, "A U R"]
    weights: Float[Array, "A U R R"]
    targets: Targets


@contextmanager
def opened(surface: Surface, rows: PoolRows, score: Score, n_labels: int) -> "Iterator[JaxBackend]":
    """A backend for as many labels as will come; what NumPy has to do is too little for threads."""
    with _exactly(), several_threads():
        yield JaxBackend(surface, rows, score, n_labels)


class JaxBackend:
    """A :class:`~parbals.strategies.backends.base.Backend` on the first device."""

    def __init__(self, surface: Surface, rows: PoolRows, score: Score, n_labels: int) -> None:
        self._surface, self._rows, self._score = jax.device_put(surface), rows, score
        most = _KEPT_ENTRIES[platform()] // surface.targets.gains.size
        self._places = Places(min(max(most, _FEWEST_KEPT), _MOST_KEPT))
        # New rows come in whole blocks: there is room for one after the last.
        self._kept = self._room(self._places.size + _FEWEST_KEPT)
        self._points, self._n_seen = self._room(bucket(n_labels, _FEWEST_LABELS)), 0
        self._targets: Targets = surface.targets  # those of all universes, once there is one
        if platform() == "gpu" and bucket(len(rows.ahead)) <= self._places.size:
            self._places_of(rows.ahead)  # all at once takes no longer than what one step asks for

    def _room(self, n_rows: int) -> _Kept:
        there = self._surface.target_rows
        n_channels, n_targets, n_inside = there.factor.shape
        return _nothing(n_channels, n_rows, there.across.shape[1], n_inside, n_targets)

    def branch(self, parents: Int[Array, " U"]) -> None:
        """Every universe is there from the beginning, so that all sizes stay."""

    def renew(self, learnt: Learnt, members: Int[Array, " U"], moved: Bool[Array, "V M"]) -> None:
        n_labels, size = learnt.shift.shape[2], len(self._points.rows.across)
        n_channels, n_universes = len(learnt.shift), len(members)
        shift = np.zeros((n_channels, n_universes, size), np.float32)
        weights = np.zeros((*shift.shape, size), np.float32)
        shift[..., :n_labels] = learnt.shift[:, members]
        weights[..., :n_labels, :n_labels] = learnt.weights[:, members]
        if self._targets.gains.ndim == 2:
            each = (part[:, None].repeat(n_universes, axis=1) for part in self._targets)
            self._targets = Targets(*each)
        moments = learnt.target_mean[:, members], learnt.target_variance[:, members]
        own = *moments, moved[members], shift, weights
        # One call a step: a small array takes as long to send as a program to start.
        for place in range(min(self._n_seen, max(n_labels - 1, 0)), max(n_labels, 1)):
            new = self._room(1)
            if n_labels:
                across, *others = learnt.points
                row = Rows(across[place, None], *(part[:, place, None] for part in others))
                new = _Kept(row, learnt.at_targets[:, place, None])
            self._known = _renew(self._points, self._targets, new, place, *own)
            self._points, self._targets = self._known.points, self._known.targets
        self._n_seen = n_labels

    def screen(self, indices: Int[Array, " n"], chunk: int) -> Iterator[Float[Array, " m"]]:
        """On an accelerator all are computed together, which takes no longer than one chunk."""
        together = chunk if platform() == "cpu" else len(indices)
        for block in block_rows(len(indices), together):
            values = self._scores(indices[block], "screen")
            yield from (values[some] for some in block_rows(len(values), chunk))

    def score(self, indices: Int[Array, " n"]) -> Float[Array, " n"]:
        return self._scores(indices, self._score)

    def _scores(self, indices: Int[Array, " n"], score: Score) -> Float[Array, " n"]:
        places = self._places_of(indices).astype(np.int32)
        asked = pad_rows(places, bucket(len(places), 64))
        values = _scores_of_kept(self._kept, self._known, self._surface, asked, score=score)
        return np.asarray(values)[: len(indices)]

    def _places_of(self, indices: Int[Array, " n"]) -> Int[Array, " n"]:
        """Where rows are kept; those that are new are computed."""
        places, new, first = self._places.of(indices)
        if len(new):
            design = pad_rows(self._rows.design(new), bucket(len(new), _NEW[platform()]))
            self._kept = _keep(self._kept, self._surface, design, first)
        return places


@partial(jax.jit, static_argnums=range(5))
def _nothing(n_channels: int, n_rows: int, across: int, inside: int, n_targets: int) -> _Kept:
    """Room for rows."""
    zeros: Any = partial(jnp.zeros, dtype=jnp.float32)
    each = n_channels, n_rows
    rows = Rows(zeros((n_rows, across)), zeros((*each, inside)), zeros(each), zeros(each))
    return _Kept(rows, zeros((*each, n_targets)))


@partial(_compiled, donate_argnums=0)
def _keep(
    kept: _Kept, surface: Surface, design: Float[Array, "n d"], first: Int[Array, ""] | int
) -> _Kept:
    """With design rows at consecutive places."""
    rows = rows_of(surface, design)
    return _with(kept, _Kept(rows, covariance(rows, surface.target_rows)), first)


def _with(kept: _Kept, new: _Kept, first: Any) -> _Kept:
    def put(whole: Any, part: Any, axis: int) -> Any:
        return jax.lax.dynamic_update_slice_in_dim(whole, part, first, axis)

    rows = Rows(*map(put, kept.rows, new.rows, (0, 1, 1, 1)))
    return _Kept(rows, put(kept.before, new.before, 1))


@partial(_compiled, static_argnames=("score",))
def _scores_of_kept(
    kept: _Kept, known: _Known, surface: Surface, places: Int[Array, " n"], *, score: Score
) -> Float[Array, " n"]:
    """The mean over the universes."""
    across, *others = kept.rows
    rows = Rows(across[places], *(part[:, places] for part in others))
    seen = seen_by(rows, known.points.rows, known.shift, known.weights, jnp)
    base, labelled = (x.swapaxes(1, 2) for x in (kept.before[:, places], known.points.before))
    covariances = Covariances(base, seen.pull, labelled)
    moments = seen.mean, seen.variance
    return scores_by(score, *moments, covariances, known.targets, surface, jnp).mean(axis=0)


@partial(_compiled, donate_argnums=0)
def _renew(
    points: _Kept,
    targets: Targets,
    new: _Kept,
    place: Int[Array, ""] | int,
    mean: Float[Array, "A U M"],
    variance: Float[Array, "A U M"],
    moved: Bool[Array, "U M"],
    shift: Float[Array, "A U R"],
    weights: Float[Array, "A U R R"],
) -> _Known:
    """With one point at a place, and the softmax computed anew where logits have moved."""
    where: Any = partial(jnp.where, moved)
    probs, gains = map(where, probs_and_gains(mean, variance, jnp), targets[2:])
    seen = Targets(mean, variance, probs, gains)
    return _Known(_with(points, new, place), shift, weights, seen)
