"""The map: where every item lies among the others, and among the classes.

Before there are predictions, its place is that along the two directions in which the items differ
most. After that the classes stand in a circle, in their order, and an item is drawn to each as the
model believes in it: x = Σ_c p_c a_c + a part of the former place, which keeps apart what looks
different. What it is sure of lies in clusters at the rim, and what it wavers between in the middle.
"""

from dataclasses import asdict

import numpy as np
from parbals.errors import ProjectDamagedError

from parbals_label.answer_form import MANY, NUMBERS
from parbals_label.project.consensus import consensus_labels
from parbals_label.project.features import load_features, remove_matrices, store_features
from parbals_label.store.settings import MapFile
from parbals_label.store.store import Store
from parbals_label.web.items import Predictions
from parbals_label.web.schemas import MapOut, Points

__all__ = ["make_map", "show_map"]

_SAMPLE = 20_000
_BLOCK = 8192
_MOST_POINTS = 4_000
_BY_CLASS = 0.7
"""The predictions' part of a place. Of 15 neighbours' vote in two dimensions 83 % and 72 % were
right with six and ten kinds of texts (150 labels), by principal directions alone 57 % and 53 %."""


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
    remove_matrices(store, settings.map)


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
    labels = consensus_labels(store)
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
    predictions = Predictions(store)
    if predictions.rows is not None:  # places tell them, and of the audit's items nobody is told
        hidden = predictions.audit - labels.keys()
        positions = [position for position in positions if position not in hidden]
    numbers = {label: number for number, label in enumerate(store.classes)}
    xy = np.asarray(places[positions], np.float64)
    by_model = predictions.rows is not None and predictions.form.task not in (MANY, NUMBERS)
    if predictions.rows is not None and by_model:
        xy = _among_classes(xy, predictions.rows[positions])
    xy = xy.round(5)
    points = Points(
        position=positions,
        x=xy[:, 0].tolist(),
        y=xy[:, 1].tolist(),
        state=[states.get(position, 0) for position in positions],
        label=[numbers.get(labels.get(p, ""), -1) for p in positions],
        predicted=predictions.classes_of(positions),
    )
    return MapOut(
        n_total=n_items, points=points, explained=list(stored.explained), by_model=by_model
    )


def _among_classes(places: np.ndarray, probs: np.ndarray) -> np.ndarray:
    """Places (n, 2) by predictions (n, C), the first class on the left and the others clockwise."""
    angles = np.pi - 2.0 * np.pi * np.arange(probs.shape[1]) / probs.shape[1]
    corners = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return _BY_CLASS * probs @ corners + (1.0 - _BY_CLASS) * places
