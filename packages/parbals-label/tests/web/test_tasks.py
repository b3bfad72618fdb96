"""The page's server with several labels, ordered classes and numbers."""

import numpy as np
import pytest
from page_server import make_project, page
from parbals_label.project.features import store_features
from parbals_label.store.settings import PredictionsFile
from parbals_label.store.store import Store

LABELS = {
    "many-labels": (("a", "b", "c"), '["c","a"]', '["a","c"]', '["a","x"]'),
    "ordinal": (("1", "2", "3"), "2", "2", "4"),
    "regression": ((), "7.50", "7.5", "many"),
}


def predict(folder, rows):
    with Store.open(folder) as store:
        written = store_features(
            folder, np.tile(rows, (40, 1)).astype(np.float32), name="predictions"
        )
        store.update_settings(
            predictions=PredictionsFile(written.file, written.digest, written.shape, answers=0)
        )


@pytest.mark.parametrize("task", LABELS)
def test_answers_are_stored_in_one_form_and_refused_in_a_sentence(tmp_path, task):
    classes, given, stored, wrong = LABELS[task]
    folder = make_project(tmp_path / "p", classes=classes, task=task)
    predict(folder, [12.0, 2.5] if task == "regression" else np.full(len(classes), 0.4))
    with page(folder) as server:
        project = server.get("/api/project").json
        assert (project["task"], project["classes"]) == (task, list(classes))
        (item,) = server.post("/api/take", {"annotator": "ann", "n": 1}).json["items"]
        if task == "regression":
            assert item["why"]["predicted"] == {"mean": 12.0, "deviation": 2.5}
            assert "off by about 2.5" in item["why"]["sentence"]
        if task == "many-labels":
            assert "uncertain about a, b and c" in item["why"]["sentence"]
        refused = server.label("ann", 0, wrong, "r0")
        assert refused.status == 422
        assert wrong.strip('[]"a,') in refused.json["error"]["message"]
        assert server.label("ann", 0, given, "r1").status == 200
        assert server.label("ann", 0, stored, "r2").json["stored"][0]["outcome"] == "repeated"
        row = server.get("/api/items/0").json
        assert (row["label"], row["answers"]) == (stored, {"ann": stored})
        assert server.get("/api/items?state=labelled").json["total"] == 1
        for name in classes:
            assert server.get(f"/api/items?label={name}").json["total"] == (name in stored)
        live = server.get("/api/live").json
        assert live["class_balance"] == {name: int(name in stored) for name in classes}
        assert bool(live["numbers"]) == (task == "regression")
        undone = server.post("/api/undo", {"annotator": "ann", "position": 0, "request_id": "u"})
        assert undone.json["was"]["label"] == stored
        assert server.get("/api/map").status == 200
    with Store.open(folder) as store:
        assert store.n_labelled == 0
        assert store.check() == []


def test_kappa_is_shown_for_each_label(tmp_path):
    folder = make_project(tmp_path / "p", classes=("a", "b"), task="many-labels")
    with page(folder) as server:
        for who, labels in {"ann": ('["a"]', '["b"]'), "bob": ('["a"]', "[]")}.items():
            for position, label in enumerate(labels):
                server.label(who, position, label, f"{who}{position}")
        result = server.get("/api/live").json["agreement"]
        assert result["by_label"] == {"a": 1.0, "b": pytest.approx(-1 / 3)}
