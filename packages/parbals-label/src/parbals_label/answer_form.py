"""What a label is, for each task: one text in the store, and what people and files see of it.

Of ``classes`` and ``ordinal`` it is the name of a class; the classes of the latter have an order.
Of ``many-labels`` it is a JSON list of names, sorted, so that the order of the classes may change;
``[]`` says that none of them fits. Of ``regression`` it is the shortest decimal of a number. Files
and pages may write it otherwise; whatever they write, the same label is the same text here.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

from parbals.errors import LabelError

__all__ = ["MANY", "NUMBERS", "ORDERED", "TASKS", "AnswerForm", "in_words", "listed"]
__all__ += ["number_words", "split_names"]

MANY, ORDERED, NUMBERS = "many-labels", "ordinal", "regression"
TASKS = ("classes", MANY, ORDERED, NUMBERS)
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+")
_LARGEST = 1e30
"""Predictions are kept in 32 bits."""

Plain = str | float | list[str]


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """The task of a project and its classes, in their order; of numbers there are none."""

    task: str = "classes"
    classes: tuple[str, ...] = ()

    @classmethod
    def of(cls, meta: Mapping[str, Any]) -> Self:
        """That of a project, by what its file says of it."""
        return cls(meta.get("task", "classes"), tuple(meta["classes"]))

    def read(self, given: Any, find: Callable[[str], str], place: str) -> str:
        """The text of what somebody gave: a text, a list of names or a number.

        ``find`` gives the class that a name means, or an error; ``place`` is where it stands.
        """
        if self.task == NUMBERS:
            return _number_text(given, place)
        if self.task == MANY:
            names = split_names(given, place)
            try:
                return listed(map(find, names))
            except LabelError as error:
                if not re.search("[,;]", "".join(names)):
                    raise
                raise LabelError(f"{error} Several labels are written as a|b.") from None
        return find(given)

    @property
    def hint(self) -> str:
        """What may stand in a cell."""
        names = ", ".join(self.classes)
        if self.task == MANY:
            return f"{names}; several as a|b, none of them as []"
        return {NUMBERS: "numbers", ORDERED: f"in order: {names}"}.get(self.task, names)

    def fits(self, label: str) -> bool:
        """Whether a text is a label as the store keeps it."""
        with suppress(LabelError, ValueError):
            return self.read(label, self.known, "") == label
        return False

    def known(self, name: Any) -> str:
        """The class of that very name, or an error."""
        if name not in self.classes:
            raise LabelError(f"{name!r} is not one of the classes.")
        return str(name)

    def names(self, label: str) -> list[str]:
        """The classes that a label names, in their order; those that are gone come last."""
        if self.task == NUMBERS:
            return []
        found = json.loads(label) if self.task == MANY else [label]
        order = {name: place for place, name in enumerate(self.classes)}
        return sorted(found, key=lambda name: order.get(name, len(order)))

    def plain(self, label: str) -> Plain:
        """As a learner and a file of data take it: a name, a list of names or a number."""
        if self.task == NUMBERS:
            return float(label)
        return self.names(label) if self.task == MANY else label

    def words(self, label: str) -> str:
        """As people read it."""
        return in_words(self.plain(label))


def in_words(plain: Plain | None) -> str:
    """A plain label in one line."""
    if isinstance(plain, list):
        return ", ".join(plain) or "none of them"
    return number_words(plain) if isinstance(plain, float) else str(plain)


def number_words(value: float) -> str:
    """The shortest decimal that means this number."""
    return repr(value + 0.0).removesuffix(".0")


def listed(names: Iterable[str]) -> str:
    """Several names as the store keeps them."""
    return json.dumps(sorted(set(names)), ensure_ascii=False, separators=(",", ":"))


def split_names(given: Any, place: str) -> list[str]:
    """The names in a cell: a list, a JSON list as text, or names with | between them."""
    if isinstance(given, str) and given.strip().startswith("["):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            given = None
    names = given.split("|") if isinstance(given, str) else given
    if not isinstance(names, list) or not all(isinstance(n, str) and n.strip() for n in names):
        raise LabelError(
            f'{place}: several labels are written as ["a", "b"] or a|b, and none of them as [].'
        )
    return [name.strip() for name in names]


def _number_text(given: Any, place: str) -> str:
    text = str(given).strip()
    if not _NUMBER.fullmatch(text) or not abs(value := float(text)) <= _LARGEST:
        advice = "write a number such as 3.5"
        if _COMMA.fullmatch(text):
            advice = f"write {text.replace(',', '.')}, with a point"
        elif _NUMBER.fullmatch(text):
            advice = f"numbers to {_LARGEST:g} can be kept"
        raise LabelError(f"{place}: the label {text[:60]!r} is not a number; {advice}.")
    return number_words(0.0 if math.isclose(value, 0.0, abs_tol=1e-300) else value)
