"""Downloads that survive: resumed where they stopped, compared with their checksum, named only when whole."""

import hashlib
import http.client
import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from parbals import __version__
from parbals.datasets.base import Remote
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

    A file is written under another name, ``.NAME.part``, and takes its own only when its length and checksum are
    right. Whatever stops a download, the next call goes on from there. After a cut connection it goes on by itself, up
    to five times without a new byte, waiting ``pause`` seconds, then twice as long, and so on.
    """
    told = progress or (lambda file, done, total: None)
    remotes = list(remotes)
    for remote in remotes:
        if Path(remote.file).name != remote.file or urlsplit(remote.url).scheme not in ("http", "https"):
            raise InputError(f"{remote.url} as {remote.file!r} cannot be fetched; an http address and a plain name do.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return [_one(remote, folder, told, timeout, pause) for remote in remotes]
    except OSError as error:
        raise InputError(f"{folder} cannot be written ({error.strerror or error}); choose another folder.") from error


def _one(remote: Remote, folder: Path, told: Progress, timeout: float, pause: float) -> Path:
    target, part = folder / remote.file, folder / f".{remote.file}.part"
    if target.is_file() and _fault(target, remote) is None:
        told(remote.file, target.stat().st_size, target.stat().st_size)
        return target
    for is_second in (False, True):
        was_resumed = part.exists()
        _complete(remote, target, part, told, timeout, pause)
        fault = _fault(part, remote)
        if fault is None:
            os.replace(part, target)
            _state(part).unlink(missing_ok=True)
            return target
        part.unlink()
        _state(part).unlink(missing_ok=True)
        if is_second or not was_resumed:  # what an earlier call left behind may have been the bad part: try once afresh
            break
    raise InputError(
        f"{remote.file} from {remote.url} arrived corrupt ({fault}) and was deleted; try again later, or download it "
        f"in a browser and save it as {target}."
    )


def _complete(remote: Remote, target: Path, part: Path, told: Progress, timeout: float, pause: float) -> None:
    """Go on until the server has sent all it has."""
    failures, reason = 0, ""
    while failures < _ATTEMPTS:
        before = _size(part)
        try:
            if _transfer(remote, part, told, timeout):
                return
            reason = "the connection was cut"
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 416 and before:  # what is here is not a beginning of what is there
                part.unlink()
                reason = "the file on the server has changed"
            elif error.code < 500 and error.code not in (408, 429):
                raise InputError(
                    _refused(remote, target, f"the server answers {error.code} {error.reason}") + "."
                ) from None
            else:
                reason = f"the server answers {error.code} {error.reason}"
        except urllib.error.URLError as error:
            reason = f"{urlsplit(remote.url).hostname} cannot be reached: {error.reason}"
        except _CUT as error:
            reason = f"the connection was cut ({type(error).__name__})"
        failures = 0 if _size(part) > before else failures + 1
        if failures < _ATTEMPTS:
            time.sleep(pause * 2 ** max(failures - 1, 0))
    kept = (
        f"; the {_size(part):,} bytes that came are kept, and the next call goes on from there" if _size(part) else ""
    )
    raise InputError(_refused(remote, target, reason) + kept + ".")


def _refused(remote: Remote, target: Path, reason: str) -> str:
    return (
        f"{remote.file} could not be downloaded ({reason}): check the network and try again, or download {remote.url} "
        f"in a browser and save it as {target}"
    )


def _transfer(remote: Remote, part: Path, told: Progress, timeout: float) -> bool:
    """One request; True when all bytes that the server announced are there."""
    headers = {"User-Agent": f"parbals/{__version__}", "Accept-Encoding": "identity"}
    start = _size(part)
    state = _read_state(part)
    if start and state.get("url") == remote.url and (state.get("validator") or remote.sha256):
        headers["Range"] = f"bytes={start}-"
        if state.get("validator"):
            headers["If-Range"] = state["validator"]  # a file that has changed meanwhile is sent from its beginning
    else:
        start = 0
    if remote.bytes is not None and start == remote.bytes:
        return True
    request = urllib.request.Request(remote.url, headers=headers)
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        is_rest = answer.status == 206 and (answer.headers.get("Content-Range") or "").startswith(f"bytes {start}-")
        start = start if is_rest else 0
        length = answer.headers.get("Content-Length")
        total = start + int(length) if length is not None and length.isdigit() else remote.bytes
        if not is_rest:
            _write_state(part, remote.url, answer.headers)
        done = start
        with part.open("r+b" if is_rest else "wb") as file:
            file.seek(start)
            file.truncate()
            told(remote.file, done, total)
            try:
                while chunk := _received(answer):
                    file.write(chunk)
                    done += len(chunk)
                    told(remote.file, done, total)
            finally:
                file.flush()
                os.fsync(file.fileno())
    return total is None or done >= total


def _received(answer: http.client.HTTPResponse) -> bytes:
    """The next bytes. What goes wrong on the way is told apart from what goes wrong on the disk."""
    try:
        return answer.read(_CHUNK)
    except OSError as error:
        raise ConnectionError(str(error)) from error


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _state(part: Path) -> Path:
    return part.with_name(part.name + ".json")


def _read_state(part: Path) -> dict[str, Any]:
    """Which version of which file the part is of; unreadable is the same as unknown."""
    with suppress(OSError, ValueError):
        found = json.loads(_state(part).read_text("utf-8"))
        if isinstance(found, dict):
            return found
    return {}


def _write_state(part: Path, url: str, headers: Any) -> None:
    tag = headers.get("ETag") or ""
    validator = (tag if not tag.startswith("W/") else "") or headers.get("Last-Modified") or ""
    part.unlink(missing_ok=True)  # never a new description beside old bytes
    _state(part).write_text(json.dumps({"url": url, "validator": validator}), "utf-8")


def _fault(path: Path, remote: Remote) -> str | None:
    """What is wrong with a finished file, as far as can be known."""
    size = path.stat().st_size
    if remote.bytes is not None and size != remote.bytes:
        return f"{size:,} bytes instead of {remote.bytes:,}"
    if remote.sha256 is not None:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != remote.sha256:
            return f"SHA-256 {digest[:12]}… instead of {remote.sha256[:12]}…"
    return None if size else "it is empty"
