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

_MOST = 1 << 20
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
    """The control by which items are given their labels; else one sentence why not.

    Of several it is the one whose choices mean most of the classes. ``former`` names of classes are
    understood. Small and capital letters do not count.
    """
    if len(config) > _MOST or "<!" in re.sub(r"<!--.*?-->", "", config, flags=re.DOTALL):
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
    found = [_choices(e, tuple(sorted(variables)), form.classes, former) for e in elements]
    if form.task == NUMBERS:
        if not found:
            raise InputError(
                "Labels are numbers here, and the labelling interface takes none; add <Number "
                'name="label" toName="..."/> in the project\'s settings, Labeling Interface.'
            )
        return found[0]
    if form.task == ORDERED:  # the first star is the lowest class
        stars = {name: str(place) for place, name in enumerate(form.classes, 1)}
        found += [
            replace(_choices(e, tuple(sorted(variables)), (), None), choices=stars)
            for e in root.iter("Rating")
            if e.get("name") and e.get("toName") and e.get("maxRating", "5") == str(len(stars))
        ]
    best = max(found, key=lambda interface: len(interface.choices), default=None)
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
    known, meant = Classes(classes, former), dict[str, str]()
    for choice in element.iter("Choice"):
        # What an annotation holds: the alias where there is one.
        value = choice.get("alias") or choice.get("value") or ""
        with suppress(LabelError):  # told when somebody chooses it
            meant.setdefault(known.match(value, ""), value)
    return Interface(element.get("name") or "", variables, meant)


def new_interface(shown: Sequence[tuple[str, str]], form: AnswerForm) -> str:
    """An interface that shows these keys, each as ``text`` or ``image``, and takes a label."""
    tags = {"image": "Image", "text": "Text"}
    lines = [
        f"  <{tags[kind]} name={quoteattr(f'item{place or str()}')} value={quoteattr('$' + key)}/>"
        for place, (key, kind) in enumerate(shown)
    ]
    if form.task == NUMBERS:
        return "\n".join(["<View>", *lines, '  <Number name="label" toName="item"/>', "</View>"])
    choice = "multiple" if form.task == MANY else "single"
    lines.append(f'  <Choices name="label" toName="item" choice="{choice}" showInLine="true">')
    lines += [f"    <Choice value={quoteattr(name)}/>" for name in form.classes]
    return "\n".join(["<View>", *lines, "  </Choices>", "</View>"])
