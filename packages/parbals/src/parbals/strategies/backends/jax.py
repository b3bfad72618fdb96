"""Closed-form scores by JAX, on accelerators or on several devices.

The pool is scored in blocks of rows, from memory or from a memory-mapped file: only one block of
the table of pairs exists at a time, and the next block is copied while this one is scored. The rows
of a block are divided among the local devices, each of which holds the whole scoring context, so
devices do not communicate.

A growing batch uses one device. Sending an array, starting a program and fetching its result take
longer than the computation of a step, and a program takes a second to compile. Each step is
therefore one program: it receives the state of all universes as one array, screens the requested
rows, and also scores those rows that are likely to be requested next.
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
from parbals.strategies.backends.base import PoolRows, SlotTable
from parbals.strategies.conditioning import UniverseState, condition_rows
from parbals.strategies.distributed import PoolFeatures
from parbals.strategies.scoring import (
    Rows,
    ScoreName,
    ScoringContext,
    Targets,
    compute_scores,
    covariance,
    initial_scores,
    project_design,
)

__all__ = ["JaxBackend", "has_linear_universes", "open_backend", "score_pool"]

has_linear_universes = False

_COMPILER_OPTIONS = {"xla_gpu_autotune_level": "0", "xla_gpu_enable_triton_gemm": False}
"""Autotuning every matrix product on a GPU takes half a minute and saves a few hundredths of a
second. Programs that call cuBLAS for products, and generate no kernels for them, compile in a third
of the time.
"""
_TABLE_BYTES = {"cpu": 2**25, "gpu": 2**31}
_BLOCKS_IN_FLIGHT = 3
_MIN_ROWS_PER_DEVICE = 1_024
_N_SLOTS = 8_192
"""Design rows cached on the device: the highest initial scores, and as many rows again."""
_SCREENED_ROWS = {"cpu": 128, "gpu": 1_024}  # rows per step
_SCORED_ROWS = {"cpu": 64, "gpu": 256}
_SCORED_PAIRS = 2**24
"""A step scores ``_SCORED_ROWS`` of the rows it screens, or as many as make this many pairs with
targets in all latents and universes: scoring them takes no longer than starting another program.
"""
_MIN_LABELS = 64
"""Fewer labels are padded to this number: a batch of 20 and one with 44 pending points share a
compiled program.
"""

_jit = partial(jax.jit, compiler_options=_COMPILER_OPTIONS)


_Layout = tuple[Any, tuple[tuple[int, ...], ...]]
"""How arrays are laid out in a flat array: their tree structure, and the shape of each."""


def _flatten(arrays: Any) -> tuple[Float[Array, " k"], _Layout]:
    """Concatenate a tree of arrays into one: every array takes the same time to send."""
    leaves, structure = jax.tree.flatten(arrays)
    flat = np.concatenate([np.ravel(leaf).astype(np.float32, copy=False) for leaf in leaves])
    return flat, (structure, tuple(map(np.shape, leaves)))


def _unflatten(flat: Float[Array, " k"], layout: _Layout) -> Any:
    """The tree of arrays in a flat one; NumPy arrays are views of it."""
    structure, shapes = layout
    leaves = []
    start = 0
    for shape in shapes:
        stop = start + math.prod(shape)
        leaves.append(flat[start:stop].reshape(shape))
        start = stop
    return jax.tree.unflatten(structure, leaves)


def score_pool(context: ScoringContext, X: PoolFeatures, *, score: ScoreName) -> Float[Array, " N"]:
    """Scores before the batch of all rows of X (N, D), which may be a memory-mapped file."""
    with _full_float32():
        all_devices = devices()
        mesh = Mesh(np.array(all_devices), ("rows",))
        by_rows = NamedSharding(mesh, PartitionSpec("rows"))
        replicated = NamedSharding(mesh, PartitionSpec())
        rows_per_device = -(-len(X) // len(all_devices))
        block_size = _block_size(context, rows_per_device) * len(all_devices)
        flat_context, layout = _flatten(context)
        flat_context = jax.device_put(flat_context, replicated)
        in_flight: list[Any] = []
        scores: list[np.ndarray] = []
        for rows in block_rows(len(X), block_size):
            features = X[rows]
            if features.dtype != np.float16:  # float16 is sent as it is: half the bytes
                features = features.astype(np.float32, copy=False)
            features = jax.device_put(pad_rows(features, block_size), by_rows)
            in_flight.append(_score_block(flat_context, features, layout=layout, score=score))
            if len(in_flight) > _BLOCKS_IN_FLIGHT:
                scores.append(np.asarray(in_flight.pop(0)))
        scores.extend(np.asarray(block) for block in in_flight)
    return np.concatenate(scores)[: len(X)].astype(np.float64)


def platform() -> str:
    """``cpu``, or ``gpu`` for any accelerator; it decides how much is computed at once."""
    return "cpu" if devices()[0].platform == "cpu" else "gpu"


@contextmanager
def _full_float32() -> Iterator[None]:
    """Single precision with exact matrix products, whatever the caller has configured in JAX."""
    with working_precision(np.dtype(np.float32)), jax.default_matmul_precision("highest"):
        yield


def _block_size(context: ScoringContext, n_rows: int) -> int:
    """Number of rows that one device scores at a time, of ``n_rows`` in all."""
    n_columns, n_inside = context.basis.shape
    n_latents = len(context.roots)
    n_entries_per_row = max(len(context.share) * n_latents, n_columns + n_inside * n_latents)
    fits_memory = bucket(max(_TABLE_BYTES[platform()] // (4 * n_entries_per_row), 128))
    quarter = bucket(n_rows) // 4  # several blocks, so that only the last is padded
    return min(fits_memory, max(quarter, _MIN_ROWS_PER_DEVICE))


@partial(_jit, static_argnames=("layout", "score"))
def _score_block(
    flat_context: Float[Array, " k"],
    features: Float[Array, "n D"],
    *,
    layout: _Layout,
    score: ScoreName,
) -> Float[Array, " n"]:
    context = _unflatten(flat_context, layout)
    return initial_scores(context, features.astype(jnp.float32), score, jnp)


class _StepInputs(NamedTuple):
    """Inputs of one step, with room for the labels to come."""

    slots: Float[Array, " n"]  # of the rows to screen; comes first in the flat array
    stale: Float[Array, "U M"]  # 1 where the softmax is to be recomputed
    target_mean: Float[Array, "A U M"]
    target_variance: Float[Array, "A U M"]
    labelled: Rows  # the R labelled points
    mean_coef: Float[Array, "A U R"]
    cov_root: Float[Array, "A U R R"]


@contextmanager
def open_backend(
    context: ScoringContext, rows: PoolRows, score: ScoreName, n_labels: int
) -> "Iterator[JaxBackend]":
    """A backend with room for ``n_labels``; the remaining work of NumPy needs no BLAS threads."""
    with _full_float32(), several_threads():
        yield JaxBackend(context, rows, score, n_labels)


class JaxBackend:
    """A :class:`~parbals.strategies.backends.base.Backend` on the first device."""

    def __init__(
        self, context: ScoringContext, rows: PoolRows, score: ScoreName, n_labels: int
    ) -> None:
        self._context = context
        self._rows = rows
        self._score = score
        self._max_labels = bucket(n_labels, _MIN_LABELS)
        flat_context, self._context_layout = _flatten(context)
        self._device_context = jax.device_put(flat_context)
        self._slots = SlotTable(_N_SLOTS)
        n_columns = len(context.basis)
        self._design: Float[Array, "k d"] = np.zeros((_N_SLOTS, n_columns), np.float32)
        self._scores = np.full(_N_SLOTS, np.nan, np.float32)  # NaN where not computed yet
        self._slots_of(rows.prefetch[-_N_SLOTS // 2 :])
        self._inputs: _StepInputs | None = None

    def branch(self, parents: Int[Array, " U"]) -> None:
        """Do nothing: all universes exist from the start, so that no array changes its size."""

    def update(
        self, state: UniverseState, members: Int[Array, " U"], stale: Bool[Array, "V M"]
    ) -> None:
        if self._inputs is None:
            self._inputs = self._allocate_inputs(len(members))
        inputs = self._inputs
        inputs.stale[...] = stale[members]
        inputs.target_mean[...] = state.target_mean[:, members]
        inputs.target_variance[...] = state.target_variance[:, members]
        n_labels = state.mean_coef.shape[2]
        inputs.labelled.orthogonal[:n_labels] = state.labelled.orthogonal
        inputs.labelled.factor[:, :n_labels] = state.labelled.factor
        inputs.labelled.mean[:, :n_labels] = state.labelled.mean
        inputs.labelled.variance[:, :n_labels] = state.labelled.variance
        inputs.mean_coef[:, :, :n_labels] = state.mean_coef[:, members]
        inputs.cov_root[:, :, :n_labels, :n_labels] = state.cov_root[:, members]
        self._scores[:] = np.nan

    def _allocate_inputs(self, n_universes: int) -> _StepInputs:
        """Zero inputs, as views of the flat array that is sent; the softmax before the batch."""
        target_rows = self._context.target_rows
        n_latents, n_targets, n_inside = target_rows.factor.shape
        n_orthogonal = target_rows.orthogonal.shape[1]
        n_labels = self._max_labels
        n_screened = _SCREENED_ROWS[platform()]
        target_shape = (n_latents, n_universes, n_targets)
        zeros = _StepInputs(
            slots=np.zeros(n_screened),
            stale=np.zeros((n_universes, n_targets)),
            target_mean=np.zeros(target_shape),
            target_variance=np.zeros(target_shape),
            labelled=Rows(
                orthogonal=np.zeros((n_labels, n_orthogonal)),
                factor=np.zeros((n_latents, n_labels, n_inside)),
                mean=np.zeros((n_latents, n_labels)),
                variance=np.zeros((n_latents, n_labels)),
            ),
            mean_coef=np.zeros((n_latents, n_universes, n_labels)),
            cov_root=np.zeros((n_latents, n_universes, n_labels, n_labels)),
        )
        self._flat_inputs, self._inputs_layout = _flatten(zeros)
        targets = self._context.targets
        self._softmax: tuple[Any, Any] = (
            targets.probs[:, None].repeat(n_universes, axis=1),
            targets.gains[:, None].repeat(n_universes, axis=1),
        )
        n_affordable = _SCORED_PAIRS // math.prod(target_shape)
        self._n_scored = min(max(_SCORED_ROWS[platform()], n_affordable), n_screened)
        inputs: _StepInputs = _unflatten(self._flat_inputs, self._inputs_layout)
        return inputs

    def screen(self, indices: Int[Array, " n"], chunk: int) -> Iterator[Float[Array, " m"]]:
        """Screen all chunks at once: on an accelerator that takes no longer than one of them."""
        for block in block_rows(len(indices), _SCREENED_ROWS[platform()]):
            values = self._step(indices[block])
            yield from (values[rows] for rows in block_rows(len(values), chunk))

    def score(self, indices: Int[Array, " n"], chunk: int) -> Iterator[Float[Array, " m"]]:
        """Score all chunks at once, as :meth:`screen` does."""
        if np.isnan(self._scores[self._slots_of(indices)]).any():
            for block in block_rows(len(indices), self._n_scored):
                self._step(indices[block])
        scores = self._scores[self._slots_of(indices)]
        return (scores[block] for block in block_rows(len(scores), chunk))

    def _step(self, indices: Int[Array, " n"]) -> Float[Array, " n"]:
        """Screening scores of rows; the final scores of the first of them are cached."""
        slots = self._slots_of(indices)
        self._flat_inputs[: len(slots)] = slots
        self._softmax, values = _screen_and_score(
            self._softmax,
            self._device_context,
            self._device_design,
            self._flat_inputs,
            (self._context_layout, self._inputs_layout),
            self._score,
            self._n_scored,
        )
        screens, scores = np.split(np.asarray(values), [-self._n_scored])
        self._scores[slots[: len(scores)]] = scores[: len(slots)]
        return screens[: len(slots)]

    def _slots_of(self, indices: Int[Array, " n"]) -> Int[Array, " n"]:
        """Slots of design rows; new rows are rare and send the whole cache to the device again."""
        slots, new_rows, first_new = self._slots.assign(indices)
        if len(new_rows):
            new_slots = slice(first_new, first_new + len(new_rows))
            self._design[new_slots] = self._rows.design(new_rows)
            self._scores[new_slots] = np.nan
            self._device_design = jax.device_put(self._design)
        return slots


@partial(_jit, static_argnums=(4, 5, 6), donate_argnums=0)
def _screen_and_score(
    softmax: tuple[Float[Array, "A U M"], Float[Array, "A U M"]],
    flat_context: Float[Array, " s"],
    design: Float[Array, "k d"],
    flat_inputs: Float[Array, " t"],
    layouts: tuple[_Layout, _Layout],
    score: ScoreName,
    n_scored: int,
) -> tuple[tuple[Float[Array, "A U M"], Float[Array, "A U M"]], Float[Array, " both"]]:
    """One step of a growing batch.

    Returns the softmax (probabilities and gains) of the targets, recomputed where it is stale, and
    scores averaged over the universes: the screen of all rows, followed by the final scores of the
    first ``n_scored``.
    """
    context_layout, inputs_layout = layouts
    context: ScoringContext = _unflatten(flat_context, context_layout)
    inputs: _StepInputs = _unflatten(flat_inputs, inputs_layout)
    is_stale = inputs.stale > 0
    new_probs, new_gains = probs_and_gains(inputs.target_mean, inputs.target_variance, jnp)
    old_probs, old_gains = softmax
    probs: Any = jnp.where(is_stale, new_probs, old_probs)
    gains: Any = jnp.where(is_stale, new_gains, old_gains)
    targets = Targets(inputs.target_mean, inputs.target_variance, probs, gains)
    rows = project_design(context, design[inputs.slots.astype(jnp.int32)])
    conditioned = condition_rows(rows, inputs.labelled, inputs.mean_coef, inputs.cov_root, jnp)
    base = covariance(context.target_rows, rows)
    labelled = covariance(context.target_rows, inputs.labelled)

    def mean_scores(name: ScoreName, n_rows: int) -> Float[Array, " n"]:
        scores = compute_scores(
            name,
            conditioned.mean[:, :, :n_rows],
            conditioned.variance[:, :, :n_rows],
            Covariances(base[:, :, :n_rows], conditioned.cov_update[:, :, :n_rows], labelled),
            targets,
            context,
            jnp,
        )
        return scores.mean(axis=0)

    screens = mean_scores("screen", len(inputs.slots))
    scores = mean_scores(score, n_scored)
    values: Any = jnp.concatenate([screens, scores])
    return (probs, gains), values
