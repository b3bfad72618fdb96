"""Reading a filled-in batch back, whatever the spreadsheet made of it."""

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import NamedTuple

from parbals.errors import InputError, LabelError

from parbals_label.readers.arrow import is_dataset_folder, open_dataset_folder, open_parquet
from parbals_label.readers.cells import as_text, is_missing, raw_cell
from parbals_label.readers.delimited import open_delimited
from parbals_label.readers.json_files import open_json, tool_records
from parbals_label.readers.source import Source, short, where

__all__ = ["Classes", "FilledRow", "ToolRow", "open_answers", "read_answers", "tool_answers"]

_JSON = (".jsonl", ".ndjson", ".json")


class FilledRow(NamedTuple):
    """One row with a label.

    ``id`` is the text of the cell: '007' is not turned into 7, nor 7 back into '007'.
    """

    row: int
    id: str
    label: str


class ToolRow(NamedTuple):
    """A label in another tool's file, and who gave it, where the file says so."""

    row: int
    id: str
    label: str
    annotator: str | None


def read_answers(
    path: str | PathLike[str],
    classes: Sequence[str],
    *,
    id_column: str = "id",
    label_column: str = "label",
    former: Mapping[str, str] | None = None,
) -> list[FilledRow]:
    """Every row with a label, in the order of the file; an error names the first that is wrong.

    Rows may be missing or reordered, columns added, labels left empty. Files may be CSV, TSV or
    JSONL in any encoding that ``open_source`` reads; .txt is what Excel calls a table with tabs.
    Parquet files and Hugging Face dataset folders are read as well.
    Blanks around a label do not count, nor do small and capital letters unless two classes differ
    by nothing else; ``former`` names of classes stand for those of today. The apostrophe that kept
    an id from being a formula is taken off. A row that says the same as an earlier one is left out.
    """
    source = open_answers(Path(path))
    id_name = _find_column(source, id_column)
    label_name = _find_column(source, label_column)
    known = Classes(classes, former)
    rows: dict[str, FilledRow] = {}
    for number, values in source.rows():
        if is_missing(values[label_name]):
            continue
        cell = _cell(source, number, label_name, values[label_name])
        label = known.match(cell, where(source.name, number, label_name))
        if values[id_name] is None or values[id_name] == "":
            raise InputError(
                f"{where(source.name, number, id_name)} is empty, but the row has a label; put the "
                "id back."
            )
        item = raw_cell(_cell(source, number, id_name, values[id_name]))
        earlier = rows.setdefault(item, FilledRow(number, item, label))
        if earlier.label != label:
            raise LabelError(
                f"{where(source.name, number, label_name)}: the item {short(item)} is "
                f"{short(label)} here and {short(earlier.label)} in row {earlier.row}; keep one of "
                "them."
            )
    return list(rows.values())


def tool_answers(
    path: Path, classes: Sequence[str], former: Mapping[str, str] | None = None
) -> list[ToolRow] | None:
    """Every label in another labelling tool's file (:mod:`parbals_label.readers.tools`).

    None where the file is something else, for :func:`read_answers`.
    """
    known = Classes(classes, former)
    if path.suffix.lower() not in _JSON or not path.is_file():
        return None
    records = tool_records(path)
    if records is None:
        return None
    rows: dict[tuple[str, str | None], ToolRow] = {}
    for number, record in records:
        for annotator, given in record.labels:
            place = where(path.name, number)
            if record.id is None:
                raise InputError(f"{place} has a label, but no id that says which item it is.")
            label = known.match(given, place)
            key = (record.id, annotator)
            earlier = rows.setdefault(key, ToolRow(number, record.id, label, annotator))
            if earlier.label != label:
                by = f" by {short(annotator)}" if annotator else ""
                raise LabelError(
                    f"{place}: the item {short(record.id)} is {short(label)} here{by} and "
                    f"{short(earlier.label)} in row {earlier.row}; keep one of them."
                )
    return list(rows.values())


def open_answers(path: Path, *, any_ending: bool = False) -> Source:
    """A file that people fill in; with ``any_ending`` one of another name is read as CSV."""
    if path.is_dir() and is_dataset_folder(path):
        return open_dataset_folder(path)
    if not path.is_file():
        raise InputError(f"{path} {'is not a file' if path.exists() else 'does not exist'}.")
    suffix = path.suffix.lower()
    if suffix in _JSON:
        return open_json(path)
    if suffix == ".parquet":
        return open_parquet(path)
    if any_ending or suffix in (".csv", ".txt", ".tsv"):
        return open_delimited(path, "tsv" if suffix == ".tsv" else "csv", forgiving=True)
    raise InputError(f"{path.name} cannot be read as answers; save it as CSV.")


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


def _cell(source: Source, number: int, column: str, value: object) -> str:
    try:
        return as_text(value)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where(source.name, number, column)} {error}; text is needed.") from None


class Classes:
    """Finds the class that a person meant: blanks around it and capitals do not count."""

    def __init__(self, classes: Sequence[str], former: Mapping[str, str] | None = None) -> None:
        """``former``: names that classes had once → the names they have now."""
        if not classes:
            raise InputError("Answers cannot be read without the names of the classes.")
        self._classes = dict.fromkeys(classes)
        self._now = {name: name for name in classes} | dict(former or {})
        self._alike: dict[str, list[str]] = {}
        for name in self._now:
            self._alike.setdefault(name.strip().casefold(), []).append(name)

    def match(self, cell: str, place: str) -> str:
        """The class that a cell means; ``place`` is where it stands, for an error."""
        texts = (cell, cell.strip(), raw_cell(cell.strip()))
        if exact := [text for text in texts if text in self._now]:
            return self._now[exact[0]]
        for text in texts[1:]:
            alike = self._alike.get(text.casefold(), [])
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
