"""Downloads: every file whole and checked, or not there at all."""

from collections.abc import Callable, Iterable
from pathlib import Path
from urllib.parse import urlsplit

from parbals.errors import InputError, first_line
from parbals.files import need, replacing

from parbals_bench.datasets.base import Remote

__all__ = ["Progress", "fetch", "record_path"]

Progress = Callable[[str, float, float | None], None]
"""Called with a file's name, the bytes that are there, and the bytes in all if that is known."""

_RETRIES = 2
_CHUNK = 1 << 18
_SECONDS = 30


def fetch(
    remotes: Iterable[Remote],
    folder: Path,
    progress: Progress = lambda file, done, total: None,
) -> list[Path]:
    """Bring every file into the folder; those already there and unchanged are left alone.

    A file takes its name only when its checksum is right. Where none is published, that of the
    first download is kept in ``NAME.sha256`` beside it: from then on the file must have that one.
    """
    try:
        return [_fetch_one(remote, folder, progress) for remote in remotes]
    except OSError as error:
        raise InputError(
            f"{folder} cannot be written ({error.strerror or error}); choose another folder."
        ) from error


def record_path(path: Path) -> Path:
    """Where the checksum of a file's first download is kept, as ``sha256sum -c`` reads it."""
    return path.with_name(f"{path.name}.sha256")


def _fetch_one(remote: Remote, folder: Path, progress: Progress) -> Path:
    pooch, requests = need("pooch requests", "Downloading a dataset", "parbals[data]")
    pooch.get_logger().setLevel("ERROR")
    path = folder / remote.file
    first = None if remote.checksum else _recorded(path)
    files = pooch.create(
        folder,
        base_url="",
        registry={remote.file: remote.checksum or first},
        urls={remote.file: remote.url},
        retry_if_failed=_RETRIES,
    )
    by_hand = f"download {remote.url} in a browser and save it as {path}."
    bar = _Bar(progress, remote.file)
    try:
        files.fetch(remote.file, downloader=pooch.HTTPDownloader(bar, _CHUNK, timeout=_SECONDS))
    except requests.RequestException as error:
        host = urlsplit(remote.url).netloc
        reason = first_line(error) if error.response is not None else f"no connection to {host}"
        raise InputError(
            f"{remote.file} could not be downloaded ({reason}): check the network and try again, "
            f"or {by_hand}"
        ) from None
    except ValueError:  # the checksum is another one
        if first is None:
            raise InputError(
                f"{remote.file} arrived corrupt and was deleted; try again later, or {by_hand}"
            ) from None
        raise InputError(
            f"{remote.url} is not the file of the first download any more; if its publisher has "
            f"changed it, delete {record_path(path)} and fetch it again."
        ) from None
    if remote.checksum is None and first is None:
        with path.open("rb") as file:
            start = file.read(512).removeprefix(b"\xef\xbb\xbf").lstrip()
        if not start or start.startswith(b"<"):  # such as a page to log in
            path.unlink()
            what = "a web page" if start else "nothing"
            raise InputError(f"{remote.url} gave {what}; try again later, or {by_hand}")
        with replacing(record_path(path)) as record:
            record.write(f"{pooch.file_hash(str(path))}  {path.name}\n".encode())
    return path


def _recorded(path: Path) -> str | None:
    record = record_path(path)
    words = record.read_text("utf-8", "replace").split() if record.is_file() else []
    return words[0] if words else None


class _Bar:
    """What pooch asks of a progress bar; it sets ``total`` when a download begins."""

    def __init__(self, progress: Progress, file: str) -> None:
        self._progress, self._file = progress, file
        self.total, self._done = 0, 0

    def update(self, n_bytes: int) -> None:
        self._done += n_bytes
        shown = min(self._done, self.total) if self.total else self._done
        self._progress(self._file, shown, self.total or None)

    def reset(self) -> None:
        self._done = 0

    def close(self) -> None: ...
