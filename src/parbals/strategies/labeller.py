"""Labels that a partial batch might get: joint draws from a Gaussian posterior, inside a program.

A universe is one draw of the weights, and its label of a row is drawn given them. The noise of a
label is keyed by the row itself, so a pool in another order gets the same labels.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from parbals.posterior.channels import Channels
from parbals.race import class_means
from parbals.randomness import derive_generator

__all__ = ["Labeller", "drawn_labels", "most_probable", "open_labeller", "row_key"]


class Labeller(NamedTuple):
    """A draw of the weights for each universe, and what the noise of labels is derived from."""

    weights: Float[Array, "d A U"]
    seed: Int[Array, " 2"]


def open_labeller(channels: Channels, n_universes: int, seed: int) -> Labeller:
    """A draw of the weights for each of ``n_universes``."""
    weights = channels.draw(derive_generator(seed, "universes"), n_universes)
    words = derive_generator(seed, "labels").integers(2**32, size=2, dtype=np.uint32)
    return Labeller(jax.device_put(weights.astype(np.float32)), jax.device_put(words))


def row_key(row: Float[Array, " d"]) -> Int[Array, " 2"]:
    """Two words that tell one row from another."""
    bits = jax.lax.bitcast_convert_type(row, jnp.uint32)
    place = jnp.arange(len(row), dtype=jnp.uint32)

    def word(odd: int) -> Array:
        mixed = (bits ^ (place * jnp.uint32(odd))) * jnp.uint32(0x9E3779B1)
        mixed = (mixed ^ (mixed >> 15)) * jnp.uint32(odd)
        return (mixed ^ (mixed >> 13)).sum(dtype=jnp.uint32)

    return jnp.stack([word(0x85EBCA6B), word(0xC2B2AE35)])


def drawn_labels(
    labeller: Labeller, row: Float[Array, " d"], row_key: Int[Array, " 2"], twin: Array
) -> Int[Array, " U"]:
    """A label of the row in every universe; equal rows have noise of their own."""
    key = jax.random.wrap_key_data(labeller.seed)
    for word in (row_key[0], row_key[1], twin):
        key = jax.random.fold_in(key, word)
    logits = jnp.einsum("d,dau->ua", row, labeller.weights, precision=jax.lax.Precision.HIGHEST)
    uniforms = jax.random.uniform(key, (len(logits), 1))
    if logits.shape[1] == 1:
        return (uniforms < jax.nn.sigmoid(logits))[:, 0].astype(jnp.int32)
    below = jax.nn.softmax(logits, axis=1).cumsum(axis=1)
    return jnp.minimum((below < uniforms).sum(axis=1), logits.shape[1] - 1)


def most_probable(mean: Float[Array, " A"], variance: Float[Array, " A"]) -> Int[Array, " 1"]:
    """The label of a row that is likeliest, for one universe."""
    if len(mean) == 1:
        return (mean > 0).astype(jnp.int32)
    return class_means(mean, variance, jnp)[0].argmax(keepdims=True)
