"""Labels of the closed-form fits: class numbers or likelihoods, and keys that recognise them."""

from typing import Any

import numpy as np

from parbals.shapes import Array, Float, Int

__all__ = ["Labels", "concatenate_labels", "label_keys", "most_likely_class"]

Labels = Int[Array, " n"] | Float[Array, "n C"]
"""Class numbers; or, for noisy annotators, the likelihood p(answers | class) of every class."""


def most_likely_class(labels: Labels) -> Int[Array, " n"]:
    """Class numbers (n,); likelihoods (n, C) become the class under which they are largest.

    >>> most_likely_class(np.array([[0.9, 0.2], [0.1, 0.3]]))
    array([0, 1])
    """
    return labels if labels.ndim == 1 else labels.argmax(axis=1)


def concatenate_labels(labels: np.ndarray, new_labels: np.ndarray, n_classes: int) -> np.ndarray:
    """Concatenate labels; class numbers become one-hot if the other labels are likelihoods.

    >>> concatenate_labels(np.array([1]), np.array([[0.9, 0.2]]), n_classes=2)
    array([[0. , 1. ],
           [0.9, 0.2]])
    """
    if labels.ndim != new_labels.ndim:
        one_hot = np.eye(n_classes)
        labels = labels if labels.ndim == 2 else one_hot[labels]
        new_labels = new_labels if new_labels.ndim == 2 else one_hot[new_labels]
    return np.concatenate([labels, new_labels])


def label_keys(rows: Float[Array, "n d"], labels: Any) -> np.ndarray:
    """Hash every labelled row to 64 bits, by the content of row and label: (n,).

    Labels are numbers of any kind, (n,) or (n, L). Duplicates are numbered before they are hashed,
    so that all keys differ.

    >>> keys = label_keys(np.array([[1.0], [1.0], [2.0]]), np.array([0, 0, 1]))
    >>> len(np.unique(keys))
    3
    """
    bits = np.column_stack([np.asarray(rows, np.float64), labels]).view(np.uint64)
    odd = np.random.default_rng(0).integers(2**63, size=bits.shape[1], dtype=np.uint64) * 2 + 1
    keys = _splitmix64((bits ^ (bits >> 32)) @ odd)
    order = np.argsort(keys, kind="stable")
    group_starts = np.flatnonzero(np.append(True, np.diff(keys[order]) != 0))
    group_sizes = np.diff(np.append(group_starts, len(keys)))
    number_in_group = np.arange(len(keys)) - np.repeat(group_starts, group_sizes)
    keys[order] += _splitmix64(number_in_group.astype(np.uint64)) * (number_in_group > 0)
    return np.asarray(keys)


def _splitmix64(keys: np.ndarray) -> np.ndarray:
    """Mix 64-bit integers so that every output bit depends on all input bits."""
    keys = (keys ^ (keys >> 30)) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> 27)) * np.uint64(0x94D049BB133111EB)
    return np.asarray(keys ^ (keys >> 31))
