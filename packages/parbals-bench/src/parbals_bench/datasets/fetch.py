"""Download the files of a dataset: each complete, or not there at all."""

from collections.abc import Callable
from pathlib import Path
from typing import IO
from urllib.error import HTTPError
from urllib.request import urlopen

from parbals.errors import InputError
from parbals.files import replacing

from parbals_bench.datasets.base import Origin

__all__ = ["fetch_files"]

Progress = Callable[[str, float, float | None], None]
"""Called with the name of a file, the bytes downloaded, and the bytes in all if known."""

_CHUNK_BYTES = 1 << 18
_TIMEOUT_SECONDS = 30.0


def fetch_files(
    origin: Origin, folder: Path, progress: Progress = lambda file, done, total: None
) -> list[Path]:
    """Download the files of a dataset into ``folder``; files that exist are kept.

    Where a file has no address, or is an archive of tens of gigabytes, the error says what to
    download by hand and where to put it.
    """
    paths = [folder / file for file in origin.files]
    if not all(path.exists() for path in paths) and (not origin.urls or origin.unpack):
        raise origin.error(folder)
    for path, url in zip(paths, origin.urls, strict=bool(origin.urls)):
        if not path.exists():
            _fetch(url, path, progress)
    return paths


def _fetch(url: str, path: Path, progress: Progress) -> None:
    """Download one file, which gets its name only when it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    by_hand = f"try again, or download {url} in a browser and save it as {path}."
    try:
        with urlopen(url, timeout=_TIMEOUT_SECONDS) as response, replacing(path) as file:
            size = response.headers.get("Content-Length")
            total = int(size) if size is not None else None
            if response.headers.get_content_type() == "text/html":  # such as a page to log in
                raise InputError(f"{url} is a web page and no file; {by_hand}")
            done = _copy(response, file, path.name, total, progress)
            if total is not None and done != total:
                raise InputError(
                    f"{path.name} was cut off after {done:,} of {total:,} bytes; {by_hand}"
                )
    except HTTPError as error:
        with error:  # it holds the connection
            raise InputError(
                f"{path.name} could not be downloaded ({error.code} {error.reason}); {by_hand}"
            ) from None
    except OSError as error:  # URLError among them
        reason = getattr(error, "reason", None) or error.strerror or error
        raise InputError(f"{path.name} could not be downloaded ({reason}); {by_hand}") from None


def _copy(
    source: IO[bytes], file: IO[bytes], name: str, total: int | None, progress: Progress
) -> int:
    """Copy a stream into a file; the number of bytes."""
    done = 0
    while chunk := source.read(_CHUNK_BYTES):
        file.write(chunk)
        done += len(chunk)
        progress(name, done, total)
    return done
