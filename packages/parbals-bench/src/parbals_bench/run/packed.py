"""A folder of results as one file to commit or to send, read as the folder is.

tar -cJf results.tar.xz -C bench-results suite.toml runs
"""

import io
import lzma
import re
import tarfile
from pathlib import Path

from parbals.errors import InputError, first_line

from parbals_bench.run.folder import ResultsFiles, ResultsFolder

__all__ = ["PackedResults", "open_results", "plain_name"]

_SUFFIX = ".tar.xz"
_SUITE, _LINES = "suite.toml", re.compile(r"runs/([A-Za-z0-9+.-][A-Za-z0-9+._-]*\.jsonl)")
# What a file may grow to. Real results grow to three or four times their size.
_MOST_BYTES, _PLAUSIBLE_BYTES, _BYTES_A_BYTE = 1 << 31, 1 << 25, 64


class PackedResults(ResultsFiles):
    """A packed file, to be read as a :class:`ResultsFolder` is.

    Nothing in it is believed before it is checked, and a small file cannot take much memory.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            files = _members(_decompressed(self.path))
            self._suite = files.pop(_SUITE).decode()
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror or error}.") from None
        except (lzma.LZMAError, EOFError, tarfile.TarError, ValueError, LookupError) as error:
            reason = f"it has no {error}" if isinstance(error, KeyError) else first_line(error)
            raise InputError(
                f"{path} is damaged or not a file of packed results ({reason}); take it from a "
                "copy."
            ) from None
        self._lines = {name.removeprefix("runs/"): files[name] for name in sorted(files)}

    def suite_text(self) -> str:
        return self._suite

    def lines(self) -> dict[str, bytes]:
        return self._lines


def open_results(path: str | Path) -> ResultsFiles:
    """Results to read, from a folder or from a packed file."""
    return PackedResults(path) if Path(path).is_file() else ResultsFolder(path)


def plain_name(path: Path) -> str:
    """The name of a results folder or of a packed file, without its ending."""
    return path.resolve().name.removesuffix(_SUFFIX)


def _decompressed(path: Path) -> bytes:
    most = min(_MOST_BYTES, max(_PLAUSIBLE_BYTES, _BYTES_A_BYTE * path.stat().st_size))
    with lzma.open(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"it would grow to more than {most:,} bytes")
    return content


def _members(content: bytes) -> dict[str, bytes]:
    """Files by name: those of a results folder and no others, none larger than the archive."""
    files: dict[str, bytes] = {}
    left = len(content)
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
        for member in archive:
            name = member.name.removeprefix("./")
            if member.isdir() and name in (".", "runs"):
                continue
            if not member.isreg() or not (name == _SUITE or _LINES.fullmatch(name)):
                raise ValueError(f"{name[:80]!r} does not belong in it")
            left -= member.size  # a sparse file can claim any size
            stream = archive.extractfile(member) if left >= 0 and name not in files else None
            if stream is None:
                raise ValueError(f"{name[:80]!r} is too large, or there twice")
            files[name] = stream.read()
    return files
