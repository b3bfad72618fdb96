"""What can be known of a downloaded file: its published length and checksum, else its kind and the
digest it once had.

Of some files no checksum is published. A login page that came in their place shows in the first
bytes. What has been downloaded is remembered in ``NAME.sha256`` beside it (``sha256sum -c`` reads
it), so that a later change is noticed.
"""

import codecs
import gzip
import hashlib
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

from parbals.datasets.base import Remote
from parbals.files import replacing

__all__ = ["digest_of", "fault", "record_path", "recorded", "remember"]

_LINE = re.compile(r"([0-9a-f]{64}) [ *](.+)\n?")
_HTML = re.compile(rb"<(!doctype\s+html|html|head|body)\b", re.I)
_START = 1 << 12
_LONGEST_LINE = 1 << 16
_TEXTS = (".csv", ".tsv", ".txt", ".jsonl")


def fault(path: Path, remote: Remote) -> str | None:
    """What is wrong with a file, as far as can be known; the digest recorded beside it is looked at
    elsewhere."""
    size = path.stat().st_size
    if remote.bytes is not None and size != remote.bytes:
        return f"{size:,} bytes instead of {remote.bytes:,}"
    if not size:
        return "it is empty"
    if remote.sha256 is None:
        return _kind_fault(path, remote)
    digest = digest_of(path)
    return (
        None
        if digest == remote.sha256
        else f"SHA-256 {digest[:12]}… instead of {remote.sha256[:12]}…"
    )


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def record_path(target: Path) -> Path:
    return target.with_name(f"{target.name}.sha256")


def recorded(target: Path) -> str | None:
    """The digest the file had when it came; a record that cannot be read is none."""
    try:
        found = _LINE.fullmatch(record_path(target).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found[1] if found and found[2].strip() == target.name else None


def remember(target: Path, digest: str) -> None:
    with replacing(record_path(target)) as file:
        file.write(f"{digest}  {target.name}\n".encode())


def _kind_fault(path: Path, remote: Remote) -> str | None:
    """Whether the bytes are of the kind that the name says."""
    with path.open("rb") as file:
        start = file.read(_START)
    if start.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"<") and _HTML.search(start):
        return "it is a web page, perhaps one to log in"
    name = remote.file.lower()
    if name.endswith(_TEXTS):
        return _text_fault(path, start, remote)
    ending = next((ending for ending in _KINDS if name.endswith(ending)), None)
    if ending is None:
        return None
    what, is_kind = _KINDS[ending]
    try:
        is_good = is_kind(path)
    except (OSError, EOFError, ValueError, zlib.error, tarfile.TarError):
        is_good = False
    return None if is_good else f"it is no {what}, but begins with {start[:12]!r}"


def _text_fault(path: Path, start: bytes, remote: Remote) -> str | None:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)  # the last character may be cut
        is_text = b"\0" not in start
    except UnicodeDecodeError:
        is_text = False
    if not is_text:
        return f"it is no text, but begins with {start[:12]!r}"
    if remote.first_line is None:
        return None
    with path.open("rb") as file:
        line = file.readline(_LONGEST_LINE).decode("utf-8-sig", "replace")
    if re.match(remote.first_line, line, re.I) is None:
        return f"its first line is {line.strip()[:60]!r}, which the published file does not have"
    return None


def _is_gzip(path: Path) -> bool:
    with gzip.open(path) as file:
        return bool(file.read(1))


def _is_packed_tar(path: Path) -> bool:
    """Only the first entry is read: the whole may be tens of gigabytes."""
    with tarfile.open(path, "r:gz") as tar:
        return tar.next() is not None


def _is_tar(path: Path) -> bool:
    with tarfile.open(path, "r:") as tar:
        return tar.next() is not None


def _is_parquet(path: Path) -> bool:
    with path.open("rb") as file:
        first = file.read(4)
        file.seek(-4, 2)
        return first == file.read() == b"PAR1"


_KINDS: dict[str, tuple[str, Callable[[Path], bool]]] = {
    ".tar.gz": ("gzip-compressed tar archive", _is_packed_tar),
    ".tgz": ("gzip-compressed tar archive", _is_packed_tar),
    ".tar": ("tar archive", _is_tar),
    ".gz": ("gzip file", _is_gzip),
    ".zip": ("zip archive", zipfile.is_zipfile),
    ".parquet": ("Parquet file", _is_parquet),
}
