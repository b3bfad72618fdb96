"""ParBaLS for two classes in closed form: universes are rank-one updates of one Gaussian posterior.

Universe u has seen its labels of the partial batch. A label s at point i, whose f has mean m_i and
variance v_i there, changes every point's by its covariance c(·, i):

    m ← m + α c(·, i),   v ← v - β c(·, i)²,   c ← c - β c(·, i) c(i, ·),

α and β the derivatives of ln E[σ(s f)] (:func:`parbals.posterior.mixture.label_evidence`). With
k_j = √β_j c(·, j) and C₀ the covariance of pool and target before the batch, C_u = C₀ - Σ_j k_j k_jᵀ, and
the quadratic form of :mod:`parbals.scores.gaussian` is

    Σ_t b_t C_u(x, t)² = Σ_t b_t C₀² - 2 Σ_j k_j(x) Σ_t C₀ b_t k_j(t) + Σ_jl k_j(x) k_l(x) Σ_t b_t k_j k_l:

two matrix products for all universes, and nothing of size U × N × M. It ranks the pool; the best
``_SHORT`` are then scored exactly, and the best of those is chosen.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from parbals.arrays import bucket, pad_rows
from parbals.posterior.ep import GaussianPosterior
from parbals.posterior.mixture import label_evidence
from parbals.scores.gaussian import closed_epig, gain_factor

__all__ = ["Greedy", "Surface", "greedy_closed_form", "make_surface"]

_SHORT = 64
_BLOCK = 1024


class Surface(NamedTuple):
    """The posterior before the batch, seen through pool and target; pool rows padded to blocks."""

    factor: Float[Array, "N d"]  # rows F: cov(x, x') = F(x) · F(x')
    covariance: Float[Array, "N M"]
    mean: Float[Array, " N"]
    variance: Float[Array, " N"]
    target_mean: Float[Array, " M"]
    target_variance: Float[Array, " M"]


class Universes(NamedTuple):
    """What each of U universes has learnt from its labels of the partial batch, at most R of them."""

    mean: Float[Array, "N U"]
    variance: Float[Array, "N U"]
    target_mean: Float[Array, "M U"]
    target_variance: Float[Array, "M U"]
    columns: Float[Array, "N U R"]
    target_columns: Float[Array, "M U R"]


class Greedy(NamedTuple):
    """A batch and its scores when chosen and before the batch was begun."""

    indices: np.ndarray
    scores: np.ndarray
    initial_scores: np.ndarray


def make_surface(posterior: GaussianPosterior, pool: np.ndarray, target: np.ndarray) -> Surface:
    """Design rows (N, d) and (M, d) under the posterior."""
    n_rows = -(-len(pool) // _BLOCK) * _BLOCK
    factor = pad_rows((pool @ posterior.factor).astype(np.float32), n_rows)
    target_factor = (target @ posterior.factor).astype(np.float32)
    mean = pad_rows((pool @ posterior.mean).astype(np.float32), n_rows)
    return Surface(
        factor=jnp.asarray(factor),
        covariance=_product(factor, target_factor.T),
        mean=jnp.asarray(mean),
        variance=jnp.asarray(np.square(factor).sum(axis=1)),
        target_mean=jnp.asarray((target @ posterior.mean).astype(np.float32)),
        target_variance=jnp.asarray(np.square(target_factor).sum(axis=1)),
    )


def greedy_closed_form(
    surface: Surface, signs: np.ndarray, free: np.ndarray, pending: np.ndarray, batch_size: int
) -> Greedy:
    """Build a batch; ``signs`` (N, U) are the universes' labels ±1 of every pool point."""
    n_rows = len(surface.mean)
    labels = jnp.asarray(pad_rows(signs.astype(np.float32), n_rows))
    open_ = jnp.asarray(pad_rows(free, n_rows))
    universes = _begin(
        surface, n_universes=signs.shape[1], rank=bucket(len(pending) + batch_size, 8)
    )
    seen = 0
    for index in pending:
        universes = _observe(surface, universes, labels, jnp.int32(index), jnp.int32(seen))
        seen += 1
    start = universes
    indices, scores = [], []
    for step in range(batch_size):
        ranking = _quadratic_forms(surface, universes, rank=bucket(seen, 8) if seen else 0)
        index, score = _best(surface, universes, ranking, open_)
        indices.append(index)
        scores.append(score)
        open_ = open_.at[index].set(False)
        if step < batch_size - 1:
            universes = _observe(surface, universes, labels, index, jnp.int32(seen))
            seen += 1
    initial = _exact(surface, start, jnp.stack(indices))
    return Greedy(
        np.asarray(jnp.stack(indices), np.int64),
        np.asarray(jnp.stack(scores), np.float64),
        np.asarray(initial, np.float64),
    )


@jax.jit
def _product(left: Float[Array, "N d"], right: Float[Array, "d M"]) -> Float[Array, "N M"]:
    return jnp.matmul(left, right, precision=jax.lax.Precision.HIGHEST)


@partial(jax.jit, static_argnames=("n_universes", "rank"))
def _begin(surface: Surface, *, n_universes: int, rank: int) -> Universes:
    def repeated(values: Array) -> Array:
        return jnp.repeat(values[:, None], n_universes, axis=1)

    n_pool, n_targets = surface.covariance.shape
    return Universes(
        *(repeated(values) for values in surface[2:]),
        columns=jnp.zeros((n_pool, n_universes, rank)),
        target_columns=jnp.zeros((n_targets, n_universes, rank)),
    )


@jax.jit
def _observe(
    surface: Surface,
    universes: Universes,
    labels: Float[Array, "N U"],
    index: Int[Array, ""],
    seen: Int[Array, ""],
) -> Universes:
    """Condition every universe on its label of one pool point."""
    known = universes.columns[index]  # (U, R)
    column = (surface.factor @ surface.factor[index])[:, None]
    column = column - jnp.einsum("nur,ur->nu", universes.columns, known)
    target_column = surface.covariance[index][:, None]
    target_column = target_column - jnp.einsum("mur,ur->mu", universes.target_columns, known)
    _, slope, curvature = label_evidence(
        universes.mean[index], universes.variance[index], labels[index], jnp
    )
    root = jnp.sqrt(jnp.maximum(curvature, 0.0))

    def lowered(variance: Array, change: Array) -> Array:
        return jnp.maximum(variance - jnp.square(root * change), 0.0)

    return Universes(
        mean=universes.mean + slope * column,
        variance=lowered(universes.variance, column),
        target_mean=universes.target_mean + slope * target_column,
        target_variance=lowered(universes.target_variance, target_column),
        columns=universes.columns.at[:, :, seen].set(root * column),
        target_columns=universes.target_columns.at[:, :, seen].set(root * target_column),
    )


@jax.jit
def _best(
    surface: Surface, universes: Universes, ranking: Float[Array, " N"], free: Bool[Array, " N"]
) -> tuple[Int[Array, ""], Float[Array, ""]]:
    """The free point with the highest mean EPIG among the ``_SHORT`` that are ranked first."""
    _, short = jax.lax.top_k(jnp.where(free, ranking, -jnp.inf), min(_SHORT, len(free)))
    exact = jnp.where(free[short], _exact(surface, universes, short), -jnp.inf)
    best = exact.argmax()
    return short[best], exact[best]


@partial(jax.jit, static_argnames=("rank",))
def _quadratic_forms(surface: Surface, universes: Universes, *, rank: int) -> Float[Array, " N"]:
    """Σ_u a_u(x) Σ_t b_u(t) C_u(x, t)² of every pool point, block by block."""
    weights = gain_factor(universes.target_mean, universes.target_variance)  # (M, U)
    columns, target_columns = universes.columns[:, :, :rank], universes.target_columns[:, :, :rank]
    weighted = weights[:, :, None] * target_columns
    n_targets, n_universes = weights.shape
    gram = jnp.einsum("mur,mus->urs", weighted, target_columns)

    def of_block(block: tuple[Array, ...]) -> Array:
        covariance, mean, variance, known = block
        form = jnp.square(covariance) @ weights  # (n, U)
        if rank:
            cross = covariance @ weighted.reshape(n_targets, -1)
            cross = cross.reshape(-1, n_universes, rank)
            form = form - 2.0 * (cross * known).sum(axis=2)
            form = form + jnp.einsum("nur,urs,nus->nu", known, gram, known)
        return (gain_factor(mean, variance) * form).sum(axis=1)

    pool = surface.covariance, universes.mean, universes.variance, columns
    n_blocks = len(surface.mean) // _BLOCK
    blocks = jax.tree.map(lambda x: x.reshape(n_blocks, _BLOCK, *x.shape[1:]), pool)
    return jax.lax.map(of_block, blocks).reshape(-1)


@jax.jit
def _exact(surface: Surface, universes: Universes, indices: Int[Array, " S"]) -> Float[Array, " S"]:
    """Mean over universes of the EPIG of some pool points."""
    learnt = jnp.einsum("sur,mur->usm", universes.columns[indices], universes.target_columns)
    return closed_epig(
        universes.mean[indices].T,
        universes.variance[indices].T,
        universes.target_mean.T,
        universes.target_variance.T,
        surface.covariance[indices][None] - learnt,
    ).mean(axis=0)
