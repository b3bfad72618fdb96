"""Back up a project into one file while people label, and restore it.

A backup is a plain zip without compression: the database as SQLite copies it while it is in use,
the journal, the matrices, the target set and the adapted encoder that the settings name, the
predictions that the latest certificate evaluates, the images that lie in the project's folder, and
``SHA256SUMS``. So ``unzip`` restores it, and ``sha256sum -c SHA256SUMS`` checks it, without
parbals. The token that opens the page, and files that can be computed again, are not part of it.

A backup may come from anybody and is not trusted: only names that :func:`write_backup` writes are
accepted, stored members, no more bytes than the file has. They are written into a new folder, which
gets its name only when every checksum and the project itself have been checked. Nothing in it is
run. The maker of the file may know the sign-in links of its people, and has chosen the folder of
images; both are reset unless the caller asks to keep them.
"""

import hashlib
import io
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple
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
from parbals_label.project.target_rows import check_target
from parbals_label.readers.images import IMAGE_SUFFIXES
from parbals_label.store.folder import FILE_NAME, is_project_file
from parbals_label.store.journal import Journal
from parbals_label.store.records import BACKED_UP
from parbals_label.store.settings import MatrixFile
from parbals_label.store.store import Store

__all__ = [
    "Contents",
    "TrialRestore",
    "check_backup",
    "check_project",
    "restore_backup",
    "trial_restore",
    "write_backup",
]

_CHECKSUMS = "SHA256SUMS"
_JOURNAL = "project.journal"
_REQUIRED_MATRICES = ("features", "described", "scores")
_MATRICES = (*_REQUIRED_MATRICES, "predictions", "map", "target_map")
"""Settings that name a matrix; those that are not required can be computed again."""
_MEMBER_NAME = re.compile(
    r"project\.sqlite3|project\.journal|SHA256SUMS"
    r"|(features|predictions|map|described|scores|target)-[0-9a-f]+\.npy"
    r"|target-[0-9a-f]+\.jsonl"
    r"|encoder-[0-9a-f]{12}/(1_Pooling/)?\w[\w.-]*"
)
_CHECKSUM_LINE = re.compile(r"([0-9a-f]{64})  (.+)")
_BLOCK_BYTES = 1 << 20
_DRAFT_PREFIX = ".parbals-backup-"
_LOCK = ".lock"
_PRIVATE = 0o600
_BUSY = ProjectError("Another backup is being made.")
_MAX_DIRECTORY_BYTES = 32 << 20
"""Size of a zip's list of members, which Python holds in memory: some 300,000 images."""


@dataclass(frozen=True)
class Contents:
    """The contents of an undamaged project, or of its backup.

    Attributes:
        items: number of items.
        answers: number of the last answer.
        files: members of the backup.
        n_bytes: their size.
        images_elsewhere: images outside of the project's folder, which are not in the backup.
        links_ended: people whose sign-in links were revoked by a restore.
        images_left: the folder of images that a restored project does not use any more.
    """

    items: int
    answers: int
    files: int = 0
    n_bytes: int = 0
    images_elsewhere: int = 0
    links_ended: tuple[str, ...] = ()
    images_left: str | None = None


def check_project(folder: Path) -> tuple[Contents, list[str]]:
    """The contents of a project, and everything that is wrong with database, journal and files."""
    with Store.open(folder, read_only=True) as store:
        faults = store.check()
        if faults:
            return Contents(0, 0), faults
        for name in _MATRICES:
            matrix = getattr(store.settings, name)
            if matrix is None:
                continue
            try:
                load_features(folder, matrix, verify=True, encoder=store.settings.encoder)
            except ProjectDamagedError as error:
                # The page's worker replaces predictions and map as labels arrive, and computes
                # them again where they are missing.
                matters = name in _REQUIRED_MATRICES or (folder / matrix.file).exists()
                if matters and getattr(store.settings, name) == matrix:
                    faults.append(str(error))
        target = store.settings.target
        if target is not None:
            try:
                check_target(store, target)
            except ProjectDamagedError as error:
                if store.settings.target == target:
                    faults.append(str(error))
        encoder = store.settings.encoder
        if is_adapted(encoder):
            try:
                adapted_files(folder, str(encoder))
            except ProjectDamagedError as error:
                faults.append(str(error))
        return Contents(store.n_items, store.revision()[0]), faults


def write_backup(folder: Path, file: Path) -> Contents:
    """Write a consistent copy of a project into one file; people may label meanwhile.

    Every answer that was confirmed before the call is in it. A damaged project is refused, so that
    no good backup is replaced by a bad one.
    """
    workspace = None if str(file) == "-" else Path(os.path.realpath(file)).parent
    _sweep(workspace or Path(tempfile.gettempdir()))
    with (
        tempfile.TemporaryDirectory(prefix=_DRAFT_PREFIX, dir=workspace) as draft,
        locked(Path(draft) / _LOCK, _BUSY),
        whole_file(file, mode=_PRIVATE) as out,
    ):
        if hasattr(os, "fchmod"):
            os.fchmod(out.fileno(), _PRIVATE)  # a file that is replaced may have been readable
        return _write(folder, Path(draft), out)


def _sweep(folder: Path) -> None:
    """Remove drafts of interrupted backups, whose locks nobody holds any more."""
    for draft in folder.glob(f"{_DRAFT_PREFIX}*"):
        with suppress(OSError, ProjectError):
            if draft.is_dir() and not draft.is_symlink() and (draft / _LOCK).is_file():
                with locked(draft / _LOCK, _BUSY):
                    shutil.rmtree(draft)
    # Partial files older than a day belong to interrupted backups, too.
    sweep(folder, f".{'[0-9a-f]' * 16}{TEMPORARY_SUFFIX}", DAY)


def _write(folder: Path, draft: Path, out: IO[bytes]) -> Contents:
    """Copy the database into a draft, check it, and write all members."""
    _copy_database(folder, draft)
    with Store.open(draft, read_only=True) as copy, ZipFile(out, "w", ZIP_STORED) as archive:
        faults = copy.check()
        if faults:
            raise ProjectDamagedError(f"{folder} is damaged: {faults[0]}. Nothing was written.")
        writer = _MemberWriter(archive)
        for name in (FILE_NAME, _JOURNAL):
            writer.add(name, draft / name)
        _add_matrices(writer, folder, copy)
        _add_target(writer, folder, copy)
        encoder = copy.settings.encoder
        if is_adapted(encoder):
            for path in adapted_files(folder, str(encoder)):
                writer.add(path.relative_to(folder).as_posix(), path)
        n_images_elsewhere = _add_images(writer, folder, copy)
        writer.add_checksums()
        return Contents(
            items=copy.n_items,
            answers=copy.revision()[0],
            files=len(writer.checksums),
            n_bytes=writer.n_bytes,
            images_elsewhere=n_images_elsewhere,
        )


def _copy_database(folder: Path, draft: Path) -> None:
    """Copy the database, and the journal up to the same answers."""
    with Store.open(folder, read_only=True) as store:
        # The journal's length first: it must not have answers that the copy lacks.
        size = Journal(folder).size()
        store.copy_database(draft / FILE_NAME)
    (draft / _JOURNAL).touch()
    if size:
        shutil.copyfile(folder / _JOURNAL, draft / _JOURNAL)
        os.truncate(draft / _JOURNAL, size)


def _add_matrices(writer: "_MemberWriter", folder: Path, copy: Store) -> None:
    """Write the matrices; those that can be computed again may be missing or damaged."""
    for name, matrix in _matrices(copy):
        try:
            load_features(folder, matrix, verify=True, encoder=copy.settings.encoder)
            writer.add(matrix.file, folder / matrix.file)
        except (ProjectDamagedError, FileNotFoundError) as error:
            if name in _REQUIRED_MATRICES:
                raise ProjectDamagedError(
                    f"{error} If features were recomputed just now, try again."
                ) from None


def _add_target(writer: "_MemberWriter", folder: Path, copy: Store) -> None:
    """Write the rows of the target set and their features."""
    target = copy.settings.target
    if target is None:
        return
    with Store.open(folder, read_only=True) as store:
        check_target(store, target)
    writer.add(target.file, folder / target.file)
    if target.features is not None:
        writer.add(target.features.file, folder / target.features.file)


def _add_images(writer: "_MemberWriter", folder: Path, copy: Store) -> int:
    """Write the images in the project's folder; the number of images elsewhere."""
    n_elsewhere = 0
    for name in _image_paths(copy):
        image = _image_in_project(folder, name)
        if image is None:
            n_elsewhere += 1
        elif name not in writer.checksums:
            writer.add(name, image)
    return n_elsewhere


def _matrices(store: Store) -> Iterator[tuple[str, MatrixFile]]:
    """The matrices that the settings name, and predictions that only a certificate names."""
    for name in _MATRICES:
        matrix = getattr(store.settings, name)
        if matrix is not None:
            yield name, matrix
    certified = certified_predictions(store)
    current = store.settings.predictions
    if certified is None or (current is not None and current.file == certified.file):
        return
    if _is_member_name(certified.file):
        yield "predictions", certified


class _MemberWriter:
    """Writes members of a zip, and records their checksums."""

    def __init__(self, archive: ZipFile) -> None:
        self.archive = archive
        self.checksums: dict[str, str] = {}
        self.n_bytes = 0

    def add(self, name: str, path: Path) -> None:
        """Write a file; links are not followed."""
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        with (
            open(os.open(path, flags), "rb") as source,
            self.archive.open(_member(name), "w", force_zip64=True) as target,
        ):
            digest = hashlib.sha256()
            while block := source.read(_BLOCK_BYTES):
                digest.update(block)
                target.write(block)
                self.n_bytes += len(block)
        self.checksums[name] = digest.hexdigest()

    def add_checksums(self) -> None:
        """Write ``SHA256SUMS``."""
        text = "".join(f"{digest}  {name}\n" for name, digest in self.checksums.items())
        self.archive.writestr(_member(_CHECKSUMS), text.encode())


def _member(name: str) -> ZipInfo:
    """A member that only its owner may read."""
    member = ZipInfo(name)
    member.external_attr = 0o100600 << 16
    return member


def _image_paths(store: Store) -> Iterator[str]:
    """The items' paths of images."""
    columns = store.settings.encoded_columns
    if len(columns) == 1:
        for item in store.iter_items():
            value = item.content.get(columns[0])
            if isinstance(value, str) and value.lower().endswith(IMAGE_SUFFIXES):
                yield value


def _image_in_project(folder: Path, name: str) -> Path | None:
    """The file of an image in the project's folder, where it is found after a restore; or None."""
    if not _is_image_name(name):
        return None
    path = folder / name
    with suppress(OSError, RuntimeError):
        if path.is_file() and path.resolve() == folder.resolve() / name:
            return path
    return None


def _is_image_name(name: str) -> bool:
    """Whether a name is a relative path on any system, and not that of a project file."""
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
    """Restore a backup into a folder that does not exist yet, or is empty.

    ``keep_links``: keep people's sign-in links and the folder of images.
    """
    parent = Path(os.path.abspath(folder)).parent
    check_new_folder(folder)
    if not parent.is_dir():
        raise InputError(f"There is no folder {parent} to restore into; make it first.")
    with _opened(file) as (archive, checksums):
        n_bytes = sum(member.file_size for member in archive.infolist())
        if shutil.disk_usage(parent).free < n_bytes:
            raise InputError(f"The disk of {parent} has no room for {n_bytes:,} bytes; free some.")
        try:
            with new_folder(folder, mode=0o700) as draft:
                for name, digest in checksums.items():
                    _extract(archive, name, digest, draft, file)
                contents, faults = check_project(draft)
                if faults:
                    raise ProjectDamagedError(f"{file} holds a damaged project: {faults[0]}")
                reset = _Reset((), None) if keep_links else _reset(draft, parent / folder.name)
        except (ProjectError, ProjectDamagedError) as error:
            reason = str(error).replace(str(draft), str(folder))
            raise InputError(f"{file} was not restored. {reason}") from None
    return replace(
        contents,
        files=len(checksums),
        n_bytes=n_bytes,
        links_ended=reset.people,
        images_left=reset.media,
    )


class TrialRestore(NamedTuple):
    """A backup that was restored as a test: its file, its contents, and newer answers."""

    file: Path
    contents: Contents
    n_newer_answers: int


def trial_restore(folder: Path, file: Path | None = None) -> TrialRestore:
    """Test a backup of a project by restoring it into a temporary folder.

    By default the latest one; whatever is wrong with it is raised.
    """
    with Store.open(folder, read_only=True) as store:
        identity = store.identity
        last_answer = store.revision()[0]
        backups = [event.detail.get("file") for event in store.events(BACKED_UP)]
    if file is None:
        if not backups or backups[-1] == "-":
            raise InputError(f"No backup of {folder} is known; name its file.")
        file = Path(str(backups[-1]))
    with tempfile.TemporaryDirectory(prefix=_DRAFT_PREFIX) as workspace:
        restored = Path(workspace) / "restored"
        contents = restore_backup(file, restored, keep_links=True)
        with Store.open(restored, read_only=True) as store:
            if store.identity != identity:
                raise InputError(f"{file} is a backup of another project than {folder}.")
    return TrialRestore(file, contents, last_answer - contents.answers)


class _Reset(NamedTuple):
    """What a restore took away: people whose links were revoked, and the folder of images."""

    people: tuple[str, ...]
    media: str | None


def _reset(draft: Path, folder: Path) -> _Reset:
    """Revoke people's links, and look for images in the project's folder only.

    The maker of the backup may know the links. The folder of images is the maker's choice as well,
    and the page would show its images to everybody who labels.
    """
    with Store.open(draft, read_only=True) as store:
        has_links = any(person.invited for person in store.people())
        media = None if image_column(store) is None else store.settings.media
    if not has_links and media is None:
        return _Reset((), None)
    with Store.open(draft) as store:
        if media is not None:
            store.update_settings(media=str(folder))
        return _Reset(store.revoke_all(), media)


def check_backup(file: Path) -> Contents:
    """Compare every member of a backup with its checksum, without writing anything."""
    with _opened(file) as (archive, checksums):
        n_bytes = 0
        for name, digest in checksums.items():
            n_bytes += _extract(archive, name, digest, None, file)
    return Contents(items=0, answers=0, files=len(checksums), n_bytes=n_bytes)


def _extract(archive: ZipFile, name: str, digest: str, folder: Path | None, file: Path) -> int:
    """Copy a member into a folder, or nowhere, and compare it with its checksum; its size."""
    actual = hashlib.sha256()
    size = 0
    path = os.devnull
    flags = os.O_WRONLY | getattr(os, "O_BINARY", 0)
    if folder is not None:
        path = str(folder / name)
        (folder / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags |= os.O_CREAT | os.O_EXCL
    with open(os.open(path, flags, 0o600), "wb") as target, archive.open(name) as source:
        while block := source.read(_BLOCK_BYTES):
            actual.update(block)
            size += len(block)
            target.write(block)
    if actual.hexdigest() != digest:
        raise InputError(f"{file} is damaged: {name} is not what was written; use another backup.")
    return size


@contextmanager
def _opened(file: Path) -> Iterator[tuple[ZipFile, dict[str, str]]]:
    """Open a backup: its members, whose names and sizes are checked, and their checksums."""
    if not file.is_file():
        raise InputError(f"There is no backup {file}.")
    try:
        with _BoundedReader(io.FileIO(file)) as source, ZipFile(source) as archive:
            _check_members(archive, file)
            yield archive, _read_checksums(archive, file)
    except (BadZipFile, LargeZipFile, EOFError, NotImplementedError, UnicodeDecodeError) as error:
        raise InputError(
            f"{file} is not a backup of parbals, or is damaged ({error}); use another one."
        ) from None


class _BoundedReader(io.BufferedReader):
    """A file that refuses huge reads: zipfile would read a forged list of members into memory."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _MAX_DIRECTORY_BYTES:
            raise BadZipFile("its list of files is too long")
        return super().read(_MAX_DIRECTORY_BYTES if size is None or size < 0 else size)

    def seek(self, target: int, whence: int = 0, /) -> int:
        try:
            return super().seek(target, whence)
        except (OSError, ValueError):
            raise BadZipFile("it names a place outside of itself") from None


def _check_members(archive: ZipFile, file: Path) -> None:
    """Refuse members that :func:`write_backup` would not write."""
    total_size = 0
    names: set[str] = set()
    for member in archive.infolist():
        name = member.filename
        total_size += member.file_size
        is_stored = member.compress_type == ZIP_STORED and not member.flag_bits & 1
        if not _is_member_name(name) or not is_stored or member.file_size != member.compress_size:
            raise InputError(
                f"{file} holds {name[:100]!r}, which `parbals backup create` does not write; "
                "nothing was restored."
            )
        if name.casefold() in names:  # some file systems ignore case
            raise InputError(f"{file} holds {name!r} twice; nothing was restored.")
        names.add(name.casefold())
    if total_size > file.stat().st_size:
        raise InputError(f"{file} says it holds more bytes than it has; nothing was restored.")


def _read_checksums(archive: ZipFile, file: Path) -> dict[str, str]:
    """Member → SHA-256."""
    names = set(archive.namelist())
    if (
        not {_CHECKSUMS, FILE_NAME} <= names
        or archive.getinfo(_CHECKSUMS).file_size > _MAX_DIRECTORY_BYTES
    ):
        raise InputError(f"{file} is not a backup of parbals: it has no list of checksums.")
    lines = archive.read(_CHECKSUMS).decode().splitlines()
    checksums = {match[2]: match[1] for match in map(_CHECKSUM_LINE.fullmatch, lines) if match}
    if len(lines) != len(checksums) or checksums.keys() != names - {_CHECKSUMS}:
        raise InputError(f"{file} is damaged: its checksums do not match its files.")
    return checksums


def _is_member_name(name: str) -> bool:
    """Whether a backup may hold a file of this name."""
    return _MEMBER_NAME.fullmatch(name) is not None or _is_image_name(name)
