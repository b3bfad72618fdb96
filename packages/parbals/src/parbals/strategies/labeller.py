"""Labels that a partial batch might get: joint draws from a Gaussian posterior.

A universe is one draw of the weights, and its label of a row is drawn given them. The noise of a
label is keyed by the row itself, so a pool in another order gets the same labels. Functions take
NumPy arrays and, given JAX's module, JAX's; both give the same numbers.
"""

from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from parbals.arrays import exact_products
from parbals.posterior.closed.channels import Channels
from parbals.race import class_means
from parbals.randomness import derive_generator

__all__ = ["Labeller", "drawn_labels", "most_probable", "open_labeller", "row_key"]

_ROTATIONS = (13, 15, 26, 6), (17, 29, 16, 24)
_PARITY = 0x1BD11BDA


class Labeller(NamedTuple):
    """A draw of the weights for each universe, and what the noise of labels is derived from."""

    weights: Any  # (d, A, U)
    seed: Any  # (2,) words of 32 bits


def open_labeller(channels: Channels, n_universes: int, seed: int) -> Labeller:
    """A draw of the weights for each of ``n_universes``."""
    weights = channels.draw(derive_generator(seed, "universes"), n_universes)
    words = derive_generator(seed, "labels").integers(2**32, size=2, dtype=np.uint32)
    return Labeller(weights.astype(np.float32), words)


def row_key(row: Any, xp: ModuleType = np) -> Any:
    """Two words (2,) that tell one row (d,) from another."""
    bits, place = row.view(np.uint32), xp.arange(len(row), dtype=np.uint32)

    def word(odd: int) -> Any:
        mixed = (bits ^ (place * np.uint32(odd))) * np.uint32(0x9E3779B1)
        mixed = (mixed ^ (mixed >> 15)) * np.uint32(odd)
        return (mixed ^ (mixed >> 13)).sum(dtype=np.uint32)

    return xp.stack([word(0x85EBCA6B), word(0xC2B2AE35)])


def drawn_labels(labeller: Labeller, row: Any, row_key: Any, twin: Any, xp: ModuleType = np) -> Any:
    """(U,) a label of the row (d,) in every universe; equal rows have noise of their own."""
    key = xp.asarray(labeller.seed)
    for word in (row_key[0], row_key[1], twin):
        word = xp.asarray(word).astype(np.uint32).reshape(1)
        key = xp.concatenate(_threefry(key, xp.zeros_like(word), word))
    with exact_products(xp):
        logits = xp.einsum("d,dau->ua", row, labeller.weights)
    uniforms = _uniforms(key, len(logits), xp)[:, None]
    if logits.shape[1] == 1:
        return (uniforms < 0.5 + 0.5 * xp.tanh(0.5 * logits))[:, 0].astype(np.int32)
    likely = xp.exp(logits - logits.max(axis=1, keepdims=True))
    below = (likely / likely.sum(axis=1, keepdims=True)).cumsum(axis=1)
    return xp.minimum((below < uniforms).sum(axis=1), logits.shape[1] - 1)


def _uniforms(key: Any, n: int, xp: ModuleType) -> Any:
    """(n,) numbers in [0, 1): those of ``jax.random.uniform``."""
    places = xp.arange(n, dtype=np.uint32)
    one, other = _threefry(key, xp.zeros_like(places), places)
    bits = ((one ^ other) >> 9) | np.uint32(0x3F800000)
    return bits.view(np.float32) - 1.0


def _threefry(key: Any, one: Any, other: Any) -> tuple[Any, Any]:
    """Twenty rounds of Threefry (Salmon et al. 2011) on pairs of words."""
    words = key[:1], key[1:], key[:1] ^ key[1:] ^ np.uint32(_PARITY)
    one, other = one + words[0], other + words[1]
    for group in range(5):
        for turn in _ROTATIONS[group % 2]:
            one = one + other
            other = one ^ ((other << turn) | (other >> (32 - turn)))
        one = one + words[(group + 1) % 3]
        other = other + words[(group + 2) % 3] + np.uint32(group + 1)
    return one, other


def most_probable(mean: Any, variance: Any, xp: ModuleType = np) -> Any:
    """(1,) the likeliest label of a row with these moments (A,), for one universe."""
    if len(mean) == 1:
        return (mean > 0).astype(np.int32)
    return class_means(mean, variance, xp)[0].argmax(keepdims=True)
