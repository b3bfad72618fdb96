"""Labels that are numbers: y = f + ε, f linear in the features, ε ~ N(0, σ²). Everything is exact.

In units in which the labels have mean 0 and variance 1, f has one of the prior shapes of
:class:`~parbals.posterior.closed.prior.Shapes` with variance a σ² over the pool. With centred rows
F of a shape at variance 1, FᵀF = V diag(λ) Vᵀ and g = VᵀFᵀy (the intercept takes the mean away)

    S(a) = Σ y² - Σ_j a g_j² / (1 + a λ_j)

is what noise must explain. Under σ² ~ InvGamma(α₀, α₀ / (1 + a)), which expects unit variance in
all, σ² has a posterior InvGamma(α, β) with α = α₀ + (n - 1)/2 and β = α₀ / (1 + a) + S(a)/2, and

    ln p(y | a) = -½ Σ_j ln(1 + a λ_j) + α₀ ln(α₀ / (1 + a)) - α ln β + what is the same for all a.

Variances of f and of the noise, σ² taken as β / α, are averaged over a and over shapes by their
evidence. A new label is then a Student's t of 2 α degrees of freedom: how far σ is known is part of
every interval.
"""

from dataclasses import dataclass

import numpy as np

from parbals.posterior.closed.ep import cavities, latents_from_sites
from parbals.posterior.closed.latents import Latents, SingleLatent
from parbals.posterior.closed.prior import Shapes, random_subset
from parbals.posterior.closed.sites import Sites, label_keys
from parbals.posterior.closed.whitening import POWERS, PoolMoments, Whitening
from parbals.shapes import Array, Float

__all__ = ["RegressionPosterior", "fit_regression"]

_FREEDOM = 1.5  # α₀: a deviation exists before any label
_RATIO, _WIDTH = 1.0, 3.0  # of ln a: from a hundredth to all that a label says
_GRID = np.linspace(-9.0, 14.0, 93)  # of ln a
_LEAST = 1e-12  # of the largest variance of a direction
_EXACT = 1e-8  # of unit variance: noise below it is none that rounding would show


@dataclass(frozen=True)
class RegressionPosterior(SingleLatent):
    """The Gaussian of f given design rows X (n, d) and labels y (n,), in units of ``unit``."""

    X: Float[Array, "n d"]
    y: Float[Array, " n"]
    centre: float
    unit: float
    noise: float  # σ², in squared units
    freedom: float  # 2 α
    ratio: float  # a, of the variance of f to that of the noise
    latents: Latents

    has_samples = False  # everything that a strategy asks for has a closed form

    def noise_at(
        self, mean: Float[Array, " N"], variance: Float[Array, " N"]
    ) -> Float[Array, " N"]:
        """σ² (N,) of labels where f has these moments."""
        return np.full(len(mean), self.noise)

    def predict(self, X: Float[Array, "N d"]) -> tuple[Float[Array, " N"], Float[Array, " N"]]:
        """Mean and deviation (N,) of a new label at design rows X (N, d), noise included."""
        return self._labels(*self.marginals(X))

    def leave_one_out(self) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        """The same at every labelled row by all labels but its own, σ held."""
        own = (self.y - self.centre) / self.unit / self.noise
        sites = Sites(np.full(len(own), 1.0 / self.noise), own)
        return self._labels(*cavities(*self.marginals(self.X), sites))

    def _labels(
        self, mean: Float[Array, " N"], variance: Float[Array, " N"]
    ) -> tuple[Float[Array, " N"], Float[Array, " N"]]:
        wider = self.freedom / (self.freedom - 2.0)
        deviation = np.sqrt(wider * (variance + self.noise))
        return self.centre + self.unit * mean, self.unit * deviation


def fit_regression(
    X: Float[Array, "n d"], y: Float[Array, " n"], pool: PoolMoments
) -> RegressionPosterior:
    """The posterior of design rows X (n, d) and labels (n,); ``pool``: how features vary."""
    centre, unit = _units(y)
    scaled = (y - centre) / unit
    part = random_subset(label_keys(X, y))  # thousands say of a prior what 2,000 say
    whitening, noise, ratio = _learnt(X[part, :-1], scaled[part], pool)
    freedom = 2.0 * _FREEDOM + max(len(y) - 1, 0)
    latents = latents_from_sites(X, Sites(np.full(len(y), 1.0 / noise), scaled / noise), whitening)
    return RegressionPosterior(X, y, centre, unit, noise, freedom, ratio, latents)


def _units(y: Float[Array, " n"]) -> tuple[float, float]:
    """Mean and deviation of labels; of one, or of equal ones, their size stands for the latter."""
    if not len(y):
        return 0.0, 1.0
    size = float(np.abs(y).max()) or 1.0
    centre, deviation = float((y / size).mean()), float((y / size).std())
    few = np.sqrt((len(y) + 2) / max(len(y) - 1, 1))  # labels lie closer together than all do
    return centre * size, float(few * deviation if deviation > 1e-9 else 1.0) * size


def _learnt(
    rows: Float[Array, "n D"], y: Float[Array, " n"], pool: PoolMoments
) -> tuple[Whitening, float, float]:
    """Prior of f, σ² and a, for labels in units."""
    shapes = Shapes.of(pool, POWERS, by_columns=pool.has_units)
    if len(y) < 2:
        ratio = float(np.exp(_RATIO))
        signal = np.full_like(shapes.log_scales, ratio / (1.0 + ratio))
        shapes = shapes._replace(log_scales=0.5 * np.log(signal))
        return shapes.whitening, 1.0 / (1.0 + ratio), ratio
    apart = pool.coordinates(rows)
    variances = np.stack([pool.in_coordinates(*pool.by_power(power)) for power in POWERS])
    factors = [*apart * np.sqrt(variances)[:, None]]
    factors += [pool.standardised(rows)] if pool.has_units else []
    values, noises = map(np.stack, zip(*(_evidence(each, y) for each in factors), strict=True))
    values -= 0.5 * np.square((_GRID - _RATIO) / _WIDTH)
    log_evidence = np.logaddexp.reduce(values, axis=1)
    weights = np.exp(values - log_evidence[:, None])
    signal = (weights * np.exp(_GRID) * noises).sum(axis=1)
    shapes = shapes.weighed(0.5 * np.log(signal), log_evidence)
    shares = np.exp(log_evidence - np.logaddexp.reduce(log_evidence))
    noise = max(float(shares @ (weights * noises).sum(axis=1)), _EXACT)
    return shapes.whitening, noise, shapes.scale**2 / noise


def _evidence(
    factor: Float[Array, "n r"],
    y: Float[Array, " n"],
    ratios: Float[Array, " G"] = np.exp(_GRID),  # noqa: B008
) -> tuple[Float[Array, " G"], Float[Array, " G"]]:
    """ln p(y | a) and β / α at ratios a (G,), for rows F (n, r) of a shape."""
    factor, y = factor - factor.mean(axis=0), y - y.mean()
    n_rows, n_columns = factor.shape
    if n_rows <= n_columns:
        eigenvalues, vectors = np.linalg.eigh(factor @ factor.T)
        pulls = np.maximum(eigenvalues, 0.0) * np.square(vectors.T @ y)
    else:
        eigenvalues, vectors = np.linalg.eigh(factor.T @ factor)
        pulls = np.square(vectors.T @ (factor.T @ y))
    is_there = eigenvalues > _LEAST * max(eigenvalues.max(initial=0.0), _LEAST)
    eigenvalues, pulls = eigenvalues[is_there], pulls[is_there]
    spread = 1.0 + ratios[:, None] * eigenvalues
    explained = (ratios[:, None] * pulls / spread).sum(axis=1)
    left = np.maximum(np.square(y).sum() - explained, 0.0)
    before = _FREEDOM / (1.0 + ratios)
    after = _FREEDOM + 0.5 * (len(y) - 1)
    scale = before + 0.5 * left
    log_evidence = _FREEDOM * np.log(before) - after * np.log(scale)
    return log_evidence - 0.5 * np.log(spread).sum(axis=1), scale / after
