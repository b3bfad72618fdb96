"""The screen of :mod:`parbals.scores.gaussian` in many universes at once, by matrix products.

In a universe the covariances of a row with the targets are c = c⁰ + κ B, c⁰ (M,) those before the
batch, B (R, M) those of the labelled points and κ = -bᵀW (:class:`~.gaussian_universes.Seen`). With
weights w of the targets

    Σ w c² = w·(c⁰)² + 2 κ·((w B) c⁰) + κ (B diag(w) Bᵀ) κᵀ,

in which c⁰ and its square are the same in all universes: no table of pairs is made in any of them.
"""

import numpy as np

from parbals.scores.gaussian import screening_gains
from parbals.strategies.gaussian_universes import Seen, Universes

__all__ = ["Screen"]


class Screen:
    """What a step compares rows by; the targets have shares (M,)."""

    def __init__(self, universes: Universes, share: np.ndarray) -> None:
        self._weights = 0.5 * share * screening_gains(universes.target_gains)
        self._labelled = universes.at_targets[:, : universes.n_labels]  # B (A, R, M)
        self._known = np.stack(
            [self._pulled(a) @ B.T for a, B in enumerate(self._labelled)]
        )  # (A, U, R, R)

    def _pulled(self, channel: int) -> np.ndarray:
        """w B (U, R, M)."""
        return np.asarray(self._weights[channel][:, None] * self._labelled[channel])

    def of_channel(self, channel: int, seen: Seen, gains: np.ndarray, rows: slice) -> np.ndarray:
        """(U, s) what a channel adds to the values of some rows; gains (A, U, n) of all."""
        before, known = seen.parts[0][channel, rows], seen.parts[1][channel, :, rows]
        sums = self._weights[channel] @ np.square(before).T
        n_universes, n_labels, _ = self._known[channel].shape
        if n_labels:
            known = known[..., :n_labels]
            pulled = self._pulled(channel).reshape(n_universes * n_labels, -1)
            crossed = (pulled @ before.T).reshape(n_universes, n_labels, -1).swapaxes(1, 2)
            sums += (known * (2.0 * crossed + known @ self._known[channel])).sum(axis=2)
        return np.asarray(gains[channel, :, rows] * np.maximum(sums, 0.0))
