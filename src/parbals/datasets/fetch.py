"""Downloads that survive: resumed where they stopped, compared with what is known of them, named
only when whole."""

import http.client
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from parbals import __version__
from parbals.datasets.arrivals import digest_of, fault, record_path, recorded, remember
from parbals.datasets.base import Remote
from parbals.datasets.partial import Partial
from parbals.errors import InputError

__all__ = ["Progress", "Remote", "fetch"]

Progress = Callable[[str, int, int | None], None]
"""Called with the file's name, bytes there so far, and bytes in all where that is known."""

_CHUNK = 1 << 18
_ATTEMPTS = 5
_CUT = (http.client.HTTPException, ConnectionError, TimeoutError)


def fetch(
    remotes: Iterable[Remote],
    folder: Path,
    progress: Progress | None = None,
    *,
    timeout: float = 30.0,
    pause: float = 1.0,
) -> list[Path]:
    """Bring every file into the folder; those already there and whole are left alone.

    A file is written under another name, ``.NAME.part``, and takes its own only when its length and
    checksum are right. Where no checksum is published, it must be of the kind its name says, and
    its own checksum is kept in ``NAME.sha256`` beside it: from then on the file must have that one.

    Whatever stops a download, the next call goes on from there, if the bytes so far are still those
    that came. After a cut connection it goes on by itself, up to five times without a new byte,
    waiting ``pause`` seconds, then twice as long, and so on.
    """
    told = progress or (lambda file, done, total: None)
    remotes = list(remotes)
    for remote in remotes:
        if Path(remote.file).name != remote.file or urlsplit(remote.url).scheme not in (
            "http",
            "https",
        ):
            raise InputError(
                f"{remote.url} as {remote.file!r} cannot be fetched; an http address and a plain "
                "name do."
            )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return [_one(remote, folder, told, timeout, pause) for remote in remotes]
    except OSError as error:
        raise InputError(
            f"{folder} cannot be written ({error.strerror or error}); choose another folder."
        ) from error


def _one(remote: Remote, folder: Path, told: Progress, timeout: float, pause: float) -> Path:
    target = folder / remote.file
    if target.is_file() and fault(target, remote) is None and _is_as_it_came(target, remote):
        told(remote.file, target.stat().st_size, target.stat().st_size)
        return target
    for is_second in (False, True):
        part = Partial(target)
        was_resumed = part.size > 0
        _complete(remote, target, part, told, timeout, pause)
        wrong = fault(part.path, remote)
        if wrong is None:
            _name(part, target, remote)
            return target
        part.discard()
        if (
            is_second or not was_resumed
        ):  # what an earlier call left behind may have been the bad part: try once afresh
            break
    raise InputError(
        f"{remote.file} from {remote.url} arrived corrupt ({wrong}) and was deleted; try again "
        f"later, or download it in a browser and save it as {target}."
    )


def _is_as_it_came(target: Path, remote: Remote) -> bool:
    """Without a published checksum: whether the file still has its first one, which is kept from
    now on."""
    if remote.sha256 is not None:
        return True
    digest, known = digest_of(target), recorded(target)
    if known is None:
        remember(target, digest)
    return known in (None, digest)


def _name(part: Partial, target: Path, remote: Remote) -> None:
    """A good part takes its name, unless the file that came the first time was another."""
    if remote.sha256 is None:
        digest, known = digest_of(part.path), recorded(target)
        if known is not None and known != digest:
            part.discard()
            raise InputError(
                f"{remote.file} from {remote.url} has SHA-256 {digest[:12]}… and not {known[:12]}… "
                "as the first time, and was deleted; if the publisher has changed it, delete "
                f"{record_path(target)} and fetch it again."
            )
        remember(target, digest)
    part.rename(target)


def _complete(
    remote: Remote, target: Path, part: Partial, told: Progress, timeout: float, pause: float
) -> None:
    """Go on until the server has sent all it has."""
    failures, reason = 0, ""
    while failures < _ATTEMPTS:
        before = part.size
        try:
            if _transfer(remote, part, told, timeout):
                return
            reason = "the connection was cut"
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 416 and before:  # what is here is not a beginning of what is there
                part.discard()
                reason = "the file on the server has changed"
            elif error.code < 500 and error.code not in (408, 429):
                raise InputError(
                    _refused(remote, target, f"the server answers {error.code} {error.reason}")
                    + "."
                ) from None
            else:
                reason = f"the server answers {error.code} {error.reason}"
        except urllib.error.URLError as error:
            reason = f"{urlsplit(remote.url).hostname} cannot be reached: {error.reason}"
        except _CUT as error:
            reason = f"the connection was cut ({type(error).__name__})"
        failures = 0 if part.size > before else failures + 1
        if failures < _ATTEMPTS:
            time.sleep(pause * 2 ** max(failures - 1, 0))
    kept = (
        f"; the {part.size:,} bytes that came are kept, and the next call goes on from there"
        if part.size
        else ""
    )
    raise InputError(_refused(remote, target, reason) + kept + ".")


def _refused(remote: Remote, target: Path, reason: str) -> str:
    return (
        f"{remote.file} could not be downloaded ({reason}): check the network and try again, or "
        f"download {remote.url} in a browser and save it as {target}"
    )


def _transfer(remote: Remote, part: Partial, told: Progress, timeout: float) -> bool:
    """One request; True when all bytes that the server announced are there."""
    headers = {"User-Agent": f"parbals/{__version__}", "Accept-Encoding": "identity"}
    start = part.size
    if start and part.url == remote.url and (part.validator or remote.sha256):
        headers["Range"] = f"bytes={start}-"
        if part.validator:
            headers["If-Range"] = (
                part.validator
            )  # a file that has changed meanwhile is sent from its beginning
    else:
        start = 0
    if remote.bytes is not None and start == remote.bytes:
        return True
    request = urllib.request.Request(remote.url, headers=headers)
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        is_rest = answer.status == 206 and (answer.headers.get("Content-Range") or "").startswith(
            f"bytes {start}-"
        )
        start = start if is_rest else 0
        length = answer.headers.get("Content-Length")
        total = start + int(length) if length is not None and length.isdigit() else remote.bytes
        if not is_rest:
            part.restart(remote.url, _validator(answer.headers))
        done = start
        with part.path.open("r+b" if is_rest else "wb") as file:
            file.seek(start)
            file.truncate()
            told(remote.file, done, total)
            try:
                while chunk := _received(answer):
                    file.write(chunk)
                    part.add(chunk)
                    done += len(chunk)
                    told(remote.file, done, total)
            finally:
                file.flush()
                os.fsync(file.fileno())
                part.save()
    return total is None or done >= total


def _received(answer: http.client.HTTPResponse) -> bytes:
    """The next bytes. What goes wrong on the way is told apart from what goes wrong on the disk."""
    try:
        return answer.read(_CHUNK)
    except OSError as error:
        raise ConnectionError(str(error)) from error


def _validator(headers: Any) -> str:
    tag = headers.get("ETag") or ""
    return (tag if not tag.startswith("W/") else "") or headers.get("Last-Modified") or ""
