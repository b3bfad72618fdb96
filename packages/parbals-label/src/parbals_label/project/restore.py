"""A project from a backup, which anybody may have sent.

The file is hostile until it is proved: only names that :mod:`parbals_label.project.backup` writes,
plain members, no more bytes than the file has. They are written into a new folder, which takes its
name only when every checksum and the project itself are found good. Nothing in it is run. Whoever
made the file may know the links of the people in it, and has chosen where images are looked for, so
that both end unless they are asked for.
"""

import hashlib
import io
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from zipfile import ZIP_STORED, BadZipFile, LargeZipFile, ZipFile

from parbals.errors import InputError, ProjectDamagedError, ProjectError
from parbals.files import TEMPORARY_SUFFIX, sync_folder

from parbals_label.project.backup import SUMS, Contents, check_project, is_backup_name
from parbals_label.project.media import image_column
from parbals_label.store.folder import FILE_NAME
from parbals_label.store.store import Store

__all__ = ["check_backup", "restore_backup"]

_SUM = re.compile(r"([0-9a-f]{64})  (.+)")
_BLOCK = 1 << 20
_MOST_LISTED = 32 << 20
"""Bytes of a zip's list of members, which Python holds in memory: some 300,000 images."""


def restore_backup(file: Path, folder: Path, *, keep_links: bool = False) -> Contents:
    """Make a project of a backup in a folder that is not there yet, or empty."""
    parent = Path(os.path.abspath(folder)).parent
    if os.path.lexists(folder) and (
        folder.is_symlink() or not folder.is_dir() or any(folder.iterdir())
    ):
        raise InputError(f"{folder} is there already and not an empty folder; name a new one.")
    if not parent.is_dir():
        raise InputError(f"There is no folder {parent} to restore into; make it first.")
    with _opened(file) as (archive, sums):
        n_bytes = sum(member.file_size for member in archive.infolist())
        if shutil.disk_usage(parent).free < n_bytes:
            raise InputError(f"The disk of {parent} has no room for {n_bytes:,} bytes; free some.")
        draft = parent / f".{secrets.token_hex(8)}{TEMPORARY_SUFFIX}"
        try:
            draft.mkdir(mode=0o700)
            for name, digest in sums.items():
                _extract(archive, name, digest, draft, file)
            found, faults = check_project(draft)
            if faults:
                raise ProjectDamagedError(f"{file} holds a damaged project: {faults[0]}")
            ended, left = ((), None) if keep_links else _end_trust(draft, parent / folder.name)
            if folder.exists():
                folder.rmdir()
            os.rename(draft, folder)
            sync_folder(parent)
        except OSError as error:
            raise InputError(f"{folder} cannot be written ({error.strerror}).") from None
        except (ProjectError, ProjectDamagedError) as error:
            reason = str(error).replace(str(draft), str(folder))
            raise InputError(f"{file} was not restored. {reason}") from None
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return Contents(
        found.items, found.answers, len(sums), n_bytes, links_ended=ended, images_left=left
    )


def _end_trust(draft: Path, folder: Path) -> tuple[tuple[str, ...], str | None]:
    """End what its maker could use: people's links, and a folder of images of their choice.

    The page shows the images of that folder to everybody who labels. Returns the names, and the
    folder.
    """
    with Store.open(draft, read_only=True) as store:
        is_team = any(person.invited for person in store.people())
        media = None if image_column(store) is None else store.settings.media
    if not is_team and media is None:
        return (), None  # an older project stays as it is until somebody writes to it
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
        target.flush()
        if folder is not None:
            os.fsync(target.fileno())
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
        if not is_backup_name(name) or not is_plain or member.file_size != member.compress_size:
            raise InputError(
                f"{file} holds {name[:100]!r}, which `parbals backup` does not write; nothing was "
                "restored."
            )
        if name.casefold() in names:  # some disks do not tell capitals apart
            raise InputError(f"{file} holds {name!r} twice; nothing was restored.")
        names.add(name.casefold())
    if size > file.stat().st_size:
        raise InputError(f"{file} says it holds more bytes than it has; nothing was restored.")


def _read_sums(archive: ZipFile, file: Path) -> dict[str, str]:
    names = set(archive.namelist())
    if not {SUMS, FILE_NAME} <= names or archive.getinfo(SUMS).file_size > _MOST_LISTED:
        raise InputError(f"{file} is not a backup of parbals: it has no list of checksums.")
    lines = archive.read(SUMS).decode().splitlines()
    sums = {match[2]: match[1] for match in map(_SUM.fullmatch, lines) if match}
    if len(lines) != len(sums) or sums.keys() != names - {SUMS}:
        raise InputError(f"{file} is damaged: its list of checksums is not that of its files.")
    return sums
