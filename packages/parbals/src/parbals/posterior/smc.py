"""Sequential Monte Carlo: a population of particles that is drawn once and then follows the labels.

``draw_population`` starts K particles at a Gaussian around the mode and moves them all at once, in
the row space of the design, until they are independent of their start (``relax``). New labels
multiply each particle's weight by its p(y | x) (``condition_population``); only when the effective
sample size falls too low are the particles resampled and moved until they have converged.

A population has converged when it has forgotten its start without drifting meanwhile, several times
in a row. The logits of the rows, the prior energy of the weights and the energy are monitored.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from parbals.arrays import effective_sample_size
from parbals.machine import Workers, several_threads
from parbals.posterior.closed.laplace import Reference, laplace_reference, matched_reference
from parbals.posterior.closed.latents import row_space
from parbals.posterior.closed.whitening import Whitening
from parbals.posterior.hmc import State, WhitenedPosterior, adapt_step_size, move
from parbals.posterior.predictive import add_bias, contrast_basis, softmax
from parbals.randomness import derive_generator
from parbals.types import Diagnostics

__all__ = ["Population", "condition_population", "draw_population"]

_MOVE_BELOW = 0.5
"""Particles are resampled and moved when the effective sample size falls below this share of K."""
_DRAW_BELOW = 0.1
"""Below this share too few ancestors are left to resample from: the population is drawn again."""
_MIN_PARTICLES = 128
"""Step size and stopping rule are estimated from the population, so it is never smaller."""
_GRADIENT_BUDGET = 20_000
_MAX_WARM_UP_RUNS = 12
_WARM_UP_MOVES = 3  # of a run
_WARM_UP_CORRELATION = 0.3  # that ends a run early
_MAX_MOVES = 24  # of a run after warm-up
_INITIAL_STEP_SIZE = 0.5
_NOT_CONVERGED = (
    f"The posterior particles did not converge: after {_GRADIENT_BUDGET:,} gradient evaluations "
    "their correlation with the start is still {:.2f} and their mean still moved by {:.2f} "
    "standard deviations. Standardise the features (norms of 1 to 20 work best), use a smaller "
    'prior_scale, or use inference="nuts".'
)
_N_CONVERGED_RUNS = 3
"""Runs in a row: the slowest direction is a small share of all that is monitored, so one is not
enough."""
_MIN_ESS_SHARE = 0.4  # of draws from the reference, after resampling
_TEMPERING_FACTOR = 0.7  # of the importance weights' exponent, until the share is reached


@dataclass(frozen=True)
class Population:
    """Weighted particles of the posterior given design rows X (n, D+1) and class numbers (n,).

    In the coordinates of the rows the prior of all weights is N(0, 1).
    """

    X: np.ndarray
    labels: np.ndarray
    n_classes: int
    coefficients: np.ndarray  # contrast weights V (D+1, J, K), float32
    log_weights: np.ndarray  # (K,), unnormalised
    diagnostics: Diagnostics
    whitening: Whitening | None = None  # that the rows X have gone through, if any

    @property
    def weights(self) -> np.ndarray:
        """Normalised particle weights (K,)."""
        return softmax(self.log_weights)

    def rows(self, X: np.ndarray) -> np.ndarray:
        """Design rows (n, D+1) of features (n, D), in the population's coordinates."""
        design = add_bias(X)
        return design if self.whitening is None else self.whitening.rows(design)

    def contrasts(self, X: np.ndarray) -> np.ndarray:
        """Contrast logits (n, J, K) of design rows X (n, D+1)."""
        return np.tensordot(X, self.coefficients, axes=1)


def log_likelihoods(contrasts: np.ndarray, labels: np.ndarray, n_classes: int) -> np.ndarray:
    """ln p_k(y_n | x_n), (n, K), from contrast logits (n, J, K)."""
    from scipy.special import log_softmax  # SciPy takes long to load, and most fits need none

    logits = np.einsum("cj,njk->nck", contrast_basis(n_classes), contrasts)
    log_probs = log_softmax(logits, axis=1)
    return np.take_along_axis(log_probs, labels[:, None, None], axis=1)[:, 0]


def systematic_resample(
    generator: np.random.Generator, weights: np.ndarray, n_samples: int
) -> np.ndarray:
    """Ancestor indices (K,): particle k appears ⌊K w_k⌋ or ⌈K w_k⌉ times, in expectation K w_k.

    The order is shuffled so that the first few ancestors are as good a sample as any.

    >>> systematic_resample(np.random.default_rng(0), np.array([0.0, 1.0]), 3)
    array([1, 1, 1])
    """
    points = (generator.random() + np.arange(n_samples)) / n_samples
    ancestors = np.searchsorted(np.cumsum(weights) / weights.sum(), points, side="right")
    return generator.permutation(np.minimum(ancestors, len(weights) - 1))


def draw_population(
    seed: int, X: np.ndarray, labels: np.ndarray, n_classes: int, n_samples: int
) -> Population:
    """Draw K equally weighted particles from the posterior given design rows X (n, D+1).

    >>> X = np.array([[-1.0, 1.0], [1.0, 1.0]])
    >>> population = draw_population(0, X, np.array([0, 1]), n_classes=2, n_samples=20)
    >>> population.contrasts(X).shape
    (2, 1, 20)
    """
    generator = derive_generator(seed, "draw", len(X))
    prior_draws = generator.standard_normal((X.shape[1], n_classes - 1, n_samples), np.float32)
    return _move_to_posterior(generator, X, labels, n_classes, prior_draws)


def condition_population(
    population: Population, X_new: np.ndarray, labels_new: np.ndarray, seed: int
) -> Population:
    """Return the population given the labels of design rows X_new (n_new, D+1) as well.

    Its weights are multiplied by p(y_new | x_new). If the effective sample size is then too low,
    the particles are resampled and moved, and have equal weights again.

    >>> X = np.array([[-1.0, 1.0], [1.0, 1.0]])
    >>> population = draw_population(0, X, np.array([0, 1]), n_classes=2, n_samples=20)
    >>> conditioned = condition_population(population, X[:1], np.array([0]), seed=0)
    >>> len(conditioned.X)
    3
    """
    X = np.concatenate([population.X, X_new])
    labels = np.concatenate([population.labels, labels_new])
    n_classes = population.n_classes
    n_samples = population.coefficients.shape[2]
    new_log_likelihoods = log_likelihoods(population.contrasts(X_new), labels_new, n_classes)
    log_weights = population.log_weights + new_log_likelihoods.sum(axis=0)
    weights = softmax(log_weights)
    ess = float(effective_sample_size(weights))
    if ess >= _MOVE_BELOW * n_samples:
        diagnostics = replace(
            population.diagnostics,
            effective_sample_size=ess,
            n_reweighted=population.diagnostics.n_reweighted + len(X_new),
        )
        return replace(
            population, X=X, labels=labels, log_weights=log_weights, diagnostics=diagnostics
        )
    if ess < _DRAW_BELOW * n_samples:
        moved = draw_population(seed, X, labels, n_classes, n_samples)
    else:
        generator = derive_generator(seed, "condition", len(X))
        ancestors = systematic_resample(generator, weights, max(n_samples, _MIN_PARTICLES))
        moved = _move_to_posterior(
            generator, X, labels, n_classes, population.coefficients, ancestors
        )
    return replace(moved, whitening=population.whitening)


def _move_to_posterior(
    generator: np.random.Generator,
    X: np.ndarray,
    labels: np.ndarray,
    n_classes: int,
    weights: np.ndarray,
    ancestors: np.ndarray | None = None,
) -> Population:
    """Move the component of weights (D+1, J, K) in the row space until it follows the posterior.

    The moves start from the ancestors or, without any, from draws of the reference. The orthogonal
    component is unaffected by labels: every particle keeps its own, whichever its ancestor.
    """
    n_samples = weights.shape[2]
    space = row_space(X)
    rows = space.rows(X)
    reference = laplace_reference(rows, labels, n_classes)
    if ancestors is None:
        shape = (*reference.mean.shape, max(n_samples, _MIN_PARTICLES))
        whitened = generator.standard_normal(shape, np.float32)
    else:
        whitened = reference.whiten(space.coordinates(weights)[:, :, ancestors]).astype(np.float32)
    coordinates, diagnostics = relax(
        generator, reference, whitened, rows, labels, n_classes, from_reference=ancestors is None
    )
    moved = space.replace(weights, coordinates[:, :, :n_samples]).astype(np.float32)
    diagnostics = replace(diagnostics, n_samples=n_samples, effective_sample_size=float(n_samples))
    return Population(
        X=X,
        labels=labels,
        n_classes=n_classes,
        coefficients=moved,
        log_weights=np.zeros(n_samples),
        diagnostics=diagnostics,
    )


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
    """Move whitened particles until they are draws from the posterior; return weights (d, J, K).

    Particles drawn from the reference are first resampled towards the posterior. Then follow runs
    of moves: several in a row must forget their start without drifting. Warm-up runs are short;
    while the moments of the population disagree with the reference, the reference is fitted to the
    population.
    """
    n_particles = whitened.shape[2]
    # A remaining correlation is a bias; it is kept small against the Monte-Carlo error of K draws.
    target_correlation = min(0.1, 2.0 / np.sqrt(n_particles))
    posterior = WhitenedPosterior(reference, X, labels, n_classes)
    state = posterior.at(whitened)
    if from_reference:
        state = posterior.at(_importance_resample(generator, state))
    step_size = _INITIAL_STEP_SIZE
    n_moves = 0
    n_gradients = 0
    n_runs = 0
    n_converged_runs = 0
    is_warm = False
    with several_threads() as workers:
        while True:
            run = _run_moves(
                generator,
                posterior,
                state,
                step_size,
                workers,
                max_moves=_MAX_MOVES if is_warm else _WARM_UP_MOVES,
                target_correlation=target_correlation if is_warm else _WARM_UP_CORRELATION,
            )
            drift = _drift(state, run.state)
            state = run.state
            step_size = run.step_size
            n_moves += run.n_moves
            n_gradients += run.n_gradients
            n_runs += 1
            has_forgotten = run.correlation <= 1.5 * target_correlation
            is_still = drift <= _drift_allowed(n_particles)
            is_converged = is_warm and is_still and has_forgotten
            n_converged_runs = n_converged_runs + 1 if is_converged else 0
            if n_converged_runs >= _N_CONVERGED_RUNS or n_gradients > _GRADIENT_BUDGET:
                break
            is_misfit = _disagrees(state.logits, posterior.design)
            is_warm = is_warm or not is_misfit or n_runs >= _MAX_WARM_UP_RUNS
            if is_misfit:
                weights = reference.colour(state.whitened)
                reference = matched_reference(reference, X, weights)
                posterior = WhitenedPosterior(reference, X, labels, n_classes)
                state = posterior.at(reference.whiten(weights).astype(np.float32))
    problems = () if is_converged else (_NOT_CONVERGED.format(run.correlation, drift),)
    diagnostics = Diagnostics(
        inference="smc",
        n_samples=n_particles,
        effective_sample_size=float(n_particles),
        acceptance=run.acceptance,
        correlation=run.correlation,
        drift=drift,
        n_moves=n_moves,
        n_gradients=n_gradients,
        step_size=step_size,
        problems=problems,
    )
    return reference.colour(state.whitened), diagnostics


class _Run(NamedTuple):
    """Particles after a run of moves, and how it went."""

    state: State
    step_size: float
    acceptance: float  # of the last move
    correlation: float  # with the start of the run
    n_moves: int
    n_gradients: int


def _run_moves(
    generator: np.random.Generator,
    posterior: WhitenedPosterior,
    start: State,
    step_size: float,
    workers: Workers,
    *,
    max_moves: int,
    target_correlation: float,
) -> _Run:
    """Move the particles until their correlation with the start is low enough."""
    state = start
    n_moves = 0
    n_gradients = 0
    while True:
        state, acceptance, n_steps = move(generator, posterior, state, step_size, workers)
        step_size = adapt_step_size(step_size, acceptance)
        n_moves += 1
        n_gradients += n_steps
        correlation = _remaining_correlation(start, state)
        if correlation <= target_correlation or n_moves >= max_moves:
            return _Run(state, step_size, acceptance, correlation, n_moves, n_gradients)


def _importance_resample(generator: np.random.Generator, state: State) -> np.ndarray:
    """Resample draws of the reference towards the posterior, as far as their number allows.

    Where the posterior is a Gaussian cut off by walls (separable data, large features), much of the
    reference lies behind them, where the posterior is so steep that the moves that suit the other
    particles cannot bring these back.
    """
    whitened = state.whitened
    n_particles = len(state.energy)
    log_ratio = np.nan_to_num(0.5 * np.square(whitened).sum(axis=(0, 1)) - state.energy, nan=-1e30)
    exponent = 1.0
    weights = softmax(log_ratio)
    while effective_sample_size(weights) < _MIN_ESS_SHARE * n_particles:
        exponent *= _TEMPERING_FACTOR
        weights = softmax(exponent * log_ratio)
    return whitened[:, :, systematic_resample(generator, weights, n_particles)]


def _remaining_correlation(start: State, state: State) -> float:
    """Correlation with the start: of the row logits (root mean square) or of the prior energy.

    The latter is forgotten later than any logit where the likelihood is flat.
    """
    by_row = _squared_correlation(start.logits, state.logits)
    of_rows = float(by_row.mean()) if by_row.size else 0.0
    of_prior_energy = float(_squared_correlation(start.prior_energy, state.prior_energy))
    # K independent pairs show a squared correlation of 1/K by chance.
    by_chance = 1.0 / len(state.prior_energy)
    return float(np.sqrt(max(of_rows, of_prior_energy, by_chance) - by_chance))


def _squared_correlation(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Squared correlation over the particles of (..., K); 0 where one of them is constant."""
    a = a - a.mean(axis=-1, keepdims=True)
    b = b - b.mean(axis=-1, keepdims=True)
    product = np.square(a).sum(axis=-1) * np.square(b).sum(axis=-1)
    return np.square((a * b).sum(axis=-1)) / np.where(product > 0, product, 1.0)


def _disagrees(logits: np.ndarray, design: np.ndarray) -> bool:
    """Whether the particles' row logits (n, J, K) differ from the reference in centre or width.

    Decided by the upper decile of the rows: a few odd rows cost a little speed, never correctness.
    """
    reference_variance = np.square(design).sum(axis=1)
    is_informative = reference_variance > 0  # false for rows of zeros
    if not is_informative.any():
        return False
    logits = logits[is_informative]
    reference_variance = reference_variance[is_informative]
    variance = np.maximum(logits.var(axis=2).mean(axis=1), 1e-30)
    log_ratio = np.abs(np.log(variance / reference_variance))
    shift = np.abs(logits.mean(axis=2)).max(axis=1) / np.sqrt(reference_variance)
    return bool(np.quantile(log_ratio, 0.9) > np.log(2.5) or np.quantile(shift, 0.9) > 0.7)


def _drift(start: State, state: State) -> float:
    """Largest change of a row logit's mean, or shift of the energy, in standard deviations.

    Energy is the last quantity that Hamiltonian moves forget: a population can look mixed in every
    logit while it still falls from heights that the posterior never visits. Its shift follows from
    the probability that a later energy is higher.
    """
    before = start.logits
    after = state.logits
    spread = np.sqrt(0.5 * (before.var(axis=2) + after.var(axis=2)))
    change = np.abs(after.mean(axis=2) - before.mean(axis=2)) / np.maximum(spread, 1e-30)
    start_energy = np.sort(start.energy)
    n_lower = np.searchsorted(start_energy, state.energy, "left").mean()
    n_not_higher = np.searchsorted(start_energy, state.energy, "right").mean()
    prob_higher = 0.5 * (n_lower + n_not_higher) / len(start_energy)
    # Two normals one standard deviation apart: P(later is higher) - 1/2 = 1 / (2√π), to first
    # order.
    shift = 2.0 * np.sqrt(np.pi) * abs(prob_higher - 0.5)
    return float(max(change.max(initial=0.0), shift))


def _drift_allowed(n_samples: int) -> float:
    """Drift, in standard deviations, that may occur by chance."""
    # Two independent samples of K differ by √(2/K) standard deviations; five of those is beyond
    # chance even for the largest of thousands of rows.
    return max(0.2, 5.0 * np.sqrt(2.0 / n_samples))
