"""Regression: y = f + ε, f linear in the features, ε ~ N(0, σ²). Everything is exact.

In units in which the labels have mean 0 and variance 1, f has one of the prior shapes of
:class:`~parbals.posterior.closed.prior_shapes.Shapes` with variance a σ² over the pool. With
centred rows F of a shape at variance 1, FᵀF = V diag(λ) Vᵀ and g = VᵀFᵀy (the intercept removes
the mean)

    S(a) = Σ y² - Σ_j a g_j² / (1 + a λ_j)

is the sum of squares that noise must explain. Under σ² ~ InvGamma(α₀, α₀ / (1 + a)), which expects
unit variance in total, σ² has a posterior InvGamma(α, β) with α = α₀ + (n - 1)/2 and
β = α₀ / (1 + a) + S(a)/2, and

    ln p(y | a) = -½ Σ_j ln(1 + a λ_j) + α₀ ln(α₀ / (1 + a)) - α ln β + a constant in a.

The variances of f and of the noise, σ² taken as β / α, are averaged over a and over shapes by their
evidence. A new label then has a Student's t distribution with 2 α degrees of freedom: the
uncertainty of σ is part of every interval.

A gross error, such as a slipped decimal point, would spoil the fit. Labels whose leave-one-out
residual is beyond six robust standard deviations (1.48 medians of absolute residuals) are therefore
left out, and the rest is fitted again. Without such labels nothing changes.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from parbals.posterior.closed.ep import cavities, latents_from_sites
from parbals.posterior.closed.labels import label_keys
from parbals.posterior.closed.latents import Latents, SingleLatent
from parbals.posterior.closed.prior import random_subset
from parbals.posterior.closed.prior_shapes import Shapes
from parbals.posterior.closed.sites import Sites
from parbals.posterior.closed.whitening import POWERS, PoolMoments, Whitening
from parbals.shapes import Array, Bool, Float

__all__ = ["RegressionPosterior", "fit_regression"]

_PRIOR_SHAPE = 1.5  # α₀ of the noise variance: the smallest for a finite deviation before any label
_LOG_RATIO_MEAN = 1.0  # of the hyperprior of ln a
_LOG_RATIO_SD = 3.0  # from a hundredth of a label's variance to nearly all of it
_LOG_RATIO_GRID = np.linspace(-9.0, 14.0, 93)
_RANK_TOLERANCE = 1e-12  # relative to the largest eigenvalue
_MIN_NOISE_VARIANCE = 1e-8  # relative to unit variance; less is lost in rounding
_EQUAL_LABELS = 1e-14  # relative deviation below which labels are equal up to rounding
_OUTLIER_DEVIATIONS = 6.0
_MIN_LABELS = 10  # fewer do not tell which of them is wrong
_MAX_REFITS = 5
_MAD_TO_SD = 1.4826  # standard deviation of normal variables over their median absolute value


@dataclass(frozen=True)
class RegressionPosterior(SingleLatent):
    """Gaussian posterior of f given design rows X (n, d) and labels y (n,).

    f and the noise are in units of ``label_scale``, counted from ``label_mean``. See
    :func:`fit_regression` for an example.
    """

    X: Float[Array, "n d"]
    y: Float[Array, " n"]
    label_mean: float
    label_scale: float
    noise_variance: float  # σ²
    degrees_of_freedom: float  # 2 α
    signal_to_noise: float  # a
    latents: Latents
    is_outlier: Bool[Array, " n"]  # labels that were left out of the fit

    has_samples = False  # every strategy's score has a closed form

    def noise_at(
        self, mean: Float[Array, " N"], variance: Float[Array, " N"]
    ) -> Float[Array, " N"]:
        """Noise variance σ² (N,) of labels where f has these moments: constant."""
        return np.full(len(mean), self.noise_variance)

    def predict(self, X: Float[Array, "N d"]) -> tuple[Float[Array, " N"], Float[Array, " N"]]:
        """Mean and standard deviation (N,) of a new label at design rows X (N, d)."""
        mean, variance = self.marginals(X)
        return self._label_moments(mean, variance)

    def leave_one_out(self) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        """Mean and standard deviation (n,) of every label given all others, σ held fixed."""
        precisions = np.where(self.is_outlier, 0.0, 1.0 / self.noise_variance)
        linear_terms = precisions * (self.y - self.label_mean) / self.label_scale
        sites = Sites(precisions, linear_terms)
        cavity_mean, cavity_variance = cavities(*self.marginals(self.X), sites)
        return self._label_moments(cavity_mean, cavity_variance)

    def _label_moments(
        self, mean: Float[Array, " N"], variance: Float[Array, " N"]
    ) -> tuple[Float[Array, " N"], Float[Array, " N"]]:
        """Moments of labels, from those of f: the variance of Student's t, in the labels' units."""
        t_variance = self.degrees_of_freedom / (self.degrees_of_freedom - 2.0)
        deviation = np.sqrt(t_variance * (variance + self.noise_variance))
        return self.label_mean + self.label_scale * mean, self.label_scale * deviation


def fit_regression(
    X: Float[Array, "n d"], y: Float[Array, " n"], pool: PoolMoments
) -> RegressionPosterior:
    """Fit labels y (n,) at design rows X (n, d); ``pool``: how features vary.

    >>> X = np.linspace(-1.0, 1.0, 20)[:, None]
    >>> design = np.hstack([X, np.ones_like(X)])
    >>> posterior = fit_regression(design, 3.0 * X[:, 0] + 5.0, PoolMoments.of(X))
    >>> mean, deviation = posterior.predict(np.array([[0.5, 1.0]]))
    >>> mean.round(2)
    array([6.5])
    """
    is_outlier = np.zeros(len(y), bool)
    for _ in range(_MAX_REFITS):
        posterior = _fit(X, y, is_outlier, pool)
        previous = is_outlier
        is_outlier = _find_outliers(posterior)
        if (is_outlier == previous).all():
            break
    return posterior


def _find_outliers(posterior: RegressionPosterior) -> Bool[Array, " n"]:
    """Which labels have leave-one-out residuals beyond six robust standard deviations."""
    if len(posterior.y) < _MIN_LABELS:
        return np.zeros(len(posterior.y), bool)
    mean, _ = posterior.leave_one_out()
    residuals = np.abs(posterior.y - mean)
    rounding = _EQUAL_LABELS * np.abs(posterior.y).max()
    deviation = max(_MAD_TO_SD * float(np.median(residuals)), rounding)
    # Where labels can be fitted exactly, the residuals are those of the prior.
    deviation = max(deviation, posterior.label_scale * np.sqrt(_MIN_NOISE_VARIANCE))
    return residuals > _OUTLIER_DEVIATIONS * deviation


def _fit(
    X: Float[Array, "n d"], y: Float[Array, " n"], is_outlier: Bool[Array, " n"], pool: PoolMoments
) -> RegressionPosterior:
    """Fit the labels that are not outliers."""
    inlier_X = X[~is_outlier]
    inlier_y = y[~is_outlier]
    label_mean, label_scale = _label_units(inlier_y)
    scaled = (inlier_y - label_mean) / label_scale
    subset = random_subset(label_keys(inlier_X, inlier_y))  # 2,000 labels suffice for the prior
    learned = _learn_hyperparameters(inlier_X[subset, :-1], scaled[subset], pool)
    noise_variance = learned.noise_variance
    sites = Sites(np.full(len(scaled), 1.0 / noise_variance), scaled / noise_variance)
    return RegressionPosterior(
        X=X,
        y=y,
        label_mean=label_mean,
        label_scale=label_scale,
        noise_variance=noise_variance,
        degrees_of_freedom=2.0 * _PRIOR_SHAPE + max(len(scaled) - 1, 0),
        signal_to_noise=learned.signal_to_noise,
        latents=latents_from_sites(inlier_X, sites, learned.whitening),
        is_outlier=is_outlier,
    )


def _label_units(y: Float[Array, " n"]) -> tuple[float, float]:
    """Mean and deviation of labels; a single or equal labels take their size as the deviation."""
    if not len(y):
        return 0.0, 1.0
    size = float(np.abs(y).max()) or 1.0
    # Labels may lie far from zero: their spread is that of differences, which are exact.
    first = float(y[0])
    differences = (y - first) / size
    mean = first + size * float(differences.mean())
    deviation = float(differences.std())
    if deviation <= _EQUAL_LABELS:
        return mean, size
    # A few labels lie closer together than all labels do.
    small_sample_factor = np.sqrt((len(y) + 2) / max(len(y) - 1, 1))
    return mean, float(small_sample_factor * deviation) * size


class _Hyperparameters(NamedTuple):
    """Prior of f, and the noise."""

    whitening: Whitening
    noise_variance: float  # σ²
    signal_to_noise: float  # a


def _learn_hyperparameters(
    rows: Float[Array, "n D"], y: Float[Array, " n"], pool: PoolMoments
) -> _Hyperparameters:
    """Learn prior and noise from labels of unit variance, by their evidence."""
    shapes = Shapes.of(pool, POWERS, by_columns=pool.has_mixed_units)
    if len(y) < 2:
        ratio = float(np.exp(_LOG_RATIO_MEAN))
        signal = np.full_like(shapes.log_scales, ratio / (1.0 + ratio))
        shapes = shapes._replace(log_scales=0.5 * np.log(signal))
        return _Hyperparameters(shapes.whitening, 1.0 / (1.0 + ratio), ratio)
    coordinates = pool.coordinates(rows)
    variances = np.stack([pool.variances(shape) for shape in shapes.by_directions])
    factors = list(coordinates * np.sqrt(variances)[:, None])
    if pool.has_mixed_units:
        factors.append(pool.standardised(rows))
    profiles = [_evidence(factor, y) for factor in factors]
    values = np.stack([log_evidence for log_evidence, _ in profiles])
    noises = np.stack([noise for _, noise in profiles])
    values -= 0.5 * np.square((_LOG_RATIO_GRID - _LOG_RATIO_MEAN) / _LOG_RATIO_SD)
    log_evidence = np.logaddexp.reduce(values, axis=1)
    weights = np.exp(values - log_evidence[:, None])
    signal = (weights * np.exp(_LOG_RATIO_GRID) * noises).sum(axis=1)
    shapes = shapes.reweighted(0.5 * np.log(signal), log_evidence)
    shares = np.exp(log_evidence - np.logaddexp.reduce(log_evidence))
    noise_variance = max(float(shares @ (weights * noises).sum(axis=1)), _MIN_NOISE_VARIANCE)
    return _Hyperparameters(shapes.whitening, noise_variance, shapes.scale**2 / noise_variance)


def _evidence(
    factor: Float[Array, "n r"],
    y: Float[Array, " n"],
    ratios: Float[Array, " G"] = np.exp(_LOG_RATIO_GRID),  # noqa: B008
) -> tuple[Float[Array, " G"], Float[Array, " G"]]:
    """ln p(y | a) and the noise variance β / α at ratios a (G,), for rows F (n, r) of a shape."""
    factor = factor - factor.mean(axis=0)
    y = y - y.mean()
    n_rows, n_columns = factor.shape
    if n_rows <= n_columns:
        eigenvalues, vectors = np.linalg.eigh(factor @ factor.T)
        squared_projections = np.maximum(eigenvalues, 0.0) * np.square(vectors.T @ y)
    else:
        eigenvalues, vectors = np.linalg.eigh(factor.T @ factor)
        squared_projections = np.square(vectors.T @ (factor.T @ y))
    largest = max(eigenvalues.max(initial=0.0), _RANK_TOLERANCE)
    is_significant = eigenvalues > _RANK_TOLERANCE * largest
    eigenvalues = eigenvalues[is_significant]
    squared_projections = squared_projections[is_significant]
    spread = 1.0 + ratios[:, None] * eigenvalues
    explained = (ratios[:, None] * squared_projections / spread).sum(axis=1)
    residual = np.maximum(np.square(y).sum() - explained, 0.0)
    prior_scale = _PRIOR_SHAPE / (1.0 + ratios)  # β₀
    shape = _PRIOR_SHAPE + 0.5 * (len(y) - 1)  # α
    scale = prior_scale + 0.5 * residual  # β
    log_evidence = _PRIOR_SHAPE * np.log(prior_scale) - shape * np.log(scale)
    return log_evidence - 0.5 * np.log(spread).sum(axis=1), scale / shape
