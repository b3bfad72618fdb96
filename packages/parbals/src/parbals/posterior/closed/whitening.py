"""The Gaussian prior as a linear map: rows are whitened on input, so that all weights are N(0, I).

With design rows x̃ = (x, 1), a centre μ of the features and a matrix T (d, d)

    z = (x̃ - (μ, 0)) T,        f = z·v = x̃·w,        v ~ N(0, I),

so a class has weights w = T v, of covariance T Tᵀ, for features centred at μ.

The variation of a pool's features suggests priors (:class:`PoolMoments`). With mean μ and principal
directions u_j of variance λ_j, shares r_j = λ_j / Σλ, the weights of a class are independent along
the directions, with variances

    s² r_j^α / (Σλ Σ_k r_k^(1+α)),        α = 0, ½, 1, 2,

or, with standardised columns, s² / (D variance_j) in every column j. Both give w·(x - μ) the
variance s² over the pool, whatever the units of the features: s is a scale of logits.
"""

from typing import NamedTuple

import numpy as np

from parbals.shapes import Array, Bool, Float

__all__ = ["INTERCEPT_SD", "POWERS", "PoolMoments", "Whitening"]


class Whitening(NamedTuple):
    """The linear map T: ``left`` if that is square, else diag(deviations) + left right.

    Methods take NumPy arrays; a whitening that holds JAX arrays takes JAX arrays.

    >>> whitening = Whitening.diagonal(np.array([2.0, 0.5]))
    >>> whitening.rows(np.array([[3.0, 1.0]]))
    array([[6. , 0.5]])
    >>> whitening.weights(np.array([1.0, 1.0]))
    array([2. , 0.5])
    """

    centre: Float[Array, " d"]  # the last entry, of the bias, is 0
    deviations: Float[Array, " d"]
    left: Float[Array, "d q"]
    right: Float[Array, "q d"]

    @classmethod
    def diagonal(
        cls, deviations: Float[Array, " d"], centre: Float[Array, " d"] | None = None
    ) -> "Whitening":
        """Independent weights with these standard deviations (d,)."""
        n_columns = len(deviations)
        if centre is None:
            centre = np.zeros(n_columns)
        empty = np.zeros((n_columns, 0))
        return cls(centre=centre, deviations=deviations, left=empty, right=empty.T)

    @property
    def is_dense(self) -> bool:
        """Whether T is ``left``, a full square matrix."""
        n_columns, n_directions = self.left.shape
        return bool(n_columns == n_directions)

    def rows(self, X: Float[Array, "N d"]) -> Float[Array, "N d"]:
        """Whiten design rows X (N, d); padding rows of zeros stay zeros."""
        shifted = self.shifted(X)
        if self.is_dense:
            return shifted @ self.left
        if self.left.shape[1] == 0:
            return shifted * self.deviations
        return shifted * self.deviations + (shifted @ self.left) @ self.right

    def shifted(self, X: Float[Array, "N d"]) -> Float[Array, "N d"]:
        """Subtract the centre from design rows X (N, d)."""
        return (X - X[:, -1:] * self.centre).astype(self.left.dtype, copy=False)

    def coloured(self, v: Float[Array, "d *more"]) -> Float[Array, "d *more"]:
        """Weights T v (d, ...) for centred design rows, from whitened weights v (d, ...)."""
        if self.is_dense:
            return np.tensordot(self.left, v, axes=1)
        w = self.deviations.reshape(-1, *[1] * (v.ndim - 1)) * v
        return np.asarray(w + np.tensordot(self.left, np.tensordot(self.right, v, axes=1), axes=1))

    def weights(self, v: Float[Array, "d *more"]) -> Float[Array, "d *more"]:
        """Weights (d, ...) for uncentred design rows, from whitened weights v (d, ...)."""
        w = self.coloured(v)
        w[-1] -= np.tensordot(self.centre, w, axes=1)
        return w

    def as_float32(self) -> "Whitening":
        """Single precision, except for the centre: features may lie far from zero."""
        return Whitening(
            centre=self.centre,
            deviations=np.asarray(self.deviations, np.float32),
            left=np.asarray(self.left, np.float32),
            right=np.asarray(self.right, np.float32),
        )

    def times(self, factor: float) -> "Whitening":
        """The prior with all standard deviations multiplied by ``factor``."""
        return Whitening(
            centre=self.centre,
            deviations=factor * self.deviations,
            left=factor * self.left if self.is_dense else self.left,
            right=self.right if self.is_dense else factor * self.right,
        )


POWERS = (0.0, 0.5, 1.0, 2.0)
"""α: powers of the directions' variance shares."""
INTERCEPT_SD = 2.0
"""Prior standard deviation of a class's intercept."""
_MAX_DIRECTIONS = 512
_RANK_TOLERANCE = 1e-12  # relative to the largest variance: below it a direction does not vary
_ROUNDING = 1e-12  # relative to a column's mean: a smaller deviation is rounding error
_MAX_DEVIATION_RATIO = 100.0
"""Deviations of columns in one unit, such as an encoder's, seldom differ by a larger factor."""


class PoolMoments(NamedTuple):
    """Mean, variances and principal directions of rows (m, D); q ≤ 512 directions.

    The variance orthogonal to the directions is taken to be isotropic.

    >>> rows = np.array([[0.0, 1.0], [2.0, 1.0], [4.0, 1.0]])
    >>> moments = PoolMoments.of(rows)
    >>> moments.mean, round(moments.total, 3)
    (array([2., 1.]), 2.667)
    """

    mean: Float[Array, " D"]
    column_variances: Float[Array, " D"]
    directions: Float[Array, "D q"]  # orthonormal
    shares: Float[Array, " q"]  # r
    share_across: float  # of each of the D - q orthogonal dimensions
    total: float  # Σλ

    @classmethod
    def of(cls, rows: Float[Array, "m D"]) -> "PoolMoments":
        """Compute the moments of rows (m, D); directions of very wide rows use a thousand rows."""
        rows = np.ascontiguousarray(rows, np.float64)  # columns would be summed in another order
        n_columns = rows.shape[1]
        mean = rows.mean(axis=0)
        column_variances = rows.var(axis=0)
        total = float(column_variances.sum())
        if not _is_varying(mean, column_variances).any():  # one row, or equal rows
            total = float(np.square(mean).sum()) or 1.0
            shares = np.full(n_columns, 1.0 / n_columns)
            return cls(
                mean=mean,
                column_variances=total * shares,
                directions=np.zeros((n_columns, 0)),
                shares=shares[:0],
                share_across=shares[0],
                total=total,
            )
        directions, variances = _principal_directions(rows - mean)
        shares = np.maximum(variances, 0.0) / total
        n_across = n_columns - len(shares)
        share_across = 0.0
        if n_across:
            share_across = max(1.0 - float(shares.sum()), 0.0) / n_across
        return cls(
            mean=mean,
            column_variances=column_variances,
            directions=directions,
            shares=shares,
            share_across=share_across,
            total=total,
        )

    @classmethod
    def unknown(cls, n_columns: int) -> "PoolMoments":
        """Moments before any row is seen: centred features of unit variance."""
        ones = np.ones(n_columns)
        return cls(
            mean=0.0 * ones,
            column_variances=ones,
            directions=np.zeros((n_columns, 0)),
            shares=ones[:0],
            share_across=1.0 / n_columns,
            total=float(n_columns),
        )

    def variances_by_power(self, power: float) -> tuple[Float[Array, " q"], float]:
        """Weight variances (q,) along the directions, and orthogonal to them, for s = 1."""
        n_across = len(self.mean) - len(self.shares)
        size = np.sum(self.shares ** (1.0 + power)) + n_across * self.share_across ** (1.0 + power)
        unit = 1.0 / (self.total * size)
        return unit * self.shares**power, float(unit * self.share_across**power)

    def coordinates(self, rows: Float[Array, "n D"]) -> Float[Array, "n p"]:
        """Centred rows (n, D) along the directions, then their orthogonal part: p = q or q + D."""
        centred = rows - self.mean
        along = centred @ self.directions
        if len(self.shares) == len(self.mean):
            return np.asarray(along)
        return np.concatenate([along, centred - along @ self.directions.T], axis=1)

    def coordinate_variances(
        self, variances: Float[Array, " q"], across: float
    ) -> Float[Array, " p"]:
        """Weight variances (p,) of the columns of :meth:`coordinates`."""
        n_others = 0 if len(self.shares) == len(self.mean) else len(self.mean)
        return np.append(variances, np.full(n_others, across))

    def whitening_by_directions(
        self, variances: Float[Array, " q"], across: float, intercept: float = INTERCEPT_SD
    ) -> Whitening:
        """The prior with variances (q,) along the directions, and ``across`` orthogonal to them."""
        n_columns, n_directions = self.directions.shape
        centre = np.append(self.mean, 0.0)
        deviations = np.sqrt(variances)
        deviations_across = np.append(np.full(n_columns, across**0.5), intercept)
        if n_directions == 0 or (deviations == np.sqrt(across)).all():
            return Whitening.diagonal(deviations_across, centre)
        if n_directions == n_columns:
            matrix = np.zeros((n_columns + 1, n_columns + 1))
            matrix[:-1, :-1] = self.directions * deviations
            matrix[-1, -1] = intercept
            return Whitening(centre, np.ones(n_columns + 1), matrix, np.eye(n_columns + 1))
        directions = np.vstack([self.directions, np.zeros(n_directions)])
        right = ((deviations - across**0.5) * directions).T
        return Whitening(centre, deviations_across, directions, right)

    @property
    def has_mixed_units(self) -> bool:
        """Whether columns vary so differently that they must be in different units."""
        variances = self.column_variances[self._varies]
        if len(variances) < 2:
            return False
        return bool(variances.max() > _MAX_DEVIATION_RATIO**2 * variances.min())

    @property
    def _varies(self) -> Bool[Array, " D"]:
        return _is_varying(self.mean, self.column_variances)

    def whitening_by_columns(self, scale: float, intercept: float = INTERCEPT_SD) -> Whitening:
        """The prior of standardised columns; a constant column has weight 0."""
        deviations = np.append(scale * self._column_weight_deviations, intercept)
        return Whitening.diagonal(deviations, np.append(self.mean, 0.0))

    def standardised(self, rows: Float[Array, "n D"]) -> Float[Array, "n D"]:
        """Rows (n, D) whitened by ``whitening_by_columns(1)``, without the intercept."""
        return np.asarray((rows - self.mean) * self._column_weight_deviations)

    @property
    def _column_weight_deviations(self) -> Float[Array, " D"]:
        """Prior standard deviations (D,) of the columns' weights, for s = 1."""
        varies = self._varies
        n_varying = max(varies.sum(), 1)
        variances = np.where(varies, self.column_variances, np.inf)
        return np.asarray(1.0 / np.sqrt(variances * n_varying))


def _is_varying(mean: Float[Array, " D"], variances: Float[Array, " D"]) -> Bool[Array, " D"]:
    """Which columns vary by more than rounding error, relative to their own means."""
    return np.asarray(variances > np.square(_ROUNDING * mean))


def _principal_directions(
    centred: Float[Array, "m D"],
) -> tuple[Float[Array, "D q"], Float[Array, " q"]]:
    """Orthonormal directions (D, q) of centred rows (m, D) and their variances (q,)."""
    n_rows, n_columns = centred.shape
    if n_columns <= _MAX_DIRECTIONS:
        variances, directions = np.linalg.eigh(centred.T @ centred / n_rows)
        return directions, variances
    stride = -(-n_rows // (2 * _MAX_DIRECTIONS))
    subset = centred[::stride]
    variances, left = np.linalg.eigh(subset @ subset.T / len(subset))
    is_significant = variances > _RANK_TOLERANCE * variances[-1]
    significant = np.flatnonzero(is_significant)[-_MAX_DIRECTIONS:]
    variances = variances[significant]
    return subset.T @ left[:, significant] / np.sqrt(len(subset) * variances), variances
