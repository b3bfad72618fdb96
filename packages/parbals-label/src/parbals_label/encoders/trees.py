"""Tree features of a table: out-of-fold predictions of tree ensembles, appended to its columns.

Three ensembles of a hundred trees each are trained on the labels: extremely randomised trees
(Geurts, Ernst and Wehenkel 2006) that choose their cuts among all D columns, others among √D, and
boosted trees. With l_k (C,) the logs of the mean class shares in the leaves that a row x falls
into, or the log-odds of boosted trees, the features are

    [x, s √p],    p = softmax(Σ_k a_k l_k).

The blend weights a ≥ 0 maximise the likelihood of the labels, with a weak prior. The scale s gives
the second part the variance n / 40, while a number of the table has a variance of about 1: the more
labels n there are, the more the trees count. √p suits a linear model better than log-odds, for
which it needs other weights between each pair of classes; most entries of √p are near 0.

Trees overfit the labels that trained them. The features of a training row are therefore
*out-of-fold* (ten folds): they come from trees that were trained on the other folds and saw neither
the row nor a duplicate of it. The blend weights, and the model on these features, are fitted to
out-of-fold predictions.

A boosted tree is fitted to the residuals y - q of all classes, where q = softmax(f), and its leaves
add a tenth of a Newton step, Σ (y - q) / (1 + Σ q (1 - q)), to the log-odds f.

Trees are stored as plain arrays, which are checked when they are read. A file of skops holds
scikit-learn's own trees, whose nodes nobody checks: with a child that is no node, predicting from
such a file reads foreign memory, and with a cycle it never ends.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from parbals.errors import InputError
from parbals.features.table import TableEncoding

from parbals_label.encoders.base import Encoder

__all__ = ["FILE", "Forest", "TableTrees"]

FILE = "trees.npz"
_N_TREES = 100
"""Trees of each ensemble."""
_N_ENSEMBLES = 3
_MAX_LEAVES = 2_000
_BOOSTED_TREE: dict[str, Any] = {"max_leaf_nodes": 16, "min_samples_leaf": 2, "max_features": 0.5}
_LEARNING_RATE = 0.1
_N_FOLDS = 10
_LABELS_FOR_UNIT_VARIANCE = 40
"""Labels at which a tree feature has the variance of a number of the table (studies/adaptation)."""
_BLOCK_ROWS = 256
_BLOCK_VALUES = 1 << 22
"""Class shares of leaves in memory at once: rows of a block × trees × classes."""
_SHARE_FLOOR = 0.01
"""Added to class shares before the logarithm."""
_STORED_NAMES = {
    "root_nodes": "first",
    "children": "down",
    "column": "column",
    "threshold": "threshold",
    "values": "values",
}
"""Field of a forest → name of its array in a file."""


_DAMAGED = (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError)
"""Errors of reading arrays that do not hold what they should."""


@dataclass(frozen=True)
class Forest:
    """Trees as arrays of nodes, parents before their children; T / 3 trees of each ensemble.

    Attributes:
        root_nodes: (T,) the root of each tree.
        children: (M, 2) of each node; a leaf is its own child.
        column: (M,) x[column] > threshold leads to the second child.
        threshold: (M,).
        values: (M, C) class shares. The last third of the trees are boosted: there, T / 3 times the
            steps, so that the mean over these trees is the sum of their steps.
    """

    root_nodes: np.ndarray
    children: np.ndarray
    column: np.ndarray
    threshold: np.ndarray
    values: np.ndarray

    @classmethod
    def fit(cls, rows: np.ndarray, one_hot: np.ndarray, seed: int) -> Self:
        """Train all ensembles on rows (n, D) and their classes as zeros and ones (n, C)."""
        from sklearn.ensemble import ExtraTreesRegressor

        trees: list[Any] = []
        values: list[np.ndarray] = []
        for max_features in (1.0, "sqrt"):
            ensemble = ExtraTreesRegressor(
                _N_TREES, max_features=max_features, max_leaf_nodes=_MAX_LEAVES, random_state=seed
            )
            for estimator in ensemble.fit(rows, one_hot).estimators_:
                trees.append(estimator.tree_)
                values.append(estimator.tree_.value[:, :, 0])
        for tree, steps in _boosted_trees(rows, one_hot, seed):
            trees.append(tree)
            values.append(_N_TREES * steps)
        sizes = [tree.node_count for tree in trees]
        root_nodes = np.cumsum(sizes) - sizes
        children = np.concatenate(
            [np.c_[tree.children_left, tree.children_right] for tree in trees]
        )
        own_index = np.arange(len(children))[:, None]
        offsets = np.repeat(root_nodes, sizes)[:, None]
        return cls(
            root_nodes=root_nodes,
            children=np.where(children < 0, own_index, children + offsets),
            column=np.concatenate([np.maximum(tree.feature, 0) for tree in trees]),
            threshold=np.concatenate([tree.threshold for tree in trees]),
            values=np.concatenate(values, dtype=np.float32),
        )

    def check(self, n_columns: int) -> None:
        """Raise ValueError unless a row (n_columns,) reaches a leaf of every tree."""
        n_nodes = len(self.values)
        own_index = np.arange(n_nodes)[:, None]
        if (
            (self.children.shape, self.column.shape) != ((n_nodes, 2), (n_nodes,))
            or (self.threshold.shape, self.values.ndim) != ((n_nodes,), 2)
            or {a.dtype.kind for a in (self.root_nodes, self.children, self.column)} != {"i"}
            or self.root_nodes.ndim != 1
            or not self.root_nodes.size
            or self.root_nodes.size % _N_ENSEMBLES
            or self.root_nodes.size > _N_ENSEMBLES * _N_TREES
            or not (np.isfinite(self.threshold).all() and np.isfinite(self.values).all())
            or not ((self.root_nodes >= 0) & (self.root_nodes < n_nodes)).all()
            # A descent ends: both children are later nodes, or both are the leaf itself.
            or not ((self.children >= own_index) & (self.children < n_nodes)).all()
            or np.diff(self.children == own_index).any()
            or not ((self.column >= 0) & (self.column < n_columns)).all()
        ):
            raise ValueError("its arrays are no trees of this table")
        self._check_depth()

    def _check_depth(self) -> None:
        """Raise ValueError unless nodes form trees of a depth that training can reach.

        With one parent for each node, all levels together have as many nodes as the file.
        """
        is_inner = self.children[:, 0] != np.arange(len(self.children))
        starts = np.concatenate([self.root_nodes, self.children[is_inner].reshape(-1)])
        if len(np.unique(starts)) != len(starts):
            raise ValueError("a node has two parents")
        level = self.root_nodes
        for _ in range(_MAX_LEAVES):
            level = self.children[level[is_inner[level]]].reshape(-1)
            if not level.size:
                return
        raise ValueError(f"its trees are deeper than {_MAX_LEAVES}")

    def log_scores(self, rows: np.ndarray) -> np.ndarray:
        """l (n, 3, C) of rows (n, D): log shares of two ensembles, log-odds of the boosted one."""
        scores = np.zeros((len(rows), _N_ENSEMBLES, self.values.shape[1]))
        row_values = self.root_nodes.size * self.values.shape[1]
        n_block_rows = max(1, min(_BLOCK_ROWS, _BLOCK_VALUES // max(1, row_values)))
        for start in range(0, len(rows), n_block_rows):
            block = slice(start, start + n_block_rows)
            nodes = np.tile(self.root_nodes, (len(rows[block]), 1))
            while (self.children[nodes, 0] != nodes).any():
                cells = np.take_along_axis(rows[block], self.column[nodes], axis=1)
                nodes = self.children[nodes, np.int64(cells > self.threshold[nodes])]
            leaves = self.values[nodes].reshape(len(nodes), _N_ENSEMBLES, -1, scores.shape[2])
            scores[block] = leaves.mean(axis=2, dtype=np.float64)
        scores[:, :2] = np.log(np.maximum(scores[:, :2], 0.0) + _SHARE_FLOOR)
        return scores


@dataclass
class TableTrees(Encoder):
    """A table's rows (n, D) with tree features (n, C) beside them.

    Attributes:
        table: encodes cells as rows.
        forest: the trees, trained on all labels.
        blend_weights: (3,) a of the module's text.
        scale: s of the module's text.
        out_of_fold: digest of a training row → its tree features (C,).
    """

    kind: ClassVar[None] = None
    reduced = True
    table: TableEncoding
    forest: Forest
    blend_weights: np.ndarray
    scale: float
    out_of_fold: Mapping[bytes, np.ndarray]

    def __post_init__(self) -> None:
        self.tree_columns = _columns_without_bins(self.table)
        self.forest.check(len(self.tree_columns))

    @classmethod
    def grow(
        cls, table: TableEncoding, rows: np.ndarray, class_indices: np.ndarray, seed: int
    ) -> Self:
        """Train on a table's rows (n, D) and their classes (n,)."""
        _, labels = np.unique(class_indices, return_inverse=True)
        n_classes = max(int(labels.max()) + 1, 2)
        one_hot = np.eye(n_classes)[labels]
        tree_rows = rows[:, _columns_without_bins(table)]
        log_scores = _out_of_fold_scores(tree_rows, one_hot, seed)
        blend_weights = _fit_blend_weights(log_scores, labels)
        sqrt_probs = _sqrt_probs(log_scores, blend_weights)
        variance = len(rows) / _LABELS_FOR_UNIT_VARIANCE
        scale = float(np.sqrt(variance / max(sqrt_probs.var(axis=0).mean(), 1e-6)))
        return cls(
            table=table,
            forest=Forest.fit(tree_rows, one_hot, seed),
            blend_weights=blend_weights,
            scale=scale,
            out_of_fold=dict(zip(map(_row_digest, rows), scale * sqrt_probs, strict=True)),
        )

    def encode(self, prepared: Sequence[Any]) -> np.ndarray:
        """(B, D + C) float32 of B items, given as columns."""
        cells = {name: [item.get(name) for item in prepared] for name in self.table.names}
        return self.rows(self.table.transform(cells))

    def rows(self, table_rows: np.ndarray) -> np.ndarray:
        """(n, D + C) float32 of a table's rows (n, D); out-of-fold for training rows."""
        log_scores = self.forest.log_scores(table_rows[:, self.tree_columns])
        tree_features = self.scale * _sqrt_probs(log_scores, self.blend_weights)
        if self.out_of_fold:
            for index, row in enumerate(table_rows):
                out_of_fold = self.out_of_fold.get(_row_digest(row))
                if out_of_fold is not None:
                    tree_features[index] = out_of_fold
        return np.concatenate([table_rows, tree_features], axis=1, dtype=np.float32)

    def as_arrays(self) -> dict[str, Any]:
        """Plain arrays that ``from_arrays`` reads, without the out-of-fold predictions."""
        arrays = {stored: getattr(self.forest, name) for name, stored in _STORED_NAMES.items()}
        return {
            **arrays,
            "powers": self.blend_weights,
            "scale": np.array(self.scale),
            "table": np.array(json.dumps(self.table.as_json())),
        }

    def save(self, path: Path) -> None:
        """Write all arrays into a file, the out-of-fold predictions included."""
        np.savez_compressed(
            path,
            taught=np.array([list(digest) for digest in self.out_of_fold], np.uint8),
            left_out=np.array(list(self.out_of_fold.values()), np.float32),
            **self.as_arrays(),
        )

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], where: Path | str) -> Self:
        """Rebuild the encoder from the arrays of a file, which are checked."""
        try:
            table = TableEncoding.from_json(json.loads(str(arrays["table"])))
            forest = Forest(**{name: arrays[stored] for name, stored in _STORED_NAMES.items()})
            n_classes = forest.values.shape[1]
            weights_and_scale = np.append(arrays["powers"], arrays["scale"])
            out_of_fold = arrays.get("left_out", np.zeros((0, n_classes)))
            digests = arrays.get("taught", np.zeros((0, 16), np.uint8))
            has_shapes = out_of_fold.shape[1] == n_classes and weights_and_scale.shape == (
                _N_ENSEMBLES + 1,
            )
            is_finite = has_shapes and np.isfinite(weights_and_scale).all()
            if not (is_finite and np.isfinite(out_of_fold).all()):
                raise ValueError("its predictions are not finite numbers")
            keys = (row.tobytes() for row in digests)
            return cls(
                table=table,
                forest=forest,
                blend_weights=weights_and_scale[:_N_ENSEMBLES],
                scale=float(weights_and_scale[_N_ENSEMBLES]),
                out_of_fold=dict(zip(keys, out_of_fold, strict=True)),
            )
        except (*_DAMAGED, RecursionError) as error:
            raise InputError(f"{where} is damaged ({error}); adapt the project again.") from None


def _out_of_fold_scores(tree_rows: np.ndarray, one_hot: np.ndarray, seed: int) -> np.ndarray:
    """l (n, 3, C) of training rows, each by trees that were trained on the other folds.

    Duplicate rows are in the same fold. If all rows are equal, there is nothing to learn: zeros.
    """
    scores = np.zeros((len(tree_rows), _N_ENSEMBLES, one_hot.shape[1]))
    # Equal rows have the same number, from 0.
    row_numbers = np.unique(tree_rows, axis=0, return_inverse=True)[1].reshape(-1)
    n_distinct = row_numbers.max() + 1
    folds = np.random.default_rng(seed).permutation(n_distinct)[row_numbers] % _N_FOLDS
    if n_distinct > 1:
        for fold in np.unique(folds):
            is_test = folds == fold
            forest = Forest.fit(tree_rows[~is_test], one_hot[~is_test], seed)
            scores[is_test] = forest.log_scores(tree_rows[is_test])
    return scores


def _boosted_trees(
    rows: np.ndarray, one_hot: np.ndarray, seed: int
) -> Iterator[tuple[Any, np.ndarray]]:
    """Gradient-boosted trees, and the steps (nodes, C) that their leaves add to the log-odds."""
    from scipy.special import softmax
    from sklearn.tree import DecisionTreeRegressor

    logits = np.zeros(one_hot.shape)
    for number in range(_N_TREES):
        probs = softmax(logits, axis=1)
        residuals = one_hot - probs
        tree = DecisionTreeRegressor(**_BOOSTED_TREE, random_state=seed + number)
        leaves = tree.fit(rows, residuals).apply(rows)
        is_in_node = np.eye(tree.tree_.node_count)[leaves].T
        curvature = is_in_node @ (probs * (1.0 - probs))
        steps = _LEARNING_RATE * (is_in_node @ residuals) / (1.0 + curvature)
        logits += steps[leaves]
        yield tree.tree_, steps


def _fit_blend_weights(log_scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """a (3,) from l (n, 3, C) and classes (n,); a Gaussian prior keeps it near 1/3 each."""
    from scipy.optimize import minimize
    from scipy.special import log_softmax

    label_index = (np.arange(len(labels)), labels)
    prior_mean = np.full(_N_ENSEMBLES, 1.0 / _N_ENSEMBLES)

    def loss(weights: np.ndarray) -> float:
        log_loss = -log_softmax(weights @ log_scores, axis=1)[label_index].sum()
        return float(log_loss + 0.5 * np.square(weights - prior_mean).sum())

    bounds = _N_ENSEMBLES * [(0.0, None)]
    return np.asarray(minimize(loss, prior_mean, bounds=bounds).x)


def _sqrt_probs(log_scores: np.ndarray, blend_weights: np.ndarray) -> np.ndarray:
    """√p (n, C) of the module's text from l (n, 3, C)."""
    from scipy.special import softmax

    return np.sqrt(softmax(blend_weights @ log_scores, axis=1))


def _columns_without_bins(table: TableEncoding) -> np.ndarray:
    """Indices of the features that trees read: numbers themselves, not their bins."""
    is_read: list[bool] = []
    for column in table.columns:
        edges = getattr(column, "edges", None)
        n_bins = 0 if edges is None else len(edges) + 1
        # Features of a number: itself, its bins, whether it is missing. A category has no bins.
        is_read += [True] + n_bins * [False] + (column.width - 1 - n_bins) * [True]
    return np.flatnonzero(is_read)


def _row_digest(row: np.ndarray) -> bytes:
    return hashlib.blake2b(np.asarray(row, "<f4").tobytes(), digest_size=16).digest()
