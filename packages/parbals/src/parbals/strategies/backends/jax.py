"""Scores in closed form by JAX, on accelerators or on several devices.

The walk takes rows in blocks, from memory or from a mapped file: only one block of the table of
pairs exists at a time, and the next block is copied while this one is scored. The rows of a block
are spread over the local devices, each of which holds the whole surface, so that devices exchange
nothing.

A growing batch asks one device. To send an array, to start a program and to fetch what it gives
take longer than what a step computes, and a program takes a second to compile: so a step is one
program. It is sent all that universes have learnt in one piece, screens the rows that are asked
for, and scores those of them that are the likeliest to be asked for next.
"""

import math
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
_IN_FLIGHT, _FEWEST_ROWS = 3, 1_024  # blocks, and rows of a device in one
_KEPT = 8_192
"""Design rows on the device: those of the highest scores before the batch, and as many again."""
_ASKED = {"cpu": 128, "gpu": 1_024}  # rows at a time
_SCORED, _PAIRS = {"cpu": 64, "gpu": 256}, 2**24
"""Rows that are scored as well, or as many as make these pairs with targets in all latents and
universes: their scores take no longer than another start."""
_FEWEST_LABELS = 32
"""Smaller batches run through the programs of this size: one of 10 and one of 20 share them."""

_compiled = partial(jax.jit, compiler_options=_COMPILED_SOON)


_Layout = tuple[Any, tuple[tuple[int, ...], ...]]
"""How arrays lie one behind the other in a single one: the tuple that they form, their shapes."""


def _in_one(arrays: Any) -> tuple[Float[Array, " k"], _Layout]:
    """A tuple of arrays, or of such tuples, as a single array: each takes as long to send."""
    leaves, structure = jax.tree.flatten(arrays)
    whole = np.concatenate([np.ravel(leaf).astype(np.float32, copy=False) for leaf in leaves])
    return whole, (structure, tuple(map(np.shape, leaves)))


def _parts(whole: Float[Array, " k"], layout: _Layout) -> Any:
    """The arrays in a single one; NumPy's are views of it."""
    (structure, shapes), leaves, end = layout, list[Any](), 0
    for shape in shapes:
        begin, end = end, end + math.prod(shape)
        leaves.append(whole[begin:end].reshape(shape))
    return jax.tree.unflatten(structure, leaves)


def walk(surface: Surface, X: PoolFeatures, *, score: Score) -> Float[Array, " N"]:
    """A score of every row before the batch, in memory or in a mapped file."""
    with _exactly():
        found = devices()
        mesh = Mesh(np.array(found), ("rows",))
        by_rows, everywhere = (NamedSharding(mesh, PartitionSpec(*a)) for a in (("rows",), ()))
        block = _block_size(surface, -(-len(X) // len(found))) * len(found)
        whole, layout = _in_one(surface)
        whole = jax.device_put(whole, everywhere)
        waiting, scores = list[Any](), list[np.ndarray]()
        for rows in block_rows(len(X), block):
            part = X[rows]
            if part.dtype != np.float16:  # which travels as it is, half the bytes
                part = part.astype(np.float32, copy=False)
            part = jax.device_put(pad_rows(part, block), by_rows)
            waiting.append(_scores_of_block(whole, part, layout=layout, score=score))
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
    (n_columns, n_inside), n_latents = surface.basis.shape, len(surface.roots)
    pair_bytes = 4 * max(len(surface.share) * n_latents, n_columns + n_inside * n_latents)
    fits, some = bucket(max(_TABLE_BYTES[platform()] // pair_bytes, 128)), bucket(n_rows) // 4
    return min(fits, max(some, _FEWEST_ROWS))  # a quarter: the last block alone is padded


@partial(_compiled, static_argnames=("layout", "score"))
def _scores_of_block(
    whole: Float[Array, " k"], features: Float[Array, "n D"], *, layout: _Layout, score: Score
) -> Float[Array, " n"]:
    return scores_before(_parts(whole, layout), features.astype(jnp.float32), score, jnp)


class _Sheet(NamedTuple):
    """What a step sends: rows, and what each universe knows; there is room for labels to come."""

    places: Float[Array, " n"]  # of the rows that are asked for
    moved: Float[Array, "U M"]  # 1 where the softmax is to be computed
    mean: Float[Array, "A U M"]  # of the targets
    variance: Float[Array, "A U M"]
    points: Rows  # that were labelled (R)
    shift: Float[Array, "A U R"]
    weights: Float[Array, "A U R R"]


@contextmanager
def opened(surface: Surface, rows: PoolRows, score: Score, n_labels: int) -> "Iterator[JaxBackend]":
    """A backend for as many labels as will come; what NumPy has to do is too little for threads."""
    with _exactly(), several_threads():
        yield JaxBackend(surface, rows, score, n_labels)


class JaxBackend:
    """A :class:`~parbals.strategies.backends.base.Backend` on the first device."""

    def __init__(self, surface: Surface, rows: PoolRows, score: Score, n_labels: int) -> None:
        self._surface, self._rows, self._score = surface, rows, score
        self._n_labels = bucket(n_labels, _FEWEST_LABELS)
        whole, self._layout = _in_one(surface)
        self._surface_there = jax.device_put(whole)
        self._places, n_columns = Places(_KEPT), len(surface.basis)
        self._design: Float[Array, "k d"] = np.zeros((_KEPT, n_columns), np.float32)
        self._scores = np.full(_KEPT, np.nan, np.float32)  # that are known
        self._places_of(rows.ahead[-_KEPT // 2 :])
        self._sheet: _Sheet | None = None

    def branch(self, parents: Int[Array, " U"]) -> None:
        """Every universe is there from the beginning, so that all sizes stay."""

    def renew(self, learnt: Learnt, members: Int[Array, " U"], moved: Bool[Array, "V M"]) -> None:
        sheet = self._sheet = self._sheet or self._room(len(members))
        mean, variance, shift, weights = (
            part[:, members]
            for part in (learnt.target_mean, learnt.target_variance, learnt.shift, learnt.weights)
        )
        known = moved[members], mean, variance, learnt.points, shift, weights
        for room, part in zip(*map(jax.tree.leaves, (sheet[1:], known)), strict=True):
            room[tuple(map(slice, part.shape))] = part
        self._scores[:] = np.nan

    def _room(self, n_universes: int) -> _Sheet:
        """A sheet; the softmax of the targets is as before the batch."""
        there, n_labels = self._surface.target_rows, self._n_labels
        n_latents, n_targets, n_inside = there.factor.shape
        each, n_across = (n_latents, n_labels), there.across.shape[1]
        points = Rows(*map(np.zeros, ((n_labels, n_across), (*each, n_inside), each, each)))
        mean = np.zeros((n_latents, n_universes, n_targets))
        weights = np.zeros((n_latents, n_universes, n_labels, n_labels))
        places, shift = np.zeros(_ASKED[platform()]), weights[..., 0]
        room = _Sheet(places, mean[0], mean, mean, points, shift, weights)
        self._sent, self._sheet_layout = _in_one(room)
        before = self._surface.targets[2:]
        self._softmax = tuple(part[:, None].repeat(n_universes, axis=1) for part in before)
        self._n_scored = min(max(_SCORED[platform()], _PAIRS // mean.size), len(places))
        sheet: _Sheet = _parts(self._sent, self._sheet_layout)
        return sheet

    def screen(self, indices: Int[Array, " n"], chunk: int) -> Iterator[Float[Array, " m"]]:
        """On an accelerator all are computed together, which takes no longer than one chunk."""
        for block in block_rows(len(indices), _ASKED[platform()]):
            values = self._step(indices[block])
            yield from (values[some] for some in block_rows(len(values), chunk))

    def score(self, indices: Int[Array, " n"]) -> Float[Array, " n"]:
        if np.isnan(self._scores[self._places_of(indices)]).any():
            for block in block_rows(len(indices), self._n_scored):
                self._step(indices[block])
        return self._scores[self._places_of(indices)]

    def _step(self, indices: Int[Array, " n"]) -> Float[Array, " n"]:
        """The screen of rows; the scores of the first of them are kept."""
        places = self._places_of(indices)
        self._sent[: len(places)] = places  # which lie first
        given = self._surface_there, self._design_there, self._sent
        fixed = (self._layout, self._sheet_layout), self._score, self._n_scored
        self._softmax, values = _screen_and_scores(self._softmax, *given, *fixed)
        screens, scores = np.split(np.asarray(values), [-self._n_scored])
        self._scores[places[: len(scores)]] = scores[: len(places)]
        return screens[: len(places)]

    def _places_of(self, indices: Int[Array, " n"]) -> Int[Array, " n"]:
        """Where design rows lie; with a new one all are sent again, which seldom happens."""
        places, new, first = self._places.of(indices)
        if len(new):
            here = slice(first, first + len(new))
            self._design[here], self._scores[here] = self._rows.design(new), np.nan
            self._design_there = jax.device_put(self._design)
        return places


@partial(_compiled, static_argnums=(4, 5, 6), donate_argnums=0)
def _screen_and_scores(
    softmax: tuple[Float[Array, "A U M"], ...],
    surface_in_one: Float[Array, " s"],
    design: Float[Array, "k d"],
    sheet_in_one: Float[Array, " t"],
    layouts: tuple[_Layout, _Layout],
    score: Score,
    n_scored: int,
) -> tuple[tuple[Float[Array, "A U M"], ...], Float[Array, " both"]]:
    """The softmax of the targets, computed anew where logits have moved, and means over the
    universes: the screen of all rows and, behind it, the scores of the first ``n_scored``.
    """
    surface, sheet = map(_parts, (surface_in_one, sheet_in_one), layouts)
    moments = sheet.mean, sheet.variance
    where: Any = partial(jnp.where, sheet.moved > 0)
    softmax = tuple(map(where, probs_and_gains(*moments, jnp), softmax))
    rows = rows_of(surface, design[sheet.places.astype(jnp.int32)])
    seen = seen_by(rows, sheet.points, sheet.shift, sheet.weights, jnp)
    base, labelled = (covariance(surface.target_rows, x) for x in (rows, sheet.points))

    def values(score: Score, n: int) -> Float[Array, " n"]:
        mean, variance, pull = (part[:, :, :n] for part in seen)
        covariances = Covariances(base[:, :, :n], pull, labelled)
        given = Targets(*moments, *softmax), surface, jnp
        return scores_by(score, mean, variance, covariances, *given).mean(axis=0)

    both: Any = jnp.concatenate([values("screen", len(sheet.places)), values(score, n_scored)])
    return softmax, both
