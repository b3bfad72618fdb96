"""The prior as a linear map: rows are whitened at the door, and all weights are then N(0, I).

With design rows x̃ = (x, 1), a centre μ of the features and a matrix T (d, d)

    z = (x̃ - (μ, 0)) T,        f = z·v = x̃·w,        v ~ N(0, I),

so a class has weights w = T v, of covariance T Tᵀ, for features that are counted from μ.

How the features of a pool vary suggests priors (:class:`PoolMoments`). With mean μ and principal
directions u_j of variance λ_j, shares r_j = λ_j / Σλ, the weights of a class are independent along
the directions, with variances

    s² r_j^α / (Σλ Σ_k r_k^(1+α)),        α = 0, ½, 1, 2,

or, with standardised columns, s² / (D variance_j) in every column j. Both give w·(x - μ) the
variance s² over the pool, whatever the units of the features: s is a scale of logits.
"""

from typing import NamedTuple

import numpy as np

from parbals.shapes import Array, Bool, Float

__all__ = ["INTERCEPT", "POWERS", "PoolMoments", "Whitening"]


class Whitening(NamedTuple):
    """T is ``left`` where that is square, else diag(deviations) + left right, q columns and rows.

    Methods take NumPy arrays and, held by JAX arrays, JAX's.
    """

    centre: Float[Array, " d"]  # the last entry 0
    deviations: Float[Array, " d"]
    left: Float[Array, "d q"]
    right: Float[Array, "q d"]

    @classmethod
    def diagonal(
        cls, deviations: Float[Array, " d"], centre: Float[Array, " d"] | None = None
    ) -> "Whitening":
        """Independent weights with these deviations (d,)."""
        n_columns = len(deviations)
        none = np.zeros((n_columns, 0))
        return cls(np.zeros(n_columns) if centre is None else centre, deviations, none, none.T)

    @property
    def is_whole(self) -> bool:
        n_columns, n_directions = self.left.shape
        return bool(n_columns == n_directions)

    def rows(self, X: Float[Array, "N d"]) -> Float[Array, "N d"]:
        """z (N, d) of design rows X (N, d); rows of zeros, which pad, stay zeros."""
        shifted = self.shifted(X)
        if self.is_whole:
            return shifted @ self.left
        if self.left.shape[1] == 0:
            return shifted * self.deviations
        return shifted * self.deviations + (shifted @ self.left) @ self.right

    def shifted(self, X: Float[Array, "N d"]) -> Float[Array, "N d"]:
        """Design rows X (N, d) counted from the centre."""
        return (X - X[:, -1:] * self.centre).astype(self.left.dtype, copy=False)

    def coloured(self, v: Float[Array, "d *more"]) -> Float[Array, "d *more"]:
        """T v (d, ...) of whitened weights v (d, ...), for design rows counted from the centre."""
        if self.is_whole:
            return np.tensordot(self.left, v, axes=1)
        w = self.deviations.reshape(-1, *[1] * (v.ndim - 1)) * v
        return np.asarray(w + np.tensordot(self.left, np.tensordot(self.right, v, axes=1), axes=1))

    def weights(self, v: Float[Array, "d *more"]) -> Float[Array, "d *more"]:
        """The same for design rows as they are."""
        w = self.coloured(v)
        w[-1] -= np.tensordot(self.centre, w, axes=1)
        return w

    def single(self) -> "Whitening":
        """The same in single precision, but for the centre: features may lie far from zero."""
        parts = (self.deviations, self.left, self.right)
        return Whitening(self.centre, *(np.asarray(x, np.float32) for x in parts))

    def times(self, factor: float) -> "Whitening":
        """The same prior with all deviations ``factor`` times as large."""
        right = self.right if self.is_whole else factor * self.right
        left = factor * self.left if self.is_whole else self.left
        return Whitening(self.centre, factor * self.deviations, left, right)


POWERS = (0.0, 0.5, 1.0, 2.0)
INTERCEPT = 2.0
"""Deviation of a class's intercept."""
_MOST_DIRECTIONS = 512
_LEAST = 1e-12  # of the largest variance: below it a direction does not vary
_ROUNDING = 1e-12  # of a column's mean: below it a deviation is none
_OTHER_UNITS = 100.0
"""Deviations of columns of one kind, such as an encoder's, seldom differ by such a factor."""


class PoolMoments(NamedTuple):
    """Mean, variances and principal directions of rows (m, D); q ≤ 512 directions.

    What lies across the directions is taken to have the same variance everywhere.
    """

    mean: Float[Array, " D"]
    column_variances: Float[Array, " D"]
    directions: Float[Array, "D q"]  # orthonormal
    shares: Float[Array, " q"]  # r
    share_across: float  # of each of the D - q others
    total: float  # Σλ

    @classmethod
    def of(cls, rows: Float[Array, "m D"]) -> "PoolMoments":
        """From the rows; of very wide ones, directions from a thousand of them."""
        rows = np.ascontiguousarray(rows, np.float64)  # columns would be summed in another order
        n_columns = rows.shape[1]
        mean, column_variances = rows.mean(axis=0), rows.var(axis=0)
        total = float(column_variances.sum())
        if not _is_varying(mean, column_variances).any():  # one row, or rows that are all alike
            total = float(np.square(mean).sum()) or 1.0
            shares = np.full(n_columns, 1.0 / n_columns)
            return cls(mean, total * shares, np.zeros((n_columns, 0)), shares[:0], shares[0], total)
        directions, variances = _principal(rows - mean)
        shares = np.maximum(variances, 0.0) / total
        n_across = n_columns - len(shares)
        across = max(1.0 - float(shares.sum()), 0.0) / n_across if n_across else 0.0
        return cls(mean, column_variances, directions, shares, across, total)

    @classmethod
    def unknown(cls, n_columns: int) -> "PoolMoments":
        """Before any row: centred features of unit deviation."""
        ones = np.ones(n_columns)
        nothing = np.zeros((n_columns, 0))
        return cls(0.0 * ones, ones, nothing, ones[:0], 1.0 / n_columns, float(n_columns))

    def by_power(self, power: float) -> tuple[Float[Array, " q"], float]:
        """Variances (q,) along the directions and across them, for s = 1."""
        n_across = len(self.mean) - len(self.shares)
        size = np.sum(self.shares ** (1.0 + power)) + n_across * self.share_across ** (1.0 + power)
        unit = 1.0 / (self.total * size)
        return unit * self.shares**power, float(unit * self.share_across**power)

    def coordinates(self, rows: Float[Array, "n D"]) -> Float[Array, "n p"]:
        """Rows (n, D), counted from the mean, along the directions and what is left: q or q + D."""
        centred = rows - self.mean
        along = centred @ self.directions
        if len(self.shares) == len(self.mean):
            return np.asarray(along)
        return np.concatenate([along, centred - along @ self.directions.T], axis=1)

    def in_coordinates(self, variances: Float[Array, " q"], across: float) -> Float[Array, " p"]:
        """Variances of the weights of ``coordinates``."""
        n_others = 0 if len(self.shares) == len(self.mean) else len(self.mean)
        return np.append(variances, np.full(n_others, across))

    def along_directions(
        self, variances: Float[Array, " q"], across: float, intercept: float = INTERCEPT
    ) -> Whitening:
        """The prior with these variances (q,) along the directions, and the other across them."""
        n_columns, n_directions = self.directions.shape
        centre, deviations = np.append(self.mean, 0.0), np.sqrt(variances)
        if n_directions == 0 or (deviations == np.sqrt(across)).all():
            return Whitening.diagonal(np.append(np.full(n_columns, across**0.5), intercept), centre)
        if n_directions == n_columns:
            whole = np.zeros((n_columns + 1, n_columns + 1))
            whole[:-1, :-1] = self.directions * deviations
            whole[-1, -1] = intercept
            return Whitening(centre, np.ones(n_columns + 1), whole, np.eye(n_columns + 1))
        directions = np.vstack([self.directions, np.zeros(n_directions)])
        rest = np.append(np.full(n_columns, across**0.5), intercept)
        return Whitening(centre, rest, directions, ((deviations - across**0.5) * directions).T)

    @property
    def has_units(self) -> bool:
        """Whether columns vary so differently that they must be in units of their own."""
        variances = self.column_variances[self._varies]
        return len(variances) > 1 and bool(variances.max() > _OTHER_UNITS**2 * variances.min())

    @property
    def _varies(self) -> Bool[Array, " D"]:
        return _is_varying(self.mean, self.column_variances)

    def by_columns(self, scale: float, intercept: float = INTERCEPT) -> Whitening:
        """The prior of standardised columns; one that does not vary has weight 0."""
        deviations = np.append(scale * self._of_columns, intercept)
        return Whitening.diagonal(deviations, np.append(self.mean, 0.0))

    def standardised(self, rows: Float[Array, "n D"]) -> Float[Array, "n D"]:
        """Rows (n, D) whitened by ``by_columns(1)``, without the intercept."""
        return np.asarray((rows - self.mean) * self._of_columns)

    @property
    def _of_columns(self) -> Float[Array, " D"]:
        """Deviations of the columns' weights, for s = 1."""
        varies = self._varies
        return np.asarray(
            1.0 / np.sqrt(np.where(varies, self.column_variances, np.inf) * max(varies.sum(), 1))
        )


def _is_varying(mean: Float[Array, " D"], variances: Float[Array, " D"]) -> Bool[Array, " D"]:
    """Which columns vary by more than rounding, each by its own mean: units may be any."""
    return np.asarray(variances > np.square(_ROUNDING * mean))


def _principal(centred: Float[Array, "m D"]) -> tuple[Float[Array, "D q"], Float[Array, " q"]]:
    """Orthonormal directions (D, q) of centred rows and their variances (q,)."""
    n_rows, n_columns = centred.shape
    if n_columns <= _MOST_DIRECTIONS:
        variances, directions = np.linalg.eigh(centred.T @ centred / n_rows)
        return directions, variances
    some = centred[:: -(-n_rows // (2 * _MOST_DIRECTIONS))]
    variances, left = np.linalg.eigh(some @ some.T / len(some))
    kept = np.flatnonzero(variances > _LEAST * variances[-1])[-_MOST_DIRECTIONS:]
    variances = variances[kept]
    return some.T @ left[:, kept] / np.sqrt(len(some) * variances), variances
