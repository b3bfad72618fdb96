"""Classes that were renamed: answers keep their names, and mean the class of today."""

import pytest
from parbals.errors import InputError, LabelError
from parbals_label.store.current import Renames
from parbals_label.store.records import Submission
from parbals_label.store.store import Store


@pytest.fixture
def store(tmp_path):
    with Store.create(tmp_path / "p", classes=["ham", "spam"], settings={}) as store:
        store.add_items((f"mail-{n}", {"text": f"text {n}"}) for n in range(6))
        store.submit([Submission(0, "spam", "r0"), Submission(1, "ham")], annotator="ann")
        yield store


def test_an_answer_means_what_its_name_meant_when_it_was_given():
    renames = Renames([["a", "b", 5], ["b", "c", 8]])
    assert [
        renames.current_name("a", 3),
        renames.current_name("a", 6),
        renames.current_name("b", 6),
    ] == ["c", "a", "c"]
    assert renames.resolve("a", ["c", "d"]) == "c"
    assert renames.resolve("a", ["a", "c"]) == "a", "a new class may have the old name"
    assert renames.resolve("x", ["c", "d"]) == "x"
    assert renames.former(["c", "d"]) == {"a": "c", "b": "c"}


def test_labels_follow_and_history_keeps_the_old_name(store):
    store.rename_class("spam", "junk")
    assert store.classes == ("ham", "junk")
    assert store.votes() == {0: {"ann": "junk"}, 1: {"ann": "ham"}}
    (answer,) = store.history(0)
    assert (answer.label, answer.label_now) == ("spam", "junk")
    (event,) = store.events()
    assert (event.kind, event.detail) == ("class renamed", {"old": "spam", "new": "junk"})
    assert store.check() == []
    with Store.open(store.folder, read_only=True) as again:
        assert again.votes()[0] == {"ann": "junk"}
        assert again.check() == []


def test_a_name_can_be_used_again_for_another_class(store):
    store.rename_class("spam", "junk")
    store.update_settings(classes=["ham", "junk", "spam"])
    store.submit([Submission(2, "spam")], annotator="ann")
    store.rename_class("junk", "trash")
    assert [store.votes()[p]["ann"] for p in (0, 1, 2)] == ["trash", "ham", "spam"]
    assert store.check() == []


def test_a_page_of_yesterday_may_go_on(store):
    """Its answers, repeated requests, revisions and steps back are understood."""
    store.rename_class("spam", "junk")
    again = store.submit([Submission(0, "spam", "r0")], annotator="ann")
    assert again.repeated == 1
    assert store.submit([Submission(0, "junk")], annotator="ann").repeated == 1
    assert store.submit([Submission(3, "spam")], annotator="ann").new == 1
    assert store.history(3)[0].label == "junk"
    undone, _ = store.undo(0, "ann", lease_seconds=60, request_id="u0")
    assert undone["label"] == "junk"
    undone, _ = store.undo(0, "ann", lease_seconds=60, request_id="u0")
    assert undone["label"] == "junk", "the same request again"
    with pytest.raises(LabelError, match="not one of the classes"):
        store.submit([Submission(4, "eggs")], annotator="ann")


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("eggs", "x", "no class 'eggs'"),
        ("spam", "ham", "a class already"),
        ("spam", " ", "not blank"),
    ],
)
def test_what_cannot_be_renamed_changes_nothing(store, old, new, complaint):
    with pytest.raises(InputError, match=complaint):
        store.rename_class(old, new)
    assert store.classes == ("ham", "spam")
    assert store.events() == []


def test_a_class_that_is_looked_for_keeps_being_looked_for(store):
    store.update_settings(find="spam")
    store.rename_class("spam", "junk")
    assert store.settings.find == "junk"


def test_what_people_decide_is_remembered_with_what_it_was(store):
    store.update_settings(guidelines="Read twice.", columns=["text"], strategy="margin")
    store.update_settings(guidelines="Read twice.")
    (event,) = store.events()
    assert event.detail == {
        "strategy": ["parbals-epig", "margin"],
        "guidelines": ["", "Read twice."],
    }
