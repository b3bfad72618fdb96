"""A small client of Label Studio's REST API, by the standard library alone.

``label-studio-sdk`` is not used: version 2.1.2 has 71 dependencies, 111 MB to download and 356 MB
on disk, some pinned to one release. Six requests are needed here.
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

from parbals_label.label_studio.responses import (
    AccessToken,
    CreatedTasks,
    Project,
    TaskPage,
    UploadedFile,
    UploadedFiles,
    one_line,
    read_response,
)
from parbals_label.opener import Deadline, opener_without_redirects

__all__ = ["ITEM", "PROJECT", "Client", "GoneError", "ServerError", "changed_or_open"]

ITEM = "parbals_item"
"""Key of a task's data: the id of its item."""
PROJECT = "parbals_project"
"""Key of a task's data: the identity of the parbals project."""

_TIMEOUT_SECONDS = 60.0
_CREATE_TIMEOUT_SECONDS = 600.0
"""Longer for requests that create tasks: after a timeout they might still be carried out."""
_ANSWER_SECONDS = 900.0
"""A whole answer: the timeouts above end a silent server, not one that sends a byte at a time."""
_PAGE_SIZE = 100
_MAX_TASKS = 10_000_000
_MAX_BYTES = 1 << 28
_OVERLAP = timedelta(seconds=60)
"""Changes are read again from so long before the latest one: servers with several workers do not
finish changes in order."""
_KEY_ADVICE = (
    "copy one from Account & Settings in Label Studio (a personal access token or a legacy token)"
)


class ServerError(ParbalsError):
    """The server cannot be used now: it does not answer, or reports an error of its own."""


class GoneError(InputError):
    """The requested object does not exist (any more)."""


def changed_or_open(since: str, open_tasks: Collection[int]) -> list[dict[str, Any]]:
    """Filters for tasks that changed, and open ones, to notice those that were deleted.

    ``since`` is the time of the latest known change; without it there is no filter.
    """
    try:
        moment = datetime.fromisoformat(since) - _OVERLAP
    except (ValueError, OverflowError):
        return []
    changed = {
        "filter": "filter:tasks:updated_at",
        "operator": "greater",
        "type": "Datetime",
        "value": moment.isoformat().replace("+00:00", "Z"),
    }
    if not open_tasks:
        return [changed]
    still_open = {
        "filter": "filter:tasks:id",
        "operator": "in_list",
        "type": "Number",
        "value": sorted(open_tasks),
    }
    return [changed, still_open]


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
        self.url = url.strip().rstrip("/")
        self._key = key.strip()
        self._access_token = ""
        if not self._key or not self._key.isascii() or not self._key.isprintable():
            raise InputError(f"The key of Label Studio is empty or damaged; {_KEY_ADVICE}.")
        self._opener = opener_without_redirects()
        is_local = parts.hostname in ("localhost", "127.0.0.1", "::1")
        self.is_readable = parts.scheme == "http" and not is_local
        """Whether others in the network can read requests, and the key in them."""

    def project(self, number: int) -> Project:
        """A project's labelling interface and settings."""
        return read_response(Project, self._request("GET", f"/api/projects/{number}/"))

    def change_project(self, number: int, **changes: Any) -> None:
        """Change a project, such as its ``label_config``."""
        self._request("PATCH", f"/api/projects/{number}/", changes)

    def tasks(
        self, project: int, filters: Sequence[dict[str, Any]] = ()
    ) -> Iterator[dict[str, Any]]:
        """All tasks of a project with annotations, by number; or those that match any filter."""
        query = {"filters": {"conjunction": "or", "items": list(filters)}, "ordering": ["tasks:id"]}
        options = {
            "project": project,
            "fields": "all",
            "page_size": _PAGE_SIZE,
            "query": json.dumps(query),
        }
        page = 0
        n_read = 0
        total = 1
        numbers: set[int] = set()
        while n_read < total:
            page += 1
            try:
                answer = self._request("GET", f"/api/tasks/?{urlencode({**options, 'page': page})}")
            except GoneError:
                if page == 1:
                    raise
                return  # tasks were deleted while they were read, so there is no such page now
            tasks = read_response(TaskPage, answer)
            new_tasks = [task for task in tasks.tasks if _is_new(task, numbers)]
            if not new_tasks:
                return  # the end, or a server that gives the same page again and again
            yield from new_tasks
            n_read += len(tasks.tasks)
            total = tasks.total
            if total > _MAX_TASKS:
                raise InputError(
                    f"{self.url} reports {total:,} tasks in project {project}; at most "
                    f"{_MAX_TASKS:,} can be read."
                )

    def create_tasks(self, project: int, tasks: Sequence[dict[str, Any]]) -> list[int]:
        """Create tasks in this order; their numbers."""
        path = f"/api/projects/{project}/import?return_task_ids=true"
        answer = self._request("POST", path, list(tasks), seconds=_CREATE_TIMEOUT_SECONDS)
        if "task_ids" not in answer:
            raise InputError(
                f"Label Studio was given {len(tasks)} tasks and does not say which numbers they "
                "have. Servers that create tasks in the background (Enterprise) cannot be used."
            )
        numbers = read_response(CreatedTasks, answer).task_ids
        if len(set(numbers)) != len(tasks):
            raise InputError(
                f"Label Studio was given {len(tasks)} tasks and names {len(set(numbers))} "
                "numbers; look at the project's tasks there before you go on."
            )
        return numbers

    def has_task(self, number: int) -> bool:
        """Whether there is a task of that number."""
        try:
            self._request("GET", f"/api/tasks/{number}/")
        except GoneError:
            return False
        return True

    def upload(self, project: int, name: str, content: bytes, kind: str) -> str:
        """Upload a file that is not part of a task yet; its address on the server."""
        boundary = secrets.token_hex(16)
        safe_name = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in name)
        header = (
            f"--{boundary}\r\n"
            f'Content-Disposition: form-data; name="file"; filename="{safe_name}"\r\n'
            f"Content-Type: {kind}\r\n\r\n"
        )
        body = header.encode() + content + f"\r\n--{boundary}--\r\n".encode()
        form_type = f"multipart/form-data; boundary={boundary}"
        path = f"/api/projects/{project}/import?commit_to_project=false"
        answer = self._request("POST", path, body, kind=form_type, seconds=_CREATE_TIMEOUT_SECONDS)
        (number,) = read_response(UploadedFiles, answer).file_upload_ids
        answer = self._request("GET", f"/api/import/file-upload/{number}")
        return f"/data/{read_response(UploadedFile, answer).file.lstrip('/')}"

    def _request(self, method: str, path: str, body: Any = None, **how: Any) -> dict[str, Any]:
        """The server's answer to a request, always a JSON object."""
        status, answer = self._send(method, path, body, self._authorization(), **how)
        if status == 401 and self._access_token:
            self._access_token = ""  # it expires after minutes; the key may still be valid
            status, answer = self._send(method, path, body, self._authorization(), **how)
        return self._record(status, answer, path)

    def _authorization(self) -> str:
        if self._key.count(".") != 2:  # not a personal access token
            return f"Token {self._key}"
        if not self._access_token:
            path = "/api/token/refresh/"
            status, answer = self._send("POST", path, {"refresh": self._key})
            record = self._record(status, answer, path)
            self._access_token = read_response(AccessToken, record).access
        return f"Bearer {self._access_token}"

    def _send(
        self,
        method: str,
        path: str,
        body: Any = None,
        authorization: str | None = None,
        *,
        kind: str = "application/json",
        seconds: float = _TIMEOUT_SECONDS,
    ) -> tuple[int, Any]:
        """Status and answer of one request; :class:`ServerError` if there is no answer."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method)
        request.add_header("Accept", "application/json")
        if data is not None:
            request.add_header("Content-Type", kind)
        if authorization is not None:
            request.add_unredirected_header("Authorization", authorization)
        with Deadline(_ANSWER_SECONDS) as deadline:
            try:
                status, body = self._receive(deadline, request, seconds)
            except (OSError, HTTPException) as error:
                reason = getattr(error, "reason", error)
                detail = first_line(reason) if isinstance(reason, BaseException) else str(reason)
                if deadline.has_passed:
                    detail = f"the answer was not complete after {_ANSWER_SECONDS:g} seconds"
                raise ServerError(f"{self.url} does not answer ({one_line(detail)}).") from None
            if deadline.has_passed:
                raise ServerError(
                    f"{self.url} does not answer (the answer was not complete after "
                    f"{_ANSWER_SECONDS:g} seconds)."
                )
        return status, _parsed(body)

    def _receive(
        self, deadline: Deadline, request: urllib.request.Request, seconds: float
    ) -> tuple[int, bytes]:
        """Status and body of the answer to a request; a redirect is an error."""
        try:
            with deadline.open(self._opener, request, seconds) as response:
                return response.status, response.read(_MAX_BYTES)
        except urllib.error.HTTPError as error:
            with error:
                if 300 <= error.code < 400:
                    location = one_line(error.headers.get("Location", "another address"))
                    raise InputError(
                        f"{self.url} redirects requests to {location}; give that server's "
                        "address as --url."
                    ) from None
                return error.code, error.read(_MAX_BYTES)

    def _record(self, status: int, answer: Any, path: str) -> dict[str, Any]:
        if not 200 <= status < 300:
            self._refuse(status, answer, path.partition("?")[0])
        if not isinstance(answer, dict):
            raise InputError(
                "The server does not answer as Label Studio does; check the address (--url)."
            )
        return answer

    def _refuse(self, status: int, answer: Any, path: str) -> NoReturn:
        """Raise the error that a status means."""
        detail = answer.get("detail") if isinstance(answer, dict) else None
        if isinstance(answer, dict) and answer.get("validation_errors"):
            detail = json.dumps(answer["validation_errors"])
        reason = f" ({one_line(detail)})" if detail else ""
        if status in (401, 403):
            raise InputError(f"{self.url} does not accept the key{reason}; {_KEY_ADVICE}.")
        if status == 404:
            raise GoneError(f"{self.url} has nothing at {path}{reason}.")
        if status >= 500 or status == 429:
            raise ServerError(f"{self.url} cannot answer now: status {status}{reason}.")
        raise InputError(f"{self.url} refuses {path}: status {status}{reason}.")


def _is_new(task: Any, numbers: set[int]) -> bool:
    """Whether a task's number is not among those that were read; adds it to them."""
    number = task.get("id") if isinstance(task, dict) else None
    if not isinstance(number, int) or isinstance(number, bool) or number in numbers:
        return False
    numbers.add(number)
    return True


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
