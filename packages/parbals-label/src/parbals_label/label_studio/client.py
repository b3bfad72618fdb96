"""What a Label Studio server can be asked for, over HTTP by the standard library alone.

Not by ``label-studio-sdk``: version 2.1.2 means 71 packages, 111 MB to download and 356 MB on disk
(OpenCV 151, pandas 44; black, faker and nltk among them), some pinned to one release. What is
needed here is six requests.
"""

import json
import secrets
import urllib.error
import urllib.request
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta
from http.client import HTTPException
from typing import Any, NoReturn
from urllib.parse import urlencode, urlsplit

from parbals.errors import InputError, ParbalsError, first_line

__all__ = ["ITEM", "PROJECT", "Client", "GoneError", "ServerError", "changed_or_open"]

ITEM, PROJECT = "parbals_item", "parbals_project"
"""Keys of a task's data: which item of which parbals project it is."""

_SECONDS = 60.0
_SECONDS_TO_CREATE = 600.0
"""A request that creates tasks is not given up early: it might still be carried out afterwards."""
_PAGE = 100
_MOST_BYTES = 1 << 28
_OVERLAP = timedelta(seconds=60)
"""By which the tasks that changed are looked for earlier than the last one that was seen: servers
with many workers do not finish changes in order."""
_KEY_ADVICE = (
    "copy one from Account & Settings in Label Studio (a personal access token or a legacy token)"
)


class ServerError(ParbalsError):
    """The server cannot be used for now: it does not answer, or something is wrong with it."""


class GoneError(InputError):
    """What was asked for is not there (any more)."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is an error: following one would hand the key to whatever it leads to."""

    def redirect_request(self, *arguments: Any) -> None:
        return None


def changed_or_open(since: str, open_tasks: Collection[int]) -> list[dict[str, Any]]:
    """Filters: tasks that changed, and those that are open, since one that is missing is deleted.

    ``since`` is when the latest of them changed; none, for all tasks, where that is not known.
    """
    try:
        moment = datetime.fromisoformat(since) - _OVERLAP
    except (ValueError, OverflowError):
        return []
    changed = {"filter": "filter:tasks:updated_at", "operator": "greater", "type": "Datetime"}
    changed |= {"value": moment.isoformat().replace("+00:00", "Z")}
    listed: dict[str, Any] = {"filter": "filter:tasks:id", "operator": "in_list", "type": "Number"}
    listed |= {"value": sorted(open_tasks)}
    return [changed, listed] if open_tasks else [changed]


class Client:
    """Projects, tasks and files of a server, one request after the other.

    ``key`` is a personal access token, which is a JSON web token that is exchanged for short-lived
    ones, or a legacy token.
    """

    def __init__(self, url: str, key: str) -> None:
        parts = urlsplit(url.strip())
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
            raise InputError(
                f"{url!r} is not the address of a server; write it as http://localhost:8080."
            )
        if parts.username or parts.password:
            raise InputError("The address must not hold a user or a password; the key is enough.")
        self.url, self._key, self._access = url.strip().rstrip("/"), key.strip(), ""
        if not self._key or not self._key.isascii() or not self._key.isprintable():
            raise InputError(f"The key of Label Studio is empty or damaged; {_KEY_ADVICE}.")
        self._opener = urllib.request.build_opener(_NoRedirect)
        local = parts.hostname in ("localhost", "127.0.0.1", "::1")
        self.is_readable = parts.scheme == "http" and not local
        """Whether others on the way can read what is sent, the key among it."""

    def project(self, number: int) -> dict[str, Any]:
        """A project's title, labelling interface and settings."""
        return self._request("GET", f"/api/projects/{number}/")

    def change_project(self, number: int, **changes: Any) -> None:
        """Change a project, such as its ``label_config``."""
        self._request("PATCH", f"/api/projects/{number}/", changes)

    def tasks(
        self, project: int, filters: Sequence[dict[str, Any]] = ()
    ) -> Iterator[dict[str, Any]]:
        """All tasks of a project with annotations, by number; or those that match any filter."""
        query = {"filters": {"conjunction": "or", "items": list(filters)}, "ordering": ["tasks:id"]}
        options = {"project": project, "fields": "all", "page_size": _PAGE}
        options["query"] = json.dumps(query)
        page, n_read, total = 0, 0, 1
        while n_read < total:
            page += 1
            try:
                answer = self._request("GET", f"/api/tasks/?{urlencode({**options, 'page': page})}")
            except GoneError:
                if page == 1:
                    raise
                return  # tasks were deleted while they were read, so there is no such page now
            found = answer.get("tasks")
            if not isinstance(found, list) or not found:
                return
            yield from (task for task in found if isinstance(task, dict))
            n_read, total = n_read + len(found), int(answer.get("total") or 0)

    def create_tasks(self, project: int, tasks: Sequence[dict[str, Any]]) -> list[int]:
        """Create tasks in this order; their numbers."""
        path = f"/api/projects/{project}/import?return_task_ids=true"
        answer = self._request("POST", path, list(tasks), seconds=_SECONDS_TO_CREATE)
        numbers = answer.get("task_ids")
        if not isinstance(numbers, list) or len(numbers) != len(tasks):
            raise InputError(
                f"Label Studio was given {len(tasks)} tasks and does not say which numbers they "
                "have. Servers that create tasks in the background (Enterprise) cannot be used."
            )
        return [int(number) for number in numbers]

    def has_task(self, number: int) -> bool:
        """Whether there is a task of that number."""
        try:
            self._request("GET", f"/api/tasks/{number}/")
        except GoneError:
            return False
        return True

    def upload(self, project: int, name: str, content: bytes, kind: str) -> str:
        """Give the server a file, not yet part of any task; the address that it has there."""
        mark = secrets.token_hex(16)
        plain = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in name)
        head = f'--{mark}\r\nContent-Disposition: form-data; name="file"; filename="{plain}"\r\n'
        body = f"{head}Content-Type: {kind}\r\n\r\n".encode() + content
        body += f"\r\n--{mark}--\r\n".encode()
        kind = f"multipart/form-data; boundary={mark}"
        path = f"/api/projects/{project}/import?commit_to_project=false"
        answer = self._request("POST", path, body, kind=kind, seconds=_SECONDS_TO_CREATE)
        (number,) = answer["file_upload_ids"]
        uploaded = self._request("GET", f"/api/import/file-upload/{int(number)}")
        return f"/data/{str(uploaded['file']).lstrip('/')}"

    def _request(self, method: str, path: str, body: Any = None, **how: Any) -> dict[str, Any]:
        """The server's answer to a request, which is always a record."""
        status, answer = self._send(method, path, body, self._authorization(), **how)
        if status == 401 and self._access:
            self._access = ""  # it lives for minutes; the key itself may still be good
            status, answer = self._send(method, path, body, self._authorization(), **how)
        return self._record(status, answer, path)

    def _authorization(self) -> str:
        if self._key.count(".") != 2:  # not a personal access token
            return f"Token {self._key}"
        if not self._access:
            path = "/api/token/refresh/"
            status, answer = self._send("POST", path, {"refresh": self._key})
            self._access = str(self._record(status, answer, path)["access"])
        return f"Bearer {self._access}"

    def _send(
        self,
        method: str,
        path: str,
        body: Any = None,
        authorization: str | None = None,
        *,
        kind: str = "application/json",
        seconds: float = _SECONDS,
    ) -> tuple[int, Any]:
        """Status and answer; only a server that answers something gives any."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method)
        request.add_header("Accept", "application/json")
        if data is not None:
            request.add_header("Content-Type", kind)
        if authorization is not None:
            request.add_unredirected_header("Authorization", authorization)
        try:
            try:
                with self._opener.open(request, timeout=seconds) as response:
                    return response.status, _parsed(response.read(_MOST_BYTES))
            except urllib.error.HTTPError as error:
                with error:
                    if 300 <= error.code < 400:
                        place = error.headers.get("Location", "another place")
                        raise InputError(
                            f"{self.url} sends requests on to {place}; give that server's address "
                            "as --url."
                        ) from None
                    return error.code, _parsed(error.read(_MOST_BYTES))
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            words = first_line(reason) if isinstance(reason, BaseException) else str(reason)
            raise ServerError(f"{self.url} does not answer ({words}).") from None

    def _record(self, status: int, answer: Any, path: str) -> dict[str, Any]:
        if not 200 <= status < 300:
            self._refuse(status, answer, path.partition("?")[0])
        if not isinstance(answer, dict):
            raise InputError(
                "The server does not answer as Label Studio does; check the address (--url)."
            )
        return answer

    def _refuse(self, status: int, answer: Any, path: str) -> NoReturn:
        """Raise what a status means."""
        said = answer.get("detail") if isinstance(answer, dict) else None
        if isinstance(answer, dict) and answer.get("validation_errors"):
            said = json.dumps(answer["validation_errors"])[:300]
        reason = f" ({str(said).rstrip('.')})" if said else ""
        if status in (401, 403):
            raise InputError(f"{self.url} does not accept the key{reason}; {_KEY_ADVICE}.")
        if status == 404:
            raise GoneError(f"{self.url} has nothing at {path}{reason}.")
        if status >= 500 or status == 429:
            raise ServerError(f"{self.url} cannot answer now: status {status}{reason}.")
        raise InputError(f"{self.url} refuses {path}: status {status}{reason}.")


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
