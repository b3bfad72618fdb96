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

Rows may end with columns that describe their neighbourhood
(:mod:`parbals.features.neighbours`). These are uncorrelated over the pool, each is a direction of
its own, and a prior has variances either in these directions or in those of the other columns.
"""

from typing import NamedTuple

import numpy as np

from parbals.shapes import Array, Bool, Float

__all__ = ["INTERCEPT_SD", "POWERS", "PoolMoments", "Shape", "Whitening"]


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


class Shape(NamedTuple):
    """How the prior variances of weights follow the variances of directions."""

    power: float  # α
    of_neighbourhoods: bool = False
    """Whether the directions are those of the neighbourhoods' columns."""


class PoolMoments(NamedTuple):
    """Mean, variances and principal directions of rows (m, D); q ≤ 512 directions.

    The variance orthogonal to the directions is taken to be isotropic. The last B columns, those of
    neighbourhoods, are left out of the directions and of D.

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
    neighbourhood_mean: Float[Array, " B"] = np.zeros(0)
    neighbourhood_variances: Float[Array, " B"] = np.zeros(0)

    @classmethod
    def of(cls, rows: Float[Array, "m D"], n_neighbourhood_columns: int = 0) -> "PoolMoments":
        """Compute the moments of rows (m, D + B); directions of very wide rows use 1,024 rows."""
        if n_neighbourhood_columns:
            neighbourhoods = np.asarray(rows[:, -n_neighbourhood_columns:], np.float64)
            return cls.of(rows[:, :-n_neighbourhood_columns])._replace(
                neighbourhood_mean=neighbourhoods.mean(axis=0),
                neighbourhood_variances=neighbourhoods.var(axis=0),
            )
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

    @property
    def centre(self) -> Float[Array, " W"]:
        """Mean of all columns."""
        return np.append(self.mean, self.neighbourhood_mean)

    def shapes(self, powers: tuple[float, ...]) -> tuple[Shape, ...]:
        """All shapes of these powers: those of neighbourhoods last, if they vary."""
        shapes = tuple(Shape(power) for power in powers)
        if not self.neighbourhood_variances.any():
            return shapes
        return shapes + tuple(Shape(power, of_neighbourhoods=True) for power in powers)

    def variances(self, shape: Shape) -> Float[Array, " p"]:
        """Weight variances of the columns of :meth:`coordinates`, for s = 1."""
        n_across = len(self.mean) - len(self.shares)
        n_others = len(self.mean) if n_across else 0
        if shape.of_neighbourhoods:
            total = self.neighbourhood_variances.sum()
            shares = self.neighbourhood_variances / total
            unit = 1.0 / (total * np.sum(shares ** (1.0 + shape.power)))
            n_own = len(self.shares) + n_others
            return np.append(np.zeros(n_own), unit * shares**shape.power)
        size = np.sum(self.shares ** (1.0 + shape.power))
        size += n_across * self.share_across ** (1.0 + shape.power)
        unit = 1.0 / (self.total * size)
        across = np.full(n_others, self.share_across**shape.power)
        variances = unit * np.append(self.shares**shape.power, across)
        return np.append(variances, np.zeros_like(self.neighbourhood_variances))

    def coordinates(self, rows: Float[Array, "n W"]) -> Float[Array, "n p"]:
        """Centred rows along the directions, then their orthogonal part: p = q or q + D."""
        n_columns = len(self.mean)
        centred = rows - self.centre
        own = centred[:, :n_columns]
        along = own @ self.directions
        blocks = [along]
        if len(self.shares) < n_columns:
            blocks.append(own - along @ self.directions.T)
        return np.concatenate([*blocks, centred[:, n_columns:]], axis=1)

    def whitening(
        self, variances: Float[Array, " p"], intercept: float = INTERCEPT_SD
    ) -> Whitening:
        """The prior with these variances in the columns of :meth:`coordinates`."""
        n_columns, n_directions = self.directions.shape
        centre = np.append(self.centre, 0.0)
        n_own = len(variances) - len(self.neighbourhood_variances)
        deviations = np.sqrt(variances[:n_directions])
        other_deviations = np.append(np.sqrt(variances[n_own:]), intercept)
        across = 0.0 if n_own == n_directions else float(np.sqrt(variances[n_directions]))
        deviations_across = np.append(np.full(n_columns, across), other_deviations)
        if n_directions == n_columns and (deviations == deviations[0]).all():
            deviations_across[:n_columns] = deviations[0]
            return Whitening.diagonal(deviations_across, centre)
        if n_directions == 0 or (deviations == across).all():
            return Whitening.diagonal(deviations_across, centre)
        if n_directions == n_columns:
            matrix = np.diag(deviations_across)
            matrix[:n_columns, :n_columns] = self.directions * deviations
            return Whitening(centre, np.ones(len(centre)), matrix, np.eye(len(centre)))
        others = np.zeros((len(other_deviations), n_directions))
        directions = np.vstack([self.directions, others])
        right = ((deviations - across) * directions).T
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
        deviations = scale * self._column_weight_deviations
        others = np.append(np.zeros_like(self.neighbourhood_variances), intercept)
        return Whitening.diagonal(np.append(deviations, others), np.append(self.centre, 0.0))

    def standardised(self, rows: Float[Array, "n W"]) -> Float[Array, "n D"]:
        """Rows (n, D) whitened by ``whitening_by_columns(1)``, without the intercept."""
        own = rows[:, : len(self.mean)]
        return np.asarray((own - self.mean) * self._column_weight_deviations)

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
