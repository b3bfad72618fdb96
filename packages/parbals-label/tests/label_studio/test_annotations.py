"""Annotations become answers: idempotent, and in any order."""

import random

import pytest
from parbals.errors import ProjectDamagedError
from parbals_label.answer_form import AnswerForm
from parbals_label.label_studio.annotations import AnnotationCounts, record_annotations
from parbals_label.label_studio.interface import new_interface, read_interface
from parbals_label.label_studio.tasks import TASKS, known_tasks
from parbals_label.store.store import Store

UID = "1.1700000000"
FORM = AnswerForm(classes=("ham", "spam"))
INTERFACE = read_interface(new_interface([("message", "text")], FORM), FORM)


def annotation(number, *chosen, who=7, at=1, skipped=False, **more):
    region = {"from_name": "label", "to_name": "item", "type": "choices"}
    return {
        "id": number,
        "result": [{**region, "value": {"choices": list(chosen)}}] if chosen else [],
        "completed_by": who,
        "created_username": f" user{who}@example.com, {who}",
        "was_cancelled": skipped,
        "updated_at": f"2026-01-01T00:00:{at:02d}Z",
        **more,
    }


@pytest.fixture
def store(folder):
    with Store.open(folder) as store:
        yield store
        assert store.check() == []


def hear(store, *annotations, position=3):
    counts = AnnotationCounts()
    record_annotations(store, INTERFACE, UID, position, annotations, counts)
    return counts


def held(store, position=3):
    return store.current_labels().get(position, {})


def test_again_and_in_any_order(store):
    said = [annotation(1, "ham"), annotation(2, "spam", at=2), annotation(3, "spam", who=8)]
    for seed in range(6):
        random.Random(seed).shuffle(said)
        hear(store, *said)
        assert held(store) == {"user7@example.com": "spam", "user8@example.com": "spam"}
    assert len(store.history(3)) == 2  # of one person's two annotations, the later one


def test_changes_deletions_and_skips(store):
    assert hear(store, annotation(1, "ham")).labels == 1
    assert hear(store, annotation(1, "spam", at=2)).revised == 1
    assert hear(store, annotation(1, skipped=True, at=3)).withdrawn == 1
    assert store.passes()[3] == {"user7@example.com": "skip"}
    assert hear(store, annotation(1, "ham", at=4)).labels == 1
    assert hear(store).withdrawn == 1
    assert held(store) == {}
    hear(store, annotation(2, "ham", at=5), annotation(3, "spam", who=8))
    assert hear(store, annotation(3, "spam", who=8)).withdrawn == 1
    assert held(store) == {"user8@example.com": "spam"}


def test_labels_from_elsewhere_are_left_alone(store):
    from parbals_label.store.records import Submission

    store.submit([Submission(3, "ham")], annotator="me")
    hear(store, annotation(1, "spam"))
    hear(store)
    assert held(store) == {"me": "ham"}


@pytest.mark.parametrize(
    ("chosen", "message"),
    [(("news",), "'news', which is not a class"), ((), "nothing"), (("ham", "spam"), "2 classes")],
)
def test_what_cannot_be_a_label_is_said(store, chosen, message):
    counts = hear(store, annotation(1, *chosen))
    assert message in counts.notes[0]
    assert held(store) == {}


def test_garbage_is_passed_over(store):
    counts = hear(store, None, 3, {}, {"id": "1"}, {"id": 1, "result": 5}, {"id": 2, "result": [4]})
    assert held(store) == {}
    assert counts.labels == 0


def test_a_number_gets_its_name_later(store):
    nameless = annotation(1, "ham")
    del nameless["created_username"]
    hear(store, nameless)
    assert held(store) == {"label-studio user 7": "ham"}
    hear(store, annotation(1, "ham"))  # the same annotation, now with a name: one person, one vote
    assert held(store) == {"user7@example.com": "ham"}


def test_tasks_are_remembered(store):
    for what in ([(3, 30), (4, 40)], [(4, 41)]):
        store.log(TASKS, project=UID, what=what)
    assert (known_tasks(store, UID), known_tasks(store, "2.1")) == ({3: 30, 4: 41}, {})


@pytest.mark.parametrize("detail", [{}, {"what": 3}, {"what": [[1]]}, {"what": [["x", []]]}])
def test_damaged_events_are_told(store, detail):
    store.log(TASKS, project=UID, **detail)
    with pytest.raises(ProjectDamagedError, match="put back a copy"):
        known_tasks(store, UID)


@pytest.mark.parametrize(
    "name", ["machine:x", "import", "label-studio admin", "a\x1b[31m", "x" * 300, "\u202eada"]
)
def test_names_that_are_programs_or_cannot_be_shown_are_not_taken(store, name):
    counts = hear(store, annotation(1, "ham", who={"id": 1, "email": name}))
    assert (counts.labels, held(store)) == (0, {})
    assert counts.notes[0].startswith("Not stored: ")


def test_a_server_cannot_label_under_the_name_of_somebody_in_the_project(store):
    """Their answers count in a measurement, and those of the page have names without an address."""
    store.invite("ada", "annotator")
    for name in ("ada", "me", "Ada "):
        counts = hear(store, annotation(1, "ham", who={"id": 1, "email": name}))
        assert (counts.labels, held(store)) == (0, {})
        assert "which is none" in counts.notes[0]
