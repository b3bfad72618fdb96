"""A table with what trees say of it beside its columns: features that learn from labels.

Three kinds of trees are grown on the labels, a hundred each: extremely randomised ones (Geurts,
Ernst and Wehenkel 2006) whose cuts are the best of all D columns, others of √D, and boosted ones.
With l_k (C,) the logs of the classes' mean shares in the leaves that a row x falls into, or of
boosted trees their log-odds, the features are

    [x, s √p],    p = softmax(Σ_k a_k l_k),

a ≥ 0 such that labels are likeliest, and s such that the second part has variance n / 40, where a
number of a table has about 1: the more labels n there are, the more trees are worth beside them. Of
log-odds a model must learn what each is worth for each other class, of √p, mostly near 0, it hardly
must. Trees know their own labels by heart. So for a row that has taught them, l comes from others,
that were grown on nine tenths of the labels and saw neither it nor a copy of it: from such rows a,
and the model above, learn what trees are worth.

A boosted tree is grown on what is left to explain of all classes, y - softmax(f), and its leaves
add a tenth of a Newton step, Σ (y - p) / (1 + Σ p (1 - p)), to the log-odds f.

How it is kept: plain arrays, which are checked when they are read.
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
_TREES = 100  # of each kind
_MOST_LEAVES = 2_000
_BOOSTED: dict[str, Any] = {"max_leaf_nodes": 16, "min_samples_leaf": 2, "max_features": 0.5}
_RATE = 0.1
_PARTS = 10
_ALIKE = 40
"""Labels at which what trees say is worth as much as a number of the table: see studies/tables."""
_BLOCK = 256
_FLOOR = 0.01


@dataclass(frozen=True)
class Forest:
    """Trees whose nodes stand below each other, children after their parents; as many a kind.

    Attributes:
        first: (T,) where each begins.
        down: (M, 2) children of a node, a leaf's is itself; x[column] > threshold: the second one.
        values: (M, C) shares of classes; of the last third, boosted trees, T / 3 times their steps.
    """

    first: np.ndarray
    down: np.ndarray
    column: np.ndarray
    threshold: np.ndarray
    values: np.ndarray

    @classmethod
    def grown(cls, rows: np.ndarray, wanted: np.ndarray, seed: int) -> Self:
        """On rows (n, D) and their classes as zeros and ones (n, C)."""
        from sklearn.ensemble import ExtraTreesRegressor

        how: dict[str, Any] = {"max_leaf_nodes": _MOST_LEAVES, "random_state": seed}
        kinds = [ExtraTreesRegressor(_TREES, max_features=some, **how) for some in (1.0, "sqrt")]
        parts = [tree.tree_ for kind in kinds for tree in kind.fit(rows, wanted).estimators_]
        values = [part.value[:, :, 0] for part in parts]
        for part, steps in _boosted(rows, wanted, seed):
            parts.append(part)
            values.append(_TREES * steps)
        sizes = [part.node_count for part in parts]
        first = np.cumsum(sizes) - sizes
        down = np.concatenate([np.c_[part.children_left, part.children_right] for part in parts])
        itself = np.arange(len(down))[:, None]
        down = np.where(down < 0, itself, down + np.repeat(first, sizes)[:, None])
        columns = np.concatenate([np.maximum(part.feature, 0) for part in parts])
        thresholds = np.concatenate([part.threshold for part in parts])
        return cls(first, down, columns, thresholds, np.concatenate(values, dtype=np.float32))

    def check(self, n_columns: int) -> None:
        """Raise ValueError where a row (n_columns,) would not come to a leaf of every tree."""
        n_nodes, itself = len(self.values), np.arange(len(self.values))[:, None]
        if (
            (self.down.shape, self.column.shape) != ((n_nodes, 2), (n_nodes,))
            or (self.threshold.shape, self.values.ndim) != ((n_nodes,), 2)
            or {part.dtype.kind for part in (self.first, self.down, self.column)} != {"i"}
            or self.first.ndim != 1
            or not self.first.size
            or self.first.size % 3
            or not (np.isfinite(self.threshold).all() and np.isfinite(self.values).all())
            or not ((self.first >= 0) & (self.first < n_nodes)).all()
            or not ((self.down >= itself) & (self.down < n_nodes)).all()  # so that a walk ends:
            or np.diff(self.down == itself).any()  # both are later nodes, or the leaf
            or not ((self.column >= 0) & (self.column < n_columns)).all()
        ):
            raise ValueError("its arrays are no trees of this table")

    def logs(self, rows: np.ndarray) -> np.ndarray:
        """l (n, 3, C) of rows (n, D)."""
        found = np.zeros((len(rows), 3, self.values.shape[1]))
        for start in range(0, len(rows), _BLOCK):
            block = slice(start, start + _BLOCK)
            at = np.tile(self.first, (len(rows[block]), 1))
            while (self.down[at, 0] != at).any():
                cells = np.take_along_axis(rows[block], self.column[at], axis=1)
                at = self.down[at, np.int64(cells > self.threshold[at])]
            kinds = self.values[at].reshape(len(at), 3, -1, found.shape[2])
            found[block] = kinds.mean(axis=2, dtype=np.float64)
        found[:, :2] = np.log(np.maximum(found[:, :2], 0.0) + _FLOOR)
        return found


@dataclass
class TableTrees(Encoder):
    """Cells as a table's rows (n, D), and beside them what trees say (n, C).

    Attributes:
        powers, scale: a and s of the module's text.
        left_out: what is said of rows that have taught the trees, by digests of the rows.
    """

    kind: ClassVar[None] = None
    reduced = True
    table: TableEncoding
    forest: Forest
    powers: np.ndarray
    scale: float
    left_out: Mapping[bytes, np.ndarray]

    def __post_init__(self) -> None:
        self.read = _without_bins(self.table)
        self.forest.check(len(self.read))

    @classmethod
    def grow(cls, table: TableEncoding, rows: np.ndarray, numbers: np.ndarray, seed: int) -> Self:
        """Learn the class numbers (n,) of a table's rows (n, D)."""
        _, numbers = np.unique(numbers, return_inverse=True)
        wanted = np.eye(max(int(numbers.max()) + 1, 2))[numbers]
        read = rows[:, _without_bins(table)]
        copy = np.unique(read, axis=0, return_inverse=True)[1].reshape(-1)
        part = np.random.default_rng(seed).permutation(copy.max() + 1)[copy] % _PARTS
        logs = np.zeros((len(rows), 3, wanted.shape[1]))
        for here in (part == number for number in np.unique(part) if copy.any()):
            logs[here] = Forest.grown(read[~here], wanted[~here], seed).logs(read[here])
        powers = _powers(logs, numbers)
        roots = _roots(logs, powers)
        scale = float(np.sqrt(len(rows) / _ALIKE / max(roots.var(axis=0).mean(), 1e-6)))
        forest, said = Forest.grown(read, wanted, seed), scale * roots
        return cls(table, forest, powers, scale, dict(zip(map(_key, rows), said, strict=True)))

    def encode(self, prepared: Sequence[Any]) -> np.ndarray:
        """(B, D + C) float32 of items' columns."""
        cells = {name: [item.get(name) for item in prepared] for name in self.table.names}
        return self.rows(self.table.transform(cells))

    def rows(self, table: np.ndarray) -> np.ndarray:
        """(n, D + C) float32 of a table's rows (n, D)."""
        said = self.scale * _roots(self.forest.logs(table[:, self.read]), self.powers)
        for place, row in enumerate(table if self.left_out else ()):
            said[place] = self.left_out.get(_key(row), said[place])
        return np.concatenate([table, said], axis=1, dtype=np.float32)

    def as_arrays(self) -> dict[str, Any]:
        """Plain arrays that ``from_arrays`` reads; what they say of labels of ours stays behind."""
        table = np.array(json.dumps(self.table.as_json()))
        how = {"powers": self.powers, "scale": np.array(self.scale), "table": table}
        return vars(self.forest) | how

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
            n_classes, how = forest.values.shape[1], np.append(arrays["powers"], arrays["scale"])
            said = arrays.get("left_out", np.zeros((0, n_classes)))
            taught = arrays.get("taught", np.zeros((0, 16), np.uint8))
            whole = said.shape[1] == n_classes and how.shape == (4,)
            if not (whole and np.isfinite(how).all() and np.isfinite(said).all()):
                raise ValueError("what it says are no numbers")
            left_out = dict(zip((row.tobytes() for row in taught), said, strict=True))
            return cls(table, forest, how[:3], float(how[3]), left_out)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{where} is damaged ({error}); adapt the project again.") from None


def _boosted(rows: np.ndarray, wanted: np.ndarray, seed: int) -> Iterator[tuple[Any, np.ndarray]]:
    """Trees that each lower the log loss which those before it have left."""
    from scipy.special import softmax
    from sklearn.tree import DecisionTreeRegressor

    logits = np.zeros(wanted.shape)
    for number in range(_TREES):
        probs = softmax(logits, axis=1)
        tree = DecisionTreeRegressor(**_BOOSTED, random_state=seed + number)
        leaves = tree.fit(rows, wanted - probs).apply(rows)
        inside = np.eye(tree.tree_.node_count)[leaves].T
        steps = _RATE * (inside @ (wanted - probs)) / (1.0 + inside @ (probs * (1.0 - probs)))
        logits += steps[leaves]
        yield tree.tree_, steps


def _powers(logs: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """a (3,) of l (n, 3, C) and class numbers (n,); with few labels near a third each."""
    from scipy.optimize import minimize
    from scipy.special import log_softmax

    own, third = (np.arange(len(numbers)), numbers), np.full(3, 1.0 / 3.0)

    def loss(powers: np.ndarray) -> float:
        surprise = -log_softmax(powers @ logs, axis=1)[own].sum()
        return float(surprise + 0.5 * np.square(powers - third).sum())

    return np.asarray(minimize(loss, third, bounds=3 * [(0.0, None)]).x)


def _roots(logs: np.ndarray, powers: np.ndarray) -> np.ndarray:
    """√p (n, C) of l (n, 3, C)."""
    from scipy.special import softmax

    return np.sqrt(softmax(powers @ logs, axis=1))


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
