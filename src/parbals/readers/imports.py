"""The one way in: open what a user has, and turn its rows into items, labels and features."""

from collections.abc import Collection, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from parbals.errors import InputError, LabelError
from parbals.readers.answers import Classes
from parbals.readers.arrow import is_dataset_folder, open_dataset_folder, open_parquet
from parbals.readers.cells import as_text, is_missing, plain_value
from parbals.readers.images import open_images
from parbals.readers.numbers import feature_blocks, numeric_features
from parbals.readers.numpy_files import open_npy, open_npz
from parbals.readers.source import Row, Source, check_column, read_start, short, where
from parbals.readers.text import open_delimited, open_jsonl

__all__ = [
    "NUMBERED",
    "Row",
    "Source",
    "classes_in",
    "feature_blocks",
    "id_column_of",
    "numeric_features",
    "open_source",
    "plan_items",
]

MAX_CLASSES = 1_000
NUMBERED = ""
"""In place of an id column: the rows are numbered. No column can have this name."""
_IDS = ("id", "ID")
_CORRECT = 'correct it, or number the rows instead (--id "")'
_TEXT = (".csv", ".tsv", ".jsonl", ".ndjson")
_NOT_TEXT = {
    b"PAR1": "is a Parquet file: give it the ending .parquet",
    b"\x93NUMPY": "is a NumPy file: give it the ending .npy",
    b"PK\x03\x04": "is a zip file or a spreadsheet: unpack it, or save the sheet as CSV",
    b"ARROW1": "is an Arrow file: save it as .parquet",
    b"\x1f\x8b": "is compressed: unpack it first",
}
_ADVICE = {
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "save the sheet as CSV"),
    **dict.fromkeys(
        (".pkl", ".pickle", ".pt", ".pth", ".joblib"),
        "it could run code when read; save .npy or .parquet",
    ),
    **dict.fromkeys((".gz", ".zip", ".bz2", ".xz", ".zst", ".tar"), "unpack it first"),
    ".json": "write one object a line and give it the ending .jsonl",
    ".txt": "give it the ending .csv or .tsv",
    ".arrow": "save it as .parquet, or name the folder it is in",
}


def open_source(
    path: str | PathLike[str],
    *,
    encoding: str | None = None,
    split: str | None = None,
    verify_images: bool = True,
) -> Source:
    """Open a file or folder.

    Only what tells its columns is read now; the rows are read, and checked, when walked.

    ``encoding`` overrides what would be detected in a text file. ``split`` picks one split of a
    Hugging Face DatasetDict. ``verify_images`` decodes every image of a folder once, and names
    those that cannot be read.
    """
    path = Path(path)
    if path.is_dir():
        _only_for("a text file", encoding, path)
        if is_dataset_folder(path):
            return open_dataset_folder(path, split)
        _only_for("a Hugging Face dataset folder", split, path)
        return open_images(path, verify_images)
    if not path.is_file():
        raise InputError(
            f"{path} {'is neither file nor folder' if path.exists() else 'does not exist'}."
        )
    _only_for("a Hugging Face dataset folder", split, path)
    suffix = path.suffix.lower()
    start = read_start(path, 8)
    if suffix in _TEXT:
        for magic, fault in _NOT_TEXT.items():
            if start.startswith(magic):
                raise InputError(f"{path.name} is not text, but {fault}.")
        return (
            open_jsonl(path, encoding)
            if suffix in _TEXT[2:]
            else open_delimited(path, suffix[1:], encoding)
        )
    _only_for("a text file", encoding, path)
    openers = {".parquet": open_parquet, ".npy": open_npy, ".npz": open_npz}
    if suffix in openers:
        return openers[suffix](path)
    known = ", ".join((*_TEXT, *openers))
    advice = _ADVICE.get(
        suffix, f"known are {known}, a folder of images and a Hugging Face dataset folder"
    )
    raise InputError(f"{path.name} cannot be read: {advice}.")


def _only_for(what: str, option: str | None, path: Path) -> None:
    if option is not None:
        raise InputError(
            f"{path.name} is not {what}, so {short(option)} means nothing for it; leave the option "
            "out."
        )


def id_column_of(source: Source, label_column: str | None = None) -> str:
    """The column that would be taken for the items' names, or ``NUMBERED`` where there is none."""
    return next(
        (name for name in _IDS if name in source.columns and name != label_column), NUMBERED
    )


def plan_items(
    source: Source,
    *,
    id_column: str | None = None,
    label_column: str | None = None,
    classes: Sequence[str] | None = None,
    leave_out: Collection[str] = (),
) -> Iterator[tuple[str, dict[str, Any], str | None]]:
    """Each row as (id, content, label): what a project keeps of it.

    The id is the text of ``id_column``, or with ``NUMBERED`` the number of the record, counted from
    1. By default, for data whose ids nobody names again, it is the text of a column called id or ID
    if its values are there and all different, else the number. The label is the class that the cell
    of ``label_column`` means (see :class:`~parbals.readers.answers.Classes`), or None where
    the cell is empty, null or NaN; the ``classes`` are by default those of :func:`classes_in`. The
    content is every other column that is not in ``leave_out``, as JSON can hold it (see
    :func:`parbals.readers.cells.plain_value`).

    Column names and classes are checked in the call, cells during the walk: keep nothing before the
    walk has ended.
    """
    for column in (id_column or None, label_column, *leave_out):
        if column is not None:
            check_column(source, column)
    if id_column is not None and id_column == label_column:
        raise InputError(
            f"{short(id_column)} cannot be both the id and the label; name two columns."
        )
    if label_column is not None and classes is None:
        classes = classes_in(source, label_column)
    if id_column is None:
        candidates = [name for name in _IDS if name in source.columns and name != label_column]
        id_column = next((name for name in candidates if _identifies(source, name)), NUMBERED)
    meant = None if label_column is None else Classes(classes or ())
    return _items(source, id_column, label_column, meant, frozenset(leave_out))


def _identifies(source: Source, column: str) -> bool:
    """Whether the column has a value in every row, and never the same one twice."""
    seen: set[str] = set()
    for _, values in source.rows():
        try:
            text = "" if is_missing(values[column]) else as_text(values[column])
        except ValueError:
            return False
        if not text or text in seen:
            return False
        seen.add(text)
    return True


def _items(
    source: Source,
    id_column: str,
    label_column: str | None,
    classes: Classes | None,
    leave_out: frozenset[str],
) -> Iterator[tuple[str, dict[str, Any], str | None]]:
    kept = [name for name in source.columns if name not in leave_out | {id_column, label_column}]
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
        label = (
            None
            if label_column is None
            else _label(source, number, label_column, values[label_column])
        )
        if label is not None and classes is not None:
            label = classes.match(label, where(source.name, number, label_column))
        content = {name: values[name] for name in kept}
        yield item, content if is_clean else _plain(source, number, content), label
    if not index:
        raise InputError(f"{source.name} has no rows.")


def _plain(source: Source, number: int, content: dict[str, Any]) -> dict[str, Any]:
    for column, value in content.items():
        try:
            content[column] = plain_value(value)
        except (ValueError, RecursionError) as error:
            place = where(source.name, number, column)
            raise InputError(
                f"{place} {error}; change the value, or leave the column out."
            ) from None
    return content


def _text(source: Source, number: int, column: str, value: Any) -> str:
    if is_missing(value):
        raise InputError(
            f"{where(source.name, number, column)} is empty; every row needs an id, so {_CORRECT}."
        )
    try:
        return as_text(value)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{where(source.name, number, column)} {error}; text or a number is needed."
        ) from None


def _label(source: Source, number: int, column: str, value: Any) -> str | None:
    return None if is_missing(value) else _text(source, number, column, value).strip()


def classes_in(source: Source, label_column: str) -> list[str]:
    """The different labels of a column, sorted: at least two, at most a thousand.

    Two that differ in nothing but capitals are refused: most often they are one class, written in
    two ways.
    """
    check_column(source, label_column)
    found: set[str] = set()
    written: dict[str, tuple[str, int]] = {}
    for number, values in source.rows():
        if (label := _label(source, number, label_column, values[label_column])) is not None:
            if label not in found:
                first, row = written.setdefault(label.casefold(), (label, number))
                if first != label:
                    raise LabelError(
                        f"{where(source.name, number, label_column)}: the label {short(label)} "
                        f"differs from {short(first)} in row {row} only in capitals; write them "
                        "alike, or name the classes that there are (--classes)."
                    )
            found.add(label)
        if len(found) > MAX_CLASSES:
            raise LabelError(
                f"{source.name}, column {label_column!r} has more than {MAX_CLASSES} different "
                f"labels by row {number}; is it the right column?"
            )
    if len(found) < 2:
        what = f"only the label {short(next(iter(found)))}" if found else "no labels"
        raise LabelError(
            f"{source.name}, column {label_column!r} has {what}; name the classes, at least two."
        )
    return sorted(found)
