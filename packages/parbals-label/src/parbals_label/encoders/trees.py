"""A table with what trees say of it beside its columns: features that learn from labels.

Extremely randomised trees (Geurts, Ernst and Wehenkel 2006) are grown on the labels. With p (C,)
the mean of the classes' shares in the leaves that a row x falls into, its features are

    [x, s (ln p̃ - mean of ln p̃)],    p̃ = p + 0.01,

s such that the second part has variance n / 40, where a number of a table has about 1: the more
labels n there are, the more trees are worth beside them. Trees know their own labels by heart.
So for a row that has taught them, p comes from others, that were grown on nine tenths of the labels
and saw neither it nor a copy of it: the model above learns from such rows what trees are worth.

How it is kept: plain arrays, which are checked when they are read.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from parbals.errors import InputError
from parbals.features.table import TableEncoding

from parbals_label.encoders.base import Encoder

__all__ = ["FILE", "Forest", "TableTrees"]

FILE = "trees.npz"
_TREES = 100
_MOST_LEAVES = 2_000
_PARTS = 10
_ALIKE = 40
"""Labels at which what trees say is worth as much as a number of the table: see studies/tables."""
_BLOCK = 256
_FLOOR = 0.01


@dataclass(frozen=True)
class Forest:
    """Trees whose nodes stand below each other, children after their parents.

    Attributes:
        first: (T,) where each begins.
        left, right: (M,) children of a node, -1 of a leaf; x[column] ≤ threshold goes left.
        shares: (M, C) of classes among the labels that came by.
    """

    first: np.ndarray
    left: np.ndarray
    right: np.ndarray
    column: np.ndarray
    threshold: np.ndarray
    shares: np.ndarray

    @classmethod
    def of(cls, trees: Iterable[Any]) -> Self:
        """Of fitted trees of scikit-learn."""
        parts, first = [tree.tree_ for tree in trees], [0]
        for part in parts:
            first.append(first[-1] + part.node_count)
        down = [
            [np.where(child >= 0, child + at, -1) for child, at in zip(some, first, strict=False)]
            for some in ([p.children_left for p in parts], [p.children_right for p in parts])
        ]
        columns = [np.maximum(part.feature, 0) for part in parts]
        shares = [part.value[:, 0].astype(np.float32) for part in parts]
        arrays = *down, columns, [part.threshold for part in parts], shares
        return cls(np.array(first[:-1]), *map(np.concatenate, arrays))

    def check(self, n_columns: int) -> None:
        """Raise ValueError where a row (n_columns,) would not come to a leaf of every tree."""
        n_nodes, inner = len(self.shares), self.left >= 0
        whole = self.first, self.left, self.right, self.column
        down = np.stack([self.left, self.right])[:, inner]
        if (
            {part.shape for part in (*whole[1:], self.threshold)} != {(n_nodes,)}
            or {part.dtype.kind for part in whole} != {"i"}
            or (self.first.ndim, self.shares.ndim) != (1, 2)
            or not self.first.size
            or not np.isfinite(self.threshold).all()
            or not ((self.shares >= 0.0) & (self.shares <= 1.0)).all()
            or not ((self.first >= 0) & (self.first < n_nodes)).all()
            or not ((down > np.flatnonzero(inner)) & (down < n_nodes)).all()  # a walk ends
            or not ((self.column >= 0) & (self.column < n_columns)).all()
        ):
            raise ValueError("its arrays are no trees of this table")

    def shares_of(self, rows: np.ndarray) -> np.ndarray:
        """(n, C) means over the trees of rows (n, D)."""
        found = np.zeros((len(rows), self.shares.shape[1]))
        for start in range(0, len(rows), _BLOCK):
            block = slice(start, start + _BLOCK)
            at = np.tile(self.first, (len(rows[block]), 1))
            while (inner := self.left[at] >= 0).any():
                cells = np.take_along_axis(rows[block], self.column[at], axis=1)
                down = np.where(cells <= self.threshold[at], self.left[at], self.right[at])
                at = np.where(inner, down, at)
            found[block] = self.shares[at].mean(axis=1, dtype=np.float64)
        return found


@dataclass
class TableTrees(Encoder):
    """Cells as a table's rows (n, D), and beside them what trees say (n, C).

    Attributes:
        scale: s of the module's text.
        left_out: what is said of rows that have taught the trees, by digests of the rows.
    """

    kind: ClassVar[None] = None
    reduced = True
    table: TableEncoding
    forest: Forest
    scale: float
    left_out: Mapping[bytes, np.ndarray]

    def __post_init__(self) -> None:
        self.read = _without_bins(self.table)
        self.forest.check(len(self.read))

    @classmethod
    def grow(cls, table: TableEncoding, rows: np.ndarray, numbers: np.ndarray, seed: int) -> Self:
        """Learn the class numbers (n,) of a table's rows (n, D)."""
        _, numbers = np.unique(numbers, return_inverse=True)
        read = rows[:, _without_bins(table)]
        copy = np.unique(read, axis=0, return_inverse=True)[1].reshape(-1)
        part = np.random.default_rng(seed).permutation(copy.max() + 1)[copy] % _PARTS
        shares = np.zeros((len(rows), int(numbers.max()) + 1))
        for here in (part == number for number in np.unique(part) if copy.any()):
            others = _grown(read[~here], numbers[~here], _TREES // 2, seed)
            shares[np.ix_(here, others.classes_)] = others.predict_proba(read[here])
        odds = _log_odds(shares)
        scale = float(np.sqrt(len(rows) / _ALIKE / max(odds.var(axis=0).mean(), 1e-6)))
        forest = Forest.of(_grown(read, numbers, _TREES, seed).estimators_)
        return cls(table, forest, scale, dict(zip(map(_key, rows), scale * odds, strict=True)))

    def encode(self, prepared: Sequence[Any]) -> np.ndarray:
        """(B, D + C) float32 of items' columns."""
        cells = {name: [item.get(name) for item in prepared] for name in self.table.names}
        return self.rows(self.table.transform(cells))

    def rows(self, table: np.ndarray) -> np.ndarray:
        """(n, D + C) float32 of a table's rows (n, D)."""
        said = self.scale * _log_odds(self.forest.shares_of(table[:, self.read]))
        for place, row in enumerate(table if self.left_out else ()):
            said[place] = self.left_out.get(_key(row), said[place])
        return np.concatenate([table, said], axis=1, dtype=np.float32)

    def as_arrays(self) -> dict[str, Any]:
        """Plain arrays that ``from_arrays`` reads; what they say of labels of ours stays behind."""
        table = np.array(json.dumps(self.table.as_json()))
        return vars(self.forest) | {"scale": np.array(self.scale), "table": table}

    def save(self, path: Path) -> None:
        """Write everything; ``from_arrays`` reads that, too."""
        taught = np.array([list(key) for key in self.left_out], np.uint8)
        said = np.array(list(self.left_out.values()), np.float32)
        np.savez_compressed(path, taught=taught, left_out=said, **self.as_arrays())

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], where: Path | str) -> Self:
        """Arrays from a file, which may hold anything."""
        try:
            table = TableEncoding.from_json(json.loads(str(arrays["table"])))
            forest = Forest(**{name: arrays[name] for name in Forest.__dataclass_fields__})
            n_classes, scale = forest.shares.shape[1], float(arrays["scale"])
            said = arrays.get("left_out", np.zeros((0, n_classes)))
            taught = arrays.get("taught", np.zeros((0, 16), np.uint8))
            if not np.isfinite(scale) or not np.isfinite(said).all() or said.shape[1] != n_classes:
                raise ValueError("what it says are no numbers")
            keys = (row.tobytes() for row in taught)
            return cls(table, forest, scale, dict(zip(keys, said, strict=True)))
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{where} is damaged ({error}); adapt the project again.") from None


def _grown(rows: np.ndarray, numbers: np.ndarray, n_trees: int, seed: int) -> Any:
    """Trees of scikit-learn whose cuts are the best of one at random of every column."""
    from sklearn.ensemble import ExtraTreesClassifier

    how = {"max_features": None, "max_leaf_nodes": _MOST_LEAVES, "random_state": seed}
    return ExtraTreesClassifier(n_trees, **how).fit(rows, numbers)


def _log_odds(shares: np.ndarray) -> np.ndarray:
    logs = np.log(shares + _FLOOR)
    return np.asarray(logs - logs.mean(axis=1, keepdims=True))


def _without_bins(table: TableEncoding) -> np.ndarray:
    """Which of a table's features trees read: a number itself, not the bin that it lies in."""
    read: list[bool] = []
    for column in table.columns:
        edges = getattr(column, "edges", None)
        n_bins = 0 if edges is None else len(edges) + 1
        read += [True] + n_bins * [False] + (column.width - 1 - n_bins) * [True]
    return np.flatnonzero(read)


def _key(row: np.ndarray) -> bytes:
    return hashlib.blake2b(np.asarray(row, "<f4").tobytes(), digest_size=16).digest()
