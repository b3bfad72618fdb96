"""The No-U-Turn Sampler for many two-class logistic regressions, as one compiled program.

S seeds have a design each; U label vectors of a design are posteriors of their own, each sampled by
four chains. All S × 4U chains take their leapfrog steps together, but each is somewhere else in a
trajectory of its own: one that turns begins its next one with the next step, and no chain waits for
the longest trajectory of the others. Trajectories, their U-turns and the choice of a state in them
are those of Hoffman and Gelman (2014) with multinomial weights (Betancourt 2017); U-turns inside a
half are found from stored momenta (Phan et al. 2019).

The posterior of the contrast weights v has the prior N(0, I) and p(y) = σ(√2 y v·x), which is the
paper's model with two columns of weights. Chains move in coordinates z with v = mode + factor z,
whitened at the mode of the labels that are the same for all U. Warm-up finds a step size for each
chain by dual averaging.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

__all__ = ["N_CHAINS", "draw_many", "whitening"]

N_CHAINS = 4
N_WARM_UP = 100
N_NEWTON = 20
N_BETWEEN = 32
"""Leapfrog steps between two looks at whether all chains have ended."""
MAX_DEPTH = 8
"""Trajectories have at most 2^8 - 1 leapfrog steps; PyMC allows 2^10 - 1."""
MAX_ENERGY_ERROR = 1_000.0
TARGET_ACCEPTANCE = 0.8
FIRST_STEP = 0.5
ROOT_TWO = float(np.sqrt(2.0))


class Posterior(NamedTuple):
    """What the log density of z (S, M, d) is computed from, M = 4U chains."""

    rows: Any
    """(S, n + d, d): √2 times the training rows, then the identity; all times the factor."""
    offset: Any
    """(S, n + d): the same rows times the mode."""
    signs: Any
    """(S, M, n): labels ±1; 0 of no row."""


class Point(NamedTuple):
    """A state of every chain: position, momentum, gradient (S, M, d), log density (S, M)."""

    z: Any
    r: Any
    gradient: Any
    log_density: Any


class Half(NamedTuple):
    """What doubles the trajectory of every chain: 2^depth leaves, one a step."""

    edge: Point
    proposal: Point
    log_weight: Any
    r_sum: Any
    leaf: Any
    """(S, M): how many leaves there are."""
    is_forward: Any
    r_checkpoints: Any
    sum_checkpoints: Any
    """(MAX_DEPTH, S, M, d): momenta, and their sums, at the leaves where an open subtree begins."""


class Chains(NamedTuple):
    """All chains: their trajectories, the state drawn from each so far, and their step sizes."""

    left: Point
    right: Point
    proposal: Point
    log_weight: Any
    r_sum: Any
    depth: Any
    energy: Any
    half: Half
    acceptance: Any
    n_steps: Any
    log_step: Any
    mean_log_step: Any
    error_sum: Any
    n_done: Any
    """(S, M): trajectories that have ended, the warm-up's among them."""


@jax.jit
def whitening(X: Any, signs: Any) -> tuple[Any, Any]:
    """Mode (S, d) for labels (S, n), and the factor (S, d, d) that whitens the posterior there."""
    return jax.vmap(_whitening)(X, signs)


@partial(jax.jit, static_argnames="n_draws")
def draw_many(
    key: Any, X: Any, signs: Any, mode: Any, factor: Any, n_draws: int
) -> tuple[Any, Any, Any]:
    """Draw weights (S, U, d, 4 n_draws) for rows (S, n, d) and labels (S, U, n).

    Also the mean number of leapfrog steps, and the share of trajectories that were cut off.
    """
    S, U = signs.shape[:2]
    d = X.shape[2]
    identity = jnp.broadcast_to(jnp.eye(d, dtype=X.dtype), (S, d, d))
    rows = jnp.concatenate([ROOT_TWO * X, identity], axis=1)
    posterior = Posterior(
        rows=rows @ factor,
        offset=jnp.einsum("snd,sd->sn", rows, mode),
        signs=jnp.repeat(signs, N_CHAINS, axis=1),
    )
    key_z, key_r, key_steps = jax.random.split(key, 3)
    shape = (S, U * N_CHAINS, d)
    z = jax.random.normal(key_z, shape, X.dtype)
    chains = _first(posterior, z, jax.random.normal(key_r, shape, X.dtype))
    draws = jnp.zeros((*shape[:2], n_draws, d), X.dtype)
    nothing = jnp.zeros((), X.dtype)

    def is_on(state: Any) -> Any:
        return (state[1].n_done < N_WARM_UP + n_draws).any()

    def go_on(state: Any) -> Any:
        return jax.lax.fori_loop(0, N_BETWEEN, take_step, state)

    def take_step(_: int, state: Any) -> Any:
        number, chains, draws, n_steps, n_cut = state
        step_key = jax.random.fold_in(key_steps, number)
        new, is_cut = _step(step_key, posterior, chains)
        index = jnp.where(new.n_done > chains.n_done, chains.n_done - N_WARM_UP, -1)
        counts = (index >= 0) & (index < n_draws)
        seeds, columns = jnp.indices(index.shape)
        place = jnp.where(counts, index, n_draws)
        draws = draws.at[seeds, columns, place].set(new.proposal.z, mode="drop")
        n_steps += jnp.where(counts, chains.n_steps + 1.0, 0.0).sum()
        n_cut += (counts & is_cut).sum()
        return number + 1, new, draws, n_steps, n_cut

    _, _, draws, n_steps, n_cut = jax.lax.while_loop(
        is_on, go_on, (0, chains, draws, nothing, nothing)
    )
    weights = mode[:, None, None] + jnp.einsum("sde,smke->smkd", factor, draws)
    weights = weights.reshape(S, U, N_CHAINS * n_draws, d).swapaxes(2, 3)
    n_trajectories = S * U * N_CHAINS * n_draws
    return weights.astype(jnp.float32), n_steps / n_trajectories, n_cut / n_trajectories


def _whitening(X: Any, signs: Any) -> tuple[Any, Any]:
    identity = jnp.eye(X.shape[1], dtype=X.dtype)

    def hessian_root(v: Any) -> Any:
        p = jax.nn.sigmoid(ROOT_TWO * (X @ v))
        curvature = 2.0 * p * (1.0 - p) * jnp.abs(signs)
        return jnp.linalg.cholesky(identity + (X * curvature[:, None]).T @ X)

    def newton(_: int, v: Any) -> Any:
        residual = ROOT_TWO * signs * jax.nn.sigmoid(-ROOT_TWO * signs * (X @ v))
        return v + jax.scipy.linalg.cho_solve((hessian_root(v), True), X.T @ residual - v)

    mode = jax.lax.fori_loop(0, N_NEWTON, newton, jnp.zeros(X.shape[1], X.dtype))
    root = hessian_root(mode)
    return mode, jax.scipy.linalg.solve_triangular(root, identity, lower=True).T


def _density(posterior: Posterior, z: Any) -> tuple[Any, Any]:
    """Log density (S, M) up to a constant, and its gradient (S, M, d)."""
    values = posterior.offset[:, None] + z @ posterior.rows.swapaxes(1, 2)
    n = posterior.signs.shape[2]
    margins = posterior.signs * values[..., :n]
    v = values[..., n:]
    log_probs = jnp.abs(posterior.signs) * jax.nn.log_sigmoid(margins)
    residual = posterior.signs * jax.nn.sigmoid(-margins)
    gradient = jnp.concatenate([residual, -v], axis=2) @ posterior.rows
    return log_probs.sum(axis=2) - 0.5 * jnp.square(v).sum(axis=2), gradient


def _leapfrog(posterior: Posterior, point: Point, step: Any) -> Point:
    """One step of signed sizes (S, M)."""
    size = step[..., None]
    r = point.r + 0.5 * size * point.gradient
    z = point.z + size * r
    log_density, gradient = _density(posterior, z)
    return Point(z, r + 0.5 * size * gradient, gradient, log_density)


def _where(condition: Any, yes: Any, no: Any) -> Any:
    """Choose by chain (S, M), in arrays with or without a last axis of coordinates."""

    def choose(a: Any, b: Any) -> Any:
        return jnp.where(condition[..., None] if a.ndim > condition.ndim else condition, a, b)

    return jax.tree.map(choose, yes, no)


def _is_turning(r_left: Any, r_right: Any, r_sum: Any) -> Any:
    middle = r_sum - 0.5 * (r_left + r_right)
    return ((r_left * middle).sum(axis=-1) <= 0.0) | ((r_right * middle).sum(axis=-1) <= 0.0)


def _first(posterior: Posterior, z: Any, r: Any) -> Chains:
    log_density, gradient = _density(posterior, z)
    start = Point(z, r, gradient, log_density)
    nothing = jnp.zeros_like(log_density)
    nowhere = jnp.zeros(log_density.shape, jnp.int32)
    checkpoints = jnp.zeros((MAX_DEPTH, *z.shape), z.dtype)
    half = Half(
        edge=start,
        proposal=start,
        log_weight=nothing - jnp.inf,
        r_sum=jnp.zeros_like(r),
        leaf=nowhere,
        is_forward=nowhere == 0,
        r_checkpoints=checkpoints,
        sum_checkpoints=checkpoints,
    )
    return Chains(
        left=start,
        right=start,
        proposal=start,
        log_weight=nothing,
        r_sum=r,
        depth=nowhere,
        energy=0.5 * jnp.square(r).sum(axis=2) - log_density,
        half=half,
        acceptance=nothing,
        n_steps=nothing,
        log_step=nothing + np.log(FIRST_STEP),
        mean_log_step=nothing,
        error_sum=nothing,
        n_done=nowhere,
    )


def _step(key: Any, posterior: Posterior, chains: Chains) -> tuple[Chains, Any]:
    """Add a leaf to every chain's half, join halves that are whole, begin what comes next.

    Also (S, M): whose trajectory ended because it had become too long.
    """
    key_leaf, key_half, key_direction, key_momentum = jax.random.split(key, 4)
    is_warm_up = chains.n_done < N_WARM_UP
    size = jnp.exp(jnp.where(is_warm_up, chains.log_step, chains.mean_log_step))
    signed_size = jnp.where(chains.half.is_forward, size, -size)
    point = _leapfrog(posterior, chains.half.edge, signed_size)
    log_weight = chains.energy + point.log_density - 0.5 * jnp.square(point.r).sum(axis=2)
    log_weight = jnp.where(jnp.isnan(log_weight), -jnp.inf, log_weight)
    half, is_turning = _with_leaf(key_leaf, chains.half, point, log_weight)
    chains = chains._replace(
        acceptance=chains.acceptance + jnp.exp(jnp.minimum(log_weight, 0.0)),
        n_steps=chains.n_steps + 1.0,
    )
    fails = is_turning | ~(log_weight > -MAX_ENERGY_ERROR)
    is_whole = ~fails & (half.leaf == 2**chains.depth)
    chains = _where(is_whole, _joined(key_half, chains, half), chains)
    has_turned = is_whole & _is_turning(chains.left.r, chains.right.r, chains.r_sum)
    is_cut = is_whole & ~has_turned & (chains.depth == MAX_DEPTH)
    is_done = fails | has_turned | is_cut
    r = jax.random.normal(key_momentum, point.r.shape, point.r.dtype)
    chains = _where(is_done, _next_trajectory(chains, r), chains)
    is_forward = jax.random.bernoulli(key_direction, shape=is_done.shape)
    return chains._replace(half=_next_half(chains, half, is_whole | is_done, is_forward)), is_cut


def _with_leaf(key: Any, half: Half, point: Point, log_weight: Any) -> tuple[Half, Any]:
    """The half with one leaf more, and (S, M): whether a subtree that the leaf closes turns."""
    total = jnp.logaddexp(half.log_weight, log_weight)
    uniform = jax.random.uniform(key, total.shape, total.dtype)
    takes = jnp.log(uniform) < log_weight - total
    r_sum = half.r_sum + point.r
    levels = jnp.arange(MAX_DEPTH)[:, None, None]
    highest = jax.lax.population_count(half.leaf >> 1)
    opens = (half.leaf % 2 == 0) & (levels == highest)
    r_checkpoints, sum_checkpoints = _where(
        opens, (point.r[None], r_sum[None]), (half.r_checkpoints, half.sum_checkpoints)
    )
    n_closed = jax.lax.population_count((~half.leaf & (half.leaf + 1)) - 1)  # trailing ones
    closes = (levels <= highest) & (levels > highest - n_closed)
    between = r_sum - sum_checkpoints + r_checkpoints
    is_turning = (closes & _is_turning(r_checkpoints, point.r, between)).any(axis=0)
    half = half._replace(
        edge=point,
        proposal=_where(takes, point, half.proposal),
        log_weight=total,
        r_sum=r_sum,
        leaf=half.leaf + 1,
        r_checkpoints=r_checkpoints,
        sum_checkpoints=sum_checkpoints,
    )
    return half, is_turning


def _joined(key: Any, chains: Chains, half: Half) -> Chains:
    """Trajectories with their half; ``half`` of the chains themselves is left as it is."""
    uniform = jax.random.uniform(key, half.log_weight.shape, half.log_weight.dtype)
    takes = jnp.log(uniform) < half.log_weight - chains.log_weight
    return chains._replace(
        left=_where(half.is_forward, chains.left, half.edge),
        right=_where(half.is_forward, half.edge, chains.right),
        proposal=_where(takes, half.proposal, chains.proposal),
        log_weight=jnp.logaddexp(chains.log_weight, half.log_weight),
        r_sum=chains.r_sum + half.r_sum,
        depth=chains.depth + 1,
    )


def _next_trajectory(chains: Chains, r: Any) -> Chains:
    """Begin at the state that was drawn, with momenta ``r`` and, in the warm-up, a better step."""
    t = chains.n_done + 1.0
    weight = 1.0 / (t + 10.0)
    error = TARGET_ACCEPTANCE - chains.acceptance / chains.n_steps
    error_sum = (1.0 - weight) * chains.error_sum + weight * error
    log_step = np.log(10.0 * FIRST_STEP) - jnp.sqrt(t) / 0.05 * error_sum
    eta = t**-0.75
    is_warm_up = chains.n_done < N_WARM_UP
    mean_log_step = eta * log_step + (1.0 - eta) * chains.mean_log_step
    start = chains.proposal._replace(r=r)
    nothing = jnp.zeros_like(chains.energy)
    return chains._replace(
        left=start,
        right=start,
        proposal=start,
        log_weight=nothing,
        r_sum=r,
        depth=jnp.zeros_like(chains.depth),
        energy=0.5 * jnp.square(r).sum(axis=2) - start.log_density,
        acceptance=nothing,
        n_steps=nothing,
        log_step=log_step,
        mean_log_step=jnp.where(is_warm_up, mean_log_step, chains.mean_log_step),
        error_sum=error_sum,
        n_done=chains.n_done + 1,
    )


def _next_half(chains: Chains, half: Half, begins: Any, is_forward: Any) -> Half:
    """Begin another half at an end of the trajectory, where ``begins``."""
    edge = _where(is_forward, chains.right, chains.left)
    return half._replace(
        edge=_where(begins, edge, half.edge),
        log_weight=jnp.where(begins, -jnp.inf, half.log_weight),
        r_sum=_where(begins, jnp.zeros_like(half.r_sum), half.r_sum),
        leaf=jnp.where(begins, 0, half.leaf),
        is_forward=jnp.where(begins, is_forward, half.is_forward),
    )
