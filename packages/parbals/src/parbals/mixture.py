"""The logistic function as a mixture of six normal distribution functions.

    σ(f) = Σ_i ω_i Φ(s_i f),    largest error 8.5e-8

(the logistic distribution is a scale mixture of normals; scales s_i and weights ω_i are a minimax
fit). For a normal f ~ N(m, v) the expectations of σ and its derivatives σ⁽ᵏ⁾ then have a closed
form, whatever the variance: with r_i = s_i / √(1 + s_i² v) and z_i = r_i m

    E[σ(f)]      = Σ_i ω_i Φ(z_i),
    E[σ⁽ᵏ⁾(f)]   = Σ_i ω_i r_iᵏ (-1)ᵏ⁻¹ He_{k-1}(z_i) φ(z_i),      k ≥ 1,

because derivatives in f are derivatives in m. He are the (probabilists') Hermite polynomials, φ and
Φ the standard normal density and distribution function. :func:`sigmoid_means` takes NumPy arrays
or, with ``xp=jax.numpy``, JAX arrays; :func:`label_evidence`, for expectation propagation, takes
NumPy arrays only.
"""

from types import ModuleType

import numpy as np

from parbals.shapes import Array, Float

__all__ = [
    "SCALES",
    "WEIGHTS",
    "horner",
    "label_evidence",
    "normal_cdf_and_kernel",
    "sigmoid_means",
]

_Values = Float[Array, "*n"]

SCALES = (  # s_i
    0.26947619101829173, 0.3667142856768048, 0.4955648901262393, 0.668349880496926,
    0.8973398447400494, 1.2112243174567434,
)  # fmt: skip
WEIGHTS = (  # ω_i
    0.009080868440880368, 0.10893937873181292, 0.31697873001479976, 0.37387632569068413,
    0.17267283473894882, 0.018451862382873857,
)  # fmt: skip
_LOG_ROOT_TWO_PI = 0.5 * float(np.log(2.0 * np.pi))
_ROOT_TWO_PI = float(np.sqrt(2.0 * np.pi))
_MAX_DISTANCE = 40.0  # |z| is cut here: the tail is zero anyway, and powers of z stay finite
_FAR = 10.0
_N_FRACTIONS = 8  # a relative error of 1e-12 at _FAR
# Φ(-x) ≈ exp(-x²/2) A(x) / B(x) for x ≥ 0: a minimax fit with a relative error of 7.1e-9
# up to _FAR. The coefficients of A (numerator) and B (denominator) are in order of falling powers.
_TAIL_NUMERATOR = (
    0.004222143751952842, 0.041341858599364255, 0.18532972996615596, 0.44110949832892415,
    0.5000000035264482,
)  # fmt: skip
_TAIL_DENOMINATOR = (
    0.010583247085724334, 0.10363420935604915, 0.47500200966986567, 1.2111829614896312,
    1.6801040541533507, 1.0,
)  # fmt: skip


def normal_cdf_and_kernel(z: _Values, xp: ModuleType = np) -> tuple[_Values, _Values]:
    """Φ(z) and exp(-z²/2), computed from one exponential: four times as fast as with SciPy.

    >>> normal_cdf_and_kernel(np.array([0.0]))
    (array([0.5]), array([1.]))
    """
    distance = xp.minimum(xp.abs(z), _MAX_DISTANCE)
    kernel = distance * distance
    kernel *= -0.5
    kernel = xp.exp(kernel)
    tail = _tail_ratio(distance)
    tail *= kernel
    return xp.where(z > 0, 1.0 - tail, tail), kernel


def _tail_ratio(distance: _Values) -> _Values:
    """Φ(-x) / exp(-x²/2) for distances x ≥ 0."""
    ratio = horner(_TAIL_NUMERATOR, distance)
    ratio /= horner(_TAIL_DENOMINATOR, distance)
    return ratio


def _far_tail_ratio(distance: _Values) -> _Values:
    """Φ(-x) / exp(-x²/2) = 1 / √2π (x + 1/(x + 2/(x + ...))) for x > 10, by Laplace's fraction."""
    fraction = distance
    for numerator in range(_N_FRACTIONS, 0, -1):
        fraction = distance + numerator / fraction
    return 1.0 / (_ROOT_TWO_PI * fraction)


def horner(coefficients: tuple[float, ...], x: _Values) -> _Values:
    """Evaluate a polynomial with coefficients of falling powers, by Horner's rule.

    >>> horner((2.0, 0.0, 1.0), np.array([3.0]))
    array([19.])
    """
    value = coefficients[0] * x
    for coefficient in coefficients[1:-1]:  # in place, which halves NumPy's time
        value += coefficient
        value *= x
    value += coefficients[-1]
    return value


def sigmoid_means(
    mean: _Values, variance: _Values, order: int, xp: ModuleType = np, unit: _Values | float = 1.0
) -> list[_Values]:
    """Means of the logistic function σ and its derivatives under f ~ N(mean, variance).

    The list has E[σ⁽ᵏ⁾(f)] · unitᵏ for k = 0..order: derivatives with respect to f / unit. With the
    standard deviation of f as ``unit`` they stay finite, whatever the variance.

    >>> mean, slope = sigmoid_means(np.array([0.0]), np.array([0.0]), order=1)
    >>> mean.round(3), slope.round(3)
    (array([0.5]), array([0.25]))
    """
    ratio, z, weights = _standardised(mean, variance, xp)
    cdf, kernel = normal_cdf_and_kernel(z, xp)
    means = [(weights * cdf).sum(axis=0)]
    ratio = ratio * unit
    term = (weights / _ROOT_TWO_PI) * kernel * ratio
    previous_hermite = xp.zeros_like(z)
    hermite = xp.ones_like(z)
    for k in range(1, order + 1):
        means.append((term * hermite).sum(axis=0))
        next_hermite = z * hermite - (k - 1) * previous_hermite
        previous_hermite = hermite
        hermite = next_hermite
        term = -term * ratio
    return means


def label_evidence(
    mean: _Values, variance: _Values, sign: Float[Array, "..."] | float
) -> tuple[_Values, _Values, _Values]:
    """The evidence Z = E[σ(sign · f)] of labels (sign ±1) under f ~ N(mean, variance): m and v.

    Returns ln Z, α = d ln Z / dm and β = -d² ln Z / dm². Given the label, f has the mean m + v α
    and the variance v - v² β.

    >>> log_evidence, slope, curvature = label_evidence(np.array([0.0]), np.array([1.0]), 1.0)
    >>> np.exp(log_evidence).round(3), slope.round(3), curvature.round(3)
    (array([0.5]), array([0.413]), array([0.171]))
    """
    ratio, z, weights = _standardised(sign * mean, variance, np)
    distance = np.abs(z)
    log_kernel = -0.5 * np.square(distance)
    tail_ratio = _tail_ratio(np.minimum(distance, _FAR))
    is_far = distance > _FAR
    if is_far.any():
        tail_ratio[is_far] = _far_tail_ratio(distance[is_far])
    log_cdf = np.where(
        z > 0.0, np.log1p(-tail_ratio * np.exp(log_kernel)), log_kernel + np.log(tail_ratio)
    )
    log_terms = np.log(weights) + log_cdf
    largest = log_terms.max(axis=0)
    log_evidence = largest + np.log(np.exp(log_terms - largest).sum(axis=0))
    share = np.exp(log_terms - log_evidence)
    hazard = share * np.exp(log_kernel - _LOG_ROOT_TWO_PI - log_cdf) * ratio
    slope = hazard.sum(axis=0)
    return log_evidence, sign * slope, slope * slope + (hazard * z * ratio).sum(axis=0)


def _standardised(
    mean: _Values, variance: _Values, xp: ModuleType
) -> tuple[Float[Array, "T *n"], Float[Array, "T *n"], Float[Array, "T ..."]]:
    """r_i, z_i and ω_i of the module's docstring, for the six normals along a new first axis."""
    shape = (-1, *[1] * mean.ndim)
    scales = xp.asarray(SCALES, mean.dtype).reshape(shape)
    weights = xp.asarray(WEIGHTS, mean.dtype).reshape(shape)
    ratio = scales / xp.sqrt(1.0 + scales**2 * variance)
    return ratio, ratio * mean, weights
