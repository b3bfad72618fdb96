"""What owners decide about many items: labels in bulk, ties, classes."""

import numpy as np
import pytest
from page_server import make_project, page
from parbals_label.project.consensus import aggregate_labels, tied_positions
from parbals_label.store.records import Submission
from parbals_label.store.store import Store


def in_bulk(server, positions, label="spam", request="b", annotator="ann", decides=False):
    body = {"annotator": annotator, "positions": positions, "label": label, "request_id": request}
    return server.post("/api/bulk", {**body, "decides": decides})


@pytest.fixture
def audited(tmp_path):
    with page(make_project(tmp_path / "p", audit=[3, 4], queued=6)) as server:
        yield server


def test_many_items_at_once_are_an_answer_each_and_marked(audited):
    assert in_bulk(audited, [1, 5, 1, 9]).json == {"changed": 3, "left": 0}
    assert in_bulk(audited, [1, 5, 9]).json == {"changed": 0, "left": 0}, "a retry is free"
    for position in (1, 5, 9):
        (answer,) = audited.get(f"/api/items/{position}").json["history"]
        assert (answer["label"], answer["source"], answer["annotator"]) == ("spam", "bulk", "ann")
    assert in_bulk(audited, [5, 9], "ham", "c").json["changed"] == 2
    assert audited.get("/api/items/9").json["answers"] == {"ann": "ham"}
    log = audited.get("/api/log").json["rows"]
    assert [row["sentence"] for row in log[:2]] == [
        "labelled 2 items as ham at once",
        "labelled 3 items as spam at once",
    ]
    assert in_bulk(audited, [1, 5, 20], None, "d").json == {"changed": 2, "left": 0}
    with Store.open(audited.folder, read_only=True) as store:
        assert store.current_labels() == {9: {"ann": "ham"}}


def test_what_measures_the_error_is_left_out(audited):
    assert in_bulk(audited, [2, 3, 4]).json == {"changed": 1, "left": 2}
    with Store.open(audited.folder, read_only=True) as store:
        assert set(store.current_labels()) == {2}


def test_a_label_that_is_no_class_or_an_item_too_many_changes_nothing(audited):
    assert in_bulk(audited, [1, 2], "eggs").status == 422
    assert in_bulk(audited, [1, 99]).status == 422
    assert in_bulk(audited, [0] * 301).status == 422
    with Store.open(audited.folder, read_only=True) as store:
        assert store.current_labels() == {}


def test_an_owner_is_held_to_the_pace_of_everybody(tmp_path):
    with page(make_project(tmp_path / "p", n_items=700, queued=2)) as server:
        assert in_bulk(server, [*range(300)]).status == 200
        assert in_bulk(server, [*range(300, 600)], request="c").status == 429


def test_a_decision_stands_above_votes_and_keeps_them(project):
    with page(project) as server:
        server.label("ann", 0, "ham")
        server.label("bob", 0, "spam")
        row = server.get("/api/items?state=tied").json["items"][0]
        assert (row["position"], row["tied"], row["label"]) == (0, True, "ham")
        for changed in (1, 0):  # a retry decides nothing more
            said = {"positions": [0], "label": "spam", "annotator": "bob", "request": "d"}
            assert in_bulk(server, **said, decides=True).json["changed"] == changed
        assert server.get("/api/items?state=tied").json["items"] == []
        whole = server.get("/api/items/0").json
        assert (whole["label"], whole["answers"]) == ("spam", {"ann": "ham", "bob": "spam"})
        assert [step["source"] for step in whole["history"]] == ["person", "person", "decision"]
        assert server.get("/api/live").json["agreement"]["n_items"] == 1, "they still disagree"
        server.label("cyd", 0, "ham")
        assert server.get("/api/items/0").json["label"] == "spam"
        # Who decided takes it back by answering again: then votes count.
        server.label("bob", 0, "ham", request="again", revise=True)
        assert server.get("/api/items/0").json["label"] == "ham"
    with Store.open(project, read_only=True) as store:
        assert aggregate_labels(store.votes())[0] == "ham"
        assert tied_positions(store.votes()) == set()


def test_classes_are_changed_on_the_page_all_or_none(tmp_path):
    folder = make_project(tmp_path / "p", classes=("ham", "spam", "advert", "none"))
    with page(folder) as server:
        server.label("ann", 0, "advert")
        server.label("ann", 1, "ham")

        def change(**body):
            return server.call("PATCH", "/api/settings", {"classes": body})

        assert change(renamed={"ham": "mail"}, removed=["advert"]).status == 422, "it has a label"
        assert server.get("/api/project").json["classes"] == ["ham", "spam", "advert", "none"]
        done = change(
            renamed={"ham": "mail"}, merged={"advert": "spam"}, added=["later"], removed=["none"],
            order=["spam"],
        )  # fmt: skip
        assert done.json["classes"] == ["spam", "mail", "later"]
        assert server.get("/api/items/0").json["label"] == "spam"
        assert server.get("/api/items/1").json["label"] == "mail"
        assert [r["what"] for r in server.get("/api/log").json["rows"]][:3] == [
            "settings changed", "class renamed", "class renamed",
        ]  # fmt: skip
        for bad in ({"added": ["mail"]}, {"removed": ["x"]}, {"order": ["x"]}, {"added": [""]}):
            assert change(**bad).status == 422, bad


def test_lists_are_sorted_by_doubt_prediction_and_meaning(tmp_path):
    from dataclasses import asdict

    from parbals_label.project.features import store_features
    from parbals_label.store.settings import PredictionsFile

    folder = make_project(tmp_path / "p", n_items=8, queued=2, audit=[7], encoded_kind="text")
    spam = np.array([0.1, 0.9, 0.45, 0.6, 0.3, 0.99, 0.2, 0.5])
    rows = np.zeros((8, 2), np.float32)
    rows[:, 0] = np.cos(np.arange(8) / 3)
    rows[:, 1] = np.sin(np.arange(8) / 3)
    rows[6] *= 9  # only the angle counts
    with Store.open(folder) as store:
        probs = np.stack([1 - spam, spam], axis=1).astype(np.float32)
        written = store_features(folder, probs, name="predictions")
        store.submit([Submission(5, "ham")], annotator="ann")
        store.update_settings(
            predictions=PredictionsFile(**asdict(written)),
            doubts=[(5, "ham", 0.002, "spam")],
            features=store_features(folder, rows),
        )
    with page(folder) as server:

        def order(query):
            result = server.get(f"/api/items?{query}").json
            return [row["position"] for row in result["items"]]

        assert order("sort=doubt") == [5, 2, 3, 4, 6, 0, 1, 7], "the audit's item is the last"
        assert order("sort=probability&of=spam") == [5, 1, 3, 2, 4, 6, 0, 7]
        assert order("sort=predicted") == [0, 6, 4, 2, 5, 1, 3, 7]
        assert order("sort=meaning&near=4") == [4, 3, 5, 2, 6, 1, 7, 0]
        assert order("sort=meaning&near=4&q=ignored&state=unlabelled") == [4, 3, 2, 6, 1, 7, 0]
        first = server.get("/api/items?sort=probability&of=spam&limit=3").json
        assert first["next"] == 3
        assert order("sort=probability&of=spam&limit=3&after=3") == [2, 4, 6]
        for bad in ("sort=probability", "sort=probability&of=eggs", "sort=meaning&near=8"):
            assert server.get(f"/api/items?{bad}").status == 422, bad
        # These features are not the encoder's: words cannot be compared with them.
        assert server.get("/api/items?sort=meaning").status == 422
    with page(make_project(tmp_path / "new")) as server:
        assert "no predictions" in server.get("/api/items?sort=doubt").json["error"]["message"]


def test_typed_words_find_what_means_the_same(tmp_path):
    from parbals_label.project.create import Roles, create_project

    texts = ["the striker scored a goal", "a goal in the last minute", "the match was won"]
    texts += ["shares fell on the market", "the bank raised its rates", "profits of the bank"]
    data = tmp_path / "news.csv"
    lines = [f"{text} {n}" for n in range(12) for text in texts]
    data.write_text("\n".join(["text", *lines]))
    create_project(tmp_path / "p", data, Roles(text=("text",)), ["sport", "money"], {},
                   encoder="words")  # fmt: skip
    with page(tmp_path / "p") as server:
        result = server.get("/api/items?sort=meaning&q=bank%20rates&limit=12").json["items"]
        assert all("bank" in row["snippet"] for row in result)
        # Of other encoders it says why not.
        with Store.open(tmp_path / "p") as store:
            store.update_settings(encoder="bert-base-uncased")
        refused = server.get("/api/items?sort=meaning&q=bank")
        assert refused.status == 422
        assert "bert-base-uncased" in refused.json["error"]["message"]
