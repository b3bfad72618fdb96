"""Rows of a user's data become items: an id, a content and, where there is one, a label."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from parbals.errors import InputError, LabelError

from parbals_label.answer_form import MANY, ORDERED, AnswerForm, split_names
from parbals_label.readers.answers import Classes, text_cell
from parbals_label.readers.cells import (
    NO_LABEL,
    is_missing,
    label_form,
    label_key,
    plain_value,
)
from parbals_label.readers.source import Source, check_column, short, where

__all__ = ["NUMBERED", "check_numbers", "classes_in", "id_column_of", "plan_items"]

MAX_CLASSES = 1_000
NUMBERED = ""
"""In place of an id column: the rows are numbered. No column can have this name."""
_IDS = ("id", "ID")
_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+([eE][+-]?[0-9]+)?")
_LARGEST = float(np.finfo(np.float32).max)
_CORRECT = 'correct it, or number the rows instead (--id "")'


def id_column_of(source: Source, label_column: str | None = None) -> str:
    """The column that would be taken for the items' names, or ``NUMBERED`` where there is none.

    Images of a folder are named by their files.
    """
    known = ("image",) if source.kind == "images" else _IDS
    there = (name for name in known if name in source.columns and name != label_column)
    return next(there, NUMBERED)


def plan_items(
    source: Source,
    *,
    id_column: str = NUMBERED,
    label_column: str | None = None,
    form: AnswerForm | None = None,
    former: Mapping[str, str] | None = None,
    blank: Counter[str] | None = None,
) -> Iterator[tuple[str, dict[str, Any], str | None]]:
    """Each row as (id, content, label): what a project keeps of it.

    The id is the text of ``id_column``, or with ``NUMBERED`` the number of the record, counted from
    1. The label is what the cell of ``label_column`` means in this ``form`` (see
    :class:`~parbals_label.readers.answers.Classes`), or None where the cell is empty, null, NaN, or
    N/A and the like, which ``blank`` counts; the classes are by default those of
    :func:`classes_in`, and ``former`` names of theirs are understood. The content is every other
    column, and the path of an image, as JSON can hold it
    (see :func:`parbals_label.readers.cells.plain_value`).

    Names of columns and classes are checked in the call, cells during the walk: keep nothing before
    the walk has ended.
    """
    for column in (id_column or None, label_column):
        if column is not None:
            check_column(source, column)
    if id_column == label_column:
        raise InputError(
            f"{short(id_column)} cannot be both the id and the label; name two columns."
        )
    if label_column is not None and form is None:
        form = AnswerForm(classes=tuple(classes_in(source, label_column)))
    blank = Counter() if blank is None else blank
    return _items(source, id_column, label_column, form or AnswerForm(), former, blank)


def _items(
    source: Source,
    id_column: str,
    label_column: str | None,
    form: AnswerForm,
    former: Mapping[str, str] | None,
    blank: Counter[str],
) -> Iterator[tuple[str, dict[str, Any], str | None]]:
    known = Classes(form.classes, former)
    dropped = {label_column} | (set() if source.kind == "images" else {id_column})
    kept = [name for name in source.columns if name not in dropped]
    is_clean = source.kind in ("csv", "tsv")  # cells are text that the reader has checked
    first_row: dict[str, int] = {}
    index = 0
    for index, (number, values) in enumerate(source.rows(), start=1):
        if id_column == NUMBERED:
            item = str(index)
        else:
            item = _text(source, number, id_column, values[id_column])
            if item in first_row:
                raise InputError(
                    f"{where(source.name, number, id_column)}: the id {short(item)} is also that "
                    f"of row {first_row[item]}; ids must differ, so {_CORRECT}."
                )
            first_row[item] = number
        label = None
        if label_column is not None:
            cell = values[label_column]
            given = _label(source, number, label_column, cell)
            if given is not None and not known.says_nothing(given):
                label = known.read(form, given, where(source.name, number, label_column))
            elif not is_missing(cell):
                blank[str(cell).strip()] += 1
        content = {name: values[name] for name in kept}
        yield item, content if is_clean else _plain(source, number, content), label
    if not index:
        raise InputError(f"{source.name} has no rows.")


def _plain(source: Source, number: int, content: dict[str, Any]) -> dict[str, Any]:
    for column, value in content.items():
        try:
            content[column] = plain_value(value)
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{where(source.name, number, column)} {error}; change the value, or leave the "
                "column out."
            ) from None
    return content


def _text(source: Source, number: int, column: str, value: Any) -> str:
    if is_missing(value):
        raise InputError(
            f"{where(source.name, number, column)} is empty; every row needs an id, so {_CORRECT}."
        )
    return text_cell(source, number, column, value)


def _label(source: Source, number: int, column: str, value: Any) -> str | list[Any] | None:
    if is_missing(value) or isinstance(value, list):
        return value if isinstance(value, list) else None
    return _text(source, number, column, value).strip()


def classes_in(source: Source, label_column: str, task: str = "classes") -> list[str]:
    """The different labels of a column, sorted: at least two, at most a thousand.

    N/A and the like are none. Ordered classes must be numbers. Two that differ in nothing but
    capitals are refused: most often they are one class, written in two ways.
    """
    check_column(source, label_column)
    labels: dict[str, tuple[str, int]] = {}  # in small letters: as first written, and where
    for number, values in source.rows():
        given = _label(source, number, label_column, values[label_column])
        place = where(source.name, number, label_column)
        names = [given] if isinstance(given, str) else given or []
        for name in split_names(given, place) if given and task == MANY else names:
            label = label_form(name)
            key = label_key(label)
            if key in NO_LABEL:
                continue
            first, row = labels.setdefault(key, (label, number))
            if first != label:
                raise LabelError(
                    f"{place}: the label {short(label)} differs from {short(first)} in row {row} "
                    "only in capitals; write them alike, or name the classes that there are "
                    "(--classes)."
                )
        if len(labels) > MAX_CLASSES:
            raise LabelError(
                f"{source.name}, column {label_column!r} has more than {MAX_CLASSES} different "
                f"labels by row {number}; is it the right column?"
            )
    classes = sorted(label for label, _ in labels.values())
    if len(classes) < 2:
        what = f"only the label {short(classes[0])}" if classes else "no labels"
        raise LabelError(
            f"{source.name}, column {label_column!r} has {what}; name the classes, at least two."
        )
    if task == ORDERED:
        try:
            classes.sort(key=float)
        except ValueError:
            raise LabelError(
                "The classes have an order, which their names do not tell; name them from the "
                f"lowest to the highest: --classes {','.join(classes[:10])}."
            ) from None
    return classes


def check_numbers(source: Source, columns: Sequence[str]) -> None:
    """Every cell of the columns must be a number; an error names the first that is not."""
    for column in columns:
        check_column(source, column)
    for number, values in source.rows():
        for column in columns:
            if fault := _number_fault(values[column]):
                raise InputError(f"{where(source.name, number, column)} {fault}.")


def _number_fault(cell: Any) -> str | None:
    if is_missing(cell):
        return "is empty; every row needs a number, so fill it in or leave the column out"
    try:  # Python reads 1_0 as 10, which nobody means in a table
        value = float("_" if isinstance(cell, str) and "_" in cell else cell)
    except (ValueError, TypeError, OverflowError):
        if isinstance(cell, str) and _COMMA.fullmatch(cell.strip()):
            point = cell.strip().replace(",", ".")
            return f"is {short(cell)}, with a decimal comma; write {point}, with a point"
        return f"is {short(cell)}, which is not a number (write 1.5, with a point and nothing else)"
    if not abs(value) <= _LARGEST:  # nor is NaN
        return f"is {short(cell)}; features must be finite and fit into 32 bits"
    return None
