"""The default posterior: a population of particles that is drawn once and then follows the labels.

``draw_population`` starts K particles at a Gaussian around the mode and moves them all at once, in
the space of the rows, until they have forgotten it (:mod:`parbals.posterior.relax`). ``condition``
takes in new labels by multiplying each particle's weight by p(y | x) of that particle (iterated
batch importance sampling); only when the effective sample size falls too low are the particles
resampled and moved. How they are moved is up to the caller: the estimator until they have settled
(``condition_population``), a universe of a partial batch a few times
(:mod:`parbals.strategies.universes.particles`).
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from parbals.arrays import bucket
from parbals.posterior.contrasts import contrast_basis
from parbals.posterior.population import Population
from parbals.posterior.reference import laplace_reference
from parbals.posterior.relax import Relaxed, relax, systematic_resample
from parbals.posterior.row_space import RowSpace, row_space
from parbals.randomness import derive_generator

__all__ = [
    "condition",
    "condition_population",
    "draw_population",
    "log_likelihoods",
]

_MOVE_BELOW = 0.5
"""Particles are resampled and moved when the effective sample size falls below this share of K."""
_DRAW_BELOW = 0.1
"""Below this share too few ancestors are left to resample from: the population is drawn again."""
_SMALLEST_POPULATION = 128
"""The step size and the stopping rule read the population, so it is never smaller than this."""


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


def condition(
    population: Population,
    X_new: np.ndarray,
    labels_new: np.ndarray,
    move: Callable[[Population], Population],
) -> Population:
    """The population that also knows the labels of design rows X_new (n_new, D+1).

    Its weights are multiplied by p(y_new | x_new); if they have worn thin, ``move`` gives the
    population with equal weights, resampled and moved.
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
    return reweighted if size >= _MOVE_BELOW * population.n_samples else move(reweighted)


def condition_population(
    population: Population, X_new: np.ndarray, labels_new: np.ndarray, seed: int
) -> Population:
    """:func:`condition`, with moves that go on until the particles have settled."""
    return condition(population, X_new, labels_new, lambda worn: _settled(worn, seed))


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


def log_likelihoods(contrasts: np.ndarray, labels: np.ndarray, n_classes: int) -> np.ndarray:
    """ln p_k(y_n | x_n), (n, K), from contrast logits (n, J, K); float64 on the host."""
    logits = np.einsum("cj,njk->nck", contrast_basis(n_classes), contrasts)
    shifted = logits - logits.max(axis=1, keepdims=True)
    chosen = np.take_along_axis(shifted, labels[:, None, None], axis=1)[:, 0]
    return chosen - np.log(np.exp(shifted).sum(axis=1))


def _population(
    X: np.ndarray,
    labels: np.ndarray,
    n_classes: int,
    relaxed: Relaxed,
    space: RowSpace,
    across: np.ndarray,
) -> Population:
    """Particles found in the row space, with prior draws ``across`` (D+1, J, K) outside it."""
    n_samples = across.shape[2]
    whitened = space.replace(across, relaxed.whitened[:, :, :n_samples])
    return Population(
        X,
        labels,
        n_classes,
        relaxed.reference.lifted(space),
        np.ascontiguousarray(whitened, np.float32),
        np.zeros(n_samples),
        relaxed.step_size,
        replace(relaxed.diagnostics, n_samples=n_samples, effective_sample_size=float(n_samples)),
        relaxed.walls,
    )
