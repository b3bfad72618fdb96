"""The map: two principal directions of the features, remembered for the page."""

from dataclasses import asdict

import numpy as np
import pytest
from page_server import make_project
from parbals_label.project.features import load_features, store_features
from parbals_label.store.records import Submission
from parbals_label.store.settings import PredictionsFile
from parbals_label.store.store import Store
from parbals_label.web.map import make_map, show_map


@pytest.fixture
def store(tmp_path):
    with Store.open(make_project(tmp_path / "p", n_items=30, queued=4)) as store:
        yield store


def test_the_map_is_the_two_main_directions_scaled_and_remembered(store):
    generator = np.random.default_rng(1)
    rows = generator.standard_normal((30, 2)) * [10.0, 3.0] @ [[1, 0, 0, 0], [0, 0, 1, 0]]
    store.update_settings(features=store_features(store.folder, rows.astype(np.float32)))
    make_map(store)
    places = load_features(store.folder, store.settings.map)
    assert np.abs(places).max() == pytest.approx(1.0)
    centred = rows - rows.mean(axis=0)
    values, vectors = np.linalg.eigh(centred.T @ centred)
    for axis in (0, 1):
        true = centred @ vectors[:, -1 - axis]
        assert abs(np.corrcoef(true, places[:, axis])[0, 1]) == pytest.approx(1.0, abs=1e-4)
    assert store.settings.map.explained == pytest.approx(
        [values[-1] / values.sum(), values[-2] / values.sum()], 1e-4
    )
    before = store.settings.map
    make_map(store)
    assert store.settings.map == before, "the same features give the same map"
    assert len(list(store.folder.glob("map-*.npy"))) == 1


@pytest.mark.parametrize("shape", [(30, 1), (30, 2100)])
def test_a_map_of_one_or_of_very_many_features(store, shape):
    rows = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    store.update_settings(features=store_features(store.folder, rows))
    make_map(store)
    places = load_features(store.folder, store.settings.map)
    assert np.isfinite(places).all()
    assert len(store.settings.map.explained) == 2


def test_a_map_of_items_that_are_all_alike_is_finite(store):
    store.update_settings(features=store_features(store.folder, np.ones((30, 3), np.float32)))
    make_map(store)
    assert np.isfinite(load_features(store.folder, store.settings.map)).all()


def test_the_map_shows_what_the_metric_decides(store):
    """Where spam is rare, balanced accuracy decides for it long before it is the likelier one."""
    guesses = np.tile(np.array([0.95, 0.05], np.float32), (30, 1))
    guesses[[4, 7]] = 0.6, 0.4
    written = store_features(store.folder, guesses, name="predictions")
    store.update_settings(predictions=PredictionsFile(**asdict(written)))
    make_map(store)

    def spam():
        points = show_map(store).points
        return {p for p, c in zip(points.position, points.predicted, strict=True) if c == 1}

    assert spam() == set()
    store.update_settings(loss="balanced-accuracy")
    assert spam() == {4, 7}


def test_the_page_sees_where_every_item_lies_and_what_state_it_is_in(store):
    waiting = show_map(store)
    assert (waiting.n_total, waiting.points.x, waiting.explained) == (30, [], [])
    assert "is being computed" in waiting.message
    make_map(store)
    store.take("ann", 1, 60.0)
    store.submit([Submission(9, "spam")], annotator="ann")
    seen = show_map(store)
    points = seen.points
    state = dict(zip(points.position, points.state, strict=True))
    assert (seen.message, len(seen.explained), set(state)) == (None, 2, set(range(30)))
    assert [state[position] for position in (0, 1, 9, 20)] == [2, 1, 3, 0]
    assert max(map(abs, points.x + points.y)) <= 1.0
    label = dict(zip(points.position, points.label, strict=True))
    assert (label[9], label[20], set(points.predicted)) == (1, -1, {-1})


def test_items_are_drawn_to_the_classes_that_the_model_believes_in(store):
    make_map(store)
    before = {p: (x, y) for p, x, y in zip(*points_of(store), strict=True)}
    guesses = np.full((30, 2), 0.5, np.float32)
    guesses[[3, 8]] = 0.98, 0.02
    guesses[[5, 9]] = 0.02, 0.98
    written = store_features(store.folder, guesses, name="predictions")
    store.update_settings(predictions=PredictionsFile(**asdict(written)))
    store.submit([Submission(9, "spam")], annotator="ann")
    after = {p: (x, y) for p, x, y in zip(*points_of(store), strict=True)}
    for position, share in ((3, 0.98), (5, 0.02), (20, 0.5)):
        x, y = before[position]
        # Two classes stand left and right: x = 0.7 (p_right - p_left) + 0.3 x.
        assert after[position] == pytest.approx(
            (0.7 * (1 - 2 * share) + 0.3 * x, 0.3 * y), abs=1e-4
        )
    assert show_map(store).by_model


def test_a_place_does_not_tell_what_is_predicted_for_the_audit(store):
    make_map(store)
    store.update_settings(audit=[4, 9])
    assert {4, 9} <= set(points_of(store)[0]), "without predictions a place tells nothing"
    written = store_features(store.folder, np.full((30, 2), 0.5, np.float32), name="predictions")
    store.update_settings(predictions=PredictionsFile(**asdict(written)))
    store.submit([Submission(9, "spam")], annotator="ann")
    assert set(points_of(store)[0]) == set(range(30)) - {4}, "9 has its label"


def points_of(store):
    points = show_map(store).points
    return points.position, points.x, points.y
