"""The greedy search of ParBaLS in closed form, one compiled program for an accelerator.

*Scored lazily.* Before the batch every point is scored once. A further label seldom makes a point
more telling, so a step scores the points anew in the order of their last scores and stops where the
rest lie below ``MARGIN`` of the best new score: the choice is that of scoring every point whenever
no score has risen by more than 1/``MARGIN`` since it was last computed. Where scores are flat a
step scores at most ``MOST_SCORED`` rows.

The program is given a window of the pool, the rows whose last scores are highest, and the highest
score outside. A step that might have to look outside ends it: the caller goes on with another
window, and so the choice is that of a search over the whole pool.

The best ``SHORT`` by the screen are compared: under log loss by their EPIG with two classes and by
its quadratic form with more, under the 0-1 loss by the accuracy they gain. Of what tells most, what
changes decisions is taken.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from parbals.accelerators import COMPILED_SOON, platform
from parbals.arrays import block_rows
from parbals.scores.decisions import Decisions, decision_gain, decisions_at
from parbals.scores.gaussian import (
    closed_epig,
    probs_and_gains,
    quadratic_gain,
    rough_gains,
    screen,
    target_gains,
)
from parbals.strategies.gaussian_universes import (
    Pool,
    Universes,
    begin,
    is_moved,
    observe,
    pool_of,
    seen_by,
)
from parbals.strategies.growing import CHUNK, MARGIN, MOST_SCORED, ROUNDING, SHORT
from parbals.strategies.labeller import Labeller, drawn_labels, most_probable, row_key
from parbals.strategies.surface import Score, Surface

__all__ = ["Search", "greedy_search"]

_CHUNKS = {"cpu": 1, "gpu": 4}
"""Chunks that are computed together; whether a step uses a chunk is the same everywhere."""


class Search(NamedTuple):
    """Where the program stands: scores as last computed, and what has been chosen."""

    last: Float[Array, " n"]
    free: Bool[Array, " n"]
    chosen: Int[Array, " B"]
    scores: Float[Array, " B"]
    n_scored: Int[Array, " B"]
    n_chosen: Int[Array, ""]
    n_cut: Int[Array, ""]  # steps that left out rows whose last score was above the best new one
    is_over: Bool[Array, ""]  # the next step might have to look outside


class _Known(NamedTuple):
    """What a step starts from."""

    pool: Pool
    universes: Universes
    decisions: Decisions
    share: Float[Array, " M"]
    outside: Float[Array, ""]  # the highest score outside


@partial(jax.jit, static_argnames=("steps", "rank", "score"), compiler_options=COMPILED_SOON)
def greedy_search(
    surface: Surface,
    labeller: Labeller | None,
    design: Float[Array, "n d"],
    start: Float[Array, " n"],
    free: Bool[Array, " n"],
    outside: Float[Array, ""] | float,
    n_pending: Int[Array, ""] | int,
    n_seen: Int[Array, ""] | int,
    batch_size: Int[Array, ""] | int,
    *,
    steps: int,
    rank: int,
    score: Score,
) -> Search:
    """Condition on the first ``n_seen`` rows, then choose ``batch_size`` of the free ones.

    The first ``n_pending`` were there before the batch, the others were chosen in other windows.
    """
    pool = pool_of(surface, design, jnp)

    def choose(universes: Universes, search: Search) -> tuple[Search, Array]:
        there = universes.target_probs, universes.target_mean, universes.target_variance
        decisions = decisions_at(*there, jnp, surface.stakes)
        known = _Known(pool, universes, decisions, surface.share, jnp.asarray(outside))
        search = _rescore(known, search)
        index, value = _best(known, search, score)
        number, is_taken = search.n_chosen, ~search.is_over
        search = search._replace(
            free=search.free.at[index].set(search.is_over & search.free[index]),
            chosen=search.chosen.at[number].set(index),
            scores=search.scores.at[number].set(value),
            n_chosen=number + is_taken,
        )
        return search, index

    def goes_on(state: tuple[Array, Universes, Array, Search]) -> Array:
        seen, _, _, search = state
        return (seen < n_seen + batch_size) & ~search.is_over

    def step(state: tuple[Array, Universes, Array, Search]) -> Any:
        seen, universes, keys, search = state
        search, index = jax.lax.cond(
            seen < n_seen,
            lambda search: (search, jnp.asarray(seen, jnp.int32)),
            lambda search: choose(universes, search),
            search,
        )
        key = row_key(design[index], jnp)
        if labeller is None:
            labels = most_probable(pool.mean[:, index], pool.variance[:, index], jnp)
        else:
            twin = (keys == key).all(axis=1).sum()
            labels = drawn_labels(labeller, design[index], key, twin, jnp)
        universes = observe(pool, universes, index, labels, jnp)
        universes = jax.lax.cond(
            seen + 1 < n_pending, lambda universes: universes, _looked_again, universes
        )
        return seen + 1, universes, keys.at[seen].set(key), search

    nothing, none = jnp.zeros(steps, jnp.int32), jnp.asarray(0)
    search = Search(start, free, nothing, jnp.zeros(steps), nothing, none, none, jnp.asarray(False))
    n_universes = 1 if labeller is None else labeller.weights.shape[2]
    universes = begin(surface, n_universes, rank, jnp)
    state = none, universes, jnp.zeros((rank, 2), jnp.uint32), search
    return jax.lax.while_loop(goes_on, step, state)[3]


def _looked_again(universes: Universes) -> Universes:
    """The targets that have moved; on a CPU one universe at a time, which stays in cache."""
    each: Any = jax.lax.map if platform() == "cpu" else _together
    mean, variance = universes.target_mean, universes.target_variance
    moments = mean.swapaxes(0, 1), variance.swapaxes(0, 1)
    probs, gains = each(lambda m: probs_and_gains(m[0], m[1], jnp), moments)
    is_new = is_moved(universes, jnp)
    return universes._replace(
        target_probs=jnp.where(is_new, probs.swapaxes(0, 1), universes.target_probs),
        target_gains=jnp.where(is_new, gains.swapaxes(0, 1), universes.target_gains),
        looked_mean=jnp.where(is_new, mean, universes.looked_mean),
        looked_variance=jnp.where(is_new, variance, universes.looked_variance),
    )


def _together(function: Callable[..., Any], values: Any) -> Any:
    return jax.vmap(function)(values)


def _rescore(known: _Known, search: Search) -> Search:
    """Score anew, in the order of the last scores, every free row that might be the best."""
    last = jnp.where(search.free, search.last, -jnp.inf)
    order, n_rows = jnp.argsort(-last), min(CHUNK * _CHUNKS[platform()], len(last))

    def following(done: Array) -> Array:
        """The highest score of those not yet scored anew."""
        return jnp.where(done < len(last), last[order[jnp.minimum(done, len(last) - 1)]], -jnp.inf)

    def is_open(state: tuple[Array, Array, Array]) -> Array:
        done, best, _ = state
        return (done < MOST_SCORED) & (following(done) > MARGIN * best)

    def advance(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        indices = jax.lax.dynamic_slice_in_dim(order, state[0], n_rows)
        seen = seen_by(known.pool, known.universes, indices, jnp)
        gains, there = (
            rough_gains(seen.mean, seen.variance, jnp),
            (known.universes.target_gains, known.share),
        )
        fresh = screen(seen.parts, gains, *there, jnp, seen.covariance)
        fresh = jnp.where(search.free[indices], fresh.mean(axis=0), -jnp.inf)
        for rows in block_rows(n_rows, CHUNK):
            used = jnp.where(is_open(state), fresh[rows], -jnp.inf)
            done, best, new = state
            done += jnp.where(is_open(state), len(used), 0)
            state = done, jnp.maximum(best, used.max()), new.at[indices[rows]].set(used)
        return state

    nothing = jnp.full_like(last, -jnp.inf)
    begin = jnp.asarray(0), jnp.asarray(-jnp.inf), nothing
    done, best, new = jax.lax.while_loop(is_open, advance, begin)
    is_new, rest = new > -jnp.inf, jnp.maximum(following(done), known.outside)
    # Whatever was scored, and whatever is compared below, must stand above what is outside.
    renewed = jnp.where(is_new, new, search.last)
    compared = jnp.where(search.free, renewed, -jnp.inf)
    lowest = jax.lax.top_k(compared, min(SHORT, len(last)))[0][-1]
    lowest = jnp.minimum(lowest, last[order[jnp.minimum(done, len(last)) - 1]])
    is_over = (done < MOST_SCORED) & (known.outside > MARGIN * best)
    is_over = is_over | (known.outside > lowest)
    is_cut = ~is_over & (rest > (1.0 + ROUNDING) * best)
    return search._replace(
        # A step that is over is taken again, from where it began.
        last=jnp.where(is_over, search.last, renewed),
        n_scored=search.n_scored.at[search.n_chosen].set(is_new.sum()),
        n_cut=search.n_cut + is_cut,
        is_over=is_over,
    )


def _best(known: _Known, search: Search, score: Score) -> tuple[Int[Array, ""], Float[Array, ""]]:
    """The free row with the highest mean score over the universes."""
    ranked = jnp.where(search.free, search.last, -jnp.inf)
    _, short = jax.lax.top_k(ranked, min(SHORT, len(ranked)))
    universes, share = known.universes, known.share
    seen = seen_by(known.pool, universes, short, jnp)
    gains = target_gains(seen.mean, seen.variance, jnp)
    if score == "decision":
        values = decision_gain(seen.parts, gains, known.decisions, share, jnp, seen.covariance)
    elif score == "form":
        values = quadratic_gain(
            seen.parts, gains, universes.target_gains, share, jnp, seen.covariance
        )
    else:
        there = universes.target_mean[0], universes.target_variance[0]
        covariance = seen.covariance(jax.tree.map(lambda part: part[0], seen.parts))
        values = closed_epig(seen.mean[0], seen.variance[0], *there, covariance, share, jnp)
    values = jnp.where(search.free[short], values.mean(axis=0), -jnp.inf)
    best = values.argmax()
    return short[best].astype(jnp.int32), values[best]
