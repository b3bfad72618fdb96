"""The target set on the page: how different it is from the pool, and which of its items are far.

The worker compares the two once and stores the result with the map. Only owners see it, because
rows of a target set were given to no annotator.
"""

from typing import Any

import numpy as np
from parbals.arrays import drawn_positions
from parbals.errors import InputError, ProjectDamagedError
from parbals.learner.evaluation.shift import Shift, compare_with_pool
from parbals.learner.evaluation.support import MAX_REFERENCE_ROWS, MAX_SEARCHED_ROWS, far_rows
from parbals.learner.features import FeatureTable
from parbals.randomness import derive_generator
from parbals.wording import counted, percent
from starlette.exceptions import HTTPException

from parbals_label.project.features import load_features, store_features
from parbals_label.project.target import stored_features, target_features, target_items
from parbals_label.project.target_rows import TargetRow
from parbals_label.project.target_sample import n_target_rows_left
from parbals_label.store.records import Item
from parbals_label.store.settings import ProjectSettings, TargetMap
from parbals_label.store.store import Store
from parbals_label.web.items import snippet
from parbals_label.web.schemas import FarGroup, TargetItem, TargetOut, TargetPoints

__all__ = [
    "compare_target",
    "is_compared",
    "show_target",
    "show_target_item",
    "target_key",
    "target_points",
]

_MAX_POINTS = 1_000
_MAX_GROUPS = 4
_MIN_GROUP_ROWS = 3
"""Far rows for each group of them, at least."""
_MAX_EXAMPLES = 3


def target_key(settings: ProjectSettings) -> str:
    """Name what was compared: the rows of the target set, and the features of the pool."""
    if settings.target is None or settings.features is None:
        return ""
    return f"{settings.target.digest}-{settings.features.digest}"


def is_compared(store: Store) -> bool:
    """Whether the stored comparison is that of the current target set and pool."""
    settings = store.settings
    stored = settings.target_map
    if settings.target is None:
        return stored is None
    is_current = stored is not None and stored.key == target_key(settings)
    return stored is not None and is_current and (store.folder / stored.file).exists()


def compare_target(store: Store, features: np.ndarray, pca: Any, scale: float) -> TargetMap | None:
    """Compare the target set with the pool, and place its rows on the map of the pool.

    Args:
        features: (N, D) of the pool.
        pca: the fitted principal components of the pool.
        scale: by which the pool's coordinates were divided.
    """
    settings = store.settings
    rows = target_features(store)
    if rows is None:
        return None
    target = stored_features(store)  # after the above, which may have filtered the pool again
    key = target_key(store.settings)
    generator = derive_generator(settings.seed, "target map")
    drawn_from_target = np.array(settings.target_items, np.int64)  # items like those would be near
    pool_positions = drawn_positions(
        generator, len(features), MAX_REFERENCE_ROWS, drawn_from_target
    )
    searched = drawn_positions(generator, len(target), MAX_SEARCHED_ROWS)
    far = far_rows(np.asarray(features[pool_positions]), np.asarray(target[searched]))
    far_numbers = searched[far.positions]
    pool = FeatureTable(features, checked=True)
    shift = compare_with_pool(pool, FeatureTable(rows, checked=True), settings.seed)
    shown = drawn_positions(generator, len(target), _MAX_POINTS)
    shown = np.union1d(shown, far_numbers)
    points = np.zeros((len(shown), 3), np.float32)
    points[:, 0] = shown
    coordinates = pca.transform(np.asarray(target[shown], np.float64))
    points[:, 1 : 1 + coordinates.shape[1]] = coordinates / scale
    written = store_features(store.folder, points, name="map")
    return TargetMap(
        file=written.file,
        digest=written.digest,
        shape=written.shape,
        key=key,
        far=_groups(np.asarray(target), far_numbers),
        n_searched=far.n_searched,
        auc=shift.auc,
        n_compared=shift.n_rows,
    )


def _groups(target: np.ndarray, numbers: np.ndarray) -> tuple[tuple[int, ...], ...]:
    """Divide far rows into groups of similar ones, the largest first, each from its middle out."""
    from sklearn.cluster import KMeans

    n_groups = min(_MAX_GROUPS, len(numbers) // _MIN_GROUP_ROWS)
    if n_groups <= 1:
        return (tuple(numbers.tolist()),) if len(numbers) else ()
    rows = target[numbers].astype(np.float64)
    n_groups = min(n_groups, len(np.unique(rows, axis=0)))
    distances = KMeans(n_groups, n_init=3, random_state=0).fit(rows).transform(rows)
    nearest = distances.argmin(axis=1)
    groups = []
    for group in range(n_groups):
        members = np.flatnonzero(nearest == group)
        order = np.argsort(distances[members, group], kind="stable")
        groups.append(tuple(numbers[members[order]].tolist()))
    return tuple(sorted(groups, key=len, reverse=True))


def target_points(store: Store) -> TargetPoints | None:
    """Return the target rows on the map; None if there are none, or not yet."""
    stored = store.settings.target_map
    if stored is None or not is_compared(store):
        return None
    try:
        points = np.asarray(load_features(store.folder, stored), np.float64)
    except ProjectDamagedError:
        return None
    far = {number for group in stored.far for number in group}
    numbers = points[:, 0].astype(int).tolist()
    return TargetPoints(
        row=numbers,
        x=points[:, 1].round(5).tolist(),
        y=points[:, 2].round(5).tolist(),
        far=[number in far for number in numbers],
    )


def show_target(store: Store) -> TargetOut:
    """Return the target set in words, with examples of items that are far from the pool."""
    target = store.settings.target
    if target is None:
        return TargetOut()
    out = TargetOut(name=target.name, n_rows=target.n_rows, n_measurable=_n_measurable(store))
    stored = store.settings.target_map
    if stored is None or not is_compared(store):
        out.message = "The target set is being compared with the pool."
        return out
    out.sentence = Shift(stored.auc, stored.n_compared).sentence
    n_far = sum(map(len, stored.far))
    if not n_far:
        out.far_sentence = "No item of the target set is far from everything in the pool."
        return out
    share = percent(n_far / stored.n_searched)
    out.far_sentence = (
        f"{counted(n_far, 'item')} of the target set ({share} of {stored.n_searched:,}) "
        f"{'is' if n_far == 1 else 'are'} far from everything in the pool, so no label says much "
        "about them. Collect more items like these:"
    )
    rows = target_items(store)
    out.far = [
        FarGroup(
            n_items=len(group),
            examples=[_shown(store, rows[number], number) for number in group[:_MAX_EXAMPLES]],
        )
        for group in stored.far
    ]
    return out


def _n_measurable(store: Store) -> int:
    """Rows that a sample can be drawn from; 0 where none can."""
    try:
        return n_target_rows_left(store)
    except InputError:  # rows with weights
        return 0


def show_target_item(store: Store, row: int) -> TargetItem:
    """Return the item in one row of the target set; 404 if there is none."""
    rows = target_items(store)
    if row >= len(rows):
        raise HTTPException(404, f"The target set has no row {row}")
    return _shown(store, rows[row], row)


def _shown(store: Store, row: TargetRow, number: int) -> TargetItem:
    """Return an item without the columns that the page hides."""
    item = Item(position=row.position or 0, id=row.id, content=row.content)
    columns = [name for name in store.settings.visible_columns if name in row.content]
    return TargetItem(row=number, id=row.id, snippet=snippet(item, columns), position=row.position)
