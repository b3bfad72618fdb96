"""Metropolis-corrected Hamiltonian moves of a whole population, every operation a matrix product.

In whitened coordinates z the posterior is a standard normal times a remainder,

    -ln p(z) = |z|²/2 + R(z),
    R(z) = -Σ_n m_n ln p(y_n | f_n + A_n z) + ⟨c, z⟩ - ½ Σ_n m_n κ_n |A_n z|²,

where A = X L (n, D+1), f = X mean, c = Lᵀ mean / σ², and m_n is 1 for a real row and 0 for padding.
The integrator solves the Gaussian part exactly (a rotation of position and momentum) and kicks with
∇R:

    p ← p - ε/2 ∇R(z);   (z, p) ← (z cos ε + p sin ε,  p cos ε - z sin ε);   p ← p - ε/2 ∇R(z).

Directions that no label has informed have ∇R = 0 and are refreshed without error, so the step size
is set by how far the posterior is from Gaussian and not by the dimension. (A plain leapfrog must
also resolve the Gaussian itself.) Established kernels move one chain at a time or recompute the
prior in every coordinate; here A z is shared by all K particles and is most of the cost.

A move turns through about a quarter circle, after which a Gaussian coordinate has forgotten its
start.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from parbals.posterior.closed.laplace import Reference
from parbals.posterior.predictive import contrast_basis

__all__ = [
    "MoveResult",
    "RowTerms",
    "WhitenedPosterior",
    "log_likelihood_terms",
    "move_population",
    "whitened_posterior",
]


class RowTerms(NamedTuple):
    """Per row n and particle k: ln p(y_n | f_nk) and its gradient in the contrast logits f."""

    log_likelihood: Float[Array, "n K"]
    gradient: Float[Array, "n J K"]


def log_likelihood_terms(
    contrasts: Float[Array, "n J K"], labels: Int[Array, " n"], n_classes: int
) -> RowTerms:
    """ln p(y | f) and ∂/∂f for every row and particle at once; J = C-1."""
    if n_classes == 2:
        root2 = np.asarray(np.sqrt(2.0), contrasts.dtype)
        sign = jnp.where(labels == 1, root2, -root2)[:, None, None]
        margin = sign * contrasts
        return RowTerms(jax.nn.log_sigmoid(margin)[:, 0], sign * jax.nn.sigmoid(-margin))
    basis = jnp.asarray(contrast_basis(n_classes), contrasts.dtype)
    log_probs = jax.nn.log_softmax(jnp.einsum("cj,njk->nck", basis, contrasts), axis=1)
    chosen = jax.nn.one_hot(labels, n_classes, dtype=contrasts.dtype)
    residual = chosen[:, :, None] - jnp.exp(log_probs)
    return RowTerms(
        jnp.einsum("nck,nc->nk", log_probs, chosen), jnp.einsum("nck,cj->njk", residual, basis)
    )


_ACCEPTANCE = 0.8
"""What the step size is adapted to."""
_MOST_LEAPFROGS = 256


class WhitenedPosterior(NamedTuple):
    """The posterior in whitened coordinates, on rows padded to a size bucket."""

    design: Float[Array, "n d"]  # A
    offset: Float[Array, "n J"]  # f
    labels: Int[Array, " n"]
    present: Float[Array, " n"]  # m
    curvature: Float[Array, " n"]  # κ
    slope: Float[Array, "d J"]  # c


class MoveResult(NamedTuple):
    """Moved particles and how the moves went."""

    whitened: Float[Array, "d J K"]
    logits: Float[Array, "n J K"]  # A z, for the moments of the population
    log_likelihood: Float[Array, "n K"]
    gradient: Float[Array, "d J K"]  # ∇R
    step_size: Float[Array, ""]
    acceptance: Float[Array, ""]  # mean over particles, of the last move
    correlation: Float[Array, ""]  # what is left of the start: of the row logits or of |V|²
    n_moves: Int[Array, ""]
    n_gradients: Int[Array, ""]
    n_accepted: Int[Array, " K"]  # of these moves, for each particle
    energy_start: Float[Array, " K"]  # -ln p(z) up to a constant, before the moves
    energy: Float[Array, " K"]  # and after them


def whitened_posterior(
    reference: Reference, X: np.ndarray, labels: np.ndarray, rows: int
) -> WhitenedPosterior:
    """The whitened posterior of design rows X (n, D+1), padded to ``rows``.

    Rows beyond those the reference was built from (labels that arrived since) have κ = 0 there.
    """
    padded = np.zeros((rows, X.shape[1]))
    padded[: len(X)] = X
    kappa = np.zeros(rows)
    kappa[: len(reference.curvature)] = reference.curvature
    present = np.zeros(rows)
    present[: len(X)] = 1.0
    all_labels = np.zeros(rows, np.int32)
    all_labels[: len(X)] = labels
    slope = reference.design(reference.mean.T).T / reference.prior_scale**2
    numbers = (reference.design(padded), padded @ reference.mean, present, kappa, slope)
    design, offset, mask, curved, slopes = jax.device_put([a.astype(np.float32) for a in numbers])
    return WhitenedPosterior(design, offset, jax.device_put(all_labels), mask, curved, slopes)


@partial(jax.jit, static_argnames=("n_classes",))
def move_population(
    key: Key[Array, ""],
    whitened: Float[Array, "d J K"],
    posterior: WhitenedPosterior,
    step_size: Float[Array, ""] | float,
    max_moves: Int[Array, ""] | int,
    tolerance: Float[Array, ""] | float,
    *,
    n_classes: int,
    short_share: Float[Array, ""] | float = 0.0,
) -> MoveResult:
    """Move every particle until the population has forgotten where it started.

    Stops when what correlates with the start has fallen to ``tolerance``, or after ``max_moves``:
    the row logits (root mean square over rows and contrasts) and the size |V|² of the weights,
    which is forgotten later than any logit where the likelihood is flat. The step size follows the
    acceptance of the population: for this integrator acceptance = 2 Φ(-s/2) with s ∝ ε², so one
    measurement gives the step that would have had the acceptance wanted.

    In each move a random ``short_share`` of the particles takes steps shortened by a random factor
    of up to a thousand. Where the likelihood is a wall (separable data, large features) the step
    that suits the population is far too long for the few particles at the wall, which would be
    refused for ever.
    """
    n_features, n_contrasts, n_particles = whitened.shape
    n_rows = posterior.design.shape[0]
    scale = (posterior.present * posterior.curvature)[:, None, None]

    def evaluate(z: Float[Array, "d J K"]) -> tuple[Array, Array, Array]:
        logits = (posterior.design @ z.reshape(n_features, -1)).reshape(
            n_rows, n_contrasts, n_particles
        )
        terms = log_likelihood_terms(
            posterior.offset[:, :, None] + logits, posterior.labels, n_classes
        )
        pull = -posterior.present[:, None, None] * terms.gradient - scale * logits
        gradient = (posterior.design.T @ pull.reshape(n_rows, -1)).reshape(
            z.shape
        ) + posterior.slope[:, :, None]
        return logits, posterior.present[:, None] * terms.log_likelihood, gradient

    def prior_energy(z: Float[Array, "d J K"], logits: Float[Array, "n J K"]) -> Array:
        """|V|²/2σ² of every particle, up to a constant: -ln p without the labels."""
        gaussian = (z * (0.5 * z + posterior.slope[:, :, None])).sum(axis=(0, 1))
        return gaussian - 0.5 * (scale * jnp.square(logits)).sum(axis=(0, 1))

    logits_start, log_lik_start, gradient_start = evaluate(whitened)
    prior_start = prior_energy(whitened, logits_start)
    real = posterior.present[:, None] > 0

    def remaining_correlation(
        z: Float[Array, "d J K"], logits: Float[Array, "n J K"]
    ) -> Float[Array, ""]:
        of_rows = _squared_correlation(logits_start, logits)
        rows = jnp.where(real, of_rows, 0.0).sum() / jnp.maximum(real.sum() * n_contrasts, 1)
        size = _squared_correlation(prior_start, prior_energy(z, logits))
        # K independent pairs show a squared correlation of 1/K by chance.
        return jnp.sqrt(jnp.maximum(jnp.maximum(rows, size) - 1.0 / n_particles, 0.0))

    def one_move(state: MoveResult) -> MoveResult:
        momentum_key, accept_key, angle_key, short_key, factor_key = jax.random.split(
            jax.random.fold_in(key, state.n_moves), 5
        )
        momentum = jax.random.normal(momentum_key, whitened.shape, whitened.dtype)
        angle = np.pi / 2 * jax.random.uniform(angle_key, (), minval=0.85, maxval=1.15)
        n_steps = jnp.clip(jnp.ceil(angle / state.step_size), 1, _MOST_LEAPFROGS).astype(jnp.int32)
        short = jax.random.uniform(short_key, (n_particles,)) < short_share
        factor = jnp.where(
            short, jnp.exp(-np.log(1e3) * jax.random.uniform(factor_key, (n_particles,))), 1.0
        )
        step = jnp.minimum(angle / n_steps, state.step_size) * factor
        cosine, sine = jnp.cos(step), jnp.sin(step)

        def leapfrog(i: Array, carry: tuple) -> tuple:
            z, p, *_ = carry
            z, p = cosine * z + sine * p, cosine * p - sine * z
            logits, log_lik, gradient = evaluate(z)
            kick = jnp.where(i == n_steps - 1, 0.5 * step, step)
            return z, p - kick * gradient, logits, log_lik, gradient

        start, kicked = state.whitened, momentum - 0.5 * step * state.gradient
        z, p, logits, log_lik, gradient = jax.lax.fori_loop(
            0,
            n_steps,
            leapfrog,
            (state.whitened, kicked, state.logits, state.log_likelihood, state.gradient),
        )
        # Differences are taken term by term before summing: energies of thousands would drown them
        # in float32.
        gain = 0.5 * (
            (state.whitened - z) * (state.whitened + z) + (momentum - p) * (momentum + p)
        ).sum(axis=(0, 1))
        gain += (posterior.slope[:, :, None] * (start - z)).sum(axis=(0, 1))
        gain += (log_lik - state.log_likelihood).sum(axis=0)
        gain -= 0.5 * (scale * (state.logits - logits) * (state.logits + logits)).sum(axis=(0, 1))
        probability = jnp.where(jnp.isfinite(gain), jnp.exp(jnp.minimum(gain, 0.0)), 0.0)
        accepted = jax.random.uniform(accept_key, (n_particles,)) < probability

        def keep(new: Array, old: Array) -> Array:
            return jnp.where(accepted, new, old)

        z, logits = keep(z, start), keep(logits, state.logits)
        acceptance = jnp.where(short, 0.0, probability).sum() / jnp.maximum((~short).sum(), 1)
        return MoveResult(
            z,
            logits,
            keep(log_lik, state.log_likelihood),
            keep(gradient, state.gradient),
            _adapted_step(state.step_size, acceptance),
            acceptance,
            remaining_correlation(z, logits),
            state.n_moves + 1,
            state.n_gradients + n_steps,
            state.n_accepted + accepted,
            state.energy_start,
            state.energy,
        )

    def unfinished(state: MoveResult) -> Array:
        return (state.n_moves < max_moves) & (state.correlation > tolerance)

    energy_start = prior_start - log_lik_start.sum(axis=0)
    begin = MoveResult(
        whitened,
        logits_start,
        log_lik_start,
        gradient_start,
        jnp.asarray(step_size, whitened.dtype),
        jnp.zeros((), whitened.dtype),
        jnp.ones((), whitened.dtype),
        jnp.zeros((), jnp.int32),
        jnp.zeros((), jnp.int32),
        jnp.zeros(n_particles, jnp.int32),
        energy_start,
        energy_start,
    )
    end = jax.lax.while_loop(unfinished, one_move, begin)
    energy = prior_energy(end.whitened, end.logits) - end.log_likelihood.sum(axis=0)
    return end._replace(energy=energy)


def _squared_correlation(a: Float[Array, "*n K"], b: Float[Array, "*n K"]) -> Float[Array, "*n"]:
    """Of two quantities over the particles, the last axis; 0 where one of them does not vary."""
    a, b = (x - x.mean(axis=-1, keepdims=True) for x in (a, b))
    product = jnp.square(a).sum(axis=-1) * jnp.square(b).sum(axis=-1)
    return jnp.square((a * b).sum(axis=-1)) / jnp.where(product > 0, product, 1.0)


def _adapted_step(step: Array, acceptance: Array) -> Array:
    seen = -2.0 * jax.scipy.special.ndtri(jnp.clip(acceptance / 2.0, 1e-4, 0.49))
    wanted = -2.0 * jax.scipy.special.ndtri(jnp.asarray(_ACCEPTANCE / 2.0, step.dtype))
    return jnp.clip(step * jnp.clip(jnp.sqrt(wanted / seen), 0.3, 1.6), 1e-4, np.pi / 2)
