"""ParBaLS in closed form: universes are rank-one updates of one Gaussian posterior.

Universe u has seen its labels of the partial batch. A label at point i changes mean, variance and
covariance of every channel a by the covariance c_a(·, i) with that point,

    m ← m + α_a c_a(·, i),   v ← v - k_a²,   c_a ← c_a - k_a k_aᵀ,      k_a = √β_a c_a(·, i),

α and β the derivatives of the logarithm of the label's probability. So a universe is the surface
before the batch less one column for each label. A column is a combination of the covariances before
the batch with the R points labelled so far, k(x) = T c⁰(x), so at the pool it is computed where a
point is scored: a universe holds T (R, R) and its columns at the targets, and nothing of size U × N
exists.

*Scored lazily.* Before the batch every point is scored once. A further label seldom makes a point
more telling, so a step scores the points anew in the order of their last scores and stops where the
rest lie below ``_MARGIN`` of the best new score: the choice is that of scoring every point whenever
no score has risen by more than 1/``_MARGIN`` since it was last computed. Points that stand too low
to be reached in any step are left on the host. Where scores are flat both are bounded, and a note
says so: a step scores at most ``_MOST_SCORED`` rows, and rows are followed for ``_LEADERS_BYTES``
at most. All steps are one compiled program.

Under log loss the best ``_SHORT`` by the quadratic form are compared by their EPIG with two
classes, and with more the form is the score. Under the 0-1 loss they are compared by the accuracy
they gain: of what tells most, what changes decisions is taken.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from parbals.arrays import block_rows, bucket, pad_rows
from parbals.mixture import label_evidence
from parbals.numerics import COMPILED_SOON, working_precision
from parbals.posterior.channels import Channels
from parbals.posterior.predictive import add_bias
from parbals.race import class_evidence
from parbals.scores.gaussian import (
    closed_bald,
    closed_epig,
    decision_gain,
    quadratic_gain,
    target_gains,
)
from parbals.scores.losses import Loss
from parbals.strategies.distributed import each_row
from parbals.strategies.labeller import (
    Labeller,
    drawn_labels,
    most_probable,
    open_labeller,
    row_key,
)
from parbals.strategies.problem import GaussianView, Problem, batch_of
from parbals.strategies.surface import (
    Rows,
    Score,
    Surface,
    cross_covariance,
    look_at,
    platform,
    start_scores,
    surface_of,
)
from parbals.types import Batch

__all__ = ["bald_in_closed_form", "closed_form_batch", "gain_in_closed_form"]

_SHORT = 64
_MARGIN = 0.9
_FEWEST = 1024
_EXPECTED_FALL = 0.45
"""Scores seldom fall below this share of the first before a batch is full."""
_LEADERS_BYTES = 2**25
_MOST_SCORED = 1024
"""Rows that a step scores anew. Both are the same on every machine, so that choices are."""
_ROUNDING = 1e-4
_STEPS = 32
"""Smaller batches run through the program of this size: one of 10 and one of 20 share it."""
_CHUNK = {"cpu": 32, "gpu": 1024}


class Universes(NamedTuple):
    """What U universes have learnt from their labels of the partial batch, at most R of them."""

    across: Float[Array, "R D"]  # of the labelled points
    factor: Float[Array, "A R r"]
    shift: Float[Array, "U A R"]  # s: means have moved by s·c⁰(x)
    turn: Float[Array, "U A R R"]  # T
    target_mean: Float[Array, "U A M"]
    target_variance: Float[Array, "U A M"]
    target_columns: Float[Array, "U A R M"]


class _Seen(NamedTuple):
    """Some rows as one universe sees them."""

    mean: Float[Array, "A s"]
    variance: Float[Array, "A s"]
    covariance: Float[Array, "A s M"]
    target_mean: Float[Array, "A M"]
    target_variance: Float[Array, "A M"]


class _Search(NamedTuple):
    """Where the program stands: scores as last computed, and what has been chosen."""

    last: Float[Array, " n"]
    free: Bool[Array, " n"]
    chosen: Int[Array, " B"]
    scores: Float[Array, " B"]
    n_scored: Int[Array, " B"]
    reached: Float[Array, ""]  # the lowest score that a step had to look at
    n_cut: Int[Array, ""]  # steps that left out rows whose last score was above the best new one


def closed_form_batch(problem: Problem, n_universes: int, *, most_probable: bool) -> Batch:
    """The batch that :func:`parbals.strategies.parbals.greedy_batch` builds, without samples.

    Its initial scores are those under the posterior alone, so its redundancy counts what pending
    points explain as well.
    """
    with working_precision(np.dtype(np.float32)):
        return _closed_form_batch(problem, n_universes, is_map=most_probable)


def _closed_form_batch(problem: Problem, n_universes: int, *, is_map: bool) -> Batch:
    view = problem.gaussian
    assert view is not None  # the caller has looked
    surface = surface_of(view.channels, view.target)
    start = start_scores(surface, view.pool)
    free = np.flatnonzero(problem.candidates())
    labeller = None if is_map else open_labeller(view.channels, n_universes, problem.seed)
    (n_columns, n_inside), n_channels = surface.basis.shape, len(surface.roots)
    affordable = max(1, _LEADERS_BYTES // (4 * (2 * n_columns + n_channels * n_inside)))
    wanted = int((start[free] >= _EXPECTED_FALL * start[free].max()).sum())
    while True:
        n_leaders = _FEWEST
        while n_leaders < max(4 * problem.batch_size, min(wanted, affordable)):
            n_leaders *= 4  # few sizes, few programs to compile
        leaders, left_out = _leaders(free, start, n_leaders)
        search = _search(problem, view, surface, labeller, leaders, start)
        reached = float(search.reached)
        is_whole = len(leaders) == len(free) or left_out <= reached
        if is_whole or n_leaders >= affordable:
            break
        wanted = max(2 * n_leaders, int((start[free] >= reached).sum()))
    size, score = problem.batch_size, _score(view, problem.loss)
    chosen = leaders[np.asarray(search.chosen)[:size]]
    alone = start[chosen] if score == "form" else start_scores(surface, view.pool[chosen], score)
    return batch_of(
        problem,
        chosen,
        np.asarray(search.scores, np.float64)[:size],
        initial_scores=alone,
        n_exact=np.asarray(search.n_scored)[:size],
        notes=_notes(len(leaders), len(free), is_whole, int(search.n_cut), size),
    )


def gain_in_closed_form(view: GaussianView, loss: Loss) -> np.ndarray:
    """(N,) of every pool point: EPIG (first order with more than two classes), or accuracy."""
    surface = surface_of(view.channels, view.target)
    return start_scores(surface, view.pool, _score(view, loss))


def _score(view: GaussianView, loss: Loss) -> Score:
    if loss == "error":
        return "decision"
    return "epig" if view.n_classes == 2 else "form"


def bald_in_closed_form(view: GaussianView) -> np.ndarray:
    """(N,) BALD of every pool point, two classes."""
    return each_row(view.pool, partial(_bald_of_rows, view.channels))


def _bald_of_rows(channels: Channels, X: np.ndarray) -> np.ndarray:
    scores = np.empty(len(X))
    with working_precision(np.dtype(np.float32)):
        for rows in block_rows(len(X), 8192):
            moments = channels.marginals(add_bias(X[rows]))
            small = (x[:, 0].astype(np.float32) for x in moments)
            scores[rows] = np.asarray(closed_bald(*small))
    return scores


def _notes(
    n_leaders: int, n_free: int, is_whole: bool, n_cut: int, n_steps: int
) -> tuple[str, ...]:
    """What the search did not look at."""
    notes = []
    if not is_whole:
        notes.append(
            f"The {n_leaders:,} most telling of {n_free:,} candidates at the start were followed "
            "through the batch; towards its end others may have been as good."
        )
    if n_cut:
        notes.append(
            f"In {n_cut} of {n_steps} steps more than {_MOST_SCORED:,} candidates might have been "
            "the best; those that had stood highest before were compared."
        )
    return tuple(notes)


def _leaders(free: np.ndarray, start: np.ndarray, n_leaders: int) -> tuple[np.ndarray, float]:
    """Positions of the free points that start highest, in their order, and the best of the rest."""
    if len(free) <= n_leaders:
        return free, -np.inf
    order = np.argpartition(-start[free], n_leaders)
    return np.sort(free[order[:n_leaders]]), float(start[free[order[n_leaders]]])


def _search(
    problem: Problem,
    view: GaussianView,
    surface: Surface,
    labeller: Labeller | None,
    leaders: np.ndarray,
    start: np.ndarray,
) -> _Search:
    """Run the program on the leaders of the pool; pending points stand before them."""
    pending = problem.pending
    positions = np.concatenate([pending, leaders])
    n_rows = bucket(len(positions), 256)
    place = np.arange(n_rows)
    search = _program(
        jax.device_put(surface),
        labeller,
        jax.device_put(pad_rows(add_bias(view.pool[positions], np.float32), n_rows)),
        jax.device_put(pad_rows(start[positions].astype(np.float32), n_rows)),
        jax.device_put((place >= len(pending)) & (place < len(positions))),
        len(pending),
        problem.batch_size,
        steps=bucket(problem.batch_size, _STEPS),
        rank=bucket(len(pending) + problem.batch_size, _STEPS),
        score=_score(view, problem.loss),
    )
    return search._replace(chosen=search.chosen - len(pending))


@partial(jax.jit, static_argnames=("steps", "rank", "score"), compiler_options=COMPILED_SOON)
def _program(
    surface: Surface,
    labeller: Labeller | None,
    design: Float[Array, "n d"],
    start: Float[Array, " n"],
    free: Bool[Array, " n"],
    n_pending: Int[Array, ""] | int,
    batch_size: Int[Array, ""] | int,
    *,
    steps: int,
    rank: int,
    score: Score,
) -> _Search:
    """Condition on the first ``n_pending`` rows, then choose ``batch_size`` of the free ones."""
    rows, factor = look_at(surface, design)
    universes = _begin(surface, 1 if labeller is None else labeller.weights.shape[2], rank)

    def choose(universes: Universes, search: _Search, number: Array) -> tuple[_Search, Array]:
        search = _rescore(surface, rows, factor, universes, search, number)
        index, value = _best(surface, rows, factor, universes, search, score)
        search = search._replace(
            free=search.free.at[index].set(False),
            chosen=search.chosen.at[number].set(index),
            scores=search.scores.at[number].set(value),
        )
        return search, index

    def observe(universes: Universes, keys: Array, index: Array, seen: Array) -> Any:
        key = row_key(design[index])
        if labeller is None:
            labels = most_probable(rows.mean[:, index], rows.variance[:, index])
        else:
            twin = (keys == key).all(axis=1).sum()
            labels = drawn_labels(labeller, design[index], key, twin)
        universes = _observe(surface, rows, factor, universes, index, labels, seen)
        return universes, keys.at[seen].set(key)

    def step(seen: Array, state: tuple[Universes, Array, _Search]) -> Any:
        universes, keys, search = state
        search, index = jax.lax.cond(
            seen < n_pending,
            lambda search: (search, jnp.asarray(seen, jnp.int32)),
            lambda search: choose(universes, search, seen - n_pending),
            search,
        )
        return *observe(universes, keys, index, seen), search

    nothing = jnp.zeros(steps, jnp.int32)
    top, none = jnp.asarray(jnp.inf), jnp.asarray(0)
    search = _Search(start, free, nothing, jnp.zeros(steps), nothing, top, none)
    state = universes, jnp.zeros((rank, 2), jnp.uint32), search
    return jax.lax.fori_loop(0, n_pending + batch_size, step, state)[2]


def _begin(surface: Surface, n_universes: int, rank: int) -> Universes:
    def repeated(values: Array) -> Array:
        return jnp.repeat(values[None], n_universes, axis=0)

    target = surface.target
    n_channels, n_inside, n_targets = surface.factor.shape
    each = n_universes, n_channels, rank
    return Universes(
        across=jnp.zeros((rank, target.across.shape[1])),
        factor=jnp.zeros((n_channels, rank, n_inside)),
        shift=jnp.zeros(each),
        turn=jnp.zeros((*each, rank)),
        target_mean=repeated(target.mean),
        target_variance=repeated(target.variance),
        target_columns=jnp.zeros((*each, n_targets)),
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
    across, inside = rows.across[index], factor[:, index]
    before = _before(universes, across[None], inside[:, None])[:, 0]  # (A, R)
    known = _einsum("uapr,ar->uap", universes.turn, before)
    slope, curvature = _evidence(
        rows.mean[:, index] + _einsum("uar,ar->ua", universes.shift, before),
        jnp.maximum(rows.variance[:, index] - jnp.square(known).sum(axis=2), 0.0),
        labels,
    )
    slope, root = slope[:, :, None], jnp.sqrt(jnp.maximum(curvature, 0.0))[:, :, None]
    # What is new of the covariance with this row: with it before, less what others explain.
    new = (jnp.arange(known.shape[2]) == seen) - _einsum("uap,uapr->uar", known, universes.turn)
    target = surface.target.across @ across + _einsum("arm,ar->am", surface.factor, inside)
    target = target - _einsum("uarm,uar->uam", universes.target_columns, known)
    lowered = universes.target_variance - jnp.square(root * target)
    return Universes(
        across=universes.across.at[seen].set(across),
        factor=universes.factor.at[:, seen].set(inside),
        shift=universes.shift + slope * new,
        turn=universes.turn.at[:, :, seen].set(root * new),
        target_mean=universes.target_mean + slope * target,
        target_variance=jnp.maximum(lowered, 0.0),
        target_columns=universes.target_columns.at[:, :, seen].set(root * target),
    )


def _before(
    universes: Universes, across: Float[Array, "s D"], factor: Float[Array, "A s r"]
) -> Float[Array, "A s R"]:
    """c⁰ of some rows with the labelled points; 0 where there is no point yet."""
    return _einsum("sd,pd->sp", across, universes.across) + _einsum(
        "asr,apr->asp", factor, universes.factor
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
    score: Callable[[_Seen], Array],
) -> Float[Array, " s"]:
    """Mean over universes of a score of some rows."""
    across, inside = rows.across[indices], factor[:, indices]
    covariance = cross_covariance(surface, across, inside)
    before = _before(universes, across, inside)
    mean, variance = rows.mean[:, indices], rows.variance[:, indices]

    def of_universe(universe: tuple[Array, ...]) -> Array:
        shift, turn, target_mean, target_variance, target_columns = universe
        columns = _einsum("asr,apr->asp", before, turn)
        return score(
            _Seen(
                mean + _einsum("asr,ar->as", before, shift),
                jnp.maximum(variance - jnp.square(columns).sum(axis=2), 0.0),
                covariance - columns @ target_columns,
                target_mean,
                target_variance,
            )
        )

    # On a CPU one universe at a time stays in the cache; a GPU wants them all at once.
    at_once = None if platform() == "cpu" else len(universes.shift)
    return jax.lax.map(of_universe, tuple(universes[2:]), batch_size=at_once).mean(axis=0)


def _rescore(
    surface: Surface,
    rows: Rows,
    factor: Float[Array, "A n r"],
    universes: Universes,
    search: _Search,
    number: Array,
) -> _Search:
    """Score anew, in the order of the last scores, every free row that might be the best."""
    last = jnp.where(search.free, search.last, -jnp.inf)
    order, chunk = jnp.argsort(-last), min(_CHUNK[platform()], len(last))
    # The quadratic form asks of the targets only their gains: they travel in place of the means.
    targets = universes.target_mean, universes.target_variance
    gains = jax.lax.map(lambda of_universe: target_gains(*of_universe), targets)
    seen_by = universes._replace(target_mean=gains)

    def quadratic(seen: _Seen) -> Array:
        here = target_gains(seen.mean, seen.variance)
        return quadratic_gain(seen.covariance, here, seen.target_mean, surface.share)

    def following(done: Array) -> Array:
        """The highest score of those not yet scored anew."""
        return jnp.where(done < len(last), last[order[jnp.minimum(done, len(last) - 1)]], -jnp.inf)

    def is_open(state: tuple[Array, Array, Array]) -> Array:
        done, best, _ = state
        return (done < _MOST_SCORED) & (following(done) > _MARGIN * best)

    def advance(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        done, best, new = state
        indices = jax.lax.dynamic_slice_in_dim(order, done, chunk)
        fresh = _each_universe(surface, rows, factor, seen_by, indices, quadratic)
        fresh = jnp.where(search.free[indices], fresh, -jnp.inf)
        return done + chunk, jnp.maximum(best, fresh.max()), new.at[indices].set(fresh)

    nothing = jnp.full_like(last, -jnp.inf)
    begin = jnp.asarray(0), jnp.asarray(-jnp.inf), nothing
    done, best, new = jax.lax.while_loop(is_open, advance, begin)
    is_new, rest = new > -jnp.inf, following(done)
    return search._replace(
        last=jnp.where(is_new, new, search.last),
        n_scored=search.n_scored.at[number].set(is_new.sum()),
        reached=jnp.minimum(search.reached, jnp.maximum(_MARGIN * best, rest)),
        n_cut=search.n_cut + (rest > (1.0 + _ROUNDING) * best),
    )


def _best(
    surface: Surface,
    rows: Rows,
    factor: Float[Array, "A n r"],
    universes: Universes,
    search: _Search,
    score: Score,
) -> tuple[Int[Array, ""], Float[Array, ""]]:
    """The free row with the highest mean score over the universes."""
    ranked = jnp.where(search.free, search.last, -jnp.inf)
    if score == "form":
        best = ranked.argmax().astype(jnp.int32)
        return best, ranked[best]
    _, short = jax.lax.top_k(ranked, min(_SHORT, len(ranked)))

    def value(seen: _Seen) -> Array:
        there = seen.target_mean, seen.target_variance
        if score == "decision":
            gains = target_gains(seen.mean, seen.variance)
            return decision_gain(seen.covariance, gains, *there, surface.share)
        here = seen.mean[0], seen.variance[0]
        return closed_epig(*here, *(x[0] for x in there), seen.covariance[0], surface.share)

    values = _each_universe(surface, rows, factor, universes, short, value)
    values = jnp.where(search.free[short], values, -jnp.inf)
    best = values.argmax()
    return short[best].astype(jnp.int32), values[best]


_einsum = partial(jnp.einsum, precision=jax.lax.Precision.HIGHEST)
