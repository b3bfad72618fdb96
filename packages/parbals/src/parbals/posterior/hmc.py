"""Metropolis-corrected Hamiltonian moves of a whole population, every operation a matrix product.

In whitened coordinates z the posterior is a standard normal times a remainder,

    -ln p(z) = |z|²/2 + R(z),
    R(z) = -Σ_n ln p(y_n | f_n + A_n z) + ⟨c, z⟩ - ½ Σ_n κ_n |A_n z|²,

where A = X L (n, d), f = X mean and c = Lᵀ mean. The integrator solves the Gaussian part exactly (a
rotation of position and momentum) and kicks with ∇R:

    p ← p - ε/2 ∇R(z);   (z, p) ← (z cos ε + p sin ε,  p cos ε - z sin ε);   p ← p - ε/2 ∇R(z).

Directions that no label has informed have ∇R = 0 and are refreshed without error, so the step size
is set by how far the posterior is from Gaussian and not by the dimension. (A plain leapfrog must
also resolve the Gaussian itself.) Established kernels move one chain at a time or recompute the
prior in every coordinate; here A z is shared by all K particles and is most of the cost.

A move turns through about a quarter circle, after which a Gaussian coordinate has forgotten its
start. NumPy makes it, on threads that share the particles: a program for each number of labels
would take longer to compile than all of the moves.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from parbals.arrays import block_rows
from parbals.machine import Workers
from parbals.posterior.closed.laplace import Reference
from parbals.posterior.predictive import contrast_basis
from parbals.shapes import Array, Float, Int

__all__ = ["Moved", "State", "WhitenedPosterior", "adapted_step", "move"]

_ACCEPTANCE = 0.8
"""What the step size is adapted to."""
_MOST_STEPS = 256
_SHORT_SHARE = 0.2
"""Of the particles that take shorter steps in a move, by a random factor of up to a thousand. Where
the likelihood is a wall (separable data, large features) the step that suits the population is far
too long for the few particles at the wall, which would be refused for ever."""
_BLOCK_ENTRIES = 2**17  # class logits of a block of particles: half a megabyte


class State(NamedTuple):
    """Particles, and what the posterior says of them."""

    whitened: Float[Array, "d J K"]
    logits: Float[Array, "n J K"]  # A z
    gradient: Float[Array, "d J K"]  # ∇R
    size: Float[Array, " K"]  # |V|²/2 of the weights, up to a constant: -ln p without the labels
    energy: Float[Array, " K"]  # -ln p(z), up to a constant


class Moved(NamedTuple):
    """Particles after a move, and how it went."""

    state: State
    acceptance: float  # mean over the particles whose steps were not shortened
    n_steps: int  # of the integrator, a gradient each


class WhitenedPosterior:
    """The posterior in whitened coordinates, of design rows (n, d) and class numbers (n,)."""

    def __init__(
        self, reference: Reference, X: Float[Array, "n d"], labels: Int[Array, " n"], n_classes: int
    ) -> None:
        parts = X @ reference.factor, X @ reference.mean, reference.factor.T @ reference.mean
        self.design, offset, slope = (part.astype(np.float32) for part in parts)
        self.offset, self.slope = offset[:, :, None], slope[:, :, None]
        self.curvature = reference.curvature.astype(np.float32)[:, None, None]
        self.basis = contrast_basis(n_classes).astype(np.float32)
        self.rows, self.labels = np.arange(len(X)), labels

    def at(self, z: Float[Array, "d J K"]) -> State:
        """The state of particles; energies are summed in double precision."""
        rows, (n_columns, n_contrasts, n_particles) = self.rows, z.shape
        flat = n_contrasts * n_particles
        logits = self.design @ z.reshape(n_columns, flat)
        logits = logits.reshape(len(rows), n_contrasts, n_particles)
        probs = self.basis @ (self.offset + logits)  # (n, C, K), logits until the exponential
        probs -= probs.max(axis=1, keepdims=True)
        chosen = probs[rows, self.labels]
        np.exp(probs, out=probs)
        total = probs.sum(axis=1)
        fit = (chosen - np.log(total)).sum(axis=0, dtype=np.float64)
        probs /= total[:, None]
        probs[rows, self.labels] -= 1.0
        bent = self.curvature * logits
        pull = (self.basis.T @ probs - bent).reshape(len(rows), flat)
        gradient = (self.design.T @ pull).reshape(z.shape) + self.slope
        size = (z * (0.5 * z + self.slope)).sum(axis=(0, 1), dtype=np.float64)
        size -= 0.5 * (bent * logits).sum(axis=(0, 1), dtype=np.float64)
        return State(z, logits, gradient, size, size - fit)

    @np.errstate(over="ignore", invalid="ignore")  # a path that leaves all bounds is refused
    def turned(
        self, start: State, momentum: Float[Array, "d J K"], step: Float[Array, " K"], n_steps: int
    ) -> tuple[State, Float[Array, " K"]]:
        """After steps of the integrator, and how much energy was lost on the way."""
        cosine, sine, state = np.cos(step), np.sin(step), start
        p = momentum - 0.5 * step * start.gradient
        for left in range(n_steps, 0, -1):
            z, p = cosine * state.whitened + sine * p, cosine * p - sine * state.whitened
            state = self.at(z)
            p -= (step if left > 1 else 0.5 * step) * state.gradient
        slower = 0.5 * ((momentum - p) * (momentum + p)).sum(axis=(0, 1), dtype=np.float64)
        return state, slower + start.energy - state.energy


def move(
    generator: np.random.Generator,
    posterior: WhitenedPosterior,
    state: State,
    step_size: float,
    workers: Workers,
) -> Moved:
    """Every particle moved once, or left where it is."""
    n_particles = state.whitened.shape[2]
    momentum = generator.standard_normal(state.whitened.shape, np.float32)
    angle = np.pi / 2 * generator.uniform(0.85, 1.15)
    n_steps = int(np.clip(np.ceil(angle / step_size), 1, _MOST_STEPS))
    is_short, shorter, uniforms = generator.random((3, n_particles))
    is_short = is_short < _SHORT_SHARE
    factor = np.where(is_short, np.exp(-np.log(1e3) * shorter), 1.0)
    step = (min(angle / n_steps, step_size) * factor).astype(np.float32)

    def moved(some: slice) -> tuple[State, np.ndarray]:
        start = State(*(part[..., some] for part in state))
        end, gain = posterior.turned(start, momentum[..., some], step[some], n_steps)
        chance = np.where(np.isfinite(gain), np.exp(np.minimum(gain, 0.0)), 0.0)
        is_taken = uniforms[some] < chance
        pairs = zip(end, start, strict=True)
        return State(*(np.where(is_taken, new, old) for new, old in pairs)), chance

    entries = max(len(posterior.rows) * len(posterior.basis), 1)
    block = min(max(16, _BLOCK_ENTRIES // entries), -(-n_particles // workers.n_threads))
    states, chances = zip(*workers.map(moved, block_rows(n_particles, block)), strict=True)
    whole = State(*(np.concatenate(part, axis=-1) for part in zip(*states, strict=True)))
    chance = np.concatenate(chances)[~is_short]
    return Moved(whole, float(chance.mean()) if len(chance) else _ACCEPTANCE, n_steps)


def adapted_step(step_size: float, acceptance: float) -> float:
    """The step that would have had the acceptance wanted.

    For this integrator acceptance = 2 Φ(-s/2) with s ∝ ε²: one measurement is enough.
    """
    seen, wanted = -2.0 * ndtri(np.array([np.clip(acceptance, 2e-4, 0.98), _ACCEPTANCE]) / 2.0)
    return float(np.clip(step_size * np.clip(np.sqrt(wanted / seen), 0.3, 1.6), 1e-4, np.pi / 2))
