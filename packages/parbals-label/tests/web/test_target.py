"""The target set on the page: beside the pool on the map, in words, and for owners only."""

import json
from dataclasses import asdict

import numpy as np
import pytest
from page_server import make_project, page
from parbals.errors import InputError
from parbals_label.project.backup import check_project, restore_backup, write_backup
from parbals_label.project.features import load_features, store_features
from parbals_label.project.measuring import draw_requested_sample, request_target_sample
from parbals_label.project.samples import latest_sample
from parbals_label.project.target import add_target, remove_target
from parbals_label.store.records import Submission
from parbals_label.store.settings import PredictionsFile
from parbals_label.store.store import Store
from parbals_label.web.map import make_map, show_map
from parbals_label.web.target import is_compared, show_target, show_target_item
from parbals_label.web.worker import Reporter

N_ITEMS = 400
SECRET = "a row that nobody was given"


@pytest.fixture
def folder(tmp_path):
    """Short texts with four features that came with them, and a column that the page hides."""
    content = [{"text": f"message {n}", "truth": f"t{n % 2}"} for n in range(N_ITEMS)]
    return make_project(tmp_path / "p", content=content, encoder="given", hidden=["truth"])


def write_target(path, n=100, n_far=0, shift=0.0):
    """Rows like the pool's; the last ``n_far`` lie in two places where the pool has none."""
    rows = np.random.default_rng(1).standard_normal((n, 4))
    rows[:, 0] += shift
    for number in range(n - n_far, n):
        rows[number, 1 + number % 3 // 2] += 30.0
    np.savez(path, X=rows.astype(np.float32), text=[f"{SECRET} {i}" for i in range(n)])
    return path


def add(folder, target):
    with Store.open(folder) as store:
        add_target(store, target)
        make_map(store)


def test_the_target_lies_on_the_axes_of_the_pool(folder, tmp_path):
    """The pool's own rows, as a target set, lie where they lie as items."""
    with Store.open(folder) as store:
        features = load_features(store.folder, store.settings.features)
        np.savez(tmp_path / "same.npz", X=np.asarray(features[:50]), text=["x"] * 50)
        add_target(store, tmp_path / "same.npz")
        make_map(store)
        seen = show_map(store, with_target=True)
        assert (show_map(store).target, seen.by_model) == (None, False)
    xy = zip(seen.points.x, seen.points.y, strict=True)
    places = dict(zip(seen.points.position, xy, strict=True))
    assert seen.target.row == list(range(50))
    for row, x, y in zip(seen.target.row, seen.target.x, seen.target.y, strict=True):
        assert (x, y) == pytest.approx(places[row], abs=2e-5)
    assert not any(seen.target.far)


def test_with_the_target_the_map_shows_features_and_not_predictions(folder, tmp_path):
    add(folder, write_target(tmp_path / "new.npz"))
    with Store.open(folder) as store:
        probs = np.tile(np.array([0.9, 0.1], np.float32), (N_ITEMS, 1))
        written = store_features(store.folder, probs, name="predictions")
        before = show_map(store, with_target=True).points
        store.update_settings(predictions=PredictionsFile(**asdict(written)))
        after = show_map(store, with_target=True)
        assert (after.by_model, show_map(store).by_model) == (False, True)
        assert (after.points.x, after.points.y) == (before.x, before.y)


def test_far_items_are_named_in_groups(folder, tmp_path):
    add(folder, write_target(tmp_path / "new.npz", n_far=12))
    with Store.open(folder) as store:
        seen = show_target(store)
        far = [
            row for row, is_far in enumerate(show_map(store, with_target=True).target.far) if is_far
        ]
    assert set(range(88, 100)) <= set(far)
    assert "Collect more items like these" in seen.far_sentence
    assert f"{len(far)} items of the target set" in seen.far_sentence
    assert sum(group.n_items for group in seen.far) == len(far)
    sizes = [group.n_items for group in seen.far]
    assert sizes == sorted(sizes, reverse=True)
    for group in seen.far:
        assert 1 <= len(group.examples) <= 3
        kinds = {example.row % 3 // 2 for example in group.examples if example.row >= 88}
        assert len(kinds) <= 1, "the two places are two kinds"
        assert all(example.snippet == f"{SECRET} {example.row}" for example in group.examples)


@pytest.mark.parametrize(("shift", "words"), [(0.0, "hard to tell"), (4.0, "very different")])
def test_the_page_says_how_different_the_target_is(folder, tmp_path, shift, words):
    add(folder, write_target(tmp_path / "new.npz", shift=shift))
    with Store.open(folder) as store:
        seen = show_target(store)
    assert (seen.name, seen.n_rows, seen.message) == ("new.npz", 100, None)
    assert words in seen.sentence


def test_without_a_target_and_before_it_is_compared(folder, tmp_path):
    with Store.open(folder) as store:
        make_map(store)
        assert show_target(store).name is None
        assert show_map(store, with_target=True).target is None
        add_target(store, write_target(tmp_path / "new.npz"))
        assert not is_compared(store)
        assert show_target(store).message == "The target set is being compared with the pool."
        make_map(store)
        assert is_compared(store)
        file = store.folder / store.settings.target_map.file
        remove_target(store)
        assert not is_compared(store)
        make_map(store)
        assert store.settings.target_map is None
        assert not file.exists()


def test_a_filter_shows_items_without_hidden_columns(folder):
    add(folder, "truth = t1")
    with Store.open(folder) as store:
        item = show_target_item(store, 3)
        assert (item.position, item.snippet) == (7, "message 7")
        assert "t1" not in item.snippet


def test_a_backup_has_the_comparison(folder, tmp_path):
    add(folder, write_target(tmp_path / "new.npz"))
    write_backup(folder, tmp_path / "b.zip")
    restore_backup(tmp_path / "b.zip", tmp_path / "again")
    assert check_project(tmp_path / "again")[1] == []
    with Store.open(tmp_path / "again") as store:
        assert is_compared(store)
        assert len(show_map(store, with_target=True).target.row) == 100


def test_annotators_see_nothing_of_the_target(folder, tmp_path):
    add(folder, write_target(tmp_path / "secret.npz", n_far=12))
    with Store.open(folder) as store:
        link = store.invite("eve", "annotator")
    with page(folder) as server:
        assert SECRET in json.dumps(server.get("/api/target").json)
        assert server.get("/api/target/5").json["snippet"] == f"{SECRET} 5"
        assert server.get("/api/target/100").status == 404
        assert server.get("/api/map?target=true").json["target"]["row"] == list(range(100))
        eve = server.visit(link)
        for path in ("/api/target", "/api/target/5", "/api/map?target=true"):
            assert server.get(path, headers=eve, token=False).status == 403
        for path in ("/api/live", "/api/project", "/api/items", "/api/me"):
            answer = server.get(path, headers=eve, token=False)
            assert answer.status == 200
            assert b"secret" not in answer.body
            assert SECRET.encode() not in answer.body


class TestMeasuring:
    """An owner draws a random sample of the target set on the page; the worker computes."""

    def test_the_worker_draws_what_an_owner_asks_for(self, folder, tmp_path):
        with Store.open(folder) as store:
            store.submit([Submission(n, ("ham", "spam")[n % 2]) for n in range(8)], annotator="ann")
            add_target(store, write_target(tmp_path / "new.npz"))
            with page(folder) as server:
                assert server.get("/api/target").json["n_measurable"] == 100
                request = {"n": 12, "from_target": True}
                assert server.post("/api/measure", request).json == {"drawn": 12}
            assert store.n_items == N_ITEMS, "the server computes nothing"
            reporter = Reporter(store, lambda **message: None)
            assert reporter.step()
            sample = latest_sample(store)
            assert (sample.n, sample.target) == (12, "new.npz")
            drawn = store.settings.target_items
            assert drawn == tuple(range(N_ITEMS, N_ITEMS + 12))
            assert set(drawn) <= set(store.queued()[0])
            assert not reporter._draw_sample(), "it is drawn once"
            with pytest.raises(InputError, match="not complete"):
                request_target_sample(store, 3)

    def test_a_worker_that_ended_after_drawing_does_not_draw_again(self, folder, tmp_path):
        with Store.open(folder) as store:
            store.submit([Submission(n, ("ham", "spam")[n % 2]) for n in range(8)], annotator="ann")
            add_target(store, write_target(tmp_path / "new.npz"))
            request_target_sample(store, 5)
            draw_requested_sample(store)
            store.update_settings(target_sample=5)
            assert draw_requested_sample(store)
            assert (store.n_items, store.settings.target_sample) == (N_ITEMS + 5, 0)

    @pytest.mark.parametrize(
        ("request_", "words"),
        [
            ({"n": 101, "from_target": True}, "100 rows of the target set have no label"),
            ({"n": 3, "from_target": True, "keep": True}, "drawn from the pool"),
        ],
    )
    def test_requests_that_cannot_be_met_are_refused(self, folder, tmp_path, request_, words):
        with Store.open(folder) as store:
            store.submit([Submission(0, "ham"), Submission(1, "spam")], annotator="ann")
            add_target(store, write_target(tmp_path / "new.npz"))
        with page(folder) as server:
            reply = server.post("/api/measure", request_)
            assert (reply.status, words in reply.body.decode()) == (422, True)
            assert server.get("/api/live").json["is_measuring"] is False
