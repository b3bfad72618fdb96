"""A project in one file, made while people label, and the way back.

A backup is a plain zip without compression: the database as SQLite copies it while it is in use,
the journal, the matrices and the adapted encoder that the settings name, the predictions that the
latest certificate is about, the images that lie in the project's folder, and ``SHA256SUMS``. So
``unzip`` makes a project of it, and ``sha256sum -c SHA256SUMS`` checks it, without parbals. What
opens the page (its token) and what can be made again stay behind.

Anybody may have sent a backup. It is hostile until it is proved: only names that
:func:`write_backup` writes, plain members, no more bytes than the file has. They are written into a
new folder, which takes its name only when every checksum and the project itself are found good.
Nothing in it is run. Whoever made the file may know the links of the people in it, and has chosen
where images are looked for, so that both end unless they are asked for.
"""

import hashlib
import io
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO
from zipfile import ZIP_STORED, BadZipFile, LargeZipFile, ZipFile, ZipInfo

from parbals.errors import InputError, ProjectDamagedError, ProjectError
from parbals.files import TEMPORARY_SUFFIX

from parbals_label.files import DAY, check_new_folder, locked, new_folder, sweep, whole_file
from parbals_label.project.features import (
    adapted_files,
    certified_predictions,
    is_adapted,
    load_features,
)
from parbals_label.project.media import image_column
from parbals_label.readers.images import IMAGE_SUFFIXES
from parbals_label.store.folder import FILE_NAME, is_project_file
from parbals_label.store.journal import Journal
from parbals_label.store.records import BACKED_UP
from parbals_label.store.settings import MatrixFile
from parbals_label.store.store import Store

__all__ = ["Contents", "check_backup", "check_project", "rehearse", "restore_backup"]
__all__ += ["write_backup"]

_SUMS, _JOURNAL = "SHA256SUMS", "project.journal"
_MATRICES = ("features", "described", "scores", "predictions", "map")
_OURS = re.compile(
    r"project\.sqlite3|project\.journal|SHA256SUMS"
    r"|(features|predictions|map|described|scores)-[0-9a-f]+\.npy"
    r"|encoder-[0-9a-f]{12}/(1_Pooling/)?\w[\w.-]*"
)
_SUM = re.compile(r"([0-9a-f]{64})  (.+)")
_BLOCK = 1 << 20
_DRAFT, _LOCK = ".parbals-backup-", ".lock"
_BUSY = ProjectError("Another backup is being made.")
_MOST_LISTED = 32 << 20
"""Bytes of a zip's list of members, which Python holds in memory: some 300,000 images."""


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
            matrix = getattr(store.settings, name)
            try:
                if matrix is not None:
                    load_features(folder, matrix, verify=True, encoder=store.settings.encoder)
            except ProjectDamagedError as error:
                # The page's worker replaces predictions and map as labels come, and makes them
                # again where they are missing.
                is_there = name in _MATRICES[:3] or (folder / matrix.file).exists()
                if is_there and getattr(store.settings, name) == matrix:
                    faults.append(str(error))
        if is_adapted(encoder := store.settings.encoder):
            try:
                adapted_files(folder, str(encoder))
            except ProjectDamagedError as error:
                faults.append(str(error))
        return Contents(store.n_items, store.revision()[0]), faults


def write_backup(folder: Path, file: Path) -> Contents:
    """Everything that the project owns, in one file; people may label meanwhile.

    It is what it was at one moment: every answer that was confirmed before the command began is in
    it. A damaged project is refused, so that no good backup is replaced by a bad one.
    """
    near = None if str(file) == "-" else Path(os.path.realpath(file)).parent
    _sweep(near or Path(tempfile.gettempdir()))
    with (
        tempfile.TemporaryDirectory(prefix=_DRAFT, dir=near) as draft,
        locked(Path(draft) / _LOCK, _BUSY),
        whole_file(file, mode=0o600) as out,  # what people wrote is nobody else's
    ):
        if hasattr(os, "fchmod"):
            os.fchmod(out.fileno(), 0o600)  # one that is replaced may have been open
        return _write(folder, Path(draft), out)


def _sweep(folder: Path) -> None:
    """Remove copies of the database that a killed backup left: nobody holds their lock any more."""
    for draft in folder.glob(f"{_DRAFT}*"):
        with suppress(OSError, ProjectError):
            if draft.is_dir() and not draft.is_symlink() and (draft / _LOCK).is_file():
                with locked(draft / _LOCK, _BUSY):
                    shutil.rmtree(draft)
    # A file that was half-written a day ago is written by nobody any more.
    sweep(folder, f".{'[0-9a-f]' * 16}{TEMPORARY_SUFFIX}", DAY)


def _write(folder: Path, draft: Path, out: IO[bytes]) -> Contents:
    with Store.open(folder, read_only=True) as store:
        # The journal's length first: it must not know answers that the copy lacks.
        size = Journal(folder).size()
        store.copy_database(draft / FILE_NAME)
    (draft / _JOURNAL).touch()
    if size:
        shutil.copyfile(folder / _JOURNAL, draft / _JOURNAL)
        os.truncate(draft / _JOURNAL, size)
    with Store.open(draft, read_only=True) as copy, ZipFile(out, "w", ZIP_STORED) as archive:
        faults = copy.check()
        if faults:
            raise ProjectDamagedError(f"{folder} is damaged: {faults[0]}. Nothing was written.")
        sums = _Sums(archive)
        for name in (FILE_NAME, _JOURNAL):
            sums.add(name, draft / name)
        for name, matrix in _matrices(copy):
            try:
                load_features(folder, matrix, verify=True, encoder=copy.settings.encoder)
                sums.add(matrix.file, folder / matrix.file)
            except (ProjectDamagedError, FileNotFoundError) as error:
                if name in _MATRICES[:3]:  # predictions and map are made again
                    raise ProjectDamagedError(
                        f"{error} Where new features were made just now, try again."
                    ) from None
        if is_adapted(encoder := copy.settings.encoder):
            for path in adapted_files(folder, str(encoder)):
                sums.add(path.relative_to(folder).as_posix(), path)
        elsewhere = 0
        for value in _images(copy):
            image = _own_image(folder, value)
            if image is None:
                elsewhere += 1
            elif value not in sums.lines:
                sums.add(value, image)
        text = "".join(f"{digest}  {name}\n" for name, digest in sums.lines.items())
        archive.writestr(_plain(_SUMS), text.encode())
        return Contents(copy.n_items, copy.revision()[0], len(sums.lines), sums.n_bytes, elsewhere)


def _matrices(store: Store) -> Iterator[tuple[str, MatrixFile]]:
    """What the settings name, and predictions that a certificate is about, if others."""
    frozen, now = certified_predictions(store), store.settings.predictions
    for name in _MATRICES:
        matrix = getattr(store.settings, name)
        if matrix is not None:
            yield name, matrix
    is_other = frozen is not None and (now is None or now.file != frozen.file)
    if is_other and frozen is not None and _is_ours(frozen.file):
        yield "predictions", frozen


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


def restore_backup(file: Path, folder: Path, *, keep_links: bool = False) -> Contents:
    """Make a project of a backup in a folder that is not there yet, or empty."""
    parent = Path(os.path.abspath(folder)).parent
    check_new_folder(folder)
    if not parent.is_dir():
        raise InputError(f"There is no folder {parent} to restore into; make it first.")
    with _opened(file) as (archive, sums):
        n_bytes = sum(member.file_size for member in archive.infolist())
        if shutil.disk_usage(parent).free < n_bytes:
            raise InputError(f"The disk of {parent} has no room for {n_bytes:,} bytes; free some.")
        try:
            with new_folder(folder, mode=0o700) as draft:
                for name, digest in sums.items():
                    _extract(archive, name, digest, draft, file)
                found, faults = check_project(draft)
                if faults:
                    raise ProjectDamagedError(f"{file} holds a damaged project: {faults[0]}")
                ended, left = ((), None) if keep_links else _end_trust(draft, parent / folder.name)
        except (ProjectError, ProjectDamagedError) as error:
            reason = str(error).replace(str(draft), str(folder))
            raise InputError(f"{file} was not restored. {reason}") from None
    return Contents(
        found.items, found.answers, len(sums), n_bytes, links_ended=ended, images_left=left
    )


def rehearse(folder: Path, file: Path | None = None) -> tuple[Path, Contents, int]:
    """Restore a backup of a project and throw it away: its file, what it holds, newer answers.

    By default the one that was written last; whatever is wrong with it is raised.
    """
    with Store.open(folder, read_only=True) as store:
        identity, answers = store.identity, store.revision()[0]
        written = [event.detail.get("file") for event in store.events(BACKED_UP)]
    if file is None:
        if not written or written[-1] == "-":
            raise InputError(f"No file is known that {folder} was backed up to; name it.")
        file = Path(str(written[-1]))
    with tempfile.TemporaryDirectory(prefix=_DRAFT) as place:
        found = restore_backup(file, Path(place) / "drill", keep_links=True)
        with Store.open(Path(place) / "drill", read_only=True) as store:
            if store.identity != identity:
                raise InputError(f"{file} is a backup of another project than {folder}.")
    return file, found, answers - found.answers


def _end_trust(draft: Path, folder: Path) -> tuple[tuple[str, ...], str | None]:
    """End what its maker could use: people's links, and a folder of images of their choice.

    The page shows the images of that folder to everybody who labels. Returns the names, and the
    folder.
    """
    with Store.open(draft, read_only=True) as store:
        is_team = any(person.invited for person in store.people())
        media = None if image_column(store) is None else store.settings.media
    if not is_team and media is None:
        return (), None
    with Store.open(draft) as store:
        if media is not None:
            store.update_settings(media=str(folder))
        return store.revoke_all(), media


def check_backup(file: Path) -> Contents:
    """Compare every member of a backup with its checksum, without writing anything."""
    with _opened(file) as (archive, sums):
        n_bytes = sum(_extract(archive, name, sums[name], None, file) for name in sums)
    return Contents(0, 0, len(sums), n_bytes)


def _extract(archive: ZipFile, name: str, digest: str, folder: Path | None, file: Path) -> int:
    """Copy a member into a folder of ours, or nowhere; its bytes must be those once written."""
    seen, size, path = hashlib.sha256(), 0, os.devnull
    flags = os.O_WRONLY | getattr(os, "O_BINARY", 0)
    if folder is not None:
        path = str(folder / name)
        (folder / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags |= os.O_CREAT | os.O_EXCL
    with open(os.open(path, flags, 0o600), "wb") as target, archive.open(name) as source:
        while block := source.read(_BLOCK):
            seen.update(block)
            size += len(block)
            target.write(block)
    if seen.hexdigest() != digest:
        raise InputError(f"{file} is damaged: {name} is not what was written; use another backup.")
    return size


@contextmanager
def _opened(file: Path) -> Iterator[tuple[ZipFile, dict[str, str]]]:
    """A backup whose members may be read, and their checksums; else one sentence."""
    if not file.is_file():
        raise InputError(f"There is no backup {file}.")
    try:
        with _Bounded(io.FileIO(file)) as source, ZipFile(source) as archive:
            _check_members(archive, file)
            yield archive, _read_sums(archive, file)
    except (BadZipFile, LargeZipFile, EOFError, NotImplementedError, UnicodeDecodeError) as error:
        raise InputError(
            f"{file} is not a backup of parbals, or is damaged ({error}); use another one."
        ) from None


class _Bounded(io.BufferedReader):
    """A file whose list of members, which zipfile reads at once, cannot fill the memory."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _MOST_LISTED:
            raise BadZipFile("its list of files is too long")
        return super().read(_MOST_LISTED if size is None or size < 0 else size)

    def seek(self, target: int, whence: int = 0, /) -> int:
        try:
            return super().seek(target, whence)
        except (OSError, ValueError):
            raise BadZipFile("it names a place outside of itself") from None


def _check_members(archive: ZipFile, file: Path) -> None:
    size, names = 0, set[str]()
    for member in archive.infolist():
        name = member.filename
        size += member.file_size
        is_plain = member.compress_type == ZIP_STORED and not member.flag_bits & 1
        if not _is_ours(name) or not is_plain or member.file_size != member.compress_size:
            raise InputError(
                f"{file} holds {name[:100]!r}, which `parbals backup create` does not write; "
                "nothing was restored."
            )
        if name.casefold() in names:  # some disks do not tell capitals apart
            raise InputError(f"{file} holds {name!r} twice; nothing was restored.")
        names.add(name.casefold())
    if size > file.stat().st_size:
        raise InputError(f"{file} says it holds more bytes than it has; nothing was restored.")


def _read_sums(archive: ZipFile, file: Path) -> dict[str, str]:
    names = set(archive.namelist())
    if not {_SUMS, FILE_NAME} <= names or archive.getinfo(_SUMS).file_size > _MOST_LISTED:
        raise InputError(f"{file} is not a backup of parbals: it has no list of checksums.")
    lines = archive.read(_SUMS).decode().splitlines()
    sums = {match[2]: match[1] for match in map(_SUM.fullmatch, lines) if match}
    if len(lines) != len(sums) or sums.keys() != names - {_SUMS}:
        raise InputError(f"{file} is damaged: its list of checksums is not that of its files.")
    return sums


def _is_ours(name: str) -> bool:
    """Whether a backup may hold a file of this name."""
    return _OURS.fullmatch(name) is not None or _is_image_name(name)
