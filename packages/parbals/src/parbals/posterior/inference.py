"""Fit labelled rows by each inference method: EP, particles, NUTS or Laplace.

"auto" is expectation propagation (EP), with particles as the fallback if it does not converge. JAX
is imported for NUTS alone, because importing it takes longer than a whole fit in closed form.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from parbals.files import need
from parbals.posterior.closed.classes import ClassesPosterior, fit_classes
from parbals.posterior.closed.ep import GaussianPosterior, fit_gaussian
from parbals.posterior.closed.labels import concatenate_labels, most_likely_class
from parbals.posterior.closed.laplace import laplace_reference
from parbals.posterior.closed.moments import MANY_LABELS
from parbals.posterior.closed.prior import Prior
from parbals.posterior.predictive import contrast_basis
from parbals.posterior.smc import Population, condition_population, draw_population
from parbals.randomness import derive_generator
from parbals.types import Diagnostics

__all__ = ["INFERENCES", "Gaussian", "Inference", "Posterior", "PreviousFit"]

INFERENCES = ("auto", "ep", "smc", "nuts", "laplace")

Gaussian = GaussianPosterior | ClassesPosterior


@dataclass(frozen=True, eq=False)
class Posterior:
    """Posterior given design rows X (n, D+1) and class numbers (n,), with K weighted draws.

    ``state`` holds more than the draws: particles that can be moved, or a Gaussian, which is
    sampled when draws are needed.
    """

    X: np.ndarray
    labels: np.ndarray
    seed: int
    weights: np.ndarray
    diagnostics: Diagnostics
    state: Population | Gaussian | None = None
    draws: np.ndarray | None = None

    @cached_property
    def coefficients(self) -> np.ndarray:
        """Whitened contrast weights (D+1, J, K) of the draws."""
        if self.draws is not None:
            return self.draws
        assert isinstance(self.state, Gaussian)
        generator = derive_generator(self.seed, "ep", len(self.X))
        draws = self.state.latents.draw_whitened(generator, len(self.weights))
        if isinstance(self.state, GaussianPosterior):
            return draws  # the one latent, of unit prior variance, is the one contrast
        return np.einsum("cj,dck->djk", contrast_basis(self.state.n_classes), draws)


class PreviousFit(NamedTuple):
    """Posterior and prior of a fit to nearly the same labels, for a warm start."""

    state: Gaussian
    prior: Prior


@dataclass(frozen=True, eq=False)
class Inference:
    """An inference method of ``INFERENCES`` with its settings.

    >>> from parbals.posterior.closed.prior import fixed_prior
    >>> inference = Inference("ep", n_samples=10, n_classes=2, prior=fixed_prior(1.0, 1), seed=0)
    >>> posterior = inference.posterior(np.array([[-1.0, 1.0], [1.0, 1.0]]), np.array([0, 1]))
    >>> posterior.coefficients.shape
    (2, 1, 10)
    """

    method: str
    n_samples: int  # K
    n_classes: int  # C
    prior: Prior
    seed: int

    def posterior(
        self, X: np.ndarray, labels: np.ndarray, previous: PreviousFit | None = None
    ) -> Posterior:
        """Fit design rows X (n, D+1) and class numbers (n,).

        In closed form labels may be likelihoods (n, C); other methods use the most likely class.
        ``previous``: a fit to nearly the same labels, from which many labels start.
        """
        if self.method in ("ep", "auto"):
            return self._from_gaussian(self._fit_gaussian(X, labels, previous))
        labels = most_likely_class(labels)
        if self.method == "smc":
            return self._from_population(X, labels, self._draw_population(X, labels))
        rows = self.prior.whitening.rows(X)
        if self.method == "nuts":
            need("jax blackjax", 'inference="nuts"', "parbals[jax]")
            from parbals.posterior.nuts import draw_nuts

            draws, diagnostics = draw_nuts(self.seed, rows, labels, self.n_classes, self.n_samples)
            return self._equally_weighted(X, labels, diagnostics, draws=draws)
        reference = laplace_reference(rows, labels, self.n_classes)
        generator = derive_generator(self.seed, "laplace", len(X))
        noise = generator.standard_normal((*reference.mean.shape, self.n_samples))
        diagnostics = Diagnostics("laplace", self.n_samples, float(self.n_samples))
        return self._equally_weighted(X, labels, diagnostics, draws=reference.colour(noise))

    def condition(
        self, posterior: Posterior, X_new: np.ndarray, labels_new: np.ndarray
    ) -> Posterior:
        """Return the posterior given these rows and labels as well."""
        if isinstance(posterior.state, Gaussian):
            return self._from_gaussian(posterior.state.condition(X_new, labels_new))
        X = np.concatenate([posterior.X, X_new])
        labels = concatenate_labels(posterior.labels, labels_new, self.n_classes)
        if not isinstance(posterior.state, Population):
            return self.posterior(X, labels)
        rows = self.prior.whitening.rows(X_new)
        population = condition_population(posterior.state, rows, labels_new, self.seed)
        return self._from_population(X, labels, population)

    def _fit_gaussian(
        self, X: np.ndarray, labels: np.ndarray, previous: PreviousFit | None
    ) -> Gaussian:
        """Run EP, from the previous fit if there are many labels."""
        whitening = self.prior.whitening
        start = self.prior.sites
        warm_start = None
        if (
            previous is not None
            and previous.state.n_classes == self.n_classes
            and len(X) >= MANY_LABELS
        ):
            start, warm_start = previous.state.warm_start_for(X, labels)
            if previous.prior is not self.prior:  # whitened rows and variances depend on the prior
                warm_start = None
        if self.n_classes > 2:
            return fit_classes(X, labels, self.n_classes, whitening, start, warm_start)
        # The difference of two classes' weights has twice the variance of each.
        return fit_gaussian(X, labels, whitening.times(np.sqrt(2.0)), start, warm_start)

    def _draw_population(self, X: np.ndarray, labels: np.ndarray) -> Population:
        rows = self.prior.whitening.rows(X)
        return draw_population(self.seed, rows, labels, self.n_classes, self.n_samples)

    def _from_population(
        self, X: np.ndarray, labels: np.ndarray, population: Population
    ) -> Posterior:
        """The posterior of a population of particles."""
        return Posterior(
            X=X,
            labels=labels,
            seed=self.seed,
            weights=population.weights,
            diagnostics=replace(population.diagnostics, prior=self.prior.description),
            state=replace(population, whitening=self.prior.whitening),
            draws=population.coefficients,
        )

    def _from_gaussian(self, gaussian: Gaussian) -> Posterior:
        """The posterior of a Gaussian; with "auto", particles replace one that has problems."""
        X = gaussian.X
        labels = gaussian.labels
        problems = gaussian.problems()
        if self.method == "auto" and problems:
            labels = most_likely_class(labels)
            return self._from_population(X, labels, self._draw_population(X, labels))
        diagnostics = Diagnostics("ep", self.n_samples, float(self.n_samples), problems=problems)
        return self._equally_weighted(X, labels, diagnostics, state=gaussian)

    def _equally_weighted(
        self, X: np.ndarray, labels: np.ndarray, diagnostics: Diagnostics, **fields: Any
    ) -> Posterior:
        """A posterior whose draws have equal weights."""
        return Posterior(
            X=X,
            labels=labels,
            seed=self.seed,
            weights=np.full(self.n_samples, 1.0 / self.n_samples),
            diagnostics=replace(diagnostics, prior=self.prior.description),
            **fields,
        )
