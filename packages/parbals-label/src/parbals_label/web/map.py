"""The map: every item's place along the two directions in which the items differ most."""

from dataclasses import asdict

import numpy as np
from parbals.errors import ProjectDamagedError

from parbals_label.project.consensus import combined_labels
from parbals_label.project.features import load_features, store_features
from parbals_label.store.settings import MapFile
from parbals_label.store.store import Store
from parbals_label.web.items import Predictions
from parbals_label.web.schemas import MapOut, Points

__all__ = ["make_map", "show_map"]

_SAMPLE = 20_000
_BLOCK = 8192
_MOST_POINTS = 4_000


def make_map(store: Store) -> None:
    """Store the places (N, 2) of all items, scaled to [-1, 1]."""
    from sklearn.decomposition import PCA

    settings = store.settings
    assert settings.features is not None
    features = load_features(store.folder, settings.features, encoder=settings.encoder)
    some = np.sort(np.random.default_rng(0).permutation(len(features))[:_SAMPLE])
    sample = np.asarray(features[some], np.float64)
    n_axes = min(2, *sample.shape)
    pca = PCA(n_axes, random_state=0)
    with np.errstate(invalid="ignore"):  # shares of no variance, where all items are alike
        pca.fit(sample)
    places = np.zeros((len(features), 2), np.float32)
    for start in range(0, len(features), _BLOCK):
        block = np.asarray(features[start : start + _BLOCK], np.float64)
        places[start : start + _BLOCK, :n_axes] = pca.transform(block)
    places /= max(float(np.abs(places).max(initial=0.0)), 1e-12)
    written = store_features(store.folder, places, name="map")
    shares = np.nan_to_num([*pca.explained_variance_ratio_, 0.0, 0.0])[:2].tolist()
    store.update_settings(
        map=MapFile(**asdict(written), explained=tuple(shares), features=settings.features.digest)
    )
    if settings.map is not None and settings.map.file != written.file:
        (store.folder / settings.map.file).unlink(missing_ok=True)


def show_map(store: Store) -> MapOut:
    """At most 4,000 items in two dimensions, those in play among them."""
    n_items = store.n_items
    stored = store.settings.map
    try:
        places = None if stored is None else load_features(store.folder, stored)
    except ProjectDamagedError:
        places = None
    if stored is None or places is None or len(places) != n_items:
        message = "The map is being made; it takes a moment after the server has started."
        return MapOut(n_total=n_items, message=message)
    labels = combined_labels(store.votes())
    waiting, out = store.queued()
    states = {**dict.fromkeys(waiting, 1), **dict.fromkeys(out, 2), **dict.fromkeys(labels, 3)}
    positions = sorted(states)
    if len(positions) > _MOST_POINTS:
        some = np.linspace(0, len(positions) - 1, _MOST_POINTS).astype(int).tolist()
        positions = [positions[place] for place in some]
    # The same part of the others every time, or the picture would flicker.
    others = np.random.default_rng(0).permutation(n_items)[:_MOST_POINTS].tolist()
    free = _MOST_POINTS - len(positions)
    positions += [position for position in others if position not in states][:free]
    numbers = {label: number for number, label in enumerate(store.classes)}
    xy = np.asarray(places[positions], np.float64).round(5)
    predicted = Predictions(store).classes_of(positions)
    points = Points(
        position=positions,
        x=xy[:, 0].tolist(),
        y=xy[:, 1].tolist(),
        state=[states.get(position, 0) for position in positions],
        label=[numbers[labels[p]] if p in labels else -1 for p in positions],
        predicted=predicted,
    )
    return MapOut(n_total=n_items, points=points, explained=list(stored.explained), message=None)
