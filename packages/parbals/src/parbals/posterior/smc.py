"""A population of particles that is drawn once and then follows the labels.

``draw_population`` starts K particles at a Gaussian around the mode and moves them all at once, in
the space of the rows, until they have forgotten it (``relax``). New labels multiply each particle's
weight by p(y | x) of that particle (``condition_population``); only when the effective sample size
falls too low are the particles resampled and moved until they have settled.

A population has settled when it has forgotten where it began without drifting while it did, several
times in a row. What is watched are the logits of the rows, the size of the weights and the energy.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import log_softmax

from parbals.arrays import effective_sample_size
from parbals.machine import several_threads
from parbals.posterior.closed.laplace import Reference, laplace_reference, matched_reference
from parbals.posterior.closed.latents import row_space
from parbals.posterior.closed.whitening import Whitening
from parbals.posterior.hmc import State, WhitenedPosterior, adapted_step, move
from parbals.posterior.predictive import add_bias, contrast_basis, softmax
from parbals.randomness import derive_generator
from parbals.types import Diagnostics

__all__ = ["Population", "condition_population", "draw_population"]

_MOVE_BELOW = 0.5
"""Particles are resampled and moved when the effective sample size falls below this share of K."""
_DRAW_BELOW = 0.1
"""Below this share too few ancestors are left to resample from: the population is drawn again."""
_SMALLEST_POPULATION = 128
"""The step size and the stopping rule read the population, so it is never smaller than this."""
_GRADIENT_BUDGET = 20_000
_WARM_UP_ROUNDS = 12
_UNSETTLED = (
    f"The posterior particles did not converge: after {_GRADIENT_BUDGET:,} gradient evaluations a "
    "correlation of {:.2f} with their start is left and their mean still moved by {:.2f} standard "
    "deviations. Standardise the features (norms of 1 to 20 work best), use a smaller prior_scale, "
    'or use inference="nuts".'
)
_TIMES_FORGOTTEN = 3
"""The slowest direction is a small part of everything that is watched: once is not enough."""


@dataclass(frozen=True)
class Population:
    """Weighted particles of the posterior given design rows X (n, D+1) and their class numbers.

    In the coordinates of the rows the prior of all weights is N(0, 1).
    """

    X: np.ndarray
    labels: np.ndarray
    n_classes: int
    coefficients: np.ndarray  # contrast weights V (D+1, J, K), float32
    log_weights: np.ndarray  # (K,), unnormalised
    diagnostics: Diagnostics
    whitening: Whitening | None = None  # of the rows that it was given, if it was any

    @property
    def weights(self) -> np.ndarray:
        """(K,) normalised particle weights."""
        return softmax(self.log_weights)

    def rows(self, X: np.ndarray) -> np.ndarray:
        """Design rows (n, D+1) of features (n, D), as the population knows them."""
        design = add_bias(X)
        return design if self.whitening is None else self.whitening.rows(design)

    def contrasts(self, X: np.ndarray) -> np.ndarray:
        """Contrast logits (n, J, K) of design rows X (n, D+1)."""
        return np.tensordot(X, self.coefficients, axes=1)


def log_likelihoods(contrasts: np.ndarray, labels: np.ndarray, n_classes: int) -> np.ndarray:
    """ln p_k(y_n | x_n), (n, K), from contrast logits (n, J, K)."""
    logits = np.einsum("cj,njk->nck", contrast_basis(n_classes), contrasts)
    return np.take_along_axis(log_softmax(logits, axis=1), labels[:, None, None], axis=1)[:, 0]


def systematic_resample(
    generator: np.random.Generator, weights: np.ndarray, n_samples: int
) -> np.ndarray:
    """Ancestor indices: particle k appears ⌊K w_k⌋ or ⌈K w_k⌉ times, in expectation K w_k.

    The order is shuffled so that the first few survivors are as good a sample as any.
    """
    points = (generator.random() + np.arange(n_samples)) / n_samples
    ancestors = np.searchsorted(np.cumsum(weights) / weights.sum(), points, side="right")
    return generator.permutation(np.minimum(ancestors, len(weights) - 1))


def draw_population(
    seed: int, X: np.ndarray, labels: np.ndarray, n_classes: int, n_samples: int
) -> Population:
    """K equally weighted draws from the posterior of design rows X (n, D+1)."""
    generator = derive_generator(seed, "draw", len(X))
    across = generator.standard_normal((X.shape[1], n_classes - 1, n_samples), np.float32)
    return _settled(generator, X, labels, n_classes, across)


def condition_population(
    population: Population, X_new: np.ndarray, labels_new: np.ndarray, seed: int
) -> Population:
    """The population that also knows the labels of design rows X_new (n_new, D+1).

    Its weights are multiplied by p(y_new | x_new); if they have worn thin, the particles are
    resampled and moved, and have equal weights again.
    """
    X = np.concatenate([population.X, X_new])
    labels = np.concatenate([population.labels, labels_new])
    n_classes, n_samples = population.n_classes, population.coefficients.shape[2]
    gained = log_likelihoods(population.contrasts(X_new), labels_new, n_classes)
    log_weights = population.log_weights + gained.sum(axis=0)
    weights = softmax(log_weights)
    size = float(effective_sample_size(weights))
    if size >= _MOVE_BELOW * n_samples:
        diagnostics = replace(
            population.diagnostics,
            effective_sample_size=size,
            n_reweighted=population.diagnostics.n_reweighted + len(X_new),
        )
        return replace(
            population, X=X, labels=labels, log_weights=log_weights, diagnostics=diagnostics
        )
    if size < _DRAW_BELOW * n_samples:
        moved = draw_population(seed, X, labels, n_classes, n_samples)
    else:
        generator = derive_generator(seed, "condition", len(X))
        ancestors = systematic_resample(generator, weights, max(n_samples, _SMALLEST_POPULATION))
        moved = _settled(generator, X, labels, n_classes, population.coefficients, ancestors)
    return replace(moved, whitening=population.whitening)


def _settled(
    generator: np.random.Generator,
    X: np.ndarray,
    labels: np.ndarray,
    n_classes: int,
    weights: np.ndarray,
    ancestors: np.ndarray | None = None,
) -> Population:
    """Weights (D+1, J, K) whose part in the row space is moved until it is of the posterior.

    It begins at the ancestors' or, without any, at the reference's draws. No label has seen what
    lies across: every particle keeps its own, whoever its ancestor is.
    """
    space, n_samples = row_space(X), weights.shape[2]
    rows = space.rows(X)
    reference = laplace_reference(rows, labels, n_classes)
    if ancestors is None:
        shape = *reference.mean.shape, max(n_samples, _SMALLEST_POPULATION)
        whitened = generator.standard_normal(shape, np.float32)
    else:
        whitened = reference.whiten(space.coordinates(weights)[:, :, ancestors]).astype(np.float32)
    inside, diagnostics = relax(
        generator, reference, whitened, rows, labels, n_classes, from_reference=ancestors is None
    )
    moved = space.replace(weights, inside[:, :, :n_samples]).astype(np.float32)
    diagnostics = replace(diagnostics, n_samples=n_samples, effective_sample_size=float(n_samples))
    return Population(X, labels, n_classes, moved, np.zeros(n_samples), diagnostics)


def relax(
    generator: np.random.Generator,
    reference: Reference,
    whitened: np.ndarray,
    X: np.ndarray,
    labels: np.ndarray,
    n_classes: int,
    *,
    from_reference: bool,
) -> tuple[np.ndarray, Diagnostics]:
    """Weights (d, J, K) of whitened particles moved until they are draws from the posterior.

    Particles that come from the reference are first resampled towards the posterior. Then runs of
    moves: each must forget where it began and must not drift while it does, several times in a row.
    A few moves at a time at first; while the moments of the population disagree with the reference,
    that is fitted to the population.
    """
    n_particles = whitened.shape[2]
    # What is left of the start is a bias; keep it a small part of the Monte-Carlo error of K draws.
    forgotten = min(0.1, 2.0 / np.sqrt(n_particles))
    posterior = WhitenedPosterior(reference, X, labels, n_classes)
    state = posterior.at(whitened)
    if from_reference:
        state = posterior.at(_importance_resample(generator, state))
    step, n_moves, n_gradients, n_runs, times_forgotten = 0.5, 0, 0, 0, 0
    is_warm = False
    with several_threads() as workers:
        while True:
            start, left, most = state, 1.0, 24 if is_warm else 3
            for _ in range(most):
                state, acceptance, n_steps = move(generator, posterior, state, step, workers)
                step = adapted_step(step, acceptance)
                n_moves, n_gradients = n_moves + 1, n_gradients + n_steps
                left = _remaining_correlation(start, state)
                if left <= (forgotten if is_warm else 0.3):
                    break
            n_runs += 1
            drift = _drift(start, state)
            is_still = drift <= _drift_allowed(n_particles)
            is_settled = is_warm and is_still and left <= 1.5 * forgotten
            times_forgotten = times_forgotten + 1 if is_settled else 0
            if times_forgotten >= _TIMES_FORGOTTEN or n_gradients > _GRADIENT_BUDGET:
                break
            is_far = _disagrees(state.logits, posterior.design)
            is_warm = is_warm or not is_far or n_runs >= _WARM_UP_ROUNDS
            if is_far:
                weights = reference.colour(state.whitened)
                reference = matched_reference(reference, X, weights)
                posterior = WhitenedPosterior(reference, X, labels, n_classes)
                state = posterior.at(reference.whiten(weights).astype(np.float32))
    diagnostics = Diagnostics(
        inference="smc",
        n_samples=n_particles,
        effective_sample_size=float(n_particles),
        acceptance=acceptance,
        correlation=left,
        drift=drift,
        n_moves=n_moves,
        n_gradients=n_gradients,
        step_size=step,
        problems=() if is_settled else (_UNSETTLED.format(left, drift),),
    )
    return reference.colour(state.whitened), diagnostics


def _importance_resample(generator: np.random.Generator, state: State) -> np.ndarray:
    """Draws from the reference, resampled towards the posterior as far as their number allows.

    Where the posterior is a Gaussian cut off by walls (separable data, large features) a good part
    of the reference lies behind them, so steep that the moves that suit the others cannot bring it
    back.
    """
    whitened, n_particles = state.whitened, len(state.energy)
    log_ratio = np.nan_to_num(0.5 * np.square(whitened).sum(axis=(0, 1)) - state.energy, nan=-1e30)
    power, weights = 1.0, softmax(log_ratio)
    while effective_sample_size(weights) < 0.4 * n_particles:
        power *= 0.7
        weights = softmax(power * log_ratio)
    return whitened[:, :, systematic_resample(generator, weights, n_particles)]


def _remaining_correlation(start: State, state: State) -> float:
    """With the start: of the row logits (root mean square) or of the size of the weights.

    That is forgotten later than any logit where the likelihood is flat.
    """
    of_rows = _squared_correlation(start.logits, state.logits)
    rows = float(of_rows.mean()) if of_rows.size else 0.0
    size = float(_squared_correlation(start.size, state.size))
    # K independent pairs show a squared correlation of 1/K by chance.
    return float(np.sqrt(max(rows, size, 1.0 / len(state.size)) - 1.0 / len(state.size)))


def _squared_correlation(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Of two quantities (..., K) over the particles; 0 where one of them does not vary."""
    a, b = (x - x.mean(axis=-1, keepdims=True) for x in (a, b))
    product = np.square(a).sum(axis=-1) * np.square(b).sum(axis=-1)
    return np.square((a * b).sum(axis=-1)) / np.where(product > 0, product, 1.0)


def _disagrees(logits: np.ndarray, design: np.ndarray) -> bool:
    """Do the particles' row logits (n, J, K) have another centre or width than the reference?

    Judged by the upper decile of the rows: a few odd rows cost a little speed, never correctness.
    """
    wide = np.square(design).sum(axis=1)
    informed = wide > 0  # a row of zeros, or no row at all, says nothing
    if not informed.any():
        return False
    logits, wide = logits[informed], wide[informed]
    misfit = np.abs(np.log(np.maximum(logits.var(axis=2).mean(axis=1), 1e-30) / wide))
    shift = np.abs(logits.mean(axis=2)).max(axis=1) / np.sqrt(wide)
    return bool(np.quantile(misfit, 0.9) > np.log(2.5) or np.quantile(shift, 0.9) > 0.7)


def _drift(start: State, state: State) -> float:
    """Largest change of a row logit's mean, or shift of the energy, in standard deviations.

    Energy is the last thing that Hamiltonian moves forget: a population can look mixed in every
    logit while it still falls from heights that the posterior never visits. Its shift is read off
    how often a later one is higher.
    """
    before, after = start.logits, state.logits
    spread = np.sqrt(0.5 * (before.var(axis=2) + after.var(axis=2)))
    change = np.abs(after.mean(axis=2) - before.mean(axis=2)) / np.maximum(spread, 1e-30)
    order = np.sort(start.energy)
    places = (np.searchsorted(order, state.energy, side).mean() for side in ("left", "right"))
    # Two normals one standard deviation apart: P(later is higher) - 1/2 = 1 / (2√π), to first
    # order.
    shift = 2.0 * np.sqrt(np.pi) * abs(0.5 * sum(places) / len(order) - 0.5)
    return float(max(change.max(initial=0.0), shift))


def _drift_allowed(n_samples: int) -> float:
    # Two independent samples of K differ by √(2/K) standard deviations; five of those is beyond
    # chance even for the largest of thousands of rows.
    return max(0.2, 5.0 * np.sqrt(2.0 / n_samples))
