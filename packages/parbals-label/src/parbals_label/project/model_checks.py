"""Check the arrays of a model file before anything is computed with them.

A file may have been made by anybody. Its arrays have to fit together, so that no prediction fails
half-way; a prediction allocates at most a few times what the file itself unpacks to, and computes a
bounded number of operations for an item, because zeros of any number fit into a small file.
"""

import json
from collections.abc import Mapping

import numpy as np
from parbals.features.table import TableEncoding

from parbals_label.encoders.trees import TableTrees

__all__ = ["block_rows", "check_model_arrays"]

_MAX_BLOCK_ROWS = 4_096
_BLOCK_NUMBERS = 1 << 25
"""Numbers (float64) that a block of rows may need at once: 256 MiB."""
_MAX_ITEM_OPERATIONS = 1 << 29
"""Additions of products for one item, some hundredths of a second; a Gaussian model of a thousand
classes and 400 features, or 400 draws for as many, needs two thirds of them."""
_OPERATIONS_PER_EXP = 512
"""A number that goes through exp takes as long as so many additions of products."""
_NUMBERS_PER_LATENT = 64
"""Class probabilities are sums over nodes; a class needs some values at each of them."""
_N_STYLE = 8
"""Counts that describe how a text is written."""
_N_MEANING = 128
"""Numbers of the meaning of a text, by word vectors."""


def check_model_arrays(
    classes: tuple[str, ...], columns: tuple[str, ...], arrays: Mapping[str, np.ndarray]
) -> None:
    """Raise ValueError unless the arrays are a model of these classes and columns."""
    for name, array in arrays.items():
        if array.dtype.kind not in "biufU":
            raise ValueError(f"the array {name!r} is neither real numbers nor text")
    n_classes = len(classes)
    if n_classes < 2 or not all(isinstance(name, str) for name in classes):
        raise ValueError("its classes are not two names or more")
    width = _check_posterior(n_classes, arrays)
    for name in ("stakes", "mark"):
        if name in arrays:
            _check_numbers(name, arrays[name], (n_classes,))
    if "degree" in arrays:
        _check_numbers("degree", arrays["degree"], ())
        if not arrays["degree"] > 0:
            raise ValueError("its temperature is not positive")
    encoder_width = _encoder_width(columns, arrays)
    if encoder_width is not None and encoder_width != width - 1:
        raise ValueError(f"its encoder makes {encoder_width} numbers, its weights {width - 1}")


def block_rows(arrays: Mapping[str, np.ndarray]) -> int:
    """Items to predict at once, so that a block needs a bounded amount of memory."""
    if "draws" in arrays:
        n_draws, n_classes, width = arrays["draws"].shape
        row_numbers = n_draws * n_classes + width
    else:
        width, n_latents = arrays["mean"].shape
        row_numbers = width + arrays["roots"].shape[2] + _NUMBERS_PER_LATENT * n_latents
    if "vocabulary" in arrays:
        row_numbers += len(arrays["vocabulary"])
    return max(1, min(_MAX_BLOCK_ROWS, _BLOCK_NUMBERS // row_numbers))


def _check_posterior(n_classes: int, arrays: Mapping[str, np.ndarray]) -> int:
    """D' + 1, the length of the weights, whether Gaussian or particles."""
    if "draws" in arrays:
        n_draws = len(np.atleast_1d(arrays["weights"]))
        width = arrays["draws"].shape[-1] if arrays["draws"].ndim else 0
        _check_numbers("draws", arrays["draws"], (n_draws, n_classes, width))
        _check_numbers("weights", arrays["weights"], (n_draws,))
    else:
        n_latents = 1 if n_classes == 2 else n_classes
        width = arrays["mean"].shape[0] if arrays["mean"].ndim else 0
        n_columns = arrays["roots"].shape[-1] if arrays["roots"].ndim else 0
        _check_numbers("mean", arrays["mean"], (width, n_latents))
        _check_numbers("roots", arrays["roots"], (n_latents, width, n_columns))
    if width < 1:
        raise ValueError("it has no weights")
    n_numbers = n_draws * n_classes if "draws" in arrays else n_latents * n_columns
    n_operations = n_numbers * (width + _OPERATIONS_PER_EXP)
    if n_operations > _MAX_ITEM_OPERATIONS:
        raise ValueError(
            f"an item needs {n_operations:,} operations, more than {_MAX_ITEM_OPERATIONS:,}"
        )
    return width


def _encoder_width(columns: tuple[str, ...], arrays: Mapping[str, np.ndarray]) -> int | None:
    """D', the length of rows of the encoder in the file; None where a part of it is elsewhere."""
    if "first" in arrays:
        trees = TableTrees.from_arrays(arrays, "The model")
        return trees.table.width + trees.forest.values.shape[1]
    width = 0
    names: tuple[str, ...] = ()
    if "table" in arrays:
        table = TableEncoding.from_json(json.loads(str(arrays["table"])))
        names = tuple(table.names)
        # A row of missing values shows that the table can be encoded.
        width += table.transform({name: [None] for name in names}).shape[1]
    if "network" in arrays:  # whose rows, beside these, are as long as it says when it is loaded
        _words_width(arrays, _N_STYLE)
        return None
    if "vocabulary" in arrays:
        return width + _words_width(arrays, _N_STYLE + _N_MEANING)
    return width if names and set(columns) <= set(names) else None


def _words_width(arrays: Mapping[str, np.ndarray], n_others: int) -> int:
    """The length of rows of words, with ``n_others`` features of a text beside them."""
    vocabulary = arrays["vocabulary"]
    if vocabulary.ndim != 1 or len(set(vocabulary.tolist())) != len(vocabulary):
        raise ValueError("its vocabulary is not a list of different words")
    n_words = len(vocabulary)
    n_directions = len(np.atleast_1d(arrays["directions"]))
    _check_numbers("idf", arrays["idf"], (n_words,))
    if n_directions:  # else words are features themselves
        _check_numbers("directions", arrays["directions"], (n_directions, n_words))
    width = (n_directions or n_words) + n_others
    for name in ("centre", "factor"):
        _check_numbers(name, arrays[name], (width,))
    return width


def _check_numbers(name: str, array: np.ndarray, shape: tuple[int, ...]) -> None:
    if array.dtype.kind not in "fiu" or array.shape != shape or not np.isfinite(array).all():
        raise ValueError(f"the array {name!r} is not finite numbers of shape {shape}")
