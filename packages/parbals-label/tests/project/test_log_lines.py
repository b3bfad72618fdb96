"""`parbals team log`: a sentence for each event, whatever its details hold."""

import pytest
from parbals_label.project.log_lines import _PREDICATES, log_line
from parbals_label.store import records

ADAPTED = {"used": True, "n_labels": 250, "error": 0.12, "frozen_error": 0.15}
EVENTS = [
    (records.RENAMED_CLASS, {"old": "junk", "new": "spam"}, "renamed class junk to spam"),
    (
        records.ADDED,
        {"count": 10, "file": "more.csv", "labels": 3},
        "added 10 items from more.csv, 3 of them labelled",
    ),
    (records.EXPORTED, {"format": "csv", "labelled_only": False}, "exported items as csv"),
    (
        records.EXPORTED,
        {"format": "csv", "labelled_only": True},
        "exported items as csv, labelled ones only",
    ),
    (records.EXPORTED, {"format": "model"}, "exported the model"),
    (
        records.ANSWER_UNDONE,
        {"name": "ada", "item": "17", "was": "ham"},
        "undid ada's label of item 17, which was ham",
    ),
    (records.RELEASED, {"name": None, "count": 1}, "released 1 item"),
    (records.RELEASED, {"name": "ada", "count": 3}, "released 3 items of ada"),
    (
        records.INVITED,
        {"name": "ada", "role": "annotator", "days": 14.0},
        "invited ada as annotator for 14 days",
    ),
    (records.NEW_LINK, {"name": "ada", "days": None}, "gave ada a new link"),
    (
        records.ROLE,
        {"name": "ada", "role": ["annotator", "owner"]},
        "changed the role of ada from annotator to owner",
    ),
    (records.REVOKED, {"name": "ada"}, "revoked the link of ada"),
    (
        records.WORK_REMOVED,
        {"name": "eve", "since": "", "answers": 2, "passes": 1},
        "removed 2 labels and 1 skip by eve",
    ),
    (records.BACKED_UP, {"file": "/b.zip", "answers": 6}, "backed up 6 answers to /b.zip"),
    (records.SIGNED_IN, {"place": "lab:8573"}, "signed in at lab:8573"),
    (records.ENDED, {"id": "3f1c9a", "count": 1}, "ended 1 session whose id starts with 3f1c9a"),
    (records.PERSON_REMOVED, {"name": "person 1"}, "removed a person, now called person 1"),
    (
        records.ADAPTED,
        ADAPTED,
        "fine-tuned the encoder on 250 labels: held-out error 12 %, was 15 %; the project uses it",
    ),
    (records.IN_BULK, {"count": 5, "label": "spam"}, "labelled 5 items as spam at once"),
    (records.DECIDED, {"count": 1, "label": "spam"}, "decided that 1 item is spam"),
    (
        records.MEASURED,
        {"count": 60, "keep": True},
        "drew 60 random items to measure the error and kept them to measure later models, too",
    ),
    (records.MEASUREMENT_UNDONE, {"count": 12}, "undid the sample of 12 random items"),
    (
        records.TARGET_ADDED,
        {"name": "new.csv", "count": 30},
        "added the target set new.csv, 30 rows",
    ),
    (records.TARGET_REMOVED, {"name": "new.csv"}, "removed the target set new.csv"),
]


def row(kind, detail, sentence=""):
    created = "2026-11-18T04:30:00.123+00:00"
    return {
        "created": created,
        "what": kind,
        "who": "grace",
        "origin": "10.0.0.1",
        "detail": detail,
        "sentence": sentence,
    }


@pytest.mark.parametrize(("kind", "detail", "sentence"), EVENTS)
def test_an_event_is_a_sentence_with_time_and_who(kind, detail, sentence):
    expected = f"2026-11-18 04:30:00  grace (10.0.0.1) {sentence}."
    assert log_line(row(kind, detail)) == expected


def test_every_kind_that_is_logged_has_a_sentence():
    assert {*_PREDICATES, records.CHANGED} == set(records.LOGGED)
    assert {kind for kind, _, _ in EVENTS} == set(_PREDICATES)


def test_changed_settings_are_listed():
    line = log_line(row(records.CHANGED, {}, "strategy: margin → random"))
    assert line.endswith("grace (10.0.0.1) changed settings (strategy: margin → random).")


@pytest.mark.parametrize("detail", [{}, {"count": "many"}, [], None, {"role": 3, "name": "x"}])
def test_details_that_somebody_else_wrote_are_shown_as_they_are(detail):
    for kind in records.LOGGED:
        line = log_line(row(kind, detail, "count: many"))
        assert line.startswith("2026-11-18 04:30:00  grace (10.0.0.1) ")
        assert "\n" not in line
