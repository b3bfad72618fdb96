"""The rules of the project store, one by one."""

import json
import re
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest
from parbals.errors import InputError, LabelError, ProjectError
from parbals_label.store.records import Item, Submission, SubmitResult
from parbals_label.store.settings import MatrixFile, PredictionsFile, ProjectSettings
from parbals_label.store.store import Store


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "project"


@pytest.fixture
def store(folder):
    with Store.create(
        folder, classes=["spam", "ham"], settings={"seed": 7, "strategy": "parbals-epig"}
    ) as store:
        store.add_items((f"mail-{n}", {"text": f"text {n}", "length": n}) for n in range(10))
        yield store


def labels(store):
    return store.current_labels()


# Projects


def test_settings_and_classes_come_back_as_they_were_given(store, folder):
    matrix = MatrixFile("features-1.npy", "1", (3, 2))
    store.update_settings(seed=8, columns=["text"], features=matrix, encoder="words")
    with Store.open(folder) as again:
        assert again.settings == ProjectSettings(
            seed=8, columns=("text",), features=matrix, encoder="words"
        )
        assert again.classes == ("spam", "ham")
    store.update_settings(features=None)
    assert store.settings.features is None
    assert store.settings.encoder == "words"


def test_settings_are_stored_as_plain_json(store, folder):
    store.update_settings(
        unreadable=(1, 2),
        predictions=PredictionsFile("predictions-2.npy", "2", (10, 2), answers=4),
    )
    with closing(sqlite3.connect(folder / "project.sqlite3")) as connection:
        stored = dict(connection.execute("SELECT key, value FROM meta"))
    assert stored["unreadable"] == "[1,2]"
    assert json.loads(stored["predictions"]) == {
        "file": "predictions-2.npy",
        "digest": "2",
        "shape": [10, 2],
        "answers": 4,
        "class_weights": [],
        "metric": "",
    }


def test_a_class_that_answers_name_can_be_added_but_not_removed(store):
    store.update_settings(classes=["spam", "ham", "unsure"])
    store.submit([Submission(0, "unsure")], annotator="ann")
    with pytest.raises(LabelError, match="'unsure' cannot be removed"):
        store.update_settings(classes=["spam", "ham"])
    assert store.classes == ("spam", "ham", "unsure")


def test_a_folder_that_holds_a_project_is_not_overwritten(store, folder):
    with pytest.raises(ProjectError, match="already there"):
        Store.create(folder, classes=["a", "b"], settings={})
    assert store.classes == ("spam", "ham")


def test_a_left_over_wal_file_does_not_get_into_a_new_project(folder):
    folder.mkdir()
    (folder / "project.sqlite3-wal").write_bytes(b"of a project that was deleted")
    with pytest.raises(ProjectError, match="-wal is already there"):
        Store.create(folder, classes=["a", "b"], settings={})


def test_a_folder_without_a_project_is_refused_and_left_alone(tmp_path):
    with pytest.raises(ProjectError, match=r"There is no project in .*parbals init"):
        Store.open(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_no_drafts_stay_behind_after_creating(store, folder):
    assert {path.name for path in folder.iterdir()} <= {
        "project.sqlite3",
        "project.sqlite3-wal",
        "project.sqlite3-shm",
        "project.journal",
    }


@pytest.mark.parametrize(
    "classes", ["ab", ["a"], [], ["a", "a"], ["a", ""], ["a", None], ["a", "\ud800"]]
)
def test_classes_that_cannot_be_used_are_refused_before_a_file_is_made(folder, classes):
    with pytest.raises(InputError, match="class"):
        Store.create(folder, classes=classes, settings={})
    assert not folder.exists()


@pytest.mark.parametrize(
    "settings",
    [
        {"classes": ["x"]},
        {"project": "x"},
        {"colour": "red"},
        {"seed": float("nan")},
        {"seed": True},
        {"seed": None},
        {"prior_scale": 0},
        {"prior_scale": "wide"},
        {"loss": "brier"},
        {"columns": "text"},
        {"columns": [1]},
        {"guidelines": "\ud800"},
        {"encoder": print},
        {"features": "features.npy"},
        {"map": {"file": "map.npy"}},
    ],
)
def test_settings_that_cannot_be_used_are_refused_before_a_file_is_made(folder, settings):
    with pytest.raises(InputError, match="setting"):
        Store.create(folder, classes=["a", "b"], settings=settings)
    assert not folder.exists()


@pytest.mark.parametrize("change", [{"colour": "red"}, {"answers_wanted": 0}, {"seed": "one"}])
def test_a_change_of_settings_that_cannot_be_used_changes_nothing(store, change):
    with pytest.raises(InputError, match="setting"):
        store.update_settings(guidelines="Read twice.", **change)
    assert store.settings == ProjectSettings(seed=7)


def test_a_project_opened_for_reading_cannot_be_changed(store, folder):
    with Store.open(folder, read_only=True) as reader:
        with pytest.raises(ProjectError, match="for reading only"):
            reader.submit([Submission(0, "ham")], annotator="ann")
        store.submit([Submission(0, "ham")], annotator="ann")
        assert labels(reader) == {0: {"ann": "ham"}}, "a reader sees what others store"


def test_a_closed_store_says_so(store):
    store.close()
    store.close()
    with pytest.raises(ProjectError, match="closed"):
        store.n_items  # noqa: B018


def test_the_store_starts_without_jax():
    code = "import sys, parbals_label.store.store; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


# Items


def test_items_come_back_in_order_with_their_columns(store):
    assert store.n_items == 10
    assert store.items([3, 1]) == [
        Item(3, "mail-3", {"text": "text 3", "length": 3}),
        Item(1, "mail-1", {"text": "text 1", "length": 1}),
    ]
    assert [item.position for item in store.iter_items()] == list(range(10))
    assert store.position_of(["mail-9", "mail-0"]) == [9, 0]


def test_many_items_stream_through(store):
    assert store.add_items((f"more-{n}", {}) for n in range(2500)) == 2500
    assert [item.id for item in store.iter_items()][-1] == "more-2499"


@pytest.mark.parametrize("bad", ["mail-10", 3, None, "\ud800"])
def test_an_unknown_id_is_named(store, bad):
    with pytest.raises(InputError, match=re.escape(f"no item with the id {bad!r}")):
        store.position_of(["mail-1", bad])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("x", {}), ("y", {}), ("x", {})], "Row 3 has the id 'x' that row 1 already has"),
        (
            [("x", {}), ("mail-4", {})],
            "Row 2 has the id 'mail-4' that item 4 of the project already has",
        ),
        ([("x", {}), ("", {})], "id of row 2 is ''"),
        ([("x", {}), (5, {})], "id of row 2 is 5"),
        ([("x", {}), ("y", {"score": float("inf")})], "Row 2 .id 'y'. cannot be stored as JSON"),
        ([("x", {}), ("y", {"text": "\udc80"})], "Row 2 .id 'y'. cannot be stored"),
        ([("x", {}), ("y", ["text"])], "columns of row 2"),
        ([("x", {}), ("y", {1: 2})], "columns of row 2"),
    ],
)
def test_bad_items_are_refused_whole_naming_the_row(store, rows, message):
    with pytest.raises(InputError, match=message):
        store.add_items(rows)
    assert store.n_items == 10


def test_items_from_a_source_that_breaks_are_not_half_stored(store):
    def rows():
        yield "x", {}
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.add_items(rows())
    assert store.n_items == 10
    assert store.add_items([("x", {})]) == 1


# Answers


def test_labels_are_kept_per_annotator(store):
    assert store.submit(
        [Submission(0, "ham"), Submission(4, "spam")], annotator="ann"
    ) == SubmitResult(new=2, answers=(1, 2))
    store.submit([Submission(0, "spam", comment="looks odd")], annotator="bob", source="import")
    assert labels(store) == {0: {"ann": "ham", "bob": "spam"}, 4: {"ann": "spam"}}
    assert store.n_labelled == 2
    first, second = store.history(0)
    assert (first.annotator, first.label, first.source, first.revision) == (
        "ann",
        "ham",
        "person",
        1,
    )
    assert (second.annotator, second.source, second.comment, second.item_id) == (
        "bob",
        "import",
        "looks odd",
        "mail-0",
    )
    assert second.created.endswith("+00:00")


def test_a_repeated_request_returns_what_was_stored_and_writes_nothing(store):
    first = store.submit([Submission(2, "ham", "r1")], annotator="ann")
    store.submit([Submission(2, "spam", "r2")], annotator="ann", revise=True)
    late = store.submit([Submission(2, "ham", "r1")], annotator="ann", revise=True)
    assert late == SubmitResult(repeated=1, answers=first.answers)
    assert labels(store) == {2: {"ann": "spam"}}, "a late retry does not undo a correction"
    assert len(store.history(2)) == 2


def test_a_request_id_used_for_something_else_is_refused(store):
    store.submit([Submission(2, "ham", "r1")], annotator="ann")
    with pytest.raises(
        InputError, match=r"'r1' was used for something else \(item 'mail-2', 'ham'"
    ):
        store.submit([Submission(3, "ham", "r1")], annotator="ann")
    with pytest.raises(InputError, match=r"'r1' was used for .* \(by another annotator\)"):
        store.submit([Submission(2, "ham", "r1")], annotator="bob")
    assert labels(store) == {2: {"ann": "ham"}}


def test_the_same_label_again_changes_nothing(store):
    store.submit([Submission(1, "ham")], annotator="ann")
    assert store.submit([Submission(1, "ham")], annotator="ann") == SubmitResult(
        repeated=1, answers=(1,)
    )
    assert len(store.history(1)) == 1


def test_another_label_needs_an_explicit_revision_and_history_keeps_both(store):
    store.submit([Submission(1, "ham")], annotator="ann")
    with pytest.raises(
        LabelError, match=r"'mail-1' already has the label 'ham' from 'ann'.*revise=True"
    ):
        store.submit([Submission(1, "spam")], annotator="ann")
    assert labels(store) == {1: {"ann": "ham"}}
    assert store.submit([Submission(1, "spam")], annotator="ann", revise=True).revised == 1
    assert labels(store) == {1: {"ann": "spam"}}
    assert [(answer.revision, answer.label) for answer in store.history(1)] == [
        (1, "ham"),
        (2, "spam"),
    ]


def test_a_withdrawn_label_is_gone_but_remembered_and_can_be_given_anew(store):
    store.submit([Submission(1, "ham"), Submission(2, "ham")], annotator="ann")
    assert store.undo_labels([1], annotator="ann") == 1
    assert store.undo_labels([1], annotator="ann") == 0, "once is enough"
    assert labels(store) == {2: {"ann": "ham"}}
    assert store.n_labelled == 1
    assert store.submit([Submission(1, "spam")], annotator="ann").new == 1
    assert [answer.label for answer in store.history(1)] == ["ham", None, "spam"]
    with pytest.raises(InputError, match="'bob' has not labelled item 'mail-1'"):
        store.undo_labels([1, 2], annotator="bob")


def test_what_is_labelled_follows_others_and_forgets_what_was_undone(store, folder, tmp_path):
    def half():
        with store.transaction():
            store.submit([Submission(2, "ham")], annotator="ann")
            store.undo_labels([0], annotator="ann")
            assert sorted(store.labelled()) == [1, 2], "inside the block it counts"
            raise RuntimeError("power cut")

    store.submit([Submission(0, "ham"), Submission(1, "ham")], annotator="ann")
    assert sorted(store.labelled()) == [0, 1]
    with pytest.raises(RuntimeError, match="power cut"):
        half()
    assert sorted(store.labelled()) == [0, 1]
    with Store.open(folder) as other:
        other.submit([Submission(3, "spam"), Submission(0, "spam")], annotator="bob")
        other.undo_labels([0, 1], annotator="ann")
    assert sorted(store.labelled()) == [0, 3], "bob's label of the first is still there"
    assert (store.n_labelled, store.n_completed()) == (2, 2)
    before = tmp_path / "before"
    with Store.create(before, classes=["spam", "ham"], settings={}) as young:
        young.add_items((f"mail-{n}", {}) for n in range(10))
        for number in range(6):
            young.submit([Submission(5, "ham")], annotator=f"a{number}")
    for file in folder.iterdir():
        file.unlink()
    for file in before.iterdir():
        file.rename(folder / file.name)
    assert store.labelled() == [5], "another project lies there now"


@pytest.mark.parametrize("label", ["HAM", "", None, 1, True, float("nan"), ["ham"]])
def test_a_label_that_is_not_a_class_is_refused_with_everything_beside_it(store, label):
    with pytest.raises(
        LabelError,
        match=r"answers\[1\] \(item 'mail-5'\).*not one of the classes \['spam', 'ham'\]",
    ):
        store.submit([Submission(4, "ham"), Submission(5, label)], annotator="ann")
    assert labels(store) == {}


@pytest.mark.parametrize("position", [10, -1, 10**30, "3", None, 1.0, True])
def test_a_position_that_is_not_there_is_refused(store, position):
    for call in (
        lambda: store.submit([Submission(position, "ham")], annotator="ann"),
        lambda: store.items([position]),
        lambda: store.history(position),
        lambda: store.end_leases([position]),
        lambda: store.undo_labels([position], annotator="ann"),
        lambda: store.record_batch("random", 0, [(position, 1.0, 1.0)], {}),
    ):
        with pytest.raises(InputError, match="the positions of the 10 items are 0 to 9"):
            call()


@pytest.mark.parametrize(
    "wrong",
    [
        {"annotator": ""},
        {"annotator": None},
        {"annotator": "\ud800"},
        {"annotator": "a", "source": "guess"},
    ],
)
def test_who_answered_must_be_known(store, wrong):
    with pytest.raises(InputError, match=r"annotator|source"):
        store.submit([Submission(0, "ham")], **wrong)


@pytest.mark.parametrize(
    "wrong", [{"request_id": ""}, {"request_id": 5}, {"comment": 5}, {"comment": "\ud800"}]
)
def test_a_request_id_or_comment_that_is_not_text_is_refused(store, wrong):
    with pytest.raises(InputError, match=r"answers\[0\].(request_id|comment)"):
        store.submit([Submission(0, "ham", **wrong)], annotator="ann")


def test_text_of_any_kind_is_kept_as_it_is(store):
    annotator = "Ω'; DROP TABLE answers; --"
    comment = "=1+1\r\n<script>🎈" + "x" * 20_000
    store.submit([Submission(0, "ham", "r'\"", comment)], annotator=annotator)
    assert labels(store) == {0: {annotator: "ham"}}
    assert store.history(0)[0].comment == comment
    assert store.check() == []


# Batches and leases


def test_a_batch_is_out_until_it_is_answered_or_given_back(store):
    assert store.record_batch("random", 5, [(4, 0.5, 0.6), (2, 0.4, None)], {"n": 2}) == 1
    assert store.record_batch("random", 6, [(3, float("nan"), 0.1)], {}, annotator="ann") == 2
    assert store.pending() == [4, 2, 3]
    store.submit([Submission(4, "ham")], annotator="bob")
    store.submit([Submission(3, "ham")], annotator="bob")
    assert store.pending() == [2, 3], "item 3 is out to ann, who has not answered"
    store.submit([Submission(3, "ham")], annotator="ann")
    assert store.end_leases([2, 3]) == 1
    assert store.pending() == []
    first, second = store.batches()
    assert (first.batch, first.strategy, first.seed, first.settings) == (1, "random", 5, {"n": 2})
    assert [(item.position, item.rank, item.score, item.initial_score) for item in first.items] == [
        (4, 0, 0.5, 0.6),
        (2, 1, 0.4, None),
    ]
    assert second.items[0].score is None


@pytest.mark.parametrize(
    ("position", "message"),
    [
        (1, "'mail-1'. already has the label 'ham' from 'ann'"),
        (2, "'mail-2'. is already assigned in batch 1"),
        (5, "twice"),
    ],
)
def test_an_item_that_is_out_or_answered_is_not_handed_out_again(store, position, message):
    store.submit([Submission(1, "ham")], annotator="ann")
    store.record_batch("random", 0, [(2, 1.0, 1.0)], {})
    with pytest.raises(InputError, match=message):
        store.record_batch("random", 0, [(5, 1.0, 1.0), (position, 1.0, 1.0)], {})
    assert (store.pending(), len(store.batches())) == ([2], 1)


def test_an_empty_batch_is_refused(store):
    with pytest.raises(InputError, match="no items"):
        store.record_batch("random", 0, [], {})


def test_an_expired_lease_lets_the_item_go_out_again(store):
    now = time.time()
    store.record_batch("random", 0, [(2, 1.0, 1.0)], {}, annotator="ann", expires=now - 1)
    store.record_batch("random", 0, [(3, 1.0, 1.0)], {}, annotator="ann", expires=now + 1000)
    assert store.pending() == [3]
    assert store.pending(now=now - 2) == [2, 3]
    assert store.pending(now=now + 2000) == []
    assert store.record_batch("random", 0, [(2, 1.0, 1.0)], {}, annotator="bob") == 3
    store.submit([Submission(2, "ham")], annotator="ann")
    assert store.pending() == [3, 2], "ann answered late; bob still has the item"


def test_a_withdrawn_item_can_go_out_again(store):
    store.submit([Submission(1, "ham")], annotator="ann")
    store.undo_labels([1], annotator="ann")
    store.record_batch("random", 0, [(1, 1.0, 1.0)], {})
    assert store.pending() == [1]


# Events and reports


def test_events_and_reports_come_back(store):
    assert store.latest_report() is None
    store.log("embedded", encoder="words", seconds=1.5)
    store.log("exported")
    store.save_report({"error": 0.2}, n_labels=3)
    store.save_report({"error": 0.1}, n_labels=9)
    assert [(event.kind, event.detail) for event in store.events()] == [
        ("embedded", {"encoder": "words", "seconds": 1.5}),
        ("exported", {}),
    ]
    assert (store.latest_report().n_labels, store.latest_report().body) == (9, {"error": 0.1})
    with pytest.raises(InputError, match="body cannot be stored as JSON"):
        store.save_report({"error": float("nan")}, n_labels=10)


def test_a_sound_project_has_no_problems_and_all_its_answers_can_be_salvaged(store, folder):
    store.submit(
        [Submission(n, "ham", comment="c" * 9000 * (n == 3)) for n in range(5)], annotator="ann"
    )
    store.undo_labels([0], annotator="ann")
    assert store.check() == []
    truth = [answer for n in range(5) for answer in store.history(n)]
    store.close()
    assert list(Store.salvage(folder)) == sorted(truth, key=lambda answer: answer.answer)


def test_the_journal_of_another_project_is_not_salvaged_as_this_ones(store, folder, tmp_path):
    store.submit([Submission(0, "ham")], annotator="ann")
    store.close()
    other = Store.create(tmp_path / "other", classes=["ham", "spam"], settings={})
    other.close()
    (tmp_path / "other" / "project.journal").write_bytes((folder / "project.journal").read_bytes())
    with pytest.raises(ProjectError, match="belong to different projects"):
        list(Store.salvage(tmp_path / "other"))
    (tmp_path / "other" / "project.sqlite3").unlink()
    assert [answer.label for answer in Store.salvage(tmp_path / "other")] == ["ham"]


def test_a_nul_is_refused_at_the_door(tmp_path):
    with Store.create(tmp_path / "nul", classes=["a", "b"], settings={}) as store:
        store.add_items([("1", {})])
        with pytest.raises(InputError, match=r"answers\[0\].comment .* NUL"):
            store.submit([Submission(0, "a", comment="so\0so")], annotator="ann")
        with pytest.raises(InputError, match=r"comment .* NUL"):
            store.pass_over(0, "skip", annotator="ann", comment="so\0so")
        with pytest.raises(InputError, match="NUL"):
            store.submit([Submission(0, "a")], annotator="an\0n")
        assert store.current_labels() == store.passes() == {}
