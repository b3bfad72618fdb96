"""Labelling over HTTP: what annotators do, one request after another."""

import time

import pytest
from page_server import make_project, page
from parbals_label.store.store import Store


@pytest.fixture
def server(project):
    with page(project) as server:
        yield server


def test_the_project_is_described_and_its_settings_can_be_changed(server):
    result = server.get("/api/project").json
    assert (result["name"], result["n_items"], result["classes"]) == ("mail", 40, ["ham", "spam"])
    assert (result["kind"], result["text_columns"], result["image_column"]) == (
        "text",
        ["text"],
        None,
    )
    assert (result["answers_wanted"], result["lease_minutes"], result["guidelines"]) == (1, 30, "")
    changes = {
        "highlight": ["prize", "win"],
        "guidelines": "Ask if unsure.",
        "answers_wanted": 2,
        "lease_minutes": 5,
    }
    changed = server.call("PATCH", "/api/settings", changes)
    assert changed.json == {**result, **changes} == server.get("/api/project").json
    assert server.call("PATCH", "/api/settings", {"answers_wanted": 0}).status == 422
    assert server.call("PATCH", "/api/settings", {"classes": ["x"]}).status == 422


def test_an_item_comes_with_its_content_its_lease_and_why_it_was_chosen(server):
    result = server.post("/api/take", {"annotator": "ann", "n": 2}).json
    first, second = result["items"]
    assert (first["position"], first["id"], first["content"]) == (
        0,
        "m000",
        {"text": "message number 0"},
    )
    assert first["image"] is None
    assert abs(first["expires"] - time.time() - 1800) < 60
    why = second["why"]
    assert why["strategy"] == "parbals-epig"
    assert why["sentence"] == "The model has no prediction for this item yet."
    assert why["details"].startswith("Item 2 of 20 in batch 1, chosen by ParBaLS EPIG: ")
    assert why["predicted"] is None
    assert (result["queue"]["ready"], result["queue"]["out"]) == (18, 2)


def test_a_label_that_was_confirmed_is_in_the_project(server):
    assert server.take("ann") == [0]
    answers = [
        {"position": 0, "label": "ham", "request_id": "r0"},
        {"position": 5, "label": "spam", "request_id": "r5", "comment": "sure"},
    ]
    stored = server.post("/api/answers", {"annotator": "ann", "answers": answers})
    assert stored.status == 200
    assert stored.json["stored"] == [
        {"request_id": "r0", "position": 0, "answer": 1, "outcome": "new"},
        {"request_id": "r5", "position": 5, "answer": 2, "outcome": "new"},
    ]
    with Store.open(server.folder, read_only=True) as store:
        assert store.current_labels() == {0: {"ann": "ham"}, 5: {"ann": "spam"}}
    again = server.post("/api/answers", {"annotator": "ann", "answers": answers}).json["stored"]
    assert [row["outcome"] for row in again] == ["repeated", "repeated"]
    assert server.take("ann") == [1]


def test_another_label_is_a_conflict_until_it_is_meant(server):
    server.label("ann", 3, "ham")
    refused = server.label("ann", 3, "spam", "second")
    assert (refused.status, refused.error) == (409, "conflict")
    assert refused.json["error"]["held"] == "ham"
    revised = server.label("ann", 3, "spam", "second", revise=True)
    assert revised.json["stored"][0]["outcome"] == "revised"
    other = server.label("ann", 4, "ham", "second")
    assert (other.status, other.error) == (409, "request")


def test_a_comment_on_ones_own_label_or_pass_is_kept(server):
    server.label("ann", 3, "ham")
    added = server.label("ann", 3, "ham", "second", comment="signed by the bank", revise=True)
    assert added.json["stored"][0]["outcome"] == "revised"
    again = server.label("ann", 3, "ham", "second", comment="signed by the bank", revise=True)
    assert again.json["stored"][0]["outcome"] == "repeated"
    history = server.get("/api/items/3").json["history"]
    assert [(row["label"], row["comment"]) for row in history] == [
        ("ham", None),
        ("ham", "signed by the bank"),
    ]
    assert server.skip("ann", 4).json["outcome"] == "new"
    assert server.skip("ann", 4, request="q", comment="hm").json["outcome"] == "revised"
    undone = server.post("/api/undo", {"annotator": "ann", "position": 4, "request_id": "u"}).json
    assert undone["was"] == {"kind": "skip", "comment": "hm"}


def test_a_comment_added_later_does_not_turn_a_tie(server):
    server.label("ann", 3, "ham")
    server.label("bob", 3, "spam")
    server.label("ann", 3, "ham", "second", comment="sure", revise=True)
    (row,) = server.get("/api/items?state=disagree").json["items"]
    assert row["label"] == server.get("/api/items/3").json["label"] == "ham"


def test_all_answers_of_a_request_are_stored_or_none(server):
    answers = [
        {"position": n, "label": label, "request_id": f"x{n}"}
        for n, label in ((7, "ham"), (8, "eggs"))
    ]
    refused = server.post("/api/answers", {"annotator": "ann", "answers": answers})
    assert refused.status == 422
    assert "not one of the classes" in refused.json["error"]["message"]
    assert server.get("/api/items/7").json["label"] is None


def test_a_pass_frees_the_item_for_others_and_undo_brings_it_back(server):
    assert server.take("ann") == [0]
    for outcome in ("new", "repeated"):
        passed = server.skip("ann", 0, "unsure", comment="hm")
        assert passed.json == {"position": 0, "outcome": outcome}
    assert server.take("ann") == [1]
    assert server.take("bob") == [0]
    server.post("/api/release", {"annotator": "bob", "positions": [0]})
    undone = server.post("/api/undo", {"annotator": "ann", "position": 0, "request_id": "u"}).json
    assert undone["was"] == {"kind": "unsure", "comment": "hm"}
    assert undone["item"]["content"] == {"text": "message number 0"}
    assert server.take("ann", 2) == [0, 1]
    assert server.take("bob") == [2]


def test_undo_takes_back_a_label_once_however_often_it_is_sent(server):
    server.take("ann")
    server.label("ann", 0)
    for _ in range(2):
        undone = server.post("/api/undo", {"annotator": "ann", "position": 0, "request_id": "u"})
        assert undone.json["was"] == {"label": "ham"}
    history = server.get("/api/items/0").json["history"]
    assert [(row["label"], row["revision"]) for row in history] == [("ham", 1), (None, 2)]
    nothing = server.post("/api/undo", {"annotator": "ann", "position": 9, "request_id": "v"})
    assert nothing.status == 422
    assert "neither labelled nor skipped" in nothing.json["error"]["message"]


def test_leases_are_renewed_and_released(server):
    assert server.take("ann", 2) == [0, 1]
    renewed = server.post("/api/leases", {"annotator": "ann", "positions": [0, 1, 2]}).json
    assert renewed["mine"] == [0, 1]
    assert renewed["expires"] > time.time() + 1000
    released = server.post("/api/release", {"annotator": "ann", "positions": [0, 5]}).json
    assert released == {"released": 1}
    assert server.take("bob") == [0]


def test_with_two_answers_wanted_a_second_person_gets_the_item(tmp_path):
    with page(make_project(tmp_path / "p", answers_wanted=2, lease_minutes=7)) as server:
        assert server.get("/api/project").json["lease_minutes"] == 7
        assert server.take("ann") == [0]
        server.label("ann", 0)
        assert server.take("ann") == [1]
        assert server.take("bob") == [0]
        server.label("bob", 0, "spam")
        assert server.take("cyd") == [2]
        row = server.get("/api/items?state=disagree").json
        assert [item["answers"] for item in row["items"]] == [{"ann": "ham", "bob": "spam"}]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/take", {"annotator": "", "n": 1}),
        ("/api/take", {"annotator": "  ", "n": 1}),
        ("/api/take", {"annotator": "a\nb", "n": 1}),
        ("/api/take", {"annotator": "a" * 101}),
        ("/api/take", {"annotator": "a", "n": 0}),
        ("/api/take", {"annotator": "a", "n": "2"}),
        ("/api/take", {"annotator": "a", "n": True}),
        ("/api/take", {"annotator": "a", "more": 1}),
        ("/api/take", ["a"]),
        ("/api/answers", {"annotator": "a", "answers": []}),
        ("/api/answers", {"annotator": "a", "answers": [{"position": 0, "label": "ham"}]}),
        (
            "/api/answers",
            {"annotator": "a", "answers": [{"position": 40, "label": "ham", "request_id": "r"}]},
        ),
        (
            "/api/answers",
            {"annotator": "a", "answers": [{"position": -1, "label": "ham", "request_id": "r"}]},
        ),
        (
            "/api/answers",
            {
                "annotator": "a",
                "answers": [{"position": 10**30, "label": "ham", "request_id": "r"}],
            },
        ),
        (
            "/api/answers",
            {"annotator": "a", "answers": [{"position": 1.5, "label": "ham", "request_id": "r"}]},
        ),
        (
            "/api/answers",
            {"annotator": "a", "answers": [{"position": 0, "label": None, "request_id": "r"}]},
        ),
        ("/api/passes", {"annotator": "a", "position": 0, "kind": "later", "request_id": "r"}),
        ("/api/passes", {"annotator": "a", "position": 4000, "kind": "skip", "request_id": "r"}),
        ("/api/undo", {"annotator": "a", "position": 0}),
        ("/api/leases", {"annotator": "a", "positions": list(range(101))}),
        ("/api/release", {"annotator": "a", "positions": [4000]}),
    ],
)
def test_bad_input_is_refused_in_one_sentence(bad_input_server, path, body):
    refused = bad_input_server.post(path, body)
    assert refused.status == 422, refused.body
    assert set(refused.json) == {"error"}
    assert refused.json["error"]["message"].endswith(".")


@pytest.fixture(scope="module")
def bad_input_server(tmp_path_factory):
    with page(make_project(tmp_path_factory.mktemp("bad") / "p")) as server:
        yield server
        with Store.open(server.folder, read_only=True) as store:
            assert store.current_labels() == {}, "nothing of it was stored"


def test_a_nul_in_a_comment_is_refused_and_nothing_is_stored(server):
    (position,) = server.take("ann")
    for answer in (
        server.label("ann", position, comment="so\0so"),
        server.skip("ann", position, comment="so\0so"),
    ):
        assert (answer.status, answer.error) == (422, "invalid")
    assert server.get("/api/live").json["labelled"] == 0
