"""A random sample of the target set, to measure the error there.

Rows that a filter selects are items of the pool, and the sample is drawn from those without a
label. Rows of a file become items of the project when they are drawn (``settings.target_items``),
so that people can label them like any other; no strategy chooses them and no model trains on them.
The other rows stay unseen. Items keep the features that they had as rows: nothing is encoded again.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from parbals.arrays import block_rows, release_pages
from parbals.errors import InputError
from parbals.learner.evaluation.certify import draw_sample

from parbals_label.encoders.scratch import ROWS, scratch
from parbals_label.project.embedding import EncodedItems, replace_features
from parbals_label.project.features import features_of, load_features
from parbals_label.project.measured import measurable_positions
from parbals_label.project.target import keep_features, stored_features, target_items
from parbals_label.project.target_rows import TargetRow
from parbals_label.store.records import ADDED
from parbals_label.store.settings import TargetSet
from parbals_label.store.store import Store

__all__ = ["TargetSample", "draw_target_sample", "has_rows_outside", "n_target_rows_left"]


class TargetSample(NamedTuple):
    """Items that were drawn from the target set.

    Attributes:
        positions: (n,) in random order.
        n_population: number of rows without a label that they were drawn from.
        members: positions of all items of the target set, where it is a part of the pool.
    """

    positions: np.ndarray
    n_population: int
    members: list[int] | None


class _Candidates(NamedTuple):
    """Rows that can be drawn: their numbers, and the positions of those that are items."""

    numbers: list[int]
    positions: dict[int, int]


def n_target_rows_left(store: Store) -> int:
    """Number of rows of the target set that a sample can be drawn from."""
    target = _checked_target(store)
    return len(_candidates(store, target, target_items(store)).numbers)


def has_rows_outside(store: Store) -> bool:
    """Whether the target set has rows that are no items of the pool."""
    return _checked_target(store).where is None


def draw_target_sample(store: Store, n: int, generator: np.random.Generator) -> TargetSample:
    """Draw ``n`` random rows of the target set without a label; they are items from now on."""
    target = _checked_target(store)
    rows = target_items(store)
    candidates = _candidates(store, target, rows)
    numbers = draw_sample(np.array(candidates.numbers, np.int64), n, generator).tolist()
    new = [number for number in numbers if number not in candidates.positions]
    positions = dict(candidates.positions)
    if new:
        first = _add_items(store, target, rows, new)
        positions |= {number: first + index for index, number in enumerate(new)}
    members = None
    n_population = len(candidates.numbers)
    if target.where is not None:
        members = [row.position or 0 for row in rows]
    else:
        # The stored rows are a random sample of all, so those drawn are one as well.
        n_population += target.n_rows - target.n_kept
    drawn = np.array([positions[number] for number in numbers], np.int64)
    return TargetSample(drawn, n_population, members)


def _checked_target(store: Store) -> TargetSet:
    target = store.settings.target
    if target is None:
        raise InputError(
            f"The project in {store.folder} has no target set; add one with parbals target add."
        )
    if target.is_weighted:
        raise InputError(
            f"The rows of {target.name} have weights, and a sample would count them alike; add the "
            "target set without weights to measure the error on it."
        )
    return target


def _candidates(store: Store, target: TargetSet, rows: list[TargetRow]) -> _Candidates:
    """Rows without a label, whether they are assigned to somebody or not."""
    if target.where is not None:
        measurable = set(measurable_positions(store).tolist())
        positions = {
            number: row.position for number, row in enumerate(rows) if row.position in measurable
        }
        return _Candidates(list(positions), {n: p or 0 for n, p in positions.items()})
    known = store.known_positions([_item_id(target, row) for row in rows])
    labelled = set(store.labelled())
    numbers = []
    positions_of_items = {}
    for number, row in enumerate(rows):
        position = known.get(_item_id(target, row))
        if position in labelled:
            continue
        numbers.append(number)
        if position is not None:
            positions_of_items[number] = position
    return _Candidates(numbers, positions_of_items)


def _item_id(target: TargetSet, row: TargetRow) -> str:
    """The id of a row as an item; ids of the pool and of other target sets differ from it."""
    return f"{row.id} (target {target.digest[:6]})"


def _add_items(store: Store, target: TargetSet, rows: list[TargetRow], numbers: list[int]) -> int:
    """Add rows as items with features, all or none; the position of the first."""
    settings = store.settings
    n_before = store.n_items
    new_items = [(_item_id(target, rows[number]), rows[number].content) for number in numbers]
    _check_images(store, new_items)
    positions = range(n_before, n_before + len(new_items))
    described = None
    if settings.described is not None:
        described = np.asarray(load_features(store.folder, settings.described))
    encoded = EncodedItems(
        _appended(features_of(store), stored_features(store)[numbers], store.folder),
        unreadable=settings.unreadable,
        described=described,
        unfitted=(*settings.unfitted, *positions),
    )

    def store_items() -> None:
        store.log(ADDED, file=target.name, first=n_before, count=len(new_items), labels=0)
        store.add_items(new_items)
        changes: dict[str, Any] = {"target_items": [*settings.target_items, *positions]}
        if settings.audit:
            changes["audit_excluded"] = [*settings.audit_excluded, *positions]
        store.update_settings(**changes)

    replace_features(store, encoded, settings, store_items)
    keep_features(store, target)
    return n_before


def _appended(features: np.ndarray, rows: np.ndarray, workspace: Path) -> np.ndarray:
    """Features (N, D) with rows (n, D) behind them, in a file."""
    n_before = len(features)
    grown = scratch((n_before + len(rows), features.shape[1]), workspace)
    for block in block_rows(n_before, ROWS):
        grown[block] = features[block]
        release_pages(features)
    grown[n_before:] = rows
    return grown


def _check_images(store: Store, items: list[tuple[str, dict[str, Any]]]) -> None:
    """Refuse images outside of the project's folder of images: the page shows no others."""
    settings = store.settings
    if settings.encoded_kind != "image":
        return
    (column,) = settings.encoded_columns
    for _, content in items:
        path = Path(str(content.get(column) or ""))
        if path.is_absolute():
            raise InputError(
                f"{path} lies outside of {settings.media}, the folder of the project's images; "
                "copy the images of the target set there and add it again."
            )
