"""Where a command may write: not over files of the project, nor over labels nobody else has."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from parbals.errors import InputError, LabelError

from parbals_label.project.batch_files import batch_header, positions_of_ids
from parbals_label.readers.answers import Classes, open_answers
from parbals_label.readers.cells import as_text, is_missing, raw_cell
from parbals_label.readers.source import Source
from parbals_label.store.folder import is_project_file
from parbals_label.store.store import Store

__all__ = ["check_batch_destination", "check_destination", "check_export_destination"]


def check_destination(folder: Path, path: Path, data: str | None = None) -> None:
    """Refuse a file that cannot be written or that the project needs; "-" is the screen.

    ``data`` is what the project was made from.
    """
    if str(path) == "-":
        return
    destination = Path(os.path.realpath(path))
    parent = destination.parent
    if destination.is_dir():
        raise InputError(f"{path} is a folder; name a file in it.")
    if destination.exists() and not destination.is_file():
        raise InputError(
            f"{path} is not a file, so it cannot be replaced; give a file name, or - for standard "
            "output."
        )
    if not parent.is_dir():
        raise InputError(
            f"{path} cannot be written: there is no folder {parent}; make it, or name another."
        )
    if not os.access(parent, os.W_OK | os.X_OK):
        raise InputError(
            f"{path} cannot be written: the folder {parent} is read-only; name another."
        )
    if path.is_symlink() and _same(path.parent, folder):
        raise InputError(
            f"{path} is a link that leads out of the project's folder; name a file with --out."
        )
    is_reserved = _same(parent, folder) and is_project_file(destination.name)
    if is_reserved or any(_same(destination, file) for file in _files(folder)):
        raise InputError(f"{path} is a file of the project itself; name another with --out.")
    if data is not None and _same(destination, Path(data)):
        raise InputError(
            f"{path} is the file that the project was made from; name another with --out."
        )


def check_batch_destination(store: Store, path: Path, folder: Path) -> None:
    """Besides, what is there must be empty, or a batch file of which every label was told."""
    check_destination(store.folder, path, store.settings.data)
    if str(path) == "-" or not path.exists() or path.stat().st_size == 0:
        return
    refusal = InputError(
        f"{path} is there already and is not a batch file as parbals wrote it; name another file "
        "with --out."
    )
    try:
        source = open_answers(path, any_ending=True)
        cells = [
            (raw_cell(as_text(row.values["id"])), row.values["label"]) for row in source.rows()
        ]
    except (InputError, ValueError, KeyError, RecursionError):
        raise refusal from None
    places = positions_of_ids(store, [name for name, _ in cells])
    if any(len(positions) != 1 for positions in places.values()):
        raise refusal
    untold = _untold(
        store, [(places[name][0], label) for name, label in cells if not is_missing(label)]
    )
    if untold:
        raise InputError(
            f"{path} holds {untold} label{'s' * (untold > 1)} that "
            f"{'have' if untold > 1 else 'has'} not been told; run `parbals tell {folder} {path}` "
            "first, or name another file with --out."
        )
    if not _is_ours(store, source, {positions[0] for positions in places.values()}):
        raise refusal


def check_export_destination(store: Store, path: Path, folder: Path) -> None:
    """Besides, a batch file with labels that nobody told is kept; an earlier export is replaced."""
    check_destination(store.folder, path, store.settings.data)
    is_batch = False
    if str(path) != "-" and path.is_file():
        with suppress(InputError, ValueError, RecursionError):
            is_batch = _has_batch_columns(store, open_answers(path, any_ending=True))
    if is_batch:
        check_batch_destination(store, path, folder)


def _untold(store: Store, filled: list[tuple[int, object]]) -> int:
    """How many filled-in cells say what the project does not hold, or cannot be read as a class."""
    held, meant, count = store.current_labels(), Classes(store.classes), 0
    for position, cell in filled:
        label = None
        with suppress(LabelError, ValueError, RecursionError):
            label = meant.match(as_text(cell), "")
        count += label is None or label not in held.get(position, {}).values()
    return count


def _is_ours(store: Store, source: Source, positions: set[int]) -> bool:
    """The columns are those of a batch file, none added, and the items are some of one batch."""
    if not _has_batch_columns(store, source):
        return False
    return any(positions <= {item.position for item in record.items} for record in store.batches())


def _has_batch_columns(store: Store, source: Source) -> bool:
    return {raw_cell(column) for column in source.columns} == set(
        batch_header(store.settings.columns)
    )


def _files(folder: Path) -> Iterator[Path]:
    """The files of the project that are there now."""
    paths = folder.iterdir() if folder.is_dir() else ()
    return (path for path in paths if is_project_file(path.name))


def _same(one: Path, other: Path) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False
