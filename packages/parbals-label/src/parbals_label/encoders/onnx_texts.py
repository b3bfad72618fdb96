"""``onnx:FILE``: a text model in an ONNX file, by ONNX Runtime; no PyTorch.

The tokenizer, ``tokenizer.json``, stands in the file's folder or in the one above it, as exporters
of transformers and sentence-transformers write them. A row is the output ``sentence_embedding``
(B, D) if the model has one, and otherwise pooled from its last layer (B, T, D): the mean over
tokens, or what sentence-transformers says in ``1_Pooling/config.json``.

The file is read as a whole and cannot refer to other files. ONNX Runtime runs no code of a model.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from parbals.errors import InputError, first_line
from parbals.files import need

from parbals_label.encoders.base import Encoder, Entry, Kind, Options
from parbals_label.encoders.huggingface import configured_pooling
from parbals_label.encoders.onnx import (
    INPUTS,
    map_batches,
    mean_of_tokens,
    network_inputs,
    open_session,
)
from parbals_label.encoders.torch_models import file_digest

__all__ = ["ONNX", "OnnxTexts"]

_INSTALL = "onnxruntime tokenizers"
_TOKENIZER = "tokenizer.json"
_EMBEDDING = "sentence_embedding"


class OnnxTexts(Encoder):
    """A text model and its tokenizer.

    Args:
        path: the ONNX file.
    """

    kind: ClassVar[Kind] = "text"

    def __init__(self, path: Path) -> None:
        runtime, tokenizers = need("onnxruntime tokenizers", f"The encoder onnx:{path}", _INSTALL)
        self._path = path
        tokenizer_path = _tokenizer_path(path)
        self._pooling = configured_pooling(tokenizer_path.parent)
        self.model = f"{file_digest([path, tokenizer_path])} {self._pooling}"
        try:
            self._tokenizer: Any = tokenizers.Tokenizer.from_file(str(tokenizer_path))
        except Exception as error:  # of the parser, which raises no other class
            raise InputError(
                f"{tokenizer_path} is no tokenizer ({first_line(error)}); export the model again."
            ) from None
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(self._pooling.longest)
        try:
            self._session = open_session(runtime, path.read_bytes())
        except Exception as error:  # of ONNX Runtime, which has a class for each
            raise InputError(
                f"ONNX Runtime cannot load {path} ({first_line(error)}); weights must be in the "
                "file itself."
            ) from None
        self._inputs = [entry.name for entry in self._session.get_inputs()]
        if not {"input_ids"} <= set(self._inputs) <= set(INPUTS):
            raise InputError(
                f"{path} takes {', '.join(self._inputs)}; a text model takes input_ids, and may "
                "take attention_mask and token_type_ids."
            )
        self._output = _output_name(self._session, path)

    def prepare(self, item: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(item).ids
        return ids or [0]  # a tokenizer without special tokens makes nothing of an empty text

    def size(self, prepared: list[int]) -> int:
        return len(prepared)

    def encode(self, prepared: Sequence[list[int]]) -> np.ndarray:
        try:
            return map_batches(self._forward, prepared)
        except Exception as error:  # of ONNX Runtime, or rows that do not fit together
            raise InputError(
                f"{self._path} cannot encode texts ({first_line(error)}); does the tokenizer "
                "belong to the model?"
            ) from None

    def _forward(self, texts: Sequence[list[int]]) -> np.ndarray:
        """Rows (B, D) of one batch of tokenized texts."""
        inputs = network_inputs(texts)
        (states,) = self._session.run([self._output], {name: inputs[name] for name in self._inputs})
        rows = np.asarray(states, np.float32)
        if rows.ndim == 2:
            return rows
        if self._pooling.kind == "cls":
            rows = rows[:, 0]
        else:
            rows = mean_of_tokens(rows, inputs["attention_mask"])
        if self._pooling.normalise:
            rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        return rows


def _tokenizer_path(path: Path) -> Path:
    """The tokenizer of a model file."""
    if not path.is_file():
        raise InputError(f"There is no file {path}; write onnx:FILE.")
    for folder in (path.parent, path.parent.parent):
        if (folder / _TOKENIZER).is_file():
            return folder / _TOKENIZER
    raise InputError(
        f"There is no {_TOKENIZER} beside {path} or in the folder above it; copy the one that "
        "belongs to the model there."
    )


def _output_name(session: Any, path: Path) -> str:
    """The output to read rows from: of whole texts by name, else of tokens, else of whole texts."""
    n_axes = {str(output.name): len(output.shape) for output in session.get_outputs()}
    if n_axes.get(_EMBEDDING) == 2:
        return _EMBEDDING
    for wanted in (3, 2):
        for name, n in n_axes.items():
            if n == wanted:
                return name
    raise InputError(
        f"{path} has no output with a row for each text or token, only {', '.join(n_axes)}; export "
        "the model for feature extraction."
    )


def _load(name: str, options: Options) -> Encoder:
    return OnnxTexts(Path(name).expanduser())


ONNX = Entry(_load, "text")
