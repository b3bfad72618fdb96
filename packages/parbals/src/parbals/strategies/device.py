"""The walk over a pool and the greedy search of ParBaLS on accelerators, or on several devices.

Rows come in blocks, as float32, from memory or from a mapped file: only one block of the table of
pairs exists at a time, and the next block is copied while this one is scored. The rows of a block
are spread over the local devices, each of which holds the whole surface, so that devices exchange
nothing.

The points that stand highest then go through one compiled program
(:mod:`parbals.strategies.search`). Scores fall while a batch grows. When one of the points that
were left on the host might be the best it is their turn: the program goes on from there with those
that stand highest now.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float

from parbals.accelerators import COMPILED_SOON, devices, platform, working_precision
from parbals.arrays import block_rows, bucket, pad_rows
from parbals.posterior.predictive import add_bias
from parbals.strategies.distributed import DistributedRows
from parbals.strategies.growing import MOST_SCORED, SHORT
from parbals.strategies.host import Found
from parbals.strategies.labeller import Labeller
from parbals.strategies.search import Search, greedy_search
from parbals.strategies.surface import Score, Surface, scores_of

__all__ = ["search_on_device", "walk_on_devices"]

_TABLE_BYTES = {"cpu": 2**25, "gpu": 2**31}
_IN_FLIGHT = 3
_SPARE = 64
_WIDER = {"cpu": 1, "gpu": 8}
"""On an accelerator another window costs more than a larger one."""
_MOST_PAIRS = {"cpu": 2**25, "gpu": 2**28}
"""Channels times targets times rows in the window: 128 MB and 1 GB."""
_STEPS = 32
"""Smaller batches run through the program of this size: one of 10 and one of 20 share it."""


def walk_on_devices(surface: Surface, X: np.ndarray, *, score: Score) -> np.ndarray:
    """(N,) a score of every row of X (N, D), in memory or in a mapped file."""
    with working_precision(np.dtype(np.float32)):
        return _walk(surface, X, score)


def _walk(surface: Surface, X: np.ndarray, score: Score) -> np.ndarray:
    found = devices()
    mesh = Mesh(np.array(found), ("rows",))
    by_rows, everywhere = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in (("rows",), ()))
    surface = jax.device_put(surface, everywhere)
    (n_columns, n_inside), n_channels = surface.basis.shape, len(surface.roots)
    pair_bytes = 4 * max(len(surface.share) * n_channels, n_columns + n_inside * n_channels)
    block = bucket(max(_TABLE_BYTES[platform()] // pair_bytes, 128))
    block = len(found) * min(block, bucket(-(-len(X) // len(found))))
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
    scores: Array = scores_of(surface, features.astype(jnp.float32), score, jnp)
    return scores


def _small(rows: np.ndarray) -> np.ndarray:
    """Half precision travels as it is, half the bytes; anything else as float32."""
    return rows if rows.dtype in (np.float16, np.float32) else rows.astype(np.float32)


def search_on_device(
    surface: Surface,
    labeller: Labeller | None,
    X: np.ndarray | DistributedRows,
    start: np.ndarray,
    is_free: np.ndarray,
    pending: np.ndarray,
    batch_size: int,
    *,
    score: Score,
) -> Found:
    """What :func:`parbals.strategies.host.search_on_host` chooses, window by window."""
    with working_precision(np.dtype(np.float32)):
        last, is_free, seen, parts = start.copy(), is_free.copy(), pending, list[Found]()
        n_rows = _window_size(surface, len(seen) + batch_size, len(start))
        placed = jax.device_put((surface, labeller))
        while n_left := batch_size + len(pending) - len(seen):
            window, outside = _highest(last, is_free, n_rows - len(seen))
            positions, place = np.concatenate([seen, window]), np.arange(n_rows)
            search = greedy_search(
                *placed,
                jax.device_put(pad_rows(add_bias(X[positions], np.float32), n_rows)),
                jax.device_put(pad_rows(last[positions].astype(np.float32), n_rows)),
                jax.device_put((place >= len(seen)) & (place < len(positions))),
                np.float32(outside),
                len(pending),
                len(seen),
                n_left,
                steps=bucket(batch_size, _STEPS),
                rank=bucket(len(pending) + batch_size, _STEPS),
                score=score,
            )
            last[window] = np.asarray(search.last)[len(seen) : len(positions)]
            parts.append(_host_side(search, positions))
            seen, is_free[parts[-1].chosen] = np.append(seen, parts[-1].chosen), False
    chosen, scores, n_scored = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("chosen", "scores", "n_scored")
    )
    return Found(chosen, scores, n_scored, sum(part.n_cut for part in parts))


def _host_side(search: Search, positions: np.ndarray) -> Found:
    """What a window has chosen, as positions in the pool."""
    done = slice(int(search.n_chosen))
    return Found(
        positions[np.asarray(search.chosen)[done]],
        np.asarray(search.scores)[done],
        np.asarray(search.n_scored)[done],
        int(search.n_cut),
    )


def _window_size(surface: Surface, n_seen: int, n_pool: int) -> int:
    """Rows that the program follows: all that a step may score, and what it compares, fit."""
    least = MOST_SCORED + SHORT + _SPARE + n_seen
    n_rows, most = bucket(_WIDER[platform()] * least), _MOST_PAIRS[platform()]
    while n_rows * surface.gains.size > most and n_rows // 2 >= least:
        n_rows //= 2
    if n_rows * surface.gains.size > most:
        n_rows = -(-least // 256) * 256
    return min(n_rows, bucket(n_pool, 256))


def _highest(last: np.ndarray, is_free: np.ndarray, n: int) -> tuple[np.ndarray, float]:
    """Positions of the ``n`` free points that stand highest, in their order; best of the rest."""
    free = np.flatnonzero(is_free)
    if len(free) <= n:
        return free, -np.inf
    order = np.argpartition(-last[free], n)
    return np.sort(free[order[:n]]), float(last[free[order[n]]])
