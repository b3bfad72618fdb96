"""Every kind of line that can come back, and what becomes of it."""

import json

import pytest
from parbals_label.answer_form import AnswerForm
from parbals_label.machines.json_lines import (
    MAX_COMMENT,
    BadLine,
    Reply,
    Tally,
    parse_line,
    request_lines,
)
from parbals_label.readers.answers import Classes
from parbals_label.store.records import Item

FORM = AnswerForm(classes=("ham", "spam"))
CLASSES = Classes(FORM.classes)
ITEMS = [Item(0, "a", {"text": "é\nzwei"}), Item(7, "007", {"text": None})]


def test_an_item_is_one_line_with_what_is_needed_to_label_it():
    lines = request_lines(ITEMS, FORM).decode().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"id": "a", "position": 0, "classes": ["ham", "spam"], "content": {"text": "é\nzwei"}},
        {"id": "007", "position": 7, "classes": ["ham", "spam"], "content": {"text": None}},
    ]


def test_a_full_reply_keeps_comment_and_confidence_as_compact_json():
    reply = parse_line(
        '{"id":"a","label":"spam","comment":" naïve ","confidence":1,"model":"x"}'.encode(),
        FORM,
        CLASSES,
    )
    assert reply == Reply("a", "spam", "naïve", 1.0)
    assert reply.remark() == '{"confidence":1.0,"comment":"naïve"}'


def test_a_bare_reply_has_no_remark_and_null_abstains():
    assert parse_line(b'{"id":"a","label":"ham"}\r', FORM, CLASSES).remark() is None
    assert parse_line(b'{"id":"a","label":null}', FORM, CLASSES).label is None


@pytest.mark.parametrize("name", ["spam", "Spam ", " SPAM", "junk"])
def test_labels_are_matched_as_tell_matches_them(name):
    classes = Classes(FORM.classes, {"junk": "spam"})
    line = json.dumps({"id": "a", "label": name}).encode()
    assert parse_line(line, FORM, classes).label == "spam"


def test_names_that_differ_only_by_capitals_are_not_guessed():
    form = AnswerForm(classes=("May", "may"))
    classes = Classes(form.classes)
    assert parse_line(b'{"id":"a","label":"may "}', form, classes).label == "may"
    with pytest.raises(BadLine, match="not one of the classes"):
        parse_line(b'{"id":"a","label":"MAY"}', form, classes)


def test_a_long_comment_is_cut():
    reply = parse_line(
        json.dumps({"id": "a", "label": "ham", "comment": "x" * 10_000}).encode(), FORM, CLASSES
    )
    assert len(reply.comment) == MAX_COMMENT
    assert reply.comment.endswith("…")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"Loading weights ...", "not JSON"),
        (b'{"id":"a","label":"ham"', "not JSON"),
        (b'{"id":"a","label":"ham"}{"id":"b","label":"ham"}', "not JSON"),
        (b'{"id":"a","label":"ham","label":"spam"}', "not JSON"),
        (b'{"id":"a","label":"ham","confidence":NaN}', "not a number from 0 to 1"),
        (b"[" * 100_000, "not JSON"),
        (b'{"id":"a","label":"h\xe4m"}', "not UTF-8"),
        (b'["a","ham"]', "not an object"),
        (b'{"label":"ham"}', "not an object with the text `id`"),
        (b'{"id":7,"label":"ham"}', "not an object with the text `id`"),
        (b'{"id":"a"}', "no `label`"),
        (b'{"id":"a","label":"Spams"}', "'Spams' is not one of the classes ham, spam"),
        (b'{"id":"a","label":""}', "not one of the classes"),
        (b'{"id":"a","label":1}', "not one of the classes"),
        (b'{"id":"a","label":["ham"]}', "not one of the classes"),
        (b'{"id":"a","label":"\\ud800"}', "not one of the classes"),
        (b'{"id":"a","label":"ham","confidence":1.01}', "number from 0 to 1"),
        (b'{"id":"a","label":"ham","confidence":1e999}', "number from 0 to 1"),
        (b'{"id":"a","label":"ham","confidence":"high"}', "number from 0 to 1"),
        (b'{"id":"a","label":"ham","confidence":true}', "number from 0 to 1"),
        (b'{"id":"a","label":"ham","comment":{"why":1}}', "not text"),
        (b'{"id":"a","label":"ham","comment":"\\ud800"}', "surrogate"),
        (b'{"id":"a","label":"ham","comment":"\\u0000"}', "NUL"),
    ],
)
def test_a_bad_line_is_refused_with_its_reason(line, why):
    with pytest.raises(BadLine, match=why) as refused:
        parse_line(line, FORM, CLASSES)
    assert str(refused.value).isprintable()


def test_the_first_answer_counts_and_a_contradiction_is_told():
    tally = Tally(ITEMS, FORM)
    assert tally.accept(b'{"id":"a","label":"ham"}') == (ITEMS[0], Reply("a", "ham"))
    assert tally.accept(b'{"id":"a","label":"ham","comment":"again"}') is None
    assert tally.notes == []
    assert tally.accept(b'{"id":"a","label":"spam"}') is None
    assert tally.notes == ["item 'a' was answered twice, 'ham' and then 'spam'; the first counts"]


def test_a_bad_line_about_an_item_is_its_reason_until_a_good_one_comes():
    tally = Tally(ITEMS, FORM)
    assert tally.accept(b'{"id":"007","label":"Hams"}') is None
    assert tally.reasons == {"007": "its label 'Hams' is not one of the classes ham, spam"}
    assert tally.accept(b'{"id":"007","label":"ham"}') is not None
    assert tally.reasons == {}
    assert list(tally.missing) == ["a"]


@pytest.mark.parametrize(
    "line", [b'{"id":"7","label":"ham"}', b'{"id":"7","label":"Ham"}', b"noise"]
)
def test_lines_about_nobody_are_noted_and_change_nothing(line):
    tally = Tally(ITEMS, FORM)
    assert tally.accept(line) is None
    assert len(tally.notes) == 1
    assert len(tally.missing) == 2


def test_blank_lines_are_nothing():
    tally = Tally(ITEMS, FORM)
    assert [tally.accept(line) for line in (b"", b"\r", b"  ")] == [None] * 3
    assert tally.notes == []
