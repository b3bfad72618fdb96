"""The map: all items in two dimensions.

Before there are predictions, the coordinates are the first two principal components. With
predictions, the classes are placed on a circle at points a_c, in their order, and an item lies at
0.7 Σ_c p_c a_c + 0.3 times its principal components. Confident predictions form clusters at the
edge, uncertain ones lie in the middle, and the principal components separate dissimilar items.
Beside a target set all points lie at their principal components: where the two differ does not
depend on the model.
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
from parbals_label.web.target import compare_target, target_points

__all__ = ["make_map", "show_map"]

_PCA_ITEMS = 20_000
_BLOCK_ROWS = 8192
_MAX_POINTS = 4_000
_PREDICTION_WEIGHT = 0.7
"""Weight of the predictions in the coordinates. A vote of 15 neighbours on the map was right for
83 % and 72 % of texts of six and ten classes (150 labels); with principal components alone for
57 % and 53 %."""


def make_map(store: Store) -> None:
    """Store the principal components (N, 2) of all items, scaled to [-1, 1], and the target set's.

    Coordinates of target rows may lie outside of [-1, 1].
    """
    from sklearn.decomposition import PCA

    settings = store.settings
    assert settings.features is not None
    features = load_features(store.folder, settings.features, encoder=settings.encoder)
    sampled = np.sort(np.random.default_rng(0).permutation(len(features))[:_PCA_ITEMS])
    sample = np.asarray(features[sampled], np.float64)
    n_axes = min(2, *sample.shape)
    pca = PCA(n_axes, random_state=0)
    with np.errstate(invalid="ignore"):  # 0/0 explained variance if all items are equal
        pca.fit(sample)
    coordinates = np.zeros((len(features), 2), np.float32)
    for start in range(0, len(features), _BLOCK_ROWS):
        block = np.asarray(features[start : start + _BLOCK_ROWS], np.float64)
        coordinates[start : start + _BLOCK_ROWS, :n_axes] = pca.transform(block)
    scale = max(float(np.abs(coordinates).max(initial=0.0)), 1e-12)
    coordinates /= scale
    written = store_features(store.folder, coordinates, name="map")
    explained = np.nan_to_num([*pca.explained_variance_ratio_, 0.0, 0.0])[:2].tolist()
    store.update_settings(
        map=MapFile(
            **asdict(written), explained=tuple(explained), features=settings.features.digest
        )
    )
    store.update_settings(target_map=compare_target(store, features, pca, scale))
    remove_matrices(store, settings.map, settings.target_map)


def show_map(store: Store, *, with_target: bool = False) -> MapOut:
    """Return at most 4,000 items in two dimensions, labelled and queued ones first.

    ``with_target``: beside rows of the target set, if there is one.
    """
    n_items = store.n_items
    stored = store.settings.map
    try:
        coordinates = None if stored is None else load_features(store.folder, stored)
    except ProjectDamagedError:
        coordinates = None
    if stored is None or coordinates is None or len(coordinates) != n_items:
        message = "The map is being computed; it appears a moment after the server has started."
        return MapOut(n_total=n_items, message=message)
    target = target_points(store) if with_target else None
    labels = consensus_labels(store)
    waiting, assigned = store.queued()
    states = dict.fromkeys(waiting, 1) | dict.fromkeys(assigned, 2) | dict.fromkeys(labels, 3)
    positions = _shown_positions(states, n_items)
    predictions = Predictions(store)
    if predictions.rows is not None:  # their place would reveal their prediction
        hidden = predictions.hidden - labels.keys()
        positions = [position for position in positions if position not in hidden]
    class_indices = {label: index for index, label in enumerate(store.classes)}
    xy = np.asarray(coordinates[positions], np.float64)
    has_classes = predictions.form.task not in (MANY, NUMBERS)
    by_model = predictions.rows is not None and has_classes and target is None
    if predictions.rows is not None and by_model:
        rows = np.array(predictions.rows[positions], np.float64)
        for index, position in enumerate(positions):
            if position in predictions.hidden:  # it stands where its label is, not the prediction
                rows[index] = np.arange(rows.shape[1]) == class_indices[labels[position]]
        xy = _towards_classes(xy, rows)
    xy = xy.round(5)
    points = Points(
        position=positions,
        x=xy[:, 0].tolist(),
        y=xy[:, 1].tolist(),
        state=[states.get(position, 0) for position in positions],
        label=[class_indices.get(labels.get(position, ""), -1) for position in positions],
        predicted=predictions.classes_of(positions),
    )
    return MapOut(
        n_total=n_items,
        points=points,
        explained=list(stored.explained),
        by_model=by_model,
        target=target,
    )


def _shown_positions(states: dict[int, int], n_items: int) -> list[int]:
    """Return at most 4,000 positions: those with a state, filled up with random others."""
    positions = sorted(states)
    if len(positions) > _MAX_POINTS:
        indices = np.linspace(0, len(positions) - 1, _MAX_POINTS).astype(int).tolist()
        positions = [positions[index] for index in indices]
    # The same random items every time, so that the map does not flicker.
    others = np.random.default_rng(0).permutation(n_items)[:_MAX_POINTS].tolist()
    n_left = _MAX_POINTS - len(positions)
    return positions + [position for position in others if position not in states][:n_left]


def _towards_classes(coordinates: np.ndarray, probs: np.ndarray) -> np.ndarray:
    """Move coordinates (n, 2) by predictions (n, C); the first class is on the left."""
    angles = np.pi - 2.0 * np.pi * np.arange(probs.shape[1]) / probs.shape[1]
    corners = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return _PREDICTION_WEIGHT * probs @ corners + (1.0 - _PREDICTION_WEIGHT) * coordinates
