"""The No-U-Turn Sampler for many two-class logistic regressions in step, as one compiled program.

S seeds have a design each; U label vectors of a design are posteriors of their own, each sampled by
four chains. All S × 4U chains take their leapfrog steps together, a tree of 2^j steps doubles for
the chains that still go on, and one program serves every label vector, so that an accelerator is
busy and nothing is compiled twice. Trees, their U-turns and the choice of a state in them are those
of Hoffman and Gelman (2014) with multinomial weights (Betancourt 2017); U-turns inside a tree are
found from stored momenta (Phan et al. 2019).

The posterior of the contrast weights v has the prior N(0, I) and p(y) = σ(√2 y v·x), which is the
paper's model with two columns of weights. Chains move in coordinates z with v = mode + factor z,
whitened at the mode of the labels that are the same for all U. Warm-up finds a step size for each
seed by dual averaging.
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
MAX_DEPTH = 8
"""Trees have at most 2^8 - 1 leapfrog steps; PyMC allows 2^10 - 1."""
MAX_ENERGY_ERROR = 1_000.0
TARGET_ACCEPTANCE = 0.8
FIRST_STEP = 0.5
ROOT_TWO = float(np.sqrt(2.0))


class Posterior(NamedTuple):
    """What the log density of z (S, M, d) is computed from, M = 4U chains."""

    design: Any
    """(S, n, d): rows of a training set times the factor."""
    offset: Any
    """(S, n): rows times the mode."""
    signs: Any
    """(S, M, n): labels ±1; 0 of no row."""
    mode: Any
    factor: Any


class Point(NamedTuple):
    """A state of every chain: position, momentum, gradient (S, M, d), log density (S, M)."""

    z: Any
    r: Any
    gradient: Any
    log_density: Any


class Tree(NamedTuple):
    """A trajectory of every chain, and the state that was drawn from it."""

    left: Point
    right: Point
    proposal: Point
    log_weight: Any
    r_sum: Any
    has_ended: Any
    """(S, M): turned or diverged."""
    acceptance: Any
    n_steps: Any


class Subtree(NamedTuple):
    """What a doubling adds; ``checkpoints`` are momenta and their sums at leaves still open."""

    edge: Point
    proposal: Point
    log_weight: Any
    r_sum: Any
    has_ended: Any
    acceptance: Any
    n_steps: Any
    r_checkpoints: Any
    sum_checkpoints: Any


@jax.jit
def whitening(X: Any, signs: Any) -> tuple[Any, Any]:
    """Mode (S, d) for labels (S, n), and the factor (S, d, d) that whitens the posterior there."""
    return jax.vmap(_whitening)(X, signs)


@partial(jax.jit, static_argnames="n_draws")
def draw_many(
    key: Any, X: Any, signs: Any, mode: Any, factor: Any, n_draws: int
) -> tuple[Any, Any, Any]:
    """Draw weights (S, U, d, 4 n_draws) for rows (S, n, d) and labels (S, U, n).

    Also the mean number of leapfrog steps, and the share of trees that were cut off.
    """
    S, U = signs.shape[:2]
    posterior = Posterior(
        design=X @ factor,
        offset=jnp.einsum("snd,sd->sn", X, mode),
        signs=jnp.repeat(signs, N_CHAINS, axis=1),
        mode=mode,
        factor=factor,
    )
    key_start, key_warm_up, key_draws = jax.random.split(key, 3)
    z = jax.random.normal(key_start, (S, U * N_CHAINS, X.shape[2]), X.dtype)
    log_step = jnp.full(S, np.log(FIRST_STEP), X.dtype)

    def warm_up(state: Any, step: Any) -> tuple[Any, None]:
        z, log_step, mean_log_step, error_sum = state
        number, step_key = step
        point, acceptance, _, _ = _transition(step_key, posterior, z, jnp.exp(log_step))
        t = number + 1.0
        weight = 1.0 / (t + 10.0)
        error_sum = (1.0 - weight) * error_sum + weight * (TARGET_ACCEPTANCE - acceptance)
        log_step = np.log(10.0 * FIRST_STEP) - jnp.sqrt(t) / 0.05 * error_sum
        eta = t**-0.75
        mean_log_step = eta * log_step + (1.0 - eta) * mean_log_step
        return (point.z, log_step, mean_log_step, error_sum), None

    steps = (jnp.arange(N_WARM_UP, dtype=X.dtype), jax.random.split(key_warm_up, N_WARM_UP))
    first = (z, log_step, jnp.zeros_like(log_step), jnp.zeros_like(log_step))
    (z, _, mean_log_step, _), _ = jax.lax.scan(warm_up, first, steps)

    def draw(z: Any, step_key: Any) -> tuple[Any, Any]:
        point, _, n_steps, is_cut = _transition(step_key, posterior, z, jnp.exp(mean_log_step))
        return point.z, (point.z, n_steps, is_cut)

    _, (draws, n_steps, is_cut) = jax.lax.scan(draw, z, jax.random.split(key_draws, n_draws))
    weights = mode[:, None] + jnp.einsum("sde,ksme->ksmd", factor, draws)
    weights = weights.reshape(n_draws, S, U, N_CHAINS, -1).transpose(1, 2, 4, 3, 0)
    weights = weights.reshape(S, U, X.shape[2], N_CHAINS * n_draws)
    return weights.astype(jnp.float32), n_steps.mean(), is_cut.mean()


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
    logits = ROOT_TWO * (posterior.offset[:, None] + z @ posterior.design.swapaxes(1, 2))
    margins = posterior.signs * logits
    v = posterior.mode[:, None] + z @ posterior.factor.swapaxes(1, 2)
    log_probs = jnp.abs(posterior.signs) * jax.nn.log_sigmoid(margins)
    log_density = log_probs.sum(axis=2) - 0.5 * jnp.square(v).sum(axis=2)
    residual = ROOT_TWO * posterior.signs * jax.nn.sigmoid(-margins)
    return log_density, residual @ posterior.design - v @ posterior.factor


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


def _transition(key: Any, posterior: Posterior, z: Any, step: Any) -> tuple[Point, Any, Any, Any]:
    """One state of every chain; mean acceptance (S,), leapfrog steps and which trees were cut."""
    key_momentum, key_tree = jax.random.split(key)
    log_density, gradient = _density(posterior, z)
    r = jax.random.normal(key_momentum, z.shape, z.dtype)
    start = Point(z, r, gradient, log_density)
    energy = 0.5 * jnp.square(r).sum(axis=2) - log_density
    nothing = jnp.zeros_like(energy)
    tree = Tree(
        left=start,
        right=start,
        proposal=start,
        log_weight=nothing,
        r_sum=r,
        has_ended=jnp.zeros(energy.shape, bool),
        acceptance=nothing,
        n_steps=nothing,
    )

    def goes_on(state: Any) -> Any:
        depth, tree = state
        return (depth < MAX_DEPTH) & ~tree.has_ended.all()

    def double(state: Any) -> Any:
        depth, tree = state
        doubling_key = jax.random.fold_in(key_tree, depth)
        return depth + 1, _double(doubling_key, posterior, tree, energy, step, depth)

    _, tree = jax.lax.while_loop(goes_on, double, (0, tree))
    acceptance = tree.acceptance / tree.n_steps
    return tree.proposal, acceptance.mean(axis=1), tree.n_steps, ~tree.has_ended


def _double(key: Any, posterior: Posterior, tree: Tree, energy: Any, step: Any, depth: Any) -> Tree:
    key_direction, key_leaves, key_choice = jax.random.split(key, 3)
    is_forward = jax.random.bernoulli(key_direction, shape=energy.shape)
    signed_step = jnp.where(is_forward, step[:, None], -step[:, None])
    edge = _where(is_forward, tree.right, tree.left)
    checkpoints = jnp.zeros((MAX_DEPTH, *edge.r.shape), edge.r.dtype)
    subtree = Subtree(
        edge=edge,
        proposal=edge,
        log_weight=jnp.full_like(energy, -jnp.inf),
        r_sum=jnp.zeros_like(edge.r),
        has_ended=tree.has_ended,
        acceptance=tree.acceptance,
        n_steps=tree.n_steps,
        r_checkpoints=checkpoints,
        sum_checkpoints=checkpoints,
    )
    n_leaves = 2**depth

    def goes_on(state: Any) -> Any:
        leaf, subtree = state
        return (leaf < n_leaves) & ~subtree.has_ended.all()

    def extend(state: Any) -> Any:
        leaf, subtree = state
        leaf_key = jax.random.fold_in(key_leaves, leaf)
        return leaf + 1, _extend(leaf_key, posterior, subtree, energy, signed_step, leaf)

    _, subtree = jax.lax.while_loop(goes_on, extend, (0, subtree))
    is_whole = ~subtree.has_ended
    log_ratio = subtree.log_weight - tree.log_weight
    uniform = jax.random.uniform(key_choice, energy.shape, energy.dtype)
    takes = is_whole & (jnp.log(uniform) < log_ratio)
    left = _where(is_whole & ~is_forward, subtree.edge, tree.left)
    right = _where(is_whole & is_forward, subtree.edge, tree.right)
    r_sum = tree.r_sum + subtree.r_sum
    return Tree(
        left=left,
        right=right,
        proposal=_where(takes, subtree.proposal, tree.proposal),
        log_weight=jnp.logaddexp(tree.log_weight, subtree.log_weight),
        r_sum=r_sum,
        has_ended=~is_whole | _is_turning(left.r, right.r, r_sum),
        acceptance=subtree.acceptance,
        n_steps=subtree.n_steps,
    )


def _extend(
    key: Any, posterior: Posterior, subtree: Subtree, energy: Any, step: Any, leaf: Any
) -> Subtree:
    """Add a leaf to the subtrees that still grow."""
    grows = ~subtree.has_ended
    point = _where(grows, _leapfrog(posterior, subtree.edge, step), subtree.edge)
    new_energy = 0.5 * jnp.square(point.r).sum(axis=2) - point.log_density
    log_weight = energy - new_energy
    log_weight = jnp.where(jnp.isnan(log_weight), -jnp.inf, log_weight)
    total = jnp.logaddexp(subtree.log_weight, log_weight)
    uniform = jax.random.uniform(key, energy.shape, energy.dtype)
    takes = grows & (jnp.log(uniform) < log_weight - total)
    r_sum = subtree.r_sum + point.r

    highest = jax.lax.population_count(leaf >> 1)
    is_even = leaf % 2 == 0
    r_checkpoints = jnp.where(
        is_even, subtree.r_checkpoints.at[highest].set(point.r), subtree.r_checkpoints
    )
    sum_checkpoints = jnp.where(
        is_even, subtree.sum_checkpoints.at[highest].set(r_sum), subtree.sum_checkpoints
    )
    n_closed = jax.lax.population_count((~leaf & (leaf + 1)) - 1)  # ones at the end of ``leaf``

    def check(number: Any, is_turning: Any) -> Any:
        index = highest - number
        r_first = r_checkpoints[index]
        between = r_sum - sum_checkpoints[index] + r_first
        return is_turning | _is_turning(r_first, point.r, between)

    nowhere = jnp.zeros(energy.shape, bool)
    is_turning = jax.lax.fori_loop(0, n_closed, check, nowhere)
    diverges = ~(log_weight > -MAX_ENERGY_ERROR)
    grown = subtree._replace(
        edge=point,
        proposal=_where(takes, point, subtree.proposal),
        log_weight=total,
        r_sum=r_sum,
        has_ended=is_turning | diverges,
        acceptance=subtree.acceptance + jnp.exp(jnp.minimum(log_weight, 0.0)),
        n_steps=subtree.n_steps + 1.0,
    )
    grown = grown._replace(r_checkpoints=r_checkpoints, sum_checkpoints=sum_checkpoints)
    small = ("edge", "proposal", "log_weight", "r_sum", "has_ended", "acceptance", "n_steps")
    masked = {name: _where(grows, getattr(grown, name), getattr(subtree, name)) for name in small}
    return grown._replace(**masked)
