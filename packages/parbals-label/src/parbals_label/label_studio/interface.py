"""The labelling interface of a Label Studio project: what it shows, and what can be chosen."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from xml.etree import ElementTree
from xml.sax.saxutils import quoteattr

from parbals.errors import InputError, LabelError

from parbals_label.answer_form import MANY, NUMBERS, ORDERED, AnswerForm
from parbals_label.readers.answers import Classes

__all__ = ["Interface", "is_empty", "new_interface", "read_interface"]

_MAX_CHARACTERS = 1 << 20
_VARIABLE = re.compile(r"\$([A-Za-z_][\w.]*)")


@dataclass(frozen=True)
class Interface:
    """One ``Choices`` of a labelling interface, or one ``Number``, or one ``Rating``.

    Attributes:
        control: the name of the control.
        variables: keys of a task's data that anything in the interface shows.
        choices: class of the project → the choice that means it, where there is one.
    """

    control: str
    variables: tuple[str, ...]
    choices: Mapping[str, str]


def is_empty(config: str) -> bool:
    """Whether nobody has set up the interface yet."""
    return not re.sub(r"</?View\s*/?>|<!--.*?-->|\s", "", config)


def read_interface(
    config: str, form: AnswerForm, former: Mapping[str, str] | None = None
) -> Interface:
    """Find the control that labels items; an error if there is none.

    Of several controls it is the one whose choices match most classes. ``former`` names of classes
    match as well, and case is ignored.
    """
    if len(config) > _MAX_CHARACTERS or "<!" in re.sub(r"<!--.*?-->", "", config, flags=re.DOTALL):
        raise InputError("The labelling interface holds a document type or is too long to be read.")
    try:
        root = ElementTree.fromstring(config)
    except (ElementTree.ParseError, ValueError, RecursionError) as error:
        raise InputError(f"The labelling interface is not valid XML ({error}).") from None
    variables = {
        name
        for element in root.iter()
        for key, value in element.attrib.items()
        if key in ("value", "valueList")
        for name in _VARIABLE.findall(value)
    }
    tag = "Number" if form.task == NUMBERS else "Choices"
    elements = [e for e in root.iter(tag) if e.get("name") and e.get("toName")]
    if form.task == MANY and elements and all(e.get("choice") != "multiple" for e in elements):
        raise InputError(
            "Items have several labels here, and the labelling interface takes one; say "
            '<Choices choice="multiple" ...> in the project\'s settings, Labeling Interface.'
        )
    candidates = [_choices(e, tuple(sorted(variables)), form.classes, former) for e in elements]
    if form.task == NUMBERS:
        if not candidates:
            raise InputError(
                "Labels are numbers here, and the labelling interface takes none; add <Number "
                'name="label" toName="..."/> in the project\'s settings, Labeling Interface.'
            )
        return candidates[0]
    if form.task == ORDERED:  # the first star is the lowest class
        stars = {name: str(number) for number, name in enumerate(form.classes, 1)}
        candidates += [
            replace(_choices(e, tuple(sorted(variables)), (), None), choices=stars)
            for e in root.iter("Rating")
            if e.get("name") and e.get("toName") and e.get("maxRating", "5") == str(len(stars))
        ]
    best = max(candidates, key=lambda interface: len(interface.choices), default=None)
    if best is None or not best.choices:
        names = ", ".join(map(repr, form.classes))
        raise InputError(
            "The labelling interface has no <Choices> with any of the classes "
            f"{names}; add them in the project's settings, Labeling Interface."
        )
    return best


def _choices(
    element: ElementTree.Element,
    variables: tuple[str, ...],
    classes: Sequence[str],
    former: Mapping[str, str] | None,
) -> Interface:
    """The interface of one ``Choices`` element."""
    matcher = Classes(classes, former)
    choices: dict[str, str] = {}
    for choice in element.iter("Choice"):
        # Annotations hold the alias where there is one.
        value = choice.get("alias") or choice.get("value") or ""
        with suppress(LabelError):  # a note follows when somebody chooses it
            choices.setdefault(matcher.match(value, ""), value)
    return Interface(element.get("name") or "", variables, choices)


def new_interface(fields: Sequence[tuple[str, str]], form: AnswerForm) -> str:
    """An interface that shows these keys, each as ``text`` or ``image``, and takes a label."""
    tags = {"image": "Image", "text": "Text"}
    lines = [
        f"  <{tags[kind]} name={quoteattr(f'item{index or str()}')} value={quoteattr('$' + key)}/>"
        for index, (key, kind) in enumerate(fields)
    ]
    if form.task == NUMBERS:
        return "\n".join(["<View>", *lines, '  <Number name="label" toName="item"/>', "</View>"])
    choice = "multiple" if form.task == MANY else "single"
    lines.append(f'  <Choices name="label" toName="item" choice="{choice}" showInLine="true">')
    lines += [f"    <Choice value={quoteattr(name)}/>" for name in form.classes]
    return "\n".join(["<View>", *lines, "  </Choices>", "</View>"])
