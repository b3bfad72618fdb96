"""HTTP to a Label Studio server: one request after the other, by the standard library alone."""

import json
import secrets
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from http.client import HTTPException
from typing import Any
from urllib.parse import urlencode, urlsplit

from parbals.errors import InputError, ParbalsError, first_line

__all__ = ["Client", "GoneError", "ServerError"]

_SECONDS = 60.0
_SECONDS_TO_CREATE = 600.0
"""A request that creates tasks is not given up early: it might still be carried out afterwards."""
_MOST_BYTES = 1 << 28
_PAGE = 100
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


class Client:
    """A Label Studio server and who asks.

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

    @property
    def _is_exchanged(self) -> bool:
        """Whether the key is a personal access token."""
        return self._key.count(".") == 2

    def project(self, number: int) -> dict[str, Any]:
        """A project's title, labelling interface and settings."""
        return _record(self._request("GET", f"/api/projects/{number}/"))

    def change_project(self, number: int, **changes: Any) -> None:
        """Change a project, such as its ``label_config``."""
        self._request("PATCH", f"/api/projects/{number}/", changes)

    def tasks(
        self, project: int, filters: Sequence[dict[str, Any]] = ()
    ) -> Iterator[dict[str, Any]]:
        """All tasks of a project with annotations, by number; or those that match any filter."""
        query = {
            "filters": {"conjunction": "or", "items": list(filters)},
            "ordering": ["tasks:id"],
        }
        page, n_read, total = 0, 0, 1
        while n_read < total:
            page += 1
            options = {
                "project": project,
                "fields": "all",
                "page": page,
                "page_size": _PAGE,
                "query": json.dumps(query),
            }
            try:
                answer = _record(self._request("GET", f"/api/tasks/?{urlencode(options)}"))
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
        answer = _record(
            self._request(
                "POST",
                f"/api/projects/{project}/import?return_task_ids=true",
                list(tasks),
                seconds=_SECONDS_TO_CREATE,
            )
        )
        numbers = answer.get("task_ids")
        if not isinstance(numbers, list) or len(numbers) != len(tasks):
            raise ServerError(
                f"Label Studio created {answer.get('task_count')} tasks and was given {len(tasks)}."
            )
        return [int(number) for number in numbers]

    def change_task(self, number: int, **changes: Any) -> None:
        """Change a task, such as its ``data``."""
        self._request("PATCH", f"/api/tasks/{number}/", changes)

    def has_task(self, number: int) -> bool:
        """Whether there is a task of that number."""
        try:
            self._request("GET", f"/api/tasks/{number}/")
        except GoneError:
            return False
        return True

    def predict(self, task: int, prediction: dict[str, Any]) -> None:
        """Add a prediction to a task that is there."""
        self._request("POST", "/api/predictions/", {**prediction, "task": task})

    def upload(self, project: int, name: str, content: bytes, kind: str) -> str:
        """Give the server a file, not yet part of any task; the address that it has there."""
        mark = secrets.token_hex(16)
        plain = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in name)
        head = f'--{mark}\r\nContent-Disposition: form-data; name="file"; filename="{plain}"\r\n'
        body = head.encode() + f"Content-Type: {kind}\r\n\r\n".encode() + content
        answer = _record(
            self._request(
                "POST",
                f"/api/projects/{project}/import?commit_to_project=false",
                body + f"\r\n--{mark}--\r\n".encode(),
                kind=f"multipart/form-data; boundary={mark}",
            )
        )
        (number,) = answer["file_upload_ids"]
        uploaded = _record(self._request("GET", f"/api/import/file-upload/{int(number)}"))
        return f"/data/{str(uploaded['file']).lstrip('/')}"

    def _request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        kind: str = "application/json",
        seconds: float = _SECONDS,
    ) -> Any:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        for attempt in (1, 2):
            status, answer = self._send(method, path, data, kind, self._authorization(), seconds)
            if status == 401 and attempt == 1 and self._access:
                self._access = ""  # it lives for minutes; the key itself may still be good
                continue
            break
        if 200 <= status < 300:
            return answer
        self._refuse(status, answer, path)

    def _authorization(self) -> str:
        if not self._is_exchanged:
            return f"Token {self._key}"
        if not self._access:
            body = json.dumps({"refresh": self._key}).encode()
            status, answer = self._send("POST", "/api/token/refresh/", body, "application/json")
            if status != 200:
                self._refuse(status, answer, "/api/token/refresh/")
            self._access = str(_record(answer)["access"])
        return f"Bearer {self._access}"

    def _send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        kind: str,
        authorization: str | None = None,
        seconds: float = _SECONDS,
    ) -> tuple[int, Any]:
        """Status and answer; only a server that answers something gives any."""
        request = urllib.request.Request(self.url + path, data=body, method=method)
        request.add_header("Accept", "application/json")
        if body is not None:
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
            raise ServerError(f"{self.url} does not answer ({_words(reason)}).") from None

    def _refuse(self, status: int, answer: Any, path: str) -> Any:
        """Raise what a status means."""
        said = answer.get("detail") if isinstance(answer, dict) else None
        if isinstance(answer, dict) and answer.get("validation_errors"):
            said = json.dumps(answer["validation_errors"])[:300]
        reason = f" ({str(said).rstrip('.')})" if said else ""
        if status in (401, 403):
            raise InputError(f"{self.url} does not accept the key{reason}; {_KEY_ADVICE}.")
        if status == 404:
            raise GoneError(f"{self.url} has nothing at {path.partition('?')[0]}{reason}.")
        if status >= 500 or status == 429:
            raise ServerError(f"{self.url} cannot answer now: status {status}{reason}.")
        raise InputError(f"{self.url} refuses {path.partition('?')[0]}: status {status}{reason}.")


def _words(reason: object) -> str:
    """What went wrong, in a few words."""
    return first_line(reason) if isinstance(reason, BaseException) else str(reason)


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _record(answer: Any) -> dict[str, Any]:
    if not isinstance(answer, dict):
        raise InputError(
            "The server does not answer as Label Studio does; check the address (--url)."
        )
    return answer
