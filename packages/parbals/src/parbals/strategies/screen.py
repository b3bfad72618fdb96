"""The screen of :mod:`parbals.scores.gaussian` by matrix products, without a table of pairs.

Before the batch the covariances of a row with the targets are linear in its whitened coordinates z,
c = z H_a, and with weights w of the targets

    Σ w c² = z (H_a diag(w) H_aᵀ) zᵀ,

a quadratic form of as many coordinates as there are features, often fewer than targets.

In a universe the covariances of a row with the targets are c = c⁰ + κ B, c⁰ (M,) those before the
batch, B (R, M) those of the labelled points and κ = -bᵀW (:class:`~.gaussian_universes.Seen`), and

    Σ w c² = w·(c⁰)² + 2 κ·((w B) c⁰) + κ (B diag(w) Bᵀ) κᵀ,

in which c⁰ and its square are the same in all universes: no table of pairs is made in any of them.
"""

import numpy as np

from parbals.posterior.predictive import add_bias
from parbals.scores.gaussian import rough_gains, screening_gains
from parbals.strategies.gaussian_universes import Seen, Universes
from parbals.strategies.surface import Surface, look_at, screening_operations

__all__ = ["Screen", "StartScreen"]


class StartScreen:
    """What rows are compared by before the batch."""

    def __init__(self, surface: Surface) -> None:
        self._surface = surface
        weights = 0.5 * surface.share * screening_gains(surface.gains)
        seen = surface.roots @ surface.factor  # of z within the labelled rows (A, r, M)
        if not self._spans():
            seen = surface.target.across.T + surface.basis @ seen
        self._forms = (seen * weights[:, None]) @ seen.swapaxes(1, 2)

    @staticmethod
    def pays(surface: Surface) -> bool:
        """Whether it is faster than by pairs."""
        n_columns, n_inside = surface.basis.shape
        sizes = n_columns, n_inside, len(surface.roots), len(surface.share)
        by_pairs, by_form = screening_operations(*sizes)
        return by_form < by_pairs

    def _spans(self) -> bool:
        return self._surface.target.across.shape[1] == 0

    def of(self, features: np.ndarray) -> np.ndarray:
        """(n,) of rows of features (n, D)."""
        rows, _ = look_at(self._surface, add_bias(features, np.float32))
        z = rows.inside if self._spans() else rows.across + rows.inside @ self._surface.basis.T
        own = screening_gains(rough_gains(rows.mean, rows.variance))
        sums = [((z @ form) * z).sum(axis=1) for form in self._forms]
        return np.asarray((own * np.maximum(sums, 0.0)).sum(axis=0))


class Screen:
    """What a step compares rows by; the targets have shares (M,)."""

    def __init__(self, universes: Universes, share: np.ndarray) -> None:
        self._weights = 0.5 * share * screening_gains(universes.target_gains)  # w (A, U, M)
        labelled = universes.at_targets[:, None, : universes.n_labels]  # B (A, 1, R, M)
        self._pulled = self._weights[:, :, None] * labelled  # w B (A, U, R, M)
        self._known = self._pulled @ labelled.swapaxes(2, 3)  # (A, U, R, R)

    def of_channel(self, channel: int, seen: Seen, gains: np.ndarray, rows: slice) -> np.ndarray:
        """(U, s) what a channel adds to the values of some rows; gains (A, U, n) of all."""
        before, known = seen.parts[0][channel, rows], seen.parts[1][channel, :, rows]
        sums = self._weights[channel] @ np.square(before).T
        n_universes, n_labels, _ = self._known[channel].shape
        if n_labels:
            known = known[..., :n_labels]
            pulled = self._pulled[channel].reshape(n_universes * n_labels, -1)
            crossed = (pulled @ before.T).reshape(n_universes, n_labels, -1).swapaxes(1, 2)
            sums += (known * (2.0 * crossed + known @ self._known[channel])).sum(axis=2)
        return np.asarray(gains[channel, :, rows] * np.maximum(sums, 0.0))
