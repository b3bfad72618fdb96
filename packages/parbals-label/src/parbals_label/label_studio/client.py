"""What a Label Studio server can be asked for."""

import json
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import urlencode

from parbals.errors import InputError

from parbals_label.label_studio.server import GoneError, Server, ServerError

__all__ = ["Client"]

_SECONDS_TO_CREATE = 600.0
"""A request that creates tasks is not given up early: it might still be carried out afterwards."""
_PAUSE = 1.0
_PAGE = 100


class Client(Server):
    """Projects, tasks, predictions and files of a server."""

    def project(self, number: int) -> dict[str, Any]:
        """A project's title, labelling interface and settings."""
        return self.request("GET", f"/api/projects/{number}/")

    def change_project(self, number: int, **changes: Any) -> None:
        """Change a project, such as its ``label_config``."""
        self.request("PATCH", f"/api/projects/{number}/", changes)

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
                answer = self.request("GET", f"/api/tasks/?{urlencode(options)}")
            except GoneError:
                if page == 1:
                    raise
                return  # tasks were deleted while they were read, so there is no such page now
            found = answer.get("tasks")
            if not isinstance(found, list) or not found:
                return
            yield from (task for task in found if isinstance(task, dict))
            n_read, total = n_read + len(found), int(answer.get("total") or 0)

    def create_tasks(
        self, project: int, tasks: Sequence[dict[str, Any]], note: Callable[[int], None]
    ) -> list[int]:
        """Create tasks in this order; their numbers.

        ``note`` hears the number of an import that the server carries out by itself, before it is
        waited for: a run that starts again must wait for it, or would create the tasks twice.
        """
        answer = self._import(project, "return_task_ids=true", list(tasks), note=note)
        numbers = answer.get("task_ids")
        if not isinstance(numbers, list) or len(numbers) != len(tasks):
            raise ServerError(
                f"Label Studio created {answer.get('task_count')} tasks and was given {len(tasks)}."
            )
        return [int(number) for number in numbers]

    def wait_for_import(self, project: int, number: int) -> dict[str, Any]:
        """What an import came to that the server (Label Studio Enterprise) carries out by itself.

        Its ``status`` is "completed" or "failed".
        """
        end = time.monotonic() + _SECONDS_TO_CREATE
        while True:
            answer = self.request("GET", f"/api/projects/{project}/imports/{number}/")
            if answer.get("status") in ("completed", "failed"):
                return answer
            if time.monotonic() > end:
                raise ServerError(f"{self.url} has not finished import {number} yet.")
            time.sleep(_PAUSE)

    def change_task(self, number: int, **changes: Any) -> None:
        """Change a task, such as its ``data``."""
        self.request("PATCH", f"/api/tasks/{number}/", changes)

    def has_task(self, number: int) -> bool:
        """Whether there is a task of that number."""
        try:
            self.request("GET", f"/api/tasks/{number}/")
        except GoneError:
            return False
        return True

    def predict(self, task: int, prediction: dict[str, Any]) -> None:
        """Add a prediction to a task that is there."""
        self.request("POST", "/api/predictions/", {**prediction, "task": task})

    def upload(self, project: int, name: str, content: bytes, kind: str) -> str:
        """Give the server a file, not yet part of any task; the address that it has there."""
        mark = secrets.token_hex(16)
        plain = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in name)
        head = f'--{mark}\r\nContent-Disposition: form-data; name="file"; filename="{plain}"\r\n'
        body = head.encode() + f"Content-Type: {kind}\r\n\r\n".encode() + content
        answer = self._import(
            project,
            "commit_to_project=false",
            body + f"\r\n--{mark}--\r\n".encode(),
            kind=f"multipart/form-data; boundary={mark}",
        )
        (number,) = answer["file_upload_ids"]
        uploaded = self.request("GET", f"/api/import/file-upload/{int(number)}")
        return f"/data/{str(uploaded['file']).lstrip('/')}"

    def _import(
        self,
        project: int,
        options: str,
        body: Any,
        *,
        kind: str = "application/json",
        note: Callable[[int], None] = lambda number: None,
    ) -> dict[str, Any]:
        """What an import came to, whether the server does it at once or by itself."""
        path = f"/api/projects/{project}/import?{options}"
        answer = self.request("POST", path, body, kind=kind, seconds=_SECONDS_TO_CREATE)
        if isinstance(number := answer.get("import"), int):
            note(number)
            answer = self.wait_for_import(project, number)
            if answer["status"] == "failed":
                reason = " ".join(str(answer.get("error") or "it does not say why").split())
                raise InputError(f"{self.url} could not import: {reason[:300].rstrip('.')}.")
        return answer
