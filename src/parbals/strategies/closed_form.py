"""ParBaLS in closed form: universes are rank-one updates of one Gaussian posterior.

Universe u has seen its labels of the partial batch. A label at point i changes mean, variance and
covariance of every channel a by the covariance c_a(·, i) with that point,

    m ← m + α_a c_a(·, i),   v ← v - k_a²,   c_a ← c_a - k_a k_aᵀ,      k_a = √β_a c_a(·, i),

α and β the derivatives of the logarithm of the label's probability. So a universe is the surface
before the batch less one column for each label, and nothing of size U × N × M exists.

*Scored lazily.* Before the batch every point is scored once. A further label seldom makes a point
more telling, so a step scores the points anew in the order of their last scores and stops where the
rest lie below ``_MARGIN`` of the best new score: the choice is that of scoring every point whenever
no score has risen by more than 1/``_MARGIN`` since it was last computed. Points that stand too low
to be reached in any step are left on the host; if one turns out to be reached, the batch is built
again with more of them. All steps are one compiled program.

With two classes the best ``_SHORT`` by the quadratic form are compared by their EPIG; with more the
quadratic form is the score.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from scipy.special import expit

from parbals.arrays import bucket, pad_rows
from parbals.mixture import label_evidence
from parbals.posterior.likelihood import softmax
from parbals.posterior.predictive import add_bias
from parbals.race import class_evidence
from parbals.randomness import derive_generator, row_uniforms
from parbals.scores.gaussian import closed_bald, closed_epig, quadratic_gain, target_gains
from parbals.strategies.problem import GaussianView, Problem, batch_of
from parbals.strategies.surface import (
    Rows,
    Surface,
    cross_covariance,
    look_at,
    start_scores,
    surface_of,
)
from parbals.types import Batch

__all__ = ["bald_in_closed_form", "closed_form_batch", "epig_in_closed_form"]

_SHORT = 64
_CHUNK = 256
_MARGIN = 0.9
_LEADERS = 4096
_COLUMNS = 8
"""Columns of the universes are applied this many at a time, so that the first steps are cheap."""


class Universes(NamedTuple):
    """What U universes have learnt from their labels of the partial batch, at most R of them."""

    mean: Float[Array, "U A n"]
    variance: Float[Array, "U A n"]
    columns: Float[Array, "U A n R"]
    target_mean: Float[Array, "U A M"]
    target_variance: Float[Array, "U A M"]
    target_columns: Float[Array, "U A M R"]


class _Search(NamedTuple):
    """Where the program stands: scores as last computed, and what has been chosen."""

    universes: Universes
    last: Float[Array, " n"]
    free: Bool[Array, " n"]
    chosen: Int[Array, " B"]
    scores: Float[Array, " B"]
    n_scored: Int[Array, " B"]
    reached: Float[Array, ""]  # the lowest score that a step had to look at


def closed_form_batch(problem: Problem, n_universes: int, *, most_probable: bool) -> Batch:
    """The batch that :func:`parbals.strategies.parbals.greedy_batch` builds, without samples."""
    view = problem.gaussian
    assert view is not None  # the caller has looked
    surface = surface_of(view.channels, view.target)
    start = start_scores(surface, view.pool)
    free = problem.candidates()
    order = np.argsort(np.where(free, -start, np.inf), kind="stable")[: int(free.sum())]
    size, n_leaders = problem.batch_size, max(_LEADERS, 4 * problem.batch_size)
    while True:
        leaders = order[:n_leaders]
        search = _search(problem, view, surface, leaders, start, n_universes, most_probable)
        left_out = order[n_leaders : n_leaders + 1]
        if not len(left_out) or start[left_out[0]] <= float(search.reached):
            break
        n_leaders *= 8
    chosen = leaders[np.asarray(search.chosen)[:size]]
    return batch_of(
        problem,
        chosen,
        np.asarray(search.scores, np.float64)[:size],
        initial_scores=_initial_scores(view, surface, chosen, start),
        n_exact=np.asarray(search.n_scored)[:size],
    )


def epig_in_closed_form(view: GaussianView) -> np.ndarray:
    """(N,) EPIG of every pool point; with more than two classes to first order."""
    surface = surface_of(view.channels, view.target)
    return start_scores(surface, view.pool, exact=view.n_classes == 2)


def bald_in_closed_form(view: GaussianView) -> np.ndarray:
    """(N,) BALD of every pool point, two classes."""
    mean, variance = view.channels.marginals(add_bias(view.pool))
    small = (jnp.asarray(x[:, 0], jnp.float32) for x in (mean, variance))
    return np.asarray(closed_bald(*small), np.float64)


def _search(
    problem: Problem,
    view: GaussianView,
    surface: Surface,
    leaders: np.ndarray,
    start: np.ndarray,
    n_universes: int,
    most_probable: bool,
) -> _Search:
    """Run the program on the leaders of the pool; pending points stand before them."""
    pending = problem.pending
    positions = np.concatenate([pending, leaders])
    design = add_bias(view.pool[positions])
    labels = (
        view.posterior.predict_proba(design).argmax(axis=1)[:, None]
        if most_probable
        else _labellings(view, design, n_universes, problem.seed)
    )
    n_rows = bucket(len(positions), _CHUNK)
    steps = bucket(problem.batch_size, _COLUMNS)
    arguments = (
        surface,
        jax.device_put(pad_rows(design.astype(np.float32), n_rows)),
        jax.device_put(pad_rows(labels.astype(np.int32), n_rows)),
        jax.device_put(pad_rows(start[positions].astype(np.float32), n_rows)),
        jax.device_put((np.arange(n_rows) >= len(pending)) & (np.arange(n_rows) < len(positions))),
        len(pending),
        problem.batch_size,
    )
    n_pending = bucket(len(pending), _COLUMNS) if len(pending) else 0
    search = _program(*arguments, steps=steps, rank=steps + n_pending)
    return search._replace(chosen=search.chosen - len(pending))


def _labellings(view: GaussianView, design: np.ndarray, n_universes: int, seed: int) -> np.ndarray:
    """(n, U) joint labellings: a draw of the weights for each universe, then every point's label.

    The noise of a label is keyed by the row itself: a pool in another order gets the same labels.
    """
    weights = view.channels.draw(derive_generator(seed, "universes"), n_universes)  # (d, A, U)
    logits = np.tensordot(design, weights, axes=1)
    uniforms = row_uniforms(seed, design, n_universes)
    if view.n_classes == 2:
        return uniforms < expit(logits[:, 0])
    below = softmax(logits.swapaxes(1, 2)).cumsum(axis=2)
    return np.minimum((below < uniforms[:, :, None]).sum(axis=2), view.n_classes - 1)


def _initial_scores(
    view: GaussianView, surface: Surface, chosen: np.ndarray, start: np.ndarray
) -> np.ndarray:
    if view.n_classes > 2:
        return start[chosen]
    return start_scores(surface, view.pool[chosen], exact=True)


@partial(jax.jit, static_argnames=("steps", "rank"))
def _program(
    surface: Surface,
    design: Float[Array, "n d"],
    labels: Int[Array, "n U"],
    start: Float[Array, " n"],
    free: Bool[Array, " n"],
    n_pending: Int[Array, ""] | int,
    batch_size: Int[Array, ""] | int,
    *,
    steps: int,
    rank: int,
) -> _Search:
    """Condition on the first ``n_pending`` rows, then choose ``batch_size`` of the free ones."""
    rows, factor = look_at(surface, design)
    universes = _begin(surface, rows, labels.shape[1], rank)

    def observe(index: Array, seen: Array, universes: Universes) -> Universes:
        return _observe(surface, rows, factor, universes, index, labels[index], seen)

    universes = jax.lax.fori_loop(0, n_pending, lambda i, u: observe(i, i, u), universes)

    def step(number: Array, search: _Search) -> _Search:
        seen = n_pending + number
        search = _rescore(surface, rows, factor, search, number, seen)
        index, score = _best(surface, rows, factor, search, seen)
        return search._replace(
            universes=observe(index, seen, search.universes),
            free=search.free.at[index].set(False),
            chosen=search.chosen.at[number].set(index.astype(jnp.int32)),
            scores=search.scores.at[number].set(score),
        )

    search = _Search(
        universes,
        start,
        free,
        jnp.zeros(steps, jnp.int32),
        jnp.zeros(steps),
        jnp.zeros(steps, jnp.int32),
        jnp.asarray(jnp.inf),
    )
    search = jax.lax.fori_loop(0, batch_size, step, search)
    nothing = jax.tree.map(lambda _: jnp.zeros(()), universes)
    return search._replace(universes=Universes(*nothing))


def _begin(surface: Surface, rows: Rows, n_universes: int, rank: int) -> Universes:
    def repeated(values: Array) -> Array:
        return jnp.repeat(values[None], n_universes, axis=0)

    target = surface.target
    return Universes(
        mean=repeated(rows.mean),
        variance=repeated(rows.variance),
        columns=jnp.zeros((n_universes, *rows.mean.shape, rank)),
        target_mean=repeated(target.mean),
        target_variance=repeated(target.variance),
        target_columns=jnp.zeros((n_universes, *target.mean.shape, rank)),
    )


def _observe(
    surface: Surface,
    rows: Rows,
    factor: Float[Array, "A n r"],
    universes: Universes,
    index: Array,
    labels: Int[Array, " U"],
    seen: Array,
) -> Universes:
    """Condition every universe on its label of one row."""
    known = universes.columns[:, :, index]  # (U, A, R)
    across, inside = rows.across[index], factor[:, index]
    column = rows.across @ across + jnp.einsum("anr,ar->an", factor, inside)
    column = column - jnp.einsum("uanr,uar->uan", universes.columns, known)
    target = surface.target.across @ across + jnp.einsum("arm,ar->am", surface.factor, inside)
    target = target - jnp.einsum("uamr,uar->uam", universes.target_columns, known)
    slope, curvature = _evidence(
        universes.mean[:, :, index], universes.variance[:, :, index], labels
    )
    slope, root = slope[:, :, None], jnp.sqrt(jnp.maximum(curvature, 0.0))[:, :, None]

    def lowered(variance: Array, change: Array) -> Array:
        return jnp.maximum(variance - jnp.square(root * change), 0.0)

    return Universes(
        mean=universes.mean + slope * column,
        variance=lowered(universes.variance, column),
        columns=universes.columns.at[:, :, :, seen].set(root * column),
        target_mean=universes.target_mean + slope * target,
        target_variance=lowered(universes.target_variance, target),
        target_columns=universes.target_columns.at[:, :, :, seen].set(root * target),
    )


def _evidence(
    mean: Float[Array, "U A"], variance: Float[Array, "U A"], labels: Int[Array, " U"]
) -> tuple[Float[Array, "U A"], Float[Array, "U A"]]:
    if mean.shape[1] > 1:
        return class_evidence(mean, variance, labels, jnp)[1:]
    signs = 2.0 * labels - 1.0
    _, slope, curvature = label_evidence(mean[:, 0], variance[:, 0], signs, jnp)
    return slope[:, None], curvature[:, None]


def _each_universe(
    surface: Surface,
    rows: Rows,
    factor: Float[Array, "A n r"],
    universes: Universes,
    indices: Int[Array, " s"],
    seen: Array,
    score: Callable[[Array, Universes], Array],
) -> Float[Array, " s"]:
    """Mean over universes of a score of some rows, given their covariance with the targets."""
    before = cross_covariance(surface, rows.across[indices], factor[:, indices])
    chosen = universes._replace(
        mean=universes.mean[:, :, indices],
        variance=universes.variance[:, :, indices],
        columns=universes.columns[:, :, indices],
    )

    def of_universe(universe: Universes) -> Array:
        def less(block: Array, covariance: Array) -> Array:
            here, there = (
                jax.lax.dynamic_slice_in_dim(x, block * _COLUMNS, _COLUMNS, axis=2)
                for x in (universe.columns, universe.target_columns)
            )
            return covariance - here @ jnp.swapaxes(there, 1, 2)

        return score(jax.lax.fori_loop(0, -(-seen // _COLUMNS), less, before), universe)

    return jax.lax.map(of_universe, chosen).mean(axis=0)


def _rescore(
    surface: Surface,
    rows: Rows,
    factor: Float[Array, "A n r"],
    search: _Search,
    number: Array,
    seen: Array,
) -> _Search:
    """Score anew, in the order of the last scores, every free row that might be the best."""
    universes = search.universes
    last = jnp.where(search.free, search.last, -jnp.inf)
    order = jnp.argsort(-last)
    # The quadratic form asks of the targets only their gains: they travel in place of the means.
    gains = jax.lax.map(
        lambda u: target_gains(*u), (universes.target_mean, universes.target_variance)
    )
    seen_by = universes._replace(target_mean=gains)

    def quadratic(covariance: Array, universe: Universes) -> Array:
        here = target_gains(universe.mean, universe.variance)
        return quadratic_gain(covariance, here, universe.target_mean, surface.share)

    def is_open(state: tuple[Array, Array, Array]) -> Array:
        done, best, _ = state
        following = last[order[jnp.minimum(done, len(last) - 1)]]
        return (done < len(last)) & (following > _MARGIN * best)

    def advance(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        done, best, new = state
        indices = jax.lax.dynamic_slice_in_dim(order, done, _CHUNK)
        fresh = _each_universe(surface, rows, factor, seen_by, indices, seen, quadratic)
        fresh = jnp.where(search.free[indices], fresh, -jnp.inf)
        return done + _CHUNK, jnp.maximum(best, fresh.max()), new.at[indices].set(fresh)

    nothing = jnp.full_like(last, -jnp.inf)
    begin = jnp.asarray(0), jnp.asarray(-jnp.inf), nothing
    _, best, new = jax.lax.while_loop(is_open, advance, begin)
    is_new = new > -jnp.inf
    return search._replace(
        last=jnp.where(is_new, new, search.last),
        n_scored=search.n_scored.at[number].set(is_new.sum()),
        reached=jnp.minimum(search.reached, _MARGIN * best),
    )


def _best(
    surface: Surface,
    rows: Rows,
    factor: Float[Array, "A n r"],
    search: _Search,
    seen: Array,
) -> tuple[Int[Array, ""], Float[Array, ""]]:
    """The free row with the highest mean score over the universes."""
    ranked = jnp.where(search.free, search.last, -jnp.inf)
    if len(rows.mean) > 1:
        best = ranked.argmax()
        return best, ranked[best]
    _, short = jax.lax.top_k(ranked, min(_SHORT, len(ranked)))

    def information(covariance: Array, universe: Universes) -> Array:
        here = universe.mean[0], universe.variance[0]
        there = universe.target_mean[0], universe.target_variance[0]
        return closed_epig(*here, *there, covariance[0], surface.share)

    exact = _each_universe(surface, rows, factor, search.universes, short, seen, information)
    exact = jnp.where(search.free[short], exact, -jnp.inf)
    best = exact.argmax()
    return short[best], exact[best]
