"""One text for each label, whatever files and pages write."""

import itertools
import json

import pytest
from parbals.errors import LabelError
from parbals_label.answer_form import MANY, NUMBERS, ORDERED, AnswerForm

CLASSES = ("sport", "money", "law")


def read(task, given, classes=CLASSES):
    form = AnswerForm(task, () if task == NUMBERS else classes)
    return form, form.read(given, form.known, "row 1")


SOME = [some for n in range(4) for some in itertools.permutations(CLASSES, n)]


@pytest.mark.parametrize("names", SOME)
def test_several_names_are_one_text_in_whatever_order_and_form(names):
    form, text = read(MANY, list(names))
    written = [
        json.dumps(names),
        json.dumps(list(names) * 2),
        *(["|".join(names)] if names else []),
    ]
    assert {read(MANY, one)[1] for one in written} == {text}
    assert form.fits(text)
    assert form.plain(text) == [name for name in CLASSES if name in names]
    assert form.words(text) == (", ".join(form.plain(text)) or "none of them")
    turned = AnswerForm(MANY, CLASSES[::-1])  # the order of the classes is not in the text
    assert turned.fits(text)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("3.50", "3.5"),
        (" 7.0 ", "7"),
        ("-0", "0"),
        (".5", "0.5"),
        ("1e3", "1000"),
        ("-2e-5", "-2e-05"),
    ],
)
def test_a_number_is_its_shortest_decimal(given, text):
    form, found = read(NUMBERS, given)
    assert found == text
    assert form.plain(found) == float(given)
    assert form.fits(text)
    assert form.fits(given) == (given == text)


@pytest.mark.parametrize(
    ("task", "given", "said"),
    [
        (MANY, "sport;law", "Several labels are written as a|b"),
        (NUMBERS, "3,5", "write 3.5, with a point"),
        (NUMBERS, "nan", "is not a number"),
        (NUMBERS, "1_0", "is not a number"),
        (NUMBERS, "1e99", "numbers to 1e\\+30"),
        (NUMBERS, "four", "write a number such as 3.5"),
        (MANY, "sport|", "none of them as \\[\\]"),
        (MANY, '["sport"', "several labels are written as"),
        (MANY, [["sport"]], "several labels are written as"),
        (MANY, "sport|war", "'war' is not one of the classes"),
        (ORDERED, "war", "'war' is not one of the classes"),
    ],
)
def test_what_is_no_label_is_refused_in_a_sentence(task, given, said):
    with pytest.raises(LabelError, match=said):
        read(task, given)


def test_a_damaged_text_fits_nothing():
    for text in ("sport", '["sport","law"]', '["war"]', "[", "[[[" * 2000):
        assert not AnswerForm(MANY, CLASSES).fits(text)
    assert not AnswerForm(NUMBERS).fits("inf")
