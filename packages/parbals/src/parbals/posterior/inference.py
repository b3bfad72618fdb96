"""From labelled rows to a posterior, by each way of inference.

"auto" is expectation propagation; where that does not settle, particles take its place. JAX is
loaded for NUTS alone: importing it takes longer than a whole fit in closed form.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from parbals.files import need
from parbals.posterior.closed.classes import ClassesPosterior, fit_classes
from parbals.posterior.closed.ep import GaussianPosterior, fit_gaussian
from parbals.posterior.closed.laplace import laplace_reference
from parbals.posterior.closed.prior import Prior
from parbals.posterior.closed.sites import (
    MANY_LABELS,
    Kept,
    Sites,
    concatenate_labels,
    most_likely_class,
)
from parbals.posterior.predictive import contrast_basis
from parbals.posterior.smc import Population, condition_population, draw_population
from parbals.randomness import derive_generator
from parbals.types import Diagnostics

__all__ = ["INFERENCES", "Gaussian", "Inference", "NearFit", "Posterior"]

INFERENCES = ("auto", "ep", "smc", "nuts", "laplace")

Gaussian = GaussianPosterior | ClassesPosterior


@dataclass(frozen=True, eq=False)
class Posterior:
    """What design rows X (n, D+1) and their class numbers (n,) say, with K weighted draws.

    ``state`` is what knows more than its draws: particles that can be moved, or a Gaussian, whose
    draws are made when they are needed.
    """

    X: np.ndarray
    labels: np.ndarray
    seed: int
    weights: np.ndarray
    diagnostics: Diagnostics
    state: Population | Gaussian | None = None
    drawn: np.ndarray | None = None

    @cached_property
    def coefficients(self) -> np.ndarray:
        """Whitened contrast weights (D+1, J, K) of the draws."""
        if self.drawn is not None:
            return self.drawn
        assert isinstance(self.state, Gaussian)
        generator = derive_generator(self.seed, "ep", len(self.X))
        draws = self.state.latents.draw_whitened(generator, len(self.weights))
        if isinstance(self.state, GaussianPosterior):
            return draws  # the one latent, of unit prior variance, is the one contrast
        return np.einsum("cj,dck->djk", contrast_basis(self.state.n_classes), draws)


class NearFit(NamedTuple):
    """A posterior of nearly the same labels, and its prior: where many labels' sweeps may start."""

    state: Gaussian
    prior: Prior


@dataclass(frozen=True, eq=False)
class Inference:
    """One of ``INFERENCES``, with K = ``n_samples`` draws of C classes, a prior and a seed."""

    way: str
    n_samples: int
    n_classes: int
    prior: Prior
    seed: int

    def posterior(
        self, X: np.ndarray, labels: np.ndarray, near: NearFit | None = None
    ) -> Posterior:
        """Of design rows X (n, D+1) and class numbers (n,).

        In closed form also of likelihoods (n, C); elsewhere of their most likely class.
        """
        if self.way in ("ep", "auto"):
            return self._of_gaussian(self._gaussian(X, labels, near))
        labels = most_likely_class(labels)
        if self.way == "smc":
            return self._of_particles(X, labels)
        rows = self.prior.whitening.rows(X)
        if self.way == "nuts":
            need("jax blackjax", 'inference="nuts"', "parbals[jax]")
            from parbals.posterior.nuts import draw_nuts

            drawn, diagnostics = draw_nuts(self.seed, rows, labels, self.n_classes, self.n_samples)
            return self._equal(X, labels, diagnostics, drawn=drawn)
        reference = laplace_reference(rows, labels, self.n_classes)
        generator = derive_generator(self.seed, "laplace", len(X))
        noise = generator.standard_normal((*reference.mean.shape, self.n_samples))
        diagnostics = Diagnostics("laplace", self.n_samples, float(self.n_samples))
        return self._equal(X, labels, diagnostics, drawn=reference.colour(noise))

    def condition(self, known: Posterior, X_new: np.ndarray, labels_new: np.ndarray) -> Posterior:
        """The posterior that also knows these rows and labels."""
        if isinstance(known.state, Gaussian):
            return self._of_gaussian(known.state.condition(X_new, labels_new))
        X = np.concatenate([known.X, X_new])
        labels = concatenate_labels(known.labels, labels_new, self.n_classes)
        if not isinstance(known.state, Population):
            return self.posterior(X, labels)
        rows = self.prior.whitening.rows(X_new)
        moved = condition_population(known.state, rows, labels_new, self.seed)
        return self._of_particles(X, labels, moved)

    def _gaussian(self, X: np.ndarray, labels: np.ndarray, near: NearFit | None) -> Gaussian:
        whitening = self.prior.whitening
        start: tuple[Sites | None, Kept | None] = self.prior.sites, None
        if near is not None and near.state.n_classes == self.n_classes and len(X) >= MANY_LABELS:
            start = near.state.start_for(X, labels)
            if near.prior is not self.prior:  # what rows and variances are depends on it
                start = start[0], None
        if self.n_classes > 2:
            return fit_classes(X, labels, self.n_classes, whitening, *start)
        # The difference of two classes' weights has twice the variance of each.
        return fit_gaussian(X, labels, whitening.times(np.sqrt(2.0)), *start)

    def _of_particles(
        self, X: np.ndarray, labels: np.ndarray, population: Population | None = None
    ) -> Posterior:
        if population is None:
            rows = self.prior.whitening.rows(X)
            population = draw_population(self.seed, rows, labels, self.n_classes, self.n_samples)
        diagnostics = replace(population.diagnostics, prior=self.prior.description)
        state = replace(population, whitening=self.prior.whitening)
        drawn, weights = population.coefficients, population.weights
        return Posterior(X, labels, self.seed, weights, diagnostics, state, drawn)

    def _of_gaussian(self, found: Gaussian) -> Posterior:
        """With "auto", one that did not settle gives its place to another."""
        X, labels, problems = found.X, found.labels, found.problems()
        if self.way == "auto" and problems:
            return self._of_particles(X, most_likely_class(labels))
        diagnostics = Diagnostics("ep", self.n_samples, float(self.n_samples), problems=problems)
        return self._equal(X, labels, diagnostics, state=found)

    def _equal(
        self, X: np.ndarray, labels: np.ndarray, diagnostics: Diagnostics, **more: Any
    ) -> Posterior:
        """With draws of equal weight."""
        weights = np.full(self.n_samples, 1.0 / self.n_samples)
        diagnostics = replace(diagnostics, prior=self.prior.description)
        return Posterior(X, labels, self.seed, weights, diagnostics, **more)
