"""ParBaLS for two classes in closed form: universes are rank-one updates of one Gaussian posterior.

Universe u has seen its labels of the partial batch. A label s at point i, whose f has mean m_i and
variance v_i there, changes those of every point by their covariance c(·, i) with it:

    m ← m + α c(·, i),   v ← v - β c(·, i)²,   c ← c - β c(·, i) c(i, ·),

α and β the derivatives of ln E[σ(s f)] (:func:`parbals.mixture.label_evidence`). With
k_j = √β_j c(·, j) and C₀ the covariance of pool and target before the batch,
C_u = C₀ - Σ_j k_j k_jᵀ, and the quadratic form of :mod:`parbals.scores.gaussian` is

    Σ_t b_t C_u(x, t)² = Σ_t b_t C₀² - 2 Σ_j k_j(x) Σ_t C₀ b_t k_j(t)
                         + Σ_jl k_j(x) k_l(x) Σ_t b_t k_j(t) k_l(t):

two matrix products for all universes, and nothing of size U × N × M. It ranks the pool; the best
``_SHORT`` are then scored exactly, and the best of those is chosen.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from scipy.special import expit

from parbals.arrays import bucket, pad_rows
from parbals.mixture import label_evidence
from parbals.randomness import derive_generator
from parbals.scores.gaussian import closed_bald, closed_epig, gain_factor
from parbals.strategies.problem import GaussianView, Problem, batch_of
from parbals.strategies.universes import PseudoLabels
from parbals.types import Batch

__all__ = ["bald_in_closed_form", "closed_form_batch", "epig_in_closed_form"]

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
    """What U universes have learnt from their labels of the partial batch, at most R of them."""

    mean: Float[Array, "N U"]
    variance: Float[Array, "N U"]
    target_mean: Float[Array, "M U"]
    target_variance: Float[Array, "M U"]
    columns: Float[Array, "N U R"]
    target_columns: Float[Array, "M U R"]


class _Labellings:
    """Joint labellings of the pool: U draws of the weights, and what tells points apart."""

    def __init__(self, view: GaussianView, n_universes: int, seed: int) -> None:
        self._pool = view.pool
        generator = derive_generator(seed, "universes")
        self._weights = view.posterior.draw(generator, n_universes)  # (d, U)

    def label_probs(self, index: int) -> np.ndarray:
        f = self._pool[index] @ self._weights
        return np.stack([expit(-f), expit(f)], axis=1)

    def content(self, index: int) -> list[bytes]:
        row = self._pool[index].tobytes()
        return [row + bytes([c]) for c in range(2)]


def closed_form_batch(problem: Problem, n_universes: int, *, most_probable: bool) -> Batch:
    """The batch that :func:`parbals.strategies.parbals.greedy_batch` builds, without samples."""
    view = problem.gaussian
    assert view is not None  # the caller has looked
    surface = _surface(view)
    drawn = _Labellings(view, n_universes, problem.seed)
    predicted = view.posterior.predict_proba(view.pool) if most_probable else None
    labels = PseudoLabels(problem.seed, predicted)
    free = jnp.asarray(pad_rows(problem.candidates(), len(surface.mean)))
    rank = bucket(len(problem.pending) + problem.batch_size, 8)
    universes = _begin(surface, n_universes=n_universes, rank=rank)
    seen = 0

    def observed(index: int) -> Universes:
        signs = 2.0 * labels.of(index, drawn) - 1.0
        return _observe(surface, universes, signs.astype(np.float32), index, seen)

    for index in problem.pending.tolist():
        universes = observed(index)
        seen += 1
    start, chosen, scores = universes, [], []
    for step in range(problem.batch_size):
        ranking = _quadratic_forms(surface, universes, rank=bucket(seen, 8) if seen else 0)
        best, score = _best(surface, universes, ranking, free)
        chosen.append(int(best))
        scores.append(float(score))
        free = free.at[best].set(False)
        if step < problem.batch_size - 1:
            universes = observed(chosen[-1])
            seen += 1
    size = problem.batch_size
    return batch_of(
        problem,
        np.array(chosen),
        np.array(scores),
        initial_scores=np.asarray(_exact(surface, start, np.array(chosen)), np.float64),
        n_exact=np.full(size, min(_SHORT, int(problem.candidates().sum()))),
    )


def epig_in_closed_form(view: GaussianView) -> np.ndarray:
    """(N,) EPIG of every pool point."""
    return np.asarray(_epig_of_pool(_surface(view)), np.float64)[: len(view.pool)]


def bald_in_closed_form(view: GaussianView) -> np.ndarray:
    """(N,) BALD of every pool point."""
    mean, variance = view.posterior.marginals(view.pool)
    scores = closed_bald(jnp.asarray(mean, jnp.float32), jnp.asarray(variance, jnp.float32))
    return np.asarray(scores, np.float64)


def _surface(view: GaussianView) -> Surface:
    posterior = view.posterior
    n_rows = -(-len(view.pool) // _BLOCK) * _BLOCK
    factor = pad_rows((view.pool @ posterior.factor).astype(np.float32), n_rows)
    mean = pad_rows((view.pool @ posterior.mean).astype(np.float32), n_rows)
    target_factor = (view.target @ posterior.factor).astype(np.float32)
    return Surface(
        factor=jnp.asarray(factor),
        covariance=_product(factor, target_factor.T),
        mean=jnp.asarray(mean),
        variance=jnp.asarray(np.square(factor).sum(axis=1)),
        target_mean=jnp.asarray((view.target @ posterior.mean).astype(np.float32)),
        target_variance=jnp.asarray(np.square(target_factor).sum(axis=1)),
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
        mean=repeated(surface.mean),
        variance=repeated(surface.variance),
        target_mean=repeated(surface.target_mean),
        target_variance=repeated(surface.target_variance),
        columns=jnp.zeros((n_pool, n_universes, rank)),
        target_columns=jnp.zeros((n_targets, n_universes, rank)),
    )


@jax.jit
def _observe(
    surface: Surface,
    universes: Universes,
    signs: Float[Array, " U"],
    index: Int[Array, ""] | int,
    seen: Int[Array, ""] | int,
) -> Universes:
    """Condition every universe on its label of one pool point."""
    known = universes.columns[index]  # (U, R)
    column = (surface.factor @ surface.factor[index])[:, None]
    column = column - jnp.einsum("nur,ur->nu", universes.columns, known)
    target_column = surface.covariance[index][:, None]
    target_column = target_column - jnp.einsum("mur,ur->mu", universes.target_columns, known)
    here = universes.mean[index], universes.variance[index]
    _, slope, curvature = label_evidence(*here, signs, jnp)
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
    return _block_by_block(of_block, pool)


@jax.jit
def _epig_of_pool(surface: Surface) -> Float[Array, " N"]:
    def of_block(block: tuple[Array, Array, Array]) -> Array:
        return closed_epig(*block[:2], surface.target_mean, surface.target_variance, block[2])

    return _block_by_block(of_block, (surface.mean, surface.variance, surface.covariance))


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


def _block_by_block(score: Callable[[Any], Array], pool: tuple[Array, ...]) -> Float[Array, " N"]:
    """Scores of all pool rows, ``_BLOCK`` rows at a time."""
    n_blocks = len(pool[0]) // _BLOCK
    blocks = jax.tree.map(lambda x: x.reshape(n_blocks, _BLOCK, *x.shape[1:]), pool)
    return jax.lax.map(score, blocks).reshape(-1)
