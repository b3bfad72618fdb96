"""Several labels and numbers in Label Studio: interfaces, annotations."""

import pytest
from parbals.errors import InputError
from parbals_label.answer_form import AnswerForm
from parbals_label.label_studio.annotations import AnnotationCounts, record_annotations
from parbals_label.label_studio.interface import new_interface, read_interface
from parbals_label.store.store import Store

UID = "1.1700000000"
MANY = AnswerForm("many-labels", ("a", "b", "c"))
NUMBERS = AnswerForm("regression")


def annotation(number, *chosen, at=1):
    region = {"from_name": "label", "to_name": "item", "type": "choices"}
    return {
        "id": number,
        "result": [{**region, "value": {"choices": list(chosen)}}] if chosen else [],
        "completed_by": {"id": 7, "email": "user7@example.com"},
        "updated_at": f"2026-01-01T00:00:{at:02d}Z",
    }


def made(folder, form):
    with Store.create(folder, classes=form.classes, settings={"task": form.task}) as store:
        store.add_items((f"i{n}", {"text": str(n)}) for n in range(4))
    return folder


def hear(store, *annotations):
    counts = AnnotationCounts()
    interface = read_interface(new_interface([("text", "text")], store.form), store.form)
    record_annotations(store, interface, UID, 0, annotations, counts)
    return counts


def test_several_choices_are_several_labels_and_none_is_none_of_them(tmp_path):
    with Store.open(made(tmp_path / "m", MANY)) as store:
        assert hear(store, annotation(1, "c", "a")).labels == 1
        assert store.current_labels()[0] == {"user7@example.com": '["a","c"]'}
        assert hear(store, annotation(1, at=2)).revised == 1
        assert store.current_labels()[0] == {"user7@example.com": "[]"}
        (note,) = hear(store, annotation(1, "a", "other", at=3)).notes
        assert "'a, other', which is not a class" in note


def test_a_number_is_a_label(tmp_path):
    region = {"from_name": "label", "to_name": "item", "type": "number"}
    region["value"] = {"number": 2.5}
    with Store.open(made(tmp_path / "n", NUMBERS)) as store:
        assert hear(store, {**annotation(1), "result": [region]}).labels == 1
        assert store.current_labels()[0] == {"user7@example.com": "2.5"}


def test_stars_are_classes_in_order(tmp_path):
    form = AnswerForm("ordinal", ("bad", "fair", "good"))
    config = '<View><Text name="item" value="$text"/><Rating name="l" toName="item" {}/></View>'
    interface = read_interface(config.format('maxRating="3"'), form)
    assert interface.choices == {"bad": "1", "fair": "2", "good": "3"}
    region = {"from_name": "l", "to_name": "item", "type": "rating", "value": {"rating": 3}}
    with Store.open(made(tmp_path / "o", form)) as store:
        counts = AnnotationCounts()
        record_annotations(
            store, interface, UID, 0, [{**annotation(1), "result": [region]}], counts
        )
        assert (counts.labels, counts.notes) == (1, [])
        assert store.current_labels()[0] == {"user7@example.com": "good"}
        assert hear(store, annotation(1, "fair", at=2)).revised == 1  # by choices just as well
    five = AnswerForm("ordinal", tuple("54321"))  # the lowest first
    assert read_interface(config.format(""), five).choices["5"] == "1"


def test_an_interface_that_takes_something_else_is_refused_in_a_sentence():
    view = '<View><Text name="item" value="$text"/>{}</View>'
    single = '<Choices name="l" toName="item"><Choice value="a"/></Choices>'
    with pytest.raises(InputError, match='say <Choices choice="multiple"'):
        read_interface(view.format(single), MANY)
    with pytest.raises(InputError, match="add <Number"):
        read_interface(view.format(single), NUMBERS)
    rating = '<Rating name="l" toName="item" maxRating="5"/>'  # for two classes
    with pytest.raises(InputError, match="no <Choices> with any of the classes '1', '2'"):
        read_interface(view.format(rating), AnswerForm("ordinal", ("1", "2")))
