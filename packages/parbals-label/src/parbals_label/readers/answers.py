"""Reading a filled-in batch back, whatever the spreadsheet made of it."""

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

    ``id`` is the text of the cell: '007' is not turned into 7, nor 7 back into '007'. ``label`` is
    as the store keeps it (:mod:`parbals_label.answer_form`). ``annotator`` is who was to be asked,
    where a column says so.
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
    """Every row with a label, in the order of the file; an error names the first that is wrong.

    Rows may be missing or reordered, columns added, labels left empty. Files may be CSV, TSV or
    JSONL in any encoding that ``open_source`` reads; .txt is what Excel calls a table with tabs.
    Excel's and Parquet files are read as well.
    Labels are read as :class:`Classes` does; ``former`` names of classes stand for those of today.
    The apostrophe that kept an id from being a formula is taken off. A row that says the same as an
    earlier one is left out. ``empty`` gets the ids of rows of a table without a label.
    """
    path, known = Path(path), Classes(form.classes, former)
    rows: dict[str, Answer] = {}
    for place, given in _filled(path, known, empty):
        answer = given._replace(label=known.read(form, given.label, place))
        if not answer.id:
            raise InputError(f"{place}: there is a label, but no id that says which item it is.")
        earlier = rows.setdefault(answer.id, answer)
        if earlier.label != answer.label:
            raise LabelError(
                f"{place}: the item {short(answer.id)} is {short(form.words(answer.label))} here "
                f"and {short(form.words(earlier.label))} in row {earlier.row}; keep one of them."
            )
    return list(rows.values())


def _filled(
    path: Path, classes: "Classes", empty: list[str] | None
) -> Iterator[tuple[str, Answer]]:
    """The rows of a table that have a label, and where it stands."""
    source = _opened(path)
    id_name, label_name = _find_column(source, "id"), _find_column(source, "label")
    for number, values in source.rows():
        if classes.says_nothing(values[label_name]):
            if empty is not None:
                empty.append(str(values[id_name] or ""))
            continue
        label = values[label_name]
        if not isinstance(label, list):
            label = text_cell(source, number, label_name, label)
        given = values[id_name]
        item = "" if given in (None, "") else raw_cell(text_cell(source, number, id_name, given))
        who = raw_cell(str(values.get("annotator") or "").strip()) or None
        yield where(source.name, number, label_name), Answer(number, item, label, who)


def _opened(path: Path) -> Source:
    """A file that people fill in: text may have become what a spreadsheet makes of it.

    Bytes that cannot be read are no matter in a text, and in a label or an id they match nothing.
    """
    suffix = path.suffix.lower()
    if suffix in (".csv", ".txt", ".tsv") and path.is_file():
        kind = "tsv" if suffix == ".tsv" else "csv"
        return open_delimited(path, kind, forgiving=True, errors="replace")
    return open_source(path, encoding_errors="replace")


def _find_column(source: Source, wanted: str) -> str:
    """The column of that name; blanks around it and capitals do not count unless in doubt."""
    if wanted in source.columns:
        return wanted
    meant = wanted.strip().casefold()
    alike = [name for name in source.columns if name.strip().casefold() == meant]
    if len(alike) == 1:
        return alike[0]
    fault = f"has {len(alike)} columns like {wanted!r}" if alike else f"has no column {wanted!r}"
    listed = ", ".join(short(name) for name in source.columns[:20])
    raise InputError(f"{source.name}, row 1 {fault}; its columns are: {listed}.")


def text_cell(source: Source, number: int, column: str, value: object) -> str:
    """An id or a label as text, or an error that says where it stands."""
    try:
        return as_text(value)
    except (ValueError, RecursionError) as error:
        place = where(source.name, number, column)
        raise InputError(f"{place} {error}; text or a number is needed.") from None


class Classes:
    """Finds the class that a person meant.

    Blanks around it do not count, nor does what :func:`label_key` leaves out, unless two classes
    differ by nothing else.
    """

    def __init__(self, classes: Sequence[str], former: Mapping[str, str] | None = None) -> None:
        """``former``: names that classes had once → the names they have now."""
        self._classes = dict.fromkeys(classes)
        self._now = {name: name for name in classes} | dict(former or {})
        self._alike: dict[str, list[str]] = {}
        for name in self._now:
            self._alike.setdefault(label_key(name), []).append(name)

    def says_nothing(self, cell: Any) -> bool:
        """Whether a cell holds no label: it is empty, or N/A and the like where no class is."""
        is_text = isinstance(cell, str)
        key = label_key(cell) if is_text else ""
        return is_missing(cell) or (is_text and key in NO_LABEL and key not in self._alike)

    def read(self, form: AnswerForm, value: Any, place: str) -> str:
        """The label that a cell means, as the store keeps it."""
        return form.read(value, lambda name: self.match(name, place), place)

    def match(self, cell: Any, place: str) -> str:
        """The class that a cell means; ``place`` is where it stands, for an error."""
        if isinstance(cell, list):
            raise LabelError(f"{place}: {short(cell)} is a list; one label an item is needed.")
        texts = (cell, cell.strip(), raw_cell(cell.strip()))
        if exact := [text for text in texts if text in self._now]:
            return self._now[exact[0]]
        for text in texts[1:]:
            alike = self._alike.get(label_key(text), [])
            if len({self._now[name] for name in alike}) == 1:
                return self._now[alike[0]]
            if alike:
                choices = " or ".join(short(name) for name in alike)
                raise LabelError(
                    f"{place}: the label {short(cell)} could be {choices}; write it exactly."
                )
        more = ", …" if len(self._classes) > 10 else ""
        listed = ", ".join(short(name) for name in [*self._classes][:10]) + more
        raise LabelError(f"{place}: the label {short(cell)} is not one of the classes ({listed}).")
