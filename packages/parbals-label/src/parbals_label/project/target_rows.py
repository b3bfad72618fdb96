"""The rows of a target set: a file of JSON lines beside the database, named by its hash.

The rows of a user's file are stored with the project's columns, because features are made of them
again whenever the encoder changes. Of rows that a filter selects, which are items of the pool, only
the positions are stored.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from parbals.errors import InputError, ProjectDamagedError
from parbals.files import replacing
from parbals.randomness import derive_generator

from parbals_label.project.features import load_features
from parbals_label.store.folder import file_mode
from parbals_label.store.rows import from_json, to_json
from parbals_label.store.settings import TargetSet
from parbals_label.store.store import Store

__all__ = [
    "TargetRow",
    "check_target",
    "joined_rows",
    "read_rows",
    "weight_of",
    "weighted_sample",
    "write_rows",
]


@dataclass(frozen=True)
class TargetRow:
    """A row of the target set.

    Attributes:
        id: its name.
        content: its columns.
        weight: how much it counts.
        position: that of the item of the pool; None where the row is none of its items.
    """

    id: str
    content: dict[str, Any] = field(default_factory=dict)
    weight: float = 1.0
    position: int | None = None


def write_rows(folder: Path, rows: Sequence[TargetRow]) -> tuple[str, str]:
    """Store rows durably; the name of their file and its digest, for the settings."""
    lines = []
    for row in rows:
        record: dict[str, Any] = {"id": row.id, "weight": row.weight}
        if row.position is None:
            record["content"] = row.content
        else:
            record["position"] = row.position
        lines.append(to_json(record, f"Row {row.id!r} of the target set"))
    content = "".join(f"{line}\n" for line in lines).encode()
    digest = hashlib.blake2b(content, digest_size=16).hexdigest()
    name = f"target-{digest[:12]}.jsonl"
    with replacing(folder / name, mode=file_mode(folder)) as file:
        file.write(content)
    return name, digest


def read_rows(store: Store, target: TargetSet) -> list[TargetRow]:
    """The stored rows, after their digest was verified; rows of the pool come without content."""
    path = store.folder / target.file
    try:
        content = path.read_bytes()
    except OSError as error:
        raise _damaged(store, target, error.strerror or str(error)) from None
    if hashlib.blake2b(content, digest_size=16).hexdigest() != target.digest:
        raise _damaged(store, target, "it is not what was written")
    try:
        lines = content.decode().split("\n")[:-1]
        rows = [_checked_row(from_json(line, dict), store.n_items) for line in lines]
    except (KeyError, TypeError, ValueError) as error:  # a backup's maker wrote rows and digest
        raise _damaged(store, target, str(error)) from None
    if len(rows) != target.n_kept:
        raise _damaged(store, target, f"it has {len(rows)} rows")
    return rows


def _checked_row(record: dict[str, Any], n_items: int) -> TargetRow:
    """A stored row, whose fields are checked."""
    row = TargetRow(**{"content": {}, **record})
    is_item = row.position is None or 0 <= row.position < n_items
    has_weight = 0.0 <= float(row.weight) < np.inf
    if not is_item or not has_weight or not isinstance(row.content, dict):
        raise ValueError(f"row {row.id!r} is no row of a target set")
    return row


def check_target(store: Store, target: TargetSet) -> None:
    """Verify every byte of the rows and their features; damage is raised."""
    read_rows(store, target)
    if target.features is not None:
        load_features(store.folder, target.features, verify=True)


def _damaged(store: Store, target: TargetSet, reason: str) -> ProjectDamagedError:
    return ProjectDamagedError(
        f"{store.folder / target.file}, the target set, cannot be read ({reason}); put back a "
        f"copy, or add it again: parbals target add {store.folder} TARGET."
    )


def weight_of(cell: Any, cell_name: str) -> float:
    """The weight in a cell: a number that is finite and not negative."""
    try:
        weight = float(cell)
    except (TypeError, ValueError):
        weight = np.nan
    if not 0.0 <= weight < np.inf:
        raise InputError(f"{cell_name} is {cell!r}; a weight is a finite number, 0 or more.")
    return weight


def joined_rows(
    earlier: Sequence[TargetRow], new: Sequence[TargetRow], share: float
) -> list[TargetRow]:
    """Earlier rows and new ones, which together have the given share of all weight.

    >>> rows = joined_rows([TargetRow("a"), TargetRow("b")], [TargetRow("c")], share=0.5)
    >>> [(row.id, row.weight) for row in rows]
    [('a', 0.75), ('b', 0.75), ('c', 1.5)]
    """
    n_rows = len(earlier) + len(new)
    weighted = []
    for rows, total in ((earlier, 1.0 - share), (new, share)):
        largest = max(row.weight for row in rows)
        # The sum of very large weights would overflow.
        relative_weights = [row.weight / largest for row in rows]
        factor = n_rows * total / sum(relative_weights)
        pairs = zip(rows, relative_weights, strict=True)
        weighted += [replace(row, weight=factor * weight) for row, weight in pairs]
    return weighted


def weighted_sample(weights: np.ndarray, seed: int) -> np.ndarray:
    """Rows (n,) in proportion to their weights, n being the effective number of rows.

    That number is (Σw)² / Σw² (Kish): the mean of so many labels varies as much as the weighted
    mean of all. Systematic resampling draws row i either ⌊n wᵢ/Σw⌋ times or once more.

    >>> weighted_sample(np.array([1.0, 1.0, 0.0, 1.0]), 0).tolist()
    [0, 1, 3]
    """
    if np.ptp(weights) == 0.0:
        return np.arange(len(weights))
    weights = weights / weights.max()  # the squares of large ones would overflow
    total = weights.sum()
    size = max(1, round(total**2 / np.square(weights).sum()))
    generator = derive_generator(seed, "target weights")
    order = generator.permutation(len(weights))
    points = (generator.random() + np.arange(size)) * total / size
    cumulative = np.cumsum(weights[order])
    drawn = np.searchsorted(cumulative, points, side="right")
    # Rounding may leave the last point behind the end; the last row with a weight is meant.
    last = int(np.flatnonzero(weights[order])[-1])
    return np.sort(order[np.minimum(drawn, last)])
