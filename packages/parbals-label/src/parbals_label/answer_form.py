"""The representation of labels for each task: one text in the store, a value for people and files.

=============  ==================================================================================
task           text in the store
=============  ==================================================================================
classes        the name of a class
ordinal        the name of a class; the classes have an order
many-labels    a sorted JSON list of names, independent of the order of the classes; ``[]`` if
               none of them fits
regression     the shortest decimal of a number
=============  ==================================================================================

Files and pages may write a label in several ways; the same label is always the same text here.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

from parbals.errors import LabelError

__all__ = [
    "MANY",
    "NUMBERS",
    "ORDERED",
    "TASKS",
    "AnswerForm",
    "class_list",
    "in_words",
    "names_text",
    "number_words",
    "split_names",
]

MANY = "many-labels"
ORDERED = "ordinal"
NUMBERS = "regression"
TASKS = ("classes", MANY, ORDERED, NUMBERS)
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+")
_MAX_LISTED_CLASSES = 12
"""Classes up to which a sentence names all of them."""
_N_EXAMPLES = 3
_MAX_NUMBER = 1e30
"""Predictions are stored in 32 bits."""

Plain = str | float | list[str]
"""A label as a value: the name of a class, a number, or several names."""


def class_list(names: Sequence[str]) -> str:
    """Names of classes for a sentence: all of a few, the number and the first ones of many.

    >>> class_list(["ham", "spam"])
    'ham, spam'
    >>> class_list([f"intent {n}" for n in range(77)])
    '77 classes, such as intent 0, intent 1, intent 2'
    """
    if len(names) <= _MAX_LISTED_CLASSES:
        return ", ".join(names)
    return f"{len(names)} classes, such as {', '.join(names[:_N_EXAMPLES])}"


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """The task of a project, and its classes in their order; none for numbers.

    >>> form = AnswerForm("many-labels", ("sport", "money"))
    >>> form.read("money|sport", form.known, "row 1")
    '["money","sport"]'
    >>> form.plain('["money","sport"]')
    ['sport', 'money']
    """

    task: str = "classes"
    classes: tuple[str, ...] = ()

    @classmethod
    def of(cls, meta: Mapping[str, Any]) -> Self:
        """The form of a project, from the metadata in its file."""
        return cls(meta.get("task", "classes"), tuple(meta["classes"]))

    def read(self, given: Any, find: Callable[[str], str], place: str) -> str:
        """The text of a label that somebody wrote as a text, a list of names or a number.

        ``find`` returns the class that a name means, or raises an error; ``place`` says where the
        label is, for errors.
        """
        if self.task == NUMBERS:
            return _number_text(given, place)
        if self.task == MANY:
            names = split_names(given, place)
            try:
                return names_text(map(find, names))
            except LabelError as error:
                if not re.search("[,;]", "".join(names)):
                    raise
                raise LabelError(f"{error} Several labels are written as a|b.") from None
        return find(given)

    @property
    def hint(self) -> str:
        """How labels are written, in words."""
        names = class_list(self.classes)
        if self.task == MANY:
            return f"{names}; several as a|b, none of them as []"
        return {NUMBERS: "numbers", ORDERED: f"in order: {names}"}.get(self.task, names)

    def fits(self, label: str) -> bool:
        """Whether a text is a label as it is stored."""
        with suppress(LabelError, ValueError):
            return self.read(label, self.known, "") == label
        return False

    def known(self, name: Any) -> str:
        """The class of exactly this name, or an error."""
        if name not in self.classes:
            raise LabelError(f"{name!r} is not one of the classes.")
        return str(name)

    def names(self, label: str) -> list[str]:
        """The classes that a label names, in their order; removed classes come last."""
        if self.task == NUMBERS:
            return []
        names = json.loads(label) if self.task == MANY else [label]
        order = {name: index for index, name in enumerate(self.classes)}
        return sorted(names, key=lambda name: order.get(name, len(order)))

    def plain(self, label: str) -> Plain:
        """The label as a value for learners and files: a name, a list of names or a number."""
        if self.task == NUMBERS:
            return float(label)
        return self.names(label) if self.task == MANY else label

    def words(self, label: str) -> str:
        """The label as people read it."""
        return in_words(self.plain(label))


def in_words(plain: Plain | None) -> str:
    """A label's value in one line.

    >>> in_words(["sport", "law"]), in_words([]), in_words(7.0)
    ('sport, law', 'none of them', '7')
    """
    if isinstance(plain, list):
        return ", ".join(plain) or "none of them"
    if isinstance(plain, float):
        return number_words(plain)
    return str(plain)


def number_words(value: float) -> str:
    """The shortest decimal of a number.

    >>> number_words(3.50), number_words(-0.0)
    ('3.5', '0')
    """
    return repr(value + 0.0).removesuffix(".0")


def names_text(names: Iterable[str]) -> str:
    """Several names as they are stored.

    >>> names_text(["sport", "law", "sport"])
    '["law","sport"]'
    """
    return json.dumps(sorted(set(names)), ensure_ascii=False, separators=(",", ":"))


def split_names(cell: Any, place: str) -> list[str]:
    """The names in a cell: a list, a JSON list as text, or names separated by |.

    >>> split_names("sport | law", "row 1")
    ['sport', 'law']
    """
    if isinstance(cell, str) and cell.strip().startswith("["):
        try:
            cell = json.loads(cell)
        except (ValueError, RecursionError):
            cell = None
    names = cell.split("|") if isinstance(cell, str) else cell
    if not isinstance(names, list) or not all(isinstance(n, str) and n.strip() for n in names):
        raise LabelError(
            f'{place}: several labels are written as ["a", "b"] or a|b, and none of them as [].'
        )
    return [name.strip() for name in names]


def _number_text(cell: Any, place: str) -> str:
    """The text of a number; an error says how to write it."""
    text = str(cell).strip()
    if not _NUMBER.fullmatch(text):
        advice = "write a number such as 3.5"
        if _DECIMAL_COMMA.fullmatch(text):
            advice = f"write {text.replace(',', '.')}, with a point"
        raise LabelError(f"{place}: the label {text[:60]!r} is not a number; {advice}.")
    value = float(text)
    if not abs(value) <= _MAX_NUMBER:
        advice = f"numbers to {_MAX_NUMBER:g} can be stored"
        raise LabelError(f"{place}: the label {text[:60]!r} is not a number; {advice}.")
    return number_words(0.0 if math.isclose(value, 0.0, abs_tol=1e-300) else value)
