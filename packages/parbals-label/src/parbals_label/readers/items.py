"""Convert rows of a user's data to items: an id, contents and perhaps a label."""

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
_ID_COLUMNS = ("id", "ID", "Id")
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+([eE][+-]?[0-9]+)?")
_MAX_FLOAT32 = float(np.finfo(np.float32).max)
_ID_ADVICE = 'correct it, or number the rows instead (--id "")'


def id_column_of(source: Source, label_column: str | None = None) -> str:
    """Return the column with the items' ids, or ``NUMBERED`` if there is none.

    The id of an image in a folder is its path.
    """
    candidates = ("image",) if source.kind == "images" else _ID_COLUMNS
    for name in candidates:
        if name in source.columns and name != label_column:
            return name
    return NUMBERED


def plan_items(
    source: Source,
    *,
    id_column: str = NUMBERED,
    label_column: str | None = None,
    form: AnswerForm | None = None,
    former: Mapping[str, str] | None = None,
    blank: Counter[str] | None = None,
) -> Iterator[tuple[str, dict[str, Any], str | None]]:
    """Iterate over the items of a source as (id, content, label).

    The content is every other column, and the path of an image, as values that JSON supports (see
    :func:`parbals_label.readers.cells.plain_value`). Names of columns and classes are checked in
    the call, cells during the iteration: store nothing before it has ended.

    Args:
        source: the data.
        id_column: the column of the ids; ``NUMBERED`` numbers the items from 1.
        label_column: the column of labels. A label is None if its cell is empty, null, NaN, or N/A
            and the like. Cells are matched by :class:`~parbals_label.readers.answers.Classes`.
        form: the form of the labels; by default the classes are those of :func:`classes_in`.
        former: former names of classes → present names.
        blank: counts N/A and the like.
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
    classes = Classes(form.classes, former)
    excluded = {label_column}
    if source.kind != "images":
        excluded.add(id_column)
    content_columns = [name for name in source.columns if name not in excluded]
    is_clean = source.kind in ("csv", "tsv")  # cells are text that the reader has checked
    first_row: dict[str, int] = {}
    index = 0
    for index, (number, values) in enumerate(source.rows(), start=1):
        if id_column == NUMBERED:
            item = str(index)
        else:
            item = _id_text(source, number, id_column, values[id_column])
            if item in first_row:
                raise InputError(
                    f"{where(source.name, number, id_column)}: the id {short(item)} is also that "
                    f"of row {first_row[item]}; ids must differ, so {_ID_ADVICE}."
                )
            first_row[item] = number
        label = None
        if label_column is not None:
            cell = values[label_column]
            text = _label_text(source, number, label_column, cell)
            if text is not None and not classes.is_no_label(text):
                label = classes.read(form, text, where(source.name, number, label_column))
            elif not is_missing(cell):
                blank[str(cell).strip()] += 1
        content = {name: values[name] for name in content_columns}
        if not is_clean:
            content = _plain_content(source, number, content)
        yield item, content, label
    if not index:
        raise InputError(f"{source.name} has no rows.")


def _plain_content(source: Source, number: int, content: dict[str, Any]) -> dict[str, Any]:
    for column, value in content.items():
        try:
            content[column] = plain_value(value)
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{where(source.name, number, column)} {error}; change the value, or leave the "
                "column out."
            ) from None
    return content


def _id_text(source: Source, number: int, column: str, value: Any) -> str:
    if is_missing(value):
        raise InputError(
            f"{where(source.name, number, column)} is empty; every row needs an id, so "
            f"{_ID_ADVICE}."
        )
    return text_cell(source, number, column, value)


def _label_text(source: Source, number: int, column: str, value: Any) -> str | list[Any] | None:
    """Return the text of a label, a list of a multi-label project, or None if it is missing."""
    if isinstance(value, list):
        return value
    if is_missing(value):
        return None
    return _id_text(source, number, column, value).strip()


def classes_in(source: Source, label_column: str, task: str = "classes") -> list[str]:
    """Return the different labels of a column, sorted: at least two, at most a thousand.

    N/A and the like are ignored. Ordinal classes must be numbers. Classes that differ only in case
    are refused: usually they are spellings of one class.
    """
    check_column(source, label_column)
    labels: dict[str, tuple[str, int]] = {}  # key → first spelling and its row
    for number, values in source.rows():
        text = _label_text(source, number, label_column, values[label_column])
        location = where(source.name, number, label_column)
        for name in _class_names(text, task, location):
            label = label_form(name)
            key = label_key(label)
            if key in NO_LABEL:
                continue
            first, row = labels.setdefault(key, (label, number))
            if first != label:
                raise LabelError(
                    f"{location}: the label {short(label)} differs from {short(first)} in row "
                    f"{row} only in capitals; write them alike, or name the classes "
                    "(--classes)."
                )
        if len(labels) > MAX_CLASSES:
            raise LabelError(
                f"{source.name}, column {label_column!r} has more than {MAX_CLASSES} different "
                f"labels by row {number}; is it the right column?"
            )
    classes = sorted(label for label, _ in labels.values())
    if len(classes) < 2:
        contents = f"only the label {short(classes[0])}" if classes else "no labels"
        raise LabelError(
            f"{source.name}, column {label_column!r} has {contents}; name the classes, at least "
            "two."
        )
    if task == ORDERED:
        try:
            classes.sort(key=float)
        except ValueError:
            raise LabelError(
                "The order of the classes is not clear from their names; name them from the "
                f"lowest to the highest: --classes {','.join(classes[:10])}."
            ) from None
    return classes


def _class_names(text: str | list[Any] | None, task: str, location: str) -> list[Any]:
    """Return the names of the classes in a cell."""
    if text and task == MANY:
        return list(split_names(text, location))
    if isinstance(text, str):
        return [text]
    return text or []


def check_numbers(source: Source, columns: Sequence[str]) -> None:
    """Check that every cell of the columns is a number; the first other one is refused."""
    for column in columns:
        check_column(source, column)
    for number, values in source.rows():
        for column in columns:
            if fault := _number_fault(values[column]):
                raise InputError(f"{where(source.name, number, column)} {fault}.")


def _number_fault(cell: Any) -> str | None:
    """Return why a cell is not a number, None if it is one."""
    if is_missing(cell):
        return "is empty; every row needs a number, so fill it in or leave the column out"
    try:  # Python reads 1_0 as 10, which is not a number in a table
        value = float("_" if isinstance(cell, str) and "_" in cell else cell)
    except (ValueError, TypeError, OverflowError):
        if isinstance(cell, str) and _DECIMAL_COMMA.fullmatch(cell.strip()):
            corrected = cell.strip().replace(",", ".")
            return f"is {short(cell)}, with a decimal comma; write {corrected}, with a point"
        return f"is {short(cell)}, which is not a number (write 1.5, with a point and nothing else)"
    if not abs(value) <= _MAX_FLOAT32:  # nor is NaN
        return f"is {short(cell)}; features must be finite and fit into 32 bits"
    return None
