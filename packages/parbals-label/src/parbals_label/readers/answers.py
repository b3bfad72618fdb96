"""Read the labels of a batch that people have filled in, also if a spreadsheet changed it."""

from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from parbals.errors import InputError, LabelError

from parbals_label.answer_form import AnswerForm
from parbals_label.readers.cells import NO_LABEL, as_text, is_missing, label_key, raw_cell
from parbals_label.readers.delimited import open_delimited
from parbals_label.readers.open import open_source
from parbals_label.readers.source import Source, short, where

__all__ = ["Answer", "Classes", "read_answers", "text_cell"]


class Answer(NamedTuple):
    """A row with a label.

    Attributes:
        row: its number in the file.
        id: the text of the cell: '007' does not become 7, nor 7 become '007'.
        label: the label as it is stored (:mod:`parbals_label.answer_form`).
        annotator: who was asked, if a column says so.
    """

    row: int
    id: str
    label: Any
    annotator: str | None = None


def read_answers(
    path: str | PathLike[str],
    form: AnswerForm,
    former: Mapping[str, str] | None = None,
    *,
    empty: list[str] | None = None,
) -> list[Answer]:
    """Return every row with a label, in the order of the file; the first wrong one is refused.

    Rows may be missing or reordered, columns added, and labels left empty. Files may be CSV, TSV or
    JSONL in any encoding that ``open_source`` reads, .txt with tabs (as Excel saves them), Excel or
    Parquet. The apostrophe that protects an id from being read as a formula is removed. A row that
    repeats an earlier one is left out.

    Args:
        path: the file.
        form: the form of the project's labels, which are matched by :class:`Classes`.
        former: former names of classes → present names.
        empty: a list to which the ids of rows without a label are added.
    """
    classes = Classes(form.classes, former)
    rows: dict[str, Answer] = {}
    for location, row in _labelled_rows(Path(path), classes, empty):
        answer = row._replace(label=classes.read(form, row.label, location))
        if not answer.id:
            raise InputError(f"{location}: there is a label, but no id of an item.")
        earlier = rows.setdefault(answer.id, answer)
        if earlier.label != answer.label:
            raise LabelError(
                f"{location}: the item {short(answer.id)} is {short(form.words(answer.label))} "
                f"here and {short(form.words(earlier.label))} in row {earlier.row}; keep one of "
                "them."
            )
    return list(rows.values())


def _labelled_rows(
    path: Path, classes: "Classes", empty: list[str] | None
) -> Iterator[tuple[str, Answer]]:
    """Iterate over the rows that have a label, with the location of the label."""
    source = _open_filled_in(path)
    id_name = _find_column(source, "id")
    label_name = _find_column(source, "label")
    for number, values in source.rows():
        if classes.is_no_label(values[label_name]):
            if empty is not None:
                empty.append(str(values[id_name] or ""))
            continue
        label = values[label_name]
        if not isinstance(label, list):
            label = text_cell(source, number, label_name, label)
        item_id = ""
        if values[id_name] not in (None, ""):
            item_id = raw_cell(text_cell(source, number, id_name, values[id_name]))
        annotator = raw_cell(str(values.get("annotator") or "").strip()) or None
        yield where(source.name, number, label_name), Answer(number, item_id, label, annotator)


def _open_filled_in(path: Path) -> Source:
    """Open a file that people filled in, perhaps with a spreadsheet.

    Bytes that cannot be decoded do not matter in texts, and match nothing in labels and ids.
    """
    suffix = path.suffix.lower()
    if suffix in (".csv", ".txt", ".tsv") and path.is_file():
        kind = "tsv" if suffix == ".tsv" else "csv"
        return open_delimited(path, kind, forgiving=True, errors="replace")
    return open_source(path, encoding_errors="replace")


def _find_column(source: Source, column: str) -> str:
    """Return the column of that name, ignoring case and surrounding blanks if it is unique."""
    if column in source.columns:
        return column
    matches = [name for name in source.columns if name.strip().casefold() == column.casefold()]
    if len(matches) == 1:
        return matches[0]
    fault = f"has no column {column!r}"
    if matches:
        fault = f"has {len(matches)} columns like {column!r}"
    listed = ", ".join(short(name) for name in source.columns[:20])
    raise InputError(f"{source.name}, row 1 {fault}; its columns are: {listed}.")


def text_cell(source: Source, number: int, column: str, value: object) -> str:
    """Return an id or a label as text; an error names its location."""
    try:
        return as_text(value)
    except (ValueError, RecursionError) as error:
        location = where(source.name, number, column)
        raise InputError(f"{location} {error}; text or a number is needed.") from None


class Classes:
    """Matches the text of a cell with a class.

    Surrounding blanks and differences that :func:`label_key` removes are ignored, unless two
    classes differ by nothing else.

    >>> Classes(["ham", "spam"]).match(" Spam ", "row 2")
    'spam'
    """

    def __init__(self, classes: Sequence[str], former: Mapping[str, str] | None = None) -> None:
        """``former``: former names of classes → present names."""
        self._classes = dict.fromkeys(classes)
        self._present_names = {name: name for name in classes} | dict(former or {})
        self._names_by_key: dict[str, list[str]] = {}
        for name in self._present_names:
            self._names_by_key.setdefault(label_key(name), []).append(name)

    def is_no_label(self, cell: Any) -> bool:
        """Whether a cell has no label: it is empty, or N/A and the like if that is no class."""
        if is_missing(cell):
            return True
        if not isinstance(cell, str):
            return False
        key = label_key(cell)
        return key in NO_LABEL and key not in self._names_by_key

    def read(self, form: AnswerForm, value: Any, location: str) -> str:
        """Return the label of a cell, as it is stored."""
        return form.read(value, lambda name: self.match(name, location), location)

    def match(self, cell: Any, location: str) -> str:
        """Return the class of a cell; ``location`` is used in errors."""
        if isinstance(cell, list):
            raise LabelError(f"{location}: {short(cell)} is a list; each item needs one label.")
        if not isinstance(cell, str):
            raise LabelError(f"{location}: the label {short(cell)} is not text.")
        texts = (cell, cell.strip(), raw_cell(cell.strip()))
        for text in texts:
            if text in self._present_names:
                return self._present_names[text]
        for text in texts[1:]:
            names = self._names_by_key.get(label_key(text), [])
            if len({self._present_names[name] for name in names}) == 1:
                return self._present_names[names[0]]
            if names:
                choices = " or ".join(short(name) for name in names)
                raise LabelError(
                    f"{location}: the label {short(cell)} could be {choices}; write it exactly."
                )
        listed = ", ".join(short(name) for name in [*self._classes][:10])
        if len(self._classes) > 10:
            listed += ", …"
        raise LabelError(
            f"{location}: the label {short(cell)} is not one of the classes ({listed})."
        )
