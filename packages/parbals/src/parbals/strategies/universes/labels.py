"""Labels that a partial batch might get, in every universe: joint draws, or the likeliest ones.

A universe is one draw of the weights, and its label of a row is drawn given them. The noise of a
label is keyed by the row itself, so a pool in another order gets the same labels; a row that equals
an earlier one has noise of its own.
"""

from collections import Counter

import numpy as np

from parbals.posterior.closed.latents import Latents
from parbals.race import class_probs
from parbals.randomness import content_gumbels, derive_generator
from parbals.shapes import Array, Float, Int
from parbals.strategies.surface import Surface, rows_of

__all__ = ["DrawnLabels", "KeyedNoise", "Labels", "LikeliestLabels", "class_keys"]


class KeyedNoise:
    """Labels drawn by Gumbel noise: the class of the largest ln p + noise has probability p."""

    def __init__(self, seed: int) -> None:
        self._seed, self._drawn = seed, Counter[tuple[bytes, ...]]()

    def label(self, logits: Float[Array, "U C"], keys: list[bytes]) -> Int[Array, " U"]:
        """A label in every universe, given ln p up to a constant and what each class is keyed by.

        The same keys again are a point that equals an earlier one.
        """
        point = tuple(sorted(keys))
        gumbels = content_gumbels(self._seed, keys, self._drawn[point], len(logits))
        self._drawn[point] += 1
        return np.argmax(logits + gumbels.T, axis=1)


def class_keys(row: Float[Array, " d"], n_classes: int) -> list[bytes]:
    """What the noise of each class of a row is keyed by."""
    return [row.tobytes() + number.to_bytes(4, "little") for number in range(n_classes)]


class DrawnLabels:
    """A draw of the weights for each of ``n_universes``, and labels drawn given it."""

    def __init__(self, latents: Latents, n_universes: int, seed: int) -> None:
        weights = latents.draw(derive_generator(seed, "universes"), n_universes)
        self._weights: Float[Array, "d A U"] = weights.astype(np.float32)
        self._noise, self.n_universes = KeyedNoise(seed), n_universes

    def of(self, row: Float[Array, " d"]) -> Int[Array, " U"]:
        """A label of a design row in every universe."""
        logits = np.einsum("d,dau->ua", row, self._weights)
        if logits.shape[1] == 1:
            logits = np.pad(logits, ((0, 0), (1, 0)))  # the first class's is zero
        return self._noise.label(logits, class_keys(row, logits.shape[1]))


class LikeliestLabels:
    """One universe, in which every row has its most probable label before the batch."""

    n_universes = 1

    def __init__(self, surface: Surface) -> None:
        self._surface = surface

    def of(self, row: Float[Array, " d"]) -> Int[Array, " 1"]:
        rows = rows_of(self._surface, row[None])
        if len(rows.mean) == 1:
            return (rows.mean[0] > 0).astype(np.int32)
        return class_probs(rows.mean, rows.variance).argmax(axis=0)


Labels = DrawnLabels | LikeliestLabels
