"""Labels of many classes as binary problems, by which the evidence of a prior is found.

Given that a label is a or b, the softmax is the logistic function of f_a - f_b, so every pair of
classes is a binary problem of its own, and their evidence is summed.

*Label noise.* Answers of noisy annotators have a likelihood w_c under every class c. In the problem
of classes a and b, of which a is likelier, a third class would say nothing about f_a - f_b, so it
counts for both: with W the sum of the other classes' likelihoods, p(answers | f) is proportional to
λ + (1 - λ) σ(f_a - f_b), λ = (w_b + ½ W) / (w_a + ½ W).
"""

from typing import Any, NamedTuple

import numpy as np

from parbals.shapes import Array, Bool, Float, Int

__all__ = ["BinaryProblems", "pair_label_noise"]

_MAX_PAIRS = 66
_MAX_PAIR_WORK = 4e8  # pairs times rows times squared columns
_MAX_BINARY_LABELS = 12  # of multi-label items, that represent all labels
_JITTER = 1e-12  # relative to the trace


class BinaryProblems(NamedTuple):
    """P binary problems, padded to one length: pairs of classes, or labels of multi-label items."""

    rows: Int[Array, "P n"]  # positions
    signs: Float[Array, "P n"]  # ±1, 0 for padding
    weight: float  # of a problem: C classes have C - 1 differences, but more pairs
    label_noise: Float[Array, "P n"] | None = None  # λ

    @classmethod
    def of(
        cls, labels: Any, n_columns: int, likelihoods: Float[Array, "n C"] | None = None
    ) -> "BinaryProblems":
        """All pairs of the classes that have labels.

        Where that would be too much work, every class is paired with its neighbours in a ring.
        """
        if labels.ndim == 2:
            return cls._of_multi_labels(labels, n_columns)
        classes = np.unique(labels)
        n_classes = max(len(classes), 1)
        n_rows = 2 * len(labels) // n_classes
        max_pairs = min(_MAX_PAIRS, int(_MAX_PAIR_WORK / _problem_work(n_rows, n_columns)))
        pairs = _class_pairs(n_classes, max_pairs)
        members = [np.flatnonzero(np.isin(labels, classes[list(pair)])) for pair in pairs]
        size = max(map(len, members), default=0)
        rows = np.zeros((len(pairs), size), int)
        signs = np.zeros((len(pairs), size))
        label_noise = np.zeros((len(pairs), size))
        for p, ((first, second), positions) in enumerate(zip(pairs, members, strict=True)):
            is_second = labels[positions] == classes[second]
            rows[p, : len(positions)] = positions
            signs[p, : len(positions)] = np.where(is_second, 1.0, -1.0)
            if likelihoods is not None:
                pair_classes = classes[[first, second]]
                noise = pair_label_noise(likelihoods[positions], pair_classes)
                label_noise[p, : len(positions)] = noise
        return cls(
            rows=rows,
            signs=signs,
            weight=(n_classes - 1) / max(len(pairs), 1),
            label_noise=None if likelihoods is None else label_noise,
        )

    @classmethod
    def _of_multi_labels(cls, bits: Bool[Array, "n L"], n_columns: int) -> "BinaryProblems":
        """Every label that some items have and others lack.

        Where that would be too much work, the most balanced labels represent all.
        """
        n_rows = len(bits)
        counts = bits.sum(axis=0)
        varying = np.flatnonzero((counts > 0) & (counts < n_rows))
        affordable = int(_MAX_PAIR_WORK / _problem_work(n_rows, n_columns))
        n_selected = max(min(_MAX_BINARY_LABELS, affordable), 1)
        imbalance = np.abs(counts[varying] - n_rows / 2)
        selected = varying[np.argsort(imbalance, kind="stable")[:n_selected]]
        return cls(
            rows=np.broadcast_to(np.arange(n_rows), (len(selected), n_rows)),
            signs=np.where(bits[:, selected].T, 1.0, -1.0),
            weight=len(varying) / max(len(selected), 1),
        )

    def factors(self, whitened: Float[Array, "n D"]) -> Float[Array, "P m r"]:
        """F (P, n, r) of f_a - f_b, without intercepts, at whitened rows (n, D).

        Of wide rows only the inner products matter: F is a root of those, r = n.
        """
        rows = np.sqrt(2.0) * whitened[self.rows] * np.square(self.signs)[:, :, None]
        n_rows, n_columns = rows.shape[1:]
        if n_columns <= n_rows:
            return rows
        products = rows @ rows.swapaxes(-1, -2)
        products += _JITTER * np.trace(products, axis1=1, axis2=2).max() * np.eye(n_rows)
        return np.asarray(np.linalg.cholesky(products))


def pair_label_noise(
    likelihoods: Float[Array, "n C"], pair_classes: Int[Array, "2"]
) -> Float[Array, " n"]:
    """λ (n,) of answers in the problem of two classes; a third class counts for both."""
    of_pair = likelihoods[:, pair_classes]
    of_others = likelihoods.sum(axis=1) - of_pair.sum(axis=1)
    for_both = 0.5 * np.maximum(of_others, 0.0)
    return (of_pair.min(axis=1) + for_both) / (of_pair.max(axis=1) + for_both)


def _problem_work(n_rows: int, n_columns: int) -> int:
    """Operations that a binary problem costs: rows times squared columns."""
    return max(n_rows * min(n_rows, n_columns) ** 2, 1)


def _class_pairs(n_classes: int, max_pairs: int) -> list[tuple[int, int]]:
    """All pairs of classes; more than ``max_pairs`` are limited to neighbours in a ring."""
    takes_all = n_classes * (n_classes - 1) // 2 <= max_pairs
    max_distance = max(max_pairs // n_classes, 1)
    pairs = set()
    for i in range(n_classes):
        for distance in range(1, n_classes // 2 + 1):
            j = (i + distance) % n_classes
            if takes_all or (j - i) % n_classes <= max_distance:
                pairs.add((min(i, j), max(i, j)))
    return sorted(pairs)
