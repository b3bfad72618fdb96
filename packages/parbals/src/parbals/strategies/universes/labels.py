"""Labels that a partial batch might get, in every universe: joint draws, or the likeliest ones.

A universe is one draw of the weights, and its label of a row is drawn given them. The noise of a
label is keyed by the row itself, so a pool in another order gets the same labels; a row that equals
an earlier one has noise of its own.
"""

from typing import Protocol, runtime_checkable

import numpy as np

from parbals.posterior.closed.channels import Channels
from parbals.race import class_means
from parbals.randomness import derive_generator
from parbals.shapes import Array, Float, Int, UInt32
from parbals.strategies.surface import Surface, rows_of

__all__ = ["DrawnLabels", "Labels", "LikeliestLabels", "row_key"]

_ROTATIONS = (13, 15, 26, 6), (17, 29, 16, 24)
_PARITY = np.uint32(0x1BD11BDA)

Words = UInt32[Array, " 2"]


@runtime_checkable
class Labels(Protocol):
    """How universes label rows."""

    n_universes: int

    def of(self, row: Float[Array, " d"]) -> Int[Array, " U"]:
        """A label of a design row in every universe."""


class DrawnLabels:
    """A draw of the weights for each of ``n_universes``, and labels drawn given it."""

    def __init__(self, channels: Channels, n_universes: int, seed: int) -> None:
        weights = channels.draw(derive_generator(seed, "universes"), n_universes)
        self._weights: Float[Array, "d A U"] = weights.astype(np.float32)
        self._seed = derive_generator(seed, "labels").integers(2**32, size=2, dtype=np.uint32)
        self._labelled = list[bytes]()
        self.n_universes = n_universes

    def of(self, row: Float[Array, " d"]) -> Int[Array, " U"]:
        key = row_key(row)
        twin = self._labelled.count(key.tobytes())  # rows before that are equal
        self._labelled.append(key.tobytes())
        noise = self._seed
        for word in (*key, twin):
            words = np.array([0, word], np.uint32)
            noise = np.concatenate(_threefry(noise, words[:1], words[1:]))
        logits = np.einsum("d,dau->ua", row, self._weights)
        uniforms = _uniforms(noise, self.n_universes)[:, None]
        if logits.shape[1] == 1:
            return (uniforms < 0.5 + 0.5 * np.tanh(0.5 * logits))[:, 0].astype(np.int32)
        likely = np.exp(logits - logits.max(axis=1, keepdims=True))
        below = (likely / likely.sum(axis=1, keepdims=True)).cumsum(axis=1)
        return np.minimum((below < uniforms).sum(axis=1), logits.shape[1] - 1)


class LikeliestLabels:
    """One universe, in which every row has its most probable label before the batch."""

    n_universes = 1

    def __init__(self, surface: Surface) -> None:
        self._surface = surface

    def of(self, row: Float[Array, " d"]) -> Int[Array, " 1"]:
        rows = rows_of(self._surface, row[None])
        mean, variance = rows.mean[:, 0], rows.variance[:, 0]
        if len(mean) == 1:
            return (mean > 0).astype(np.int32)
        return class_means(mean, variance)[0].argmax(axis=0, keepdims=True)


def row_key(row: Float[Array, " d"]) -> Words:
    """Two words that tell one row from another."""
    bits, place = row.view(np.uint32), np.arange(len(row), dtype=np.uint32)

    def word(odd: int) -> np.uint32:
        mixed: np.ndarray = (bits ^ (place * np.uint32(odd))) * np.uint32(0x9E3779B1)
        mixed = (mixed ^ (mixed >> 15)) * np.uint32(odd)
        return (mixed ^ (mixed >> 13)).sum(dtype=np.uint32)

    return np.stack([word(0x85EBCA6B), word(0xC2B2AE35)])


def _uniforms(key: Words, n: int) -> Float[Array, " n"]:
    """Numbers in [0, 1): those of ``jax.random.uniform``."""
    places = np.arange(n, dtype=np.uint32)
    one, other = _threefry(key, np.zeros_like(places), places)
    bits = ((one ^ other) >> 9) | np.uint32(0x3F800000)
    return bits.view(np.float32) - 1.0


def _threefry(
    key: Words, one: UInt32[Array, " n"], other: UInt32[Array, " n"]
) -> tuple[UInt32[Array, " n"], UInt32[Array, " n"]]:
    """Twenty rounds of Threefry (Salmon et al. 2011) on pairs of words."""
    words = key[:1], key[1:], key[:1] ^ key[1:] ^ _PARITY
    one, other = one + words[0], other + words[1]
    for group in range(5):
        for turn in _ROTATIONS[group % 2]:
            one = one + other
            other = one ^ ((other << turn) | (other >> (32 - turn)))
        one = one + words[(group + 1) % 3]
        other = other + words[(group + 2) % 3] + np.uint32(group + 1)
    return one, other
