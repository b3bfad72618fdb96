"""Labelling interfaces: which control has the classes, and what is refused."""

import pytest
from parbals.errors import InputError
from parbals_label.answer_form import AnswerForm
from parbals_label.label_studio.interface import is_empty, new_interface, read_interface

FORM = AnswerForm(classes=("ham", "spam"))


def choices(*values, name="label"):
    inner = "".join(f'<Choice value="{value}"/>' for value in values)
    return f'<Choices name="{name}" toName="text">{inner}</Choices>'


def test_of_several_controls_the_one_with_the_classes_counts():
    config = f'<View><Text name="text" value="$message"/>{choices("yes", name="sure")}'
    interface = read_interface(f"{config}{choices('Spam', 'ham', 'other')}</View>", FORM)
    assert interface.control == "label"
    assert interface.choices == {"spam": "Spam", "ham": "ham"}
    assert interface.variables == ("message",)


def test_aliases_and_former_names_are_understood():
    config = (
        '<View><Image name="text" value="$image"/><Choices name="label" toName="text">'
        '<Choice value="Good mail" alias="ham"/><Choice value="junk"/></Choices></View>'
    )
    interface = read_interface(config, FORM, {"junk": "spam"})
    assert interface.choices == {"ham": "ham", "spam": "junk"}


def test_a_new_interface_is_read_back():
    classes = ['a "quoted" <b>', "ham & eggs"]
    config = new_interface(
        [("message", "text"), ("image", "image")], AnswerForm(classes=tuple(classes))
    )
    interface = read_interface(config, AnswerForm(classes=tuple(classes)))
    assert interface.choices == {name: name for name in classes}
    assert set(interface.variables) == {"message", "image"}


@pytest.mark.parametrize("config", ["", "<View></View>", "<View/>", "<View>\n<!-- x -->\n</View>"])
def test_nothing_is_set_up(config):
    assert is_empty(config)
    assert not is_empty('<View><Text name="t" value="$t"/></View>')


BOMB = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><View>&b;</View>'


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("<View></View>", "no <Choices>"),
        (f"<View>{choices('yes', 'no')}</View>", "no <Choices>"),
        ("<View", "not valid XML"),
        (BOMB, "document type"),
        ("<View>" * 10_000, "not valid XML"),
        (" " * (2 << 20), "too long"),
    ],
)
def test_what_cannot_be_used(config, message):
    with pytest.raises(InputError, match=message):
        read_interface(config, FORM)
