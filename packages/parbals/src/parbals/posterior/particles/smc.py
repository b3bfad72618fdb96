"""A population of particles that is drawn once and then follows the labels.

``draw_population`` starts K particles at a Gaussian around the mode and moves them all at once, in
the space of the rows, until they have forgotten it (``relax``). New labels multiply each particle's
weight by p(y | x) of that particle (``condition_population``); only when the effective sample size
falls too low are the particles resampled and moved until they have settled.

A population has settled when it has forgotten where it began without drifting while it did, several
times in a row. What is watched are the logits of the rows, the size of the weights and the energy.
"""

from dataclasses import replace
from typing import Any

import jax
import numpy as np

from parbals.arrays import bucket, effective_sample_size, normalise_log_weights
from parbals.posterior.closed.channels import RowSpace, row_space
from parbals.posterior.closed.laplace import Reference, laplace_reference, matched_reference
from parbals.posterior.diagnostics import Diagnostics
from parbals.posterior.particles.hmc import MoveResult, move_population, whitened_posterior
from parbals.posterior.particles.population import (
    Population,
    log_likelihoods,
    systematic_resample,
)
from parbals.randomness import derive_generator

__all__ = ["Refusals", "condition_population", "draw_population", "jax_key", "relax"]

_MOVE_BELOW = 0.5
"""Particles are resampled and moved when the effective sample size falls below this share of K."""
_DRAW_BELOW = 0.1
"""Below this share too few ancestors are left to resample from: the population is drawn again."""
_SMALLEST_POPULATION = 128
"""The step size and the stopping rule read the population, so it is never smaller than this."""


_SHORT_SHARE = 0.25
"""Share of the particles whose moves are shortened once the population has met walls."""
_GRADIENT_BUDGET = 20_000
_WARM_UP_ROUNDS = 12
_TIMES_FORGOTTEN = 3
"""The slowest direction is a small part of everything that is watched: once is not enough."""


class Refusals:
    """Counts the moves that every particle was granted, and tells walls from bad luck.

    When a few particles are refused every time while the others move, they stand at a wall of the
    likelihood: there some moves must be shortened.
    """

    def __init__(self, n_samples: int) -> None:
        self.n_accepted = np.zeros(n_samples, int)
        self._by_chance = 1.0

    def meet_walls(self, result: MoveResult) -> bool:
        """Take in the moves just made: is the number of particles never granted beyond chance?"""
        n_moves = int(result.n_moves)
        self.n_accepted += np.asarray(result.n_accepted)
        self._by_chance *= (1.0 - float(np.mean(result.n_accepted)) / n_moves) ** n_moves
        return bool(np.mean(self.n_accepted == 0) > 0.001 + 5.0 * self._by_chance)


def draw_population(
    seed: int, X: np.ndarray, labels: np.ndarray, n_classes: int, prior_scale: float, n_samples: int
) -> Population:
    """K equally weighted draws from the posterior of design rows X (n, D+1)."""
    generator = derive_generator(seed, "draw", len(X))
    space = row_space(X, bucket(len(X)))
    rows = space.rows(X)
    reference = laplace_reference(rows, labels, n_classes, prior_scale)
    shape = (rows.shape[1], n_classes - 1, max(n_samples, _SMALLEST_POPULATION))
    start = generator.standard_normal(shape, np.float32)
    relaxed = relax(generator, reference, start, rows, labels, n_classes, from_reference=True)
    across = generator.standard_normal((X.shape[1], n_classes - 1, n_samples), np.float32)
    return _population(X, labels, n_classes, relaxed, space, across)


def condition_population(
    population: Population, X_new: np.ndarray, labels_new: np.ndarray, seed: int
) -> Population:
    """The population that also knows the labels of design rows X_new (n_new, D+1).

    Its weights are multiplied by p(y_new | x_new); if they have worn thin, the particles are
    resampled and moved, and have equal weights again.
    """
    gained = log_likelihoods(population.contrasts(X_new), labels_new, population.n_classes)
    reweighted = replace(
        population,
        X=np.concatenate([population.X, X_new]),
        labels=np.concatenate([population.labels, labels_new]),
        log_weights=population.log_weights + gained.sum(axis=0),
    )
    size, old = reweighted.effective_sample_size, population.diagnostics
    diagnostics = replace(
        old, effective_sample_size=size, n_reweighted=old.n_reweighted + len(X_new)
    )
    reweighted = replace(reweighted, diagnostics=diagnostics)
    worn = size < _MOVE_BELOW * population.n_samples
    return _settled(reweighted, seed) if worn else reweighted


def _settled(worn: Population, seed: int) -> Population:
    """A worn population with a reference of its own, resampled and moved; or drawn again."""
    X, labels, n_classes, old = worn.X, worn.labels, worn.n_classes, worn.reference
    n_samples = worn.n_samples
    if worn.diagnostics.effective_sample_size < _DRAW_BELOW * n_samples:
        drawn = draw_population(seed, X, labels, n_classes, old.prior_scale, n_samples)
        return replace(drawn, whitening=worn.whitening)
    generator = derive_generator(seed, "condition", len(X))
    space = row_space(X, bucket(len(X)))
    rows = space.rows(X)
    size = max(n_samples, _SMALLEST_POPULATION)
    ancestors = systematic_resample(generator, worn.weights, size)
    weights = worn.coefficients()
    centre = space.coordinates(old.mean)
    reference = laplace_reference(rows, labels, n_classes, old.prior_scale, centre)
    start = reference.whiten(space.coordinates(weights)[:, :, ancestors]).astype(np.float32)
    relaxed = relax(generator, reference, start, rows, labels, n_classes, from_reference=False)
    # No label has seen what lies across: every particle keeps its own, whoever its ancestor is.
    settled = _population(X, labels, n_classes, relaxed, space, weights / old.prior_scale)
    return replace(settled, whitening=worn.whitening)


def _population(
    X: np.ndarray,
    labels: np.ndarray,
    n_classes: int,
    relaxed: tuple[Reference, np.ndarray, Diagnostics],
    space: RowSpace,
    across: np.ndarray,
) -> Population:
    """Particles found in the row space, with prior draws ``across`` (D+1, J, K) outside it."""
    n_samples = across.shape[2]
    reference, inside, diagnostics = relaxed
    whitened = space.replace(across, inside[:, :, :n_samples])
    return Population(
        X,
        labels,
        n_classes,
        reference.lifted(space),
        np.ascontiguousarray(whitened, np.float32),
        np.zeros(n_samples),
        replace(diagnostics, n_samples=n_samples, effective_sample_size=float(n_samples)),
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
) -> tuple[Reference, np.ndarray, Diagnostics]:
    """Particles moved until they are draws from the posterior, and what they are whitened by.

    Particles that come from the reference are first resampled towards the posterior. Warm-up: a few
    moves at a time; while the population's moments disagree with the reference, the reference is
    re-fitted to the population. Then a measured run: it must forget where it began and must not
    drift while it does, several times in a row; if it drifts, it was still warming up. Once it has
    met walls, some moves are shortened.
    """
    rows = bucket(len(X))
    step, spent, walls = 0.5, 0, False
    refusals = Refusals(whitened.shape[2])
    # What is left of the start is a bias; keep it a small part of the Monte-Carlo error of K draws.
    forgotten = min(0.1, 2.0 / np.sqrt(whitened.shape[2]))

    def moves(z: np.ndarray, max_moves: int, tolerance: float) -> Any:
        result = move_population(
            jax_key(generator),
            z,
            whitened_posterior(reference, X, labels, rows),
            np.float32(step),
            max_moves,
            np.float32(tolerance),
            n_classes=n_classes,
            short_share=_SHORT_SHARE if walls else 0.0,
        )
        return jax.tree.map(np.asarray, result)

    if from_reference:
        whitened = _importance_resample(generator, whitened, moves(whitened, 0, 0.0).energy)
    for _ in range(_WARM_UP_ROUNDS):
        result = moves(whitened, 3, 0.3)
        step, spent = float(result.step_size), spent + int(result.n_gradients)
        whitened, walls = result.whitened, refusals.meet_walls(result) or walls
        if not _disagrees(result.logits[: len(X)], reference, X):
            break
        weights = reference.colour(whitened)
        reference = matched_reference(reference, X, weights)
        whitened = reference.whiten(weights).astype(np.float32)

    n_moves, times_forgotten = 0, 0
    while True:
        before = (X @ reference.factor) @ whitened.reshape(len(reference.root), -1)
        before = before.reshape(len(X), *whitened.shape[1:])
        result = moves(whitened, 24, 0.0 if walls else forgotten)
        walls_before, walls = walls, refusals.meet_walls(result) or walls
        step, spent = float(result.step_size), spent + int(result.n_gradients)
        n_moves += int(result.n_moves)
        whitened, after = result.whitened, result.logits[: len(X)]
        drift = max(_drift(before, after), _energy_drift(result.energy_start, result.energy))
        settled = result.correlation <= 1.5 * forgotten and drift <= _drift_allowed(
            whitened.shape[2]
        )
        settled = settled and walls == walls_before
        times_forgotten = times_forgotten + 1 if settled else 0
        # Along walls a run goes on until no correlation is seen at all.
        enough = times_forgotten >= (1 if walls else _TIMES_FORGOTTEN)
        if enough or spent > _GRADIENT_BUDGET:
            break
        if _disagrees(after, reference, X):
            weights = reference.colour(whitened)
            reference = matched_reference(reference, X, weights)
            whitened = reference.whiten(weights).astype(np.float32)

    diagnostics = Diagnostics(
        inference="smc",
        n_samples=whitened.shape[2],
        effective_sample_size=float(whitened.shape[2]),
        acceptance=float(result.acceptance),
        correlation=float(result.correlation),
        drift=float(drift),
        n_moves=n_moves,
        n_gradients=spent,
        step_size=step,
        problems=_problems(settled, result, drift),
    )
    return reference, whitened, diagnostics


def jax_key(generator: np.random.Generator) -> jax.Array:
    """A JAX key drawn from a NumPy generator."""
    return jax.random.key(int(generator.integers(2**32)))


def _importance_resample(
    generator: np.random.Generator, whitened: np.ndarray, energy: np.ndarray
) -> np.ndarray:
    """Draws from the reference, resampled towards the posterior as far as their number allows.

    Where the posterior is a Gaussian cut off by walls (separable data, large features) a good part
    of the reference lies behind them, so steep that the moves that suit the others cannot bring it
    back.
    """
    log_ratio = np.nan_to_num(
        0.5 * np.square(whitened).sum(axis=(0, 1)) - energy.astype(np.float64), nan=-1e30
    )
    power = 1.0
    while effective_sample_size(normalise_log_weights(power * log_ratio)) < 0.4 * len(energy):
        power *= 0.7
    weights = normalise_log_weights(power * log_ratio)
    return np.ascontiguousarray(
        whitened[:, :, systematic_resample(generator, weights, len(weights))]
    )


def _disagrees(logits: np.ndarray, reference: Reference, X: np.ndarray) -> bool:
    """Do the particles' row logits (n, J, K) have another centre or width than the reference?

    Judged by the upper decile of the rows: a few odd rows cost a little speed, never correctness.
    """
    wide = np.square(X @ reference.factor).sum(axis=1)
    informed = wide > 0  # a row of zeros, or no row at all, says nothing
    if not informed.any():
        return False
    logits, wide = logits[informed], wide[informed]
    misfit = np.abs(np.log(np.maximum(logits.var(axis=2).mean(axis=1), 1e-30) / wide))
    shift = np.abs(logits.mean(axis=2)).max(axis=1) / np.sqrt(wide)
    return bool(np.quantile(misfit, 0.9) > np.log(2.5) or np.quantile(shift, 0.9) > 0.7)


def _drift(before: np.ndarray, after: np.ndarray) -> float:
    """Largest change of a row logit's mean, in standard deviations."""
    if before.size == 0:
        return 0.0
    spread = np.sqrt(0.5 * (before.var(axis=2) + after.var(axis=2)))
    return float(
        np.max(np.abs(after.mean(axis=2) - before.mean(axis=2)) / np.maximum(spread, 1e-30))
    )


def _energy_drift(before: np.ndarray, after: np.ndarray) -> float:
    """Shift of the energy, in standard deviations, from how often a later one is higher.

    Energy is the last thing that Hamiltonian moves forget: a population can look mixed in every
    logit while it still falls from heights that the posterior never visits.
    """
    order = np.sort(before)
    higher = 0.5 * (np.searchsorted(order, after, "left") + np.searchsorted(order, after, "right"))
    # Two normals one standard deviation apart: P(later is higher) - 1/2 = 1 / (2√π), to first
    # order.
    return float(2.0 * np.sqrt(np.pi) * abs(higher.mean() / len(before) - 0.5))


def _drift_allowed(n_samples: int) -> float:
    # Two independent samples of K differ by √(2/K) standard deviations; five of those is beyond
    # chance even for the largest of thousands of rows.
    return max(0.2, 5.0 * np.sqrt(2.0 / n_samples))


def _problems(settled: bool, result: MoveResult, drift: float) -> tuple[str, ...]:
    if settled:
        return ()
    return (
        f"The posterior particles did not settle: after {_GRADIENT_BUDGET:,} gradient evaluations "
        f"a correlation of {float(result.correlation):.2f} with their start is left and their mean "
        f"still moved by {drift:.2f} standard deviations. Standardise the features (norms "
        'of 1 to 20 work best), use a smaller prior_scale, or use inference="nuts".',
    )
