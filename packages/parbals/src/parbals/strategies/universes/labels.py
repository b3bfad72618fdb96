"""Pseudo-labels of the partial batch in every universe: joint draws, or the most probable classes.

A universe is one draw of the weights, and its label of a row is drawn given them. The noise of a
label is keyed by the row itself, so a reordered pool gets the same labels. A row that equals an
earlier one has independent noise.
"""

from collections import Counter

import numpy as np

from parbals.posterior.closed.latents import Latents
from parbals.race import class_probs
from parbals.randomness import content_gumbels, derive_generator
from parbals.shapes import Array, Float, Int
from parbals.strategies.scoring import ScoringContext, project_design

__all__ = ["DrawnLabels", "KeyedNoise", "Labels", "MostProbableLabels", "class_keys"]


class KeyedNoise:
    """Gumbel-max sampling with keyed noise: argmax(ln p + noise) has distribution p."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._n_draws = Counter[tuple[bytes, ...]]()

    def label(self, logits: Float[Array, "U C"], keys: list[bytes]) -> Int[Array, " U"]:
        """Draw a label in every universe.

        Args:
            logits: ln p up to a constant.
            keys: what the noise of each class depends on. Repeated keys belong to another point
                with the same content, which gets independent noise.
        """
        point = tuple(sorted(keys))
        gumbels = content_gumbels(self._seed, keys, self._n_draws[point], len(logits))
        self._n_draws[point] += 1
        return np.argmax(logits + gumbels.T, axis=1)


def class_keys(row: Float[Array, " d"], n_classes: int) -> list[bytes]:
    """Keys of the noise of a row: one for each class."""
    return [row.tobytes() + number.to_bytes(4, "little") for number in range(n_classes)]


class DrawnLabels:
    """Labels drawn from the posterior: one draw of the weights for each universe."""

    def __init__(self, latents: Latents, n_universes: int, seed: int) -> None:
        weights = latents.draw(derive_generator(seed, "universes"), n_universes)
        self._weights: Float[Array, "d A U"] = weights.astype(np.float32)
        self._noise = KeyedNoise(seed)
        self.n_universes = n_universes

    def label(self, row: Float[Array, " d"]) -> Int[Array, " U"]:
        """The label of a design row in every universe."""
        logits = np.einsum("d,dau->ua", row, self._weights)
        if logits.shape[1] == 1:  # two classes: the logit of the first is zero
            logits = np.pad(logits, ((0, 0), (1, 0)))
        return self._noise.label(logits, class_keys(row, logits.shape[1]))


class MostProbableLabels:
    """One universe in which every row has its most probable class before the batch (MAP)."""

    n_universes = 1

    def __init__(self, context: ScoringContext) -> None:
        self._context = context

    def label(self, row: Float[Array, " d"]) -> Int[Array, " 1"]:
        """The label of a design row."""
        rows = project_design(self._context, row[None])
        if len(rows.mean) == 1:
            return (rows.mean[0] > 0).astype(np.int32)
        return class_probs(rows.mean, rows.variance).argmax(axis=0)


Labels = DrawnLabels | MostProbableLabels
