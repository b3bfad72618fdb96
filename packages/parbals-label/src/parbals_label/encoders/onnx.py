"""Text networks in ONNX files: one thread computes one small batch of tokenized texts."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = ["INPUTS", "map_batches", "mean_of_tokens", "network_inputs", "open_session"]

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
"""Names of the inputs that exporters give to networks of texts."""
_BATCH_TEXTS = 4
"""Texts of a batch: 2 to 8 take least CPU time for each text (studies/speed/embedding)."""


def open_session(runtime: Any, content: bytes) -> Any:
    """A session of ONNX Runtime, the module ``runtime``, that uses one thread for each call."""
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1  # batches run in parallel instead
    options.inter_op_num_threads = 1
    options.log_severity_level = 4  # what is wrong is raised as an error
    return runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def map_batches(
    forward: Callable[[Sequence[list[int]]], np.ndarray], texts: Sequence[list[int]]
) -> np.ndarray:
    """Rows (N, D) of tokenized texts, in batches that all cores share.

    >>> map_batches(lambda batch: np.array([[sum(text)] for text in batch]), [[1], [2, 3]]).tolist()
    [[1], [5]]
    """
    from concurrent.futures import ThreadPoolExecutor

    n_threads = os.cpu_count() or 1
    size = min(_BATCH_TEXTS, -(-len(texts) // n_threads))
    batches = [texts[start : start + size] for start in range(0, len(texts), size)]
    with ThreadPoolExecutor(n_threads) as pool:
        return np.concatenate(list(pool.map(forward, batches)))


def network_inputs(texts: Sequence[list[int]]) -> dict[str, np.ndarray]:
    """The inputs of a batch, each (B, T): token ids, a mask of the tokens, one segment.

    >>> network_inputs([[7, 8], [9]])["attention_mask"].tolist()
    [[1, 1], [1, 0]]
    """
    length = max(map(len, texts))
    tokens = np.zeros((len(texts), length), np.int64)
    is_token = np.zeros((len(texts), length), np.int64)
    for row, text in enumerate(texts):
        tokens[row, : len(text)] = text
        is_token[row, : len(text)] = 1
    return dict(zip(INPUTS, (tokens, is_token, np.zeros_like(tokens)), strict=True))


def mean_of_tokens(states: np.ndarray, is_token: np.ndarray) -> np.ndarray:
    """Means (B, D) over the tokens of a text, of the last layer (B, T, D) and the mask (B, T)."""
    total = np.einsum("ntd,nt->nd", states, is_token.astype(states.dtype))
    mean: np.ndarray = total / is_token.sum(axis=1, keepdims=True).astype(states.dtype)
    return mean
