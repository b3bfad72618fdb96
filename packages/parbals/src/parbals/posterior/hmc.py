"""Hamiltonian Monte Carlo for a whole population, with every operation a matrix product.

In whitened coordinates z the posterior is a standard normal times a remainder,

    -ln p(z) = |z|²/2 + R(z),
    R(z) = -Σ_n ln p(y_n | f_n + A_n z) + ⟨c, z⟩ - ½ Σ_n κ_n |A_n z|²,

where A = X L (n, d), f = X mean and c = Lᵀ mean. The integrator solves the Gaussian part exactly (a
rotation of position and momentum) and kicks with ∇R:

    p ← p - ε/2 ∇R(z);   (z, p) ← (z cos ε + p sin ε,  p cos ε - z sin ε);   p ← p - ε/2 ∇R(z).

Directions that no label has informed have ∇R = 0 and are refreshed without error, so the step size
depends on how far the posterior is from Gaussian, not on the dimension. (A plain leapfrog must also
resolve the Gaussian itself.) Established kernels move one chain at a time or recompute the prior in
every coordinate; here A z is computed for all K particles at once and is most of the cost.

A move turns through about a quarter circle, after which a Gaussian coordinate has forgotten its
start. Moves are Metropolis-corrected. They run in NumPy, on threads that share the particles: a
compiled program for each number of labels would take longer to compile than all of the moves.
"""

from typing import NamedTuple

import numpy as np

from parbals.arrays import block_rows
from parbals.machine import Workers
from parbals.posterior.closed.laplace import Reference
from parbals.posterior.predictive import contrast_basis
from parbals.shapes import Array, Float, Int

__all__ = ["MoveResult", "State", "WhitenedPosterior", "adapt_step_size", "move"]

_TARGET_ACCEPTANCE = 0.8
_MAX_STEPS = 256
_SHORT_STEP_SHARE = 0.2
"""Share of the particles whose steps are shortened in a move, by a random factor.

Where the likelihood is a wall (separable data, large features) the step size that suits the
population is far too long for the few particles at the wall, which would be rejected for ever.
"""
_MAX_SHORTENING = 1e3
_BLOCK_LOGITS = 2**17  # of a block of particles: half a megabyte


class State(NamedTuple):
    """Particles, with their logits, gradients and energies."""

    whitened: Float[Array, "d J K"]
    logits: Float[Array, "n J K"]  # A z
    gradient: Float[Array, "d J K"]  # ∇R
    prior_energy: Float[Array, " K"]  # |V|²/2 of the weights, up to a constant
    energy: Float[Array, " K"]  # -ln p(z), up to a constant


class MoveResult(NamedTuple):
    """Particles after a move, and how it went."""

    state: State
    acceptance: float  # mean over the particles whose steps were not shortened
    n_steps: int  # of the integrator, one gradient each


class WhitenedPosterior:
    """The posterior in whitened coordinates, given design rows (n, d) and class numbers (n,)."""

    def __init__(
        self, reference: Reference, X: Float[Array, "n d"], labels: Int[Array, " n"], n_classes: int
    ) -> None:
        self.design = (X @ reference.factor).astype(np.float32)
        self.offset = (X @ reference.mean).astype(np.float32)[:, :, None]
        self.slope = (reference.factor.T @ reference.mean).astype(np.float32)[:, :, None]
        self.curvature = reference.curvature.astype(np.float32)[:, None, None]
        self.basis = contrast_basis(n_classes).astype(np.float32)
        self.rows = np.arange(len(X))
        self.labels = labels

    def at(self, z: Float[Array, "d J K"]) -> State:
        """The state of particles z (d, J, K); energies are summed in double precision."""
        rows = self.rows
        n_columns, n_contrasts, n_particles = z.shape
        flat = n_contrasts * n_particles
        logits = self.design @ z.reshape(n_columns, flat)
        logits = logits.reshape(len(rows), n_contrasts, n_particles)
        probs = self.basis @ (self.offset + logits)  # (n, C, K), logits until the exponential
        probs -= probs.max(axis=1, keepdims=True)
        label_logits = probs[rows, self.labels]
        np.exp(probs, out=probs)
        total = probs.sum(axis=1)
        log_likelihood = (label_logits - np.log(total)).sum(axis=0, dtype=np.float64)
        probs /= total[:, None]
        probs[rows, self.labels] -= 1.0
        curved_logits = self.curvature * logits
        logit_gradient = (self.basis.T @ probs - curved_logits).reshape(len(rows), flat)
        gradient = (self.design.T @ logit_gradient).reshape(z.shape) + self.slope
        prior_energy = (z * (0.5 * z + self.slope)).sum(axis=(0, 1), dtype=np.float64)
        prior_energy -= 0.5 * (curved_logits * logits).sum(axis=(0, 1), dtype=np.float64)
        return State(
            whitened=z,
            logits=logits,
            gradient=gradient,
            prior_energy=prior_energy,
            energy=prior_energy - log_likelihood,
        )

    @np.errstate(over="ignore", invalid="ignore")  # a diverging trajectory is rejected
    def integrate(
        self, start: State, momentum: Float[Array, "d J K"], step: Float[Array, " K"], n_steps: int
    ) -> tuple[State, Float[Array, " K"]]:
        """Integrate Hamilton's equations; return the end and the loss of total energy (K,)."""
        cosine = np.cos(step)
        sine = np.sin(step)
        state = start
        p = momentum - 0.5 * step * start.gradient
        for n_left in range(n_steps, 0, -1):
            z = cosine * state.whitened + sine * p
            p = cosine * p - sine * state.whitened
            state = self.at(z)
            p -= (step if n_left > 1 else 0.5 * step) * state.gradient
        kinetic_loss = 0.5 * ((momentum - p) * (momentum + p)).sum(axis=(0, 1), dtype=np.float64)
        return state, kinetic_loss + start.energy - state.energy


def move(
    generator: np.random.Generator,
    posterior: WhitenedPosterior,
    state: State,
    step_size: float,
    workers: Workers,
) -> MoveResult:
    """Propose a move for every particle, and accept or reject each (Metropolis)."""
    n_particles = state.whitened.shape[2]
    momentum = generator.standard_normal(state.whitened.shape, np.float32)
    angle = np.pi / 2 * generator.uniform(0.85, 1.15)
    n_steps = int(np.clip(np.ceil(angle / step_size), 1, _MAX_STEPS))
    short_uniforms, length_uniforms, accept_uniforms = generator.random((3, n_particles))
    is_short = short_uniforms < _SHORT_STEP_SHARE
    factor = np.where(is_short, np.exp(-np.log(_MAX_SHORTENING) * length_uniforms), 1.0)
    step = (min(angle / n_steps, step_size) * factor).astype(np.float32)

    def move_block(block: slice) -> tuple[State, np.ndarray]:
        start = State(*(field[..., block] for field in state))
        end, energy_loss = posterior.integrate(start, momentum[..., block], step[block], n_steps)
        accept_prob = np.where(np.isfinite(energy_loss), np.exp(np.minimum(energy_loss, 0.0)), 0.0)
        is_accepted = accept_uniforms[block] < accept_prob
        pairs = zip(end, start, strict=True)
        return State(*(np.where(is_accepted, new, old) for new, old in pairs)), accept_prob

    logits_per_particle = max(len(posterior.rows) * len(posterior.basis), 1)
    cache_size = max(16, _BLOCK_LOGITS // logits_per_particle)
    block_size = min(cache_size, -(-n_particles // workers.n_threads))
    results = workers.map(move_block, block_rows(n_particles, block_size))
    states, block_probs = zip(*results, strict=True)
    fields = zip(*states, strict=True)
    moved = State(*(np.concatenate(blocks, axis=-1) for blocks in fields))
    accept_prob = np.concatenate(block_probs)[~is_short]
    acceptance = float(accept_prob.mean()) if len(accept_prob) else _TARGET_ACCEPTANCE
    return MoveResult(moved, acceptance, n_steps)


def adapt_step_size(step_size: float, acceptance: float) -> float:
    """The step size that would have had the target acceptance.

    For this integrator acceptance = 2 Φ(-s/2) with s ∝ ε²: one measurement is enough.

    >>> adapt_step_size(0.5, acceptance=0.8)
    0.5
    """
    from scipy.special import ndtri  # SciPy takes long to load, and most fits need none

    acceptances = np.array([np.clip(acceptance, 2e-4, 0.98), _TARGET_ACCEPTANCE])
    measured, target = -2.0 * ndtri(acceptances / 2.0)
    factor = np.clip(np.sqrt(target / measured), 0.3, 1.6)
    return float(np.clip(step_size * factor, 1e-4, np.pi / 2))
