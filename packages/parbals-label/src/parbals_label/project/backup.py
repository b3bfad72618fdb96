"""A project in one file, while people label; :mod:`parbals_label.project.restore` is the way back.

A backup is a plain zip without compression: the database as SQLite copies it while it is in use,
the journal, the matrices that the settings name, the images that lie in the project's folder, and
``SHA256SUMS``. So ``unzip`` makes a project of it, and ``sha256sum -c SHA256SUMS`` checks it,
without parbals. What opens the page (its token) and what can be made again stay behind.
"""

import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO
from zipfile import ZIP_STORED, ZipFile, ZipInfo

from parbals.errors import ProjectDamagedError, ProjectError
from parbals.files import whole_file

from parbals_label.project.features import load_features
from parbals_label.readers.images import IMAGE_SUFFIXES
from parbals_label.store.folder import FILE_NAME, is_project_file
from parbals_label.store.journal import Journal
from parbals_label.store.settings import ProjectSettings
from parbals_label.store.store import Store

__all__ = ["SUMS", "Contents", "check_project", "is_backup_name", "write_backup"]

SUMS = "SHA256SUMS"
_JOURNAL = "project.journal"
_OURS = re.compile(
    r"project\.sqlite3|project\.journal|SHA256SUMS|(features|predictions|map)-[0-9a-f]+\.npy"
)
_MATRICES = ("features", "predictions", "map")
_BLOCK = 1 << 20
_TRIES = 5


@dataclass(frozen=True)
class Contents:
    """What a sound project, or its backup, holds."""

    items: int
    answers: int
    files: int = 0
    n_bytes: int = 0
    images_elsewhere: int = 0
    links_ended: tuple[str, ...] = ()
    images_left: str | None = None


def check_project(folder: Path) -> tuple[Contents, list[str]]:
    """How much there is, and everything that is wrong with it: database, journal and matrices."""
    with Store.open(folder, read_only=True) as store:
        faults = store.check()
        if faults:
            return Contents(0, 0), faults
        for name in _MATRICES:
            faults += _matrix_fault(store, name)
        return Contents(store.n_items, store.revision()[0]), faults


def _matrix_fault(store: Store, name: str) -> list[str]:
    fault: list[str] = []
    for _ in range(_TRIES):  # the page's worker replaces predictions and map as labels come
        settings = store.settings
        matrix = getattr(settings, name)
        if matrix is None:
            return []
        try:
            load_features(store.folder, matrix, verify=True, encoder=settings.encoder)
            return []
        except ProjectDamagedError as error:
            fault = [str(error)]
        if name != "features" and not (store.folder / matrix.file).exists():
            return []  # it is made again
        if getattr(store.settings, name) == matrix:
            return fault
    return fault


def write_backup(folder: Path, file: Path) -> Contents:
    """Everything that the project owns, in one file; people may label meanwhile.

    It is what it was at one moment: every answer that was confirmed before the command began is in
    it. A damaged project is refused, so that no good backup is replaced by a bad one.
    """
    near = None if str(file) == "-" else Path(os.path.realpath(file)).parent
    with (
        tempfile.TemporaryDirectory(prefix=".parbals-", dir=near) as draft,
        whole_file(file) as out,
    ):
        if hasattr(os, "fchmod"):
            os.fchmod(out.fileno(), 0o600)  # what people wrote is nobody else's
        for tries_left in reversed(range(_TRIES)):
            with suppress(FileNotFoundError):
                out.seek(0)
                out.truncate()
                return _write(folder, Path(draft), out, everything=tries_left > 0)
        raise ProjectError(f"The features of {folder} were replaced meanwhile; try again.")


def _write(folder: Path, draft: Path, out: IO[bytes], *, everything: bool) -> Contents:
    """One try; FileNotFoundError where a matrix was replaced between the copy and its turn."""
    for path in draft.iterdir():
        path.unlink()
    with Store.open(folder, read_only=True) as store:
        # The journal's length first: it must not know answers that the copy lacks.
        size = Journal(folder).size()
        store.copy_database(draft / FILE_NAME)
    _copy_start(folder / _JOURNAL, draft / _JOURNAL, size)
    with Store.open(draft, read_only=True) as copy, ZipFile(out, "w", ZIP_STORED) as archive:
        faults = copy.check()
        if faults:
            raise ProjectDamagedError(f"{folder} is damaged: {faults[0]}. Nothing was written.")
        sums = _Sums(archive)
        for name in (FILE_NAME, _JOURNAL):
            sums.add(name, draft / name)
        for name in _MATRICES:
            matrix = getattr(copy.settings, name)
            if matrix is not None and _is_good(folder, name, copy.settings, must=everything):
                sums.add(matrix.file, folder / matrix.file)
        elsewhere = 0
        for value in _images(copy):
            image = _own_image(folder, value)
            if image is None:
                elsewhere += 1
            elif value not in sums.lines:
                sums.add(value, image)
        text = "".join(f"{digest}  {name}\n" for name, digest in sums.lines.items())
        archive.writestr(_plain(SUMS), text.encode())
        found = Contents(copy.n_items, copy.revision()[0], len(sums.lines), sums.n_bytes, elsewhere)
    return found


def _is_good(folder: Path, name: str, settings: ProjectSettings, *, must: bool) -> bool:
    """Whether a matrix is what was written; FileNotFoundError where it ``must`` be and is not."""
    matrix = getattr(settings, name)
    try:
        load_features(folder, matrix, verify=True, encoder=settings.encoder)
    except ProjectDamagedError:
        if must and not (folder / matrix.file).exists():
            raise FileNotFoundError(matrix.file) from None
        if name == "features":
            raise
        return False  # predictions and map are made again
    return True


class _Sums:
    """Writes members, and remembers what they were."""

    def __init__(self, archive: ZipFile) -> None:
        self.archive, self.lines, self.n_bytes = archive, dict[str, str](), 0

    def add(self, name: str, path: Path) -> None:
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        with (
            open(os.open(path, flags), "rb") as source,
            self.archive.open(_plain(name), "w", force_zip64=True) as target,
        ):
            digest = hashlib.sha256()
            while block := source.read(_BLOCK):
                digest.update(block)
                target.write(block)
                self.n_bytes += len(block)
        self.lines[name] = digest.hexdigest()


def _plain(name: str) -> ZipInfo:
    member = ZipInfo(name)
    member.external_attr = 0o100600 << 16
    return member


def _copy_start(source: Path, target: Path, size: int) -> None:
    with target.open("wb") as file:
        if size:
            with source.open("rb") as whole:
                while size > 0 and (block := whole.read(min(size, _BLOCK))):
                    file.write(block)
                    size -= len(block)


def _images(store: Store) -> Iterator[str]:
    """The items' paths of images."""
    columns = store.settings.encoded_columns
    if len(columns) == 1:
        for item in store.iter_items():
            value = item.content.get(columns[0])
            if isinstance(value, str) and value.lower().endswith(IMAGE_SUFFIXES):
                yield value


def _own_image(folder: Path, value: str) -> Path | None:
    """The image's file where it lies in the project's folder; it is found there after a restore."""
    if not _is_image_name(value):
        return None
    path = folder / value
    with suppress(OSError, RuntimeError):
        if path.is_file() and path.resolve() == folder.resolve() / value:
            return path
    return None


def is_backup_name(name: str) -> bool:
    """Whether a backup may hold a file of this name."""
    return _OURS.fullmatch(name) is not None or _is_image_name(name)


def _is_image_name(name: str) -> bool:
    """A relative path without tricks on any system, which no file of the project can have."""
    parts = PurePosixPath(name).parts
    return (
        name.lower().endswith(IMAGE_SUFFIXES)
        and name.isprintable()
        and "/".join(parts) == name
        and not name.startswith("/")
        and not any(c in name for c in '\\:*?"<>|')
        and not any(part.startswith(".") or part.endswith((".", " ")) for part in parts)
        and not is_project_file(parts[0])
    )
