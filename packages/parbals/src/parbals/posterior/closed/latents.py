"""Independent Gaussian weight vectors that share a prior: what every score in closed form needs.

In whitened coordinates the prior of every latent is N(0, I). With a basis B (d, r) of the whitened
labelled rows, latent a has mean B m_a and covariance

    I + B (R_a R_aᵀ - I) Bᵀ,

R_a (r, r) the root of the posterior within the rows: across them the posterior is the prior. So
D > n costs no more than D = n, in time and memory. Two classes have one latent, the difference of
their logits; C > 2 classes have C, their logits.

Labels see the weights through the rows alone, so across the rows the posterior is the prior and
independent of what lies within (:class:`RowSpace`): exact, and with 3,072 features and 30 labels a
hundredth of the work.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from parbals.posterior.closed.whitening import Whitening
from parbals.shapes import Array, Float

__all__ = ["Latents", "RowSpace", "SingleLatent", "row_space"]


class RowSpace(NamedTuple):
    """The span of an orthonormal basis Q (d, r), or the whole space of d dimensions."""

    basis: Float[Array, "d r"] | None = None

    def matrix(self, n_columns: int) -> Float[Array, "d r"]:
        """Q (d, r), for d columns."""
        return np.eye(n_columns) if self.basis is None else self.basis

    def rows(self, X: Float[Array, "n d"]) -> Float[Array, "n r"]:
        """X Q (n, r): coordinates of rows (n, d)."""
        return X if self.basis is None else X @ self.basis

    def coordinates(self, vectors: Float[Array, "d *more"]) -> Float[Array, "r *more"]:
        """Qᵀ v (r, ...) of vectors v (d, ...)."""
        return vectors if self.basis is None else np.tensordot(self.basis.T, vectors, axes=1)

    def replace(
        self, vectors: Float[Array, "d *more"], coordinates: Float[Array, "r *more"]
    ) -> Float[Array, "d *more"]:
        """v + Q (c - Qᵀ v) (d, ...): new coordinates within, unchanged across."""
        if self.basis is None:
            return coordinates
        inside = coordinates - self.coordinates(vectors)
        return vectors + np.tensordot(self.basis, inside, axes=1)


def row_space(X: Float[Array, "n d"]) -> RowSpace:
    """The n dimensions that hold rows X (n, d); the whole space if d ≤ n."""
    n_rows, n_columns = X.shape
    if n_rows >= n_columns:
        return RowSpace()
    # A copy: products of the basis round in an order that follows the rows' layout in memory.
    return RowSpace(np.linalg.qr(np.array(X.T, order="C"))[0])  # orthonormal, whatever the rank


@dataclass(frozen=True)
class Latents:
    """A Gaussian weight vectors of d coordinates each; methods take design rows (N, d)."""

    whitening: Whitening
    basis: Float[Array, "d r"]  # B
    location: Float[Array, "r A"]  # m
    roots: Float[Array, "A r r"]  # R

    @property
    def mean(self) -> Float[Array, "d A"]:
        """(d, A) posterior means of the weights: E[f_a] = x·mean_a."""
        return self.whitening.weights(self.basis @ self.location)

    def marginals(self, X: Float[Array, "N d"]) -> tuple[Float[Array, "N A"], Float[Array, "N A"]]:
        """Mean and variance (N, A) of f_a at design rows X (N, d)."""
        whitened = self.whitening.rows(X)
        inside = whitened @ self.basis
        prior = np.square(whitened).sum(axis=1) - np.square(inside).sum(axis=1)
        posterior = np.square(inside @ self.roots).sum(axis=2).T
        return inside @ self.location, np.maximum(prior, 0.0)[:, None] + posterior

    def quick_marginals(
        self, X: Float[Array, "N d"]
    ) -> tuple[Float[Array, "N A"], Float[Array, "N A"]]:
        """The same in single precision, for many rows.

        Both are known to about 1e-6 of the prior's deviation: the centre is taken off in double.
        """
        whitening, basis, location, factors = self._single
        shifted = whitening.shifted(X)
        looked = shifted @ factors
        variance = np.einsum("anr,anr->na", looked, looked)
        if basis.shape[1] < len(basis):
            whitened = whitening.rows(X)
            prior = np.square(whitened).sum(axis=1) - np.square(whitened @ basis).sum(axis=1)
            variance += np.maximum(prior, 0.0)[:, None]
        return shifted @ location, variance

    @cached_property
    def _single(
        self,
    ) -> tuple[Whitening, Float[Array, "d r"], Float[Array, "d A"], Float[Array, "A d r"]]:
        """Whitening, B, T B m (d, A) and T B R_a (A, d, r)."""
        inside = self.whitening.coloured(self.basis)
        parts = self.basis, inside @ self.location, inside @ self.roots
        basis, location, factors = (x.astype(np.float32) for x in parts)
        return self.whitening.single(), basis, location, factors

    def draw(self, generator: np.random.Generator, n_samples: int) -> Float[Array, "d A K"]:
        """(d, A, K) independent draws of the weights."""
        return self.whitening.weights(self.draw_whitened(generator, n_samples))

    def draw_whitened(
        self, generator: np.random.Generator, n_samples: int
    ) -> Float[Array, "d A K"]:
        """(d, A, K) independent draws of the whitened weights."""
        (n_columns, _), n_latents = self.basis.shape, len(self.roots)
        noise = generator.standard_normal((n_latents, n_columns, n_samples))
        inside = self.basis.T @ noise
        learnt = self.roots @ inside - inside + self.location.T[:, :, None]
        return (noise + self.basis @ learnt).transpose(1, 0, 2)


class SingleLatent:
    """What posteriors of a single f have in common."""

    latents: Latents

    def marginals(self, X: Float[Array, "N d"]) -> tuple[Float[Array, " N"], Float[Array, " N"]]:
        """Mean and variance (N,) of f at design rows X (N, d)."""
        mean, variance = self.latents.marginals(X)
        return mean[:, 0], variance[:, 0]
