"""Error responses: a sentence for people and a code for programs."""

import json
import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from parbals.errors import InputError, MissingDependencyError, ParbalsError, ProjectDamagedError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse

from parbals_label.project.media import MediaError
from parbals_label.server.desk import BusyError
from parbals_label.store.answers import LabelConflictError, RequestIdReusedError
from parbals_label.store.people import NotAssignedError
from parbals_label.web.page_texts import translated_page

__all__ = ["ERRORS", "RefusedError", "handle_errors", "refusal"]

_log = logging.getLogger("parbals.web")

_PAGES = Path(__file__).with_name("pages")
"""HTML pages for refused visitors, named by the code of the error."""


_FOLDERS = re.compile(r"(?<![\w/.])/(?:[^/\n]*?[^/\s\"'`(]/)+(?=[^\s/])")
"""The folders of an absolute path; a slash after a space or a quote begins another path."""


class ErrorDetail(BaseModel):
    """A sentence for people and a code for programs; ``held`` is the stored label of a conflict."""

    code: str
    message: str
    held: str | None = None


_SCHEMA = {
    "type": "object",
    "required": ["error"],
    "properties": {"error": ErrorDetail.model_json_schema()},
}
ERRORS: dict[int | str, dict[str, Any]] = {
    codes: {"content": {"application/json": {"schema": _SCHEMA}}, "description": description}
    for codes, description in (("4XX", "Refused"), ("5XX", "Temporarily unavailable"))
}
"""Error responses of every route, for OpenAPI. A model for each route and status would delay the
start of the server by a tenth of a second."""


class RefusedError(Exception):
    """The guard refuses a request."""

    def __init__(self, status: int, code: str, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def refusal(path: str, error: RefusedError | ParbalsError, accept_language: str = "") -> Response:
    """Return an error response: JSON, or an HTML page for a person without access.

    A ParbalsError occurs if the project cannot be read to authenticate the visitor.
    """
    if isinstance(error, ParbalsError):
        return _parbals_response(error)
    page = _PAGES / f"{error.code}.html"
    if page.is_file() and not path.startswith("/api"):
        text = translated_page(page.read_text("utf-8"), accept_language)
        return HTMLResponse(text, error.status, error.headers)
    return _error_response(error.status, error.code, str(error), error.headers)


def _parbals_response(error: ParbalsError) -> Response:
    """Return the response of a ParbalsError."""
    if isinstance(error, LabelConflictError):
        return _error_response(409, "conflict", str(error), held=error.current_label)
    if isinstance(error, RequestIdReusedError):
        return _error_response(409, "request", str(error))
    if isinstance(error, NotAssignedError):
        return _error_response(403, "role", str(error))
    if isinstance(error, InputError):
        return _error_response(422, "invalid", str(error))
    if isinstance(error, BusyError):
        return _error_response(429, "busy", str(error), {"Retry-After": "1"})
    code = "project"
    if isinstance(error, MissingDependencyError):
        code = "missing"
    elif isinstance(error, ProjectDamagedError):
        code = "damaged"
    return _error_response(503, code, _without_folders(str(error)), {"Retry-After": "5"})


def _without_folders(message: str) -> str:
    """A message whose absolute paths are reduced to file names: visitors need not know the rest.

    >>> _without_folders("/srv/ada/spam/project.db is on a disk that is full.")
    'project.db is on a disk that is full.'
    >>> _without_folders("/srv/my data/a/project.db is damaged: parbals salvage /srv/my data/a")
    'project.db is damaged: parbals salvage a'
    """
    return _FOLDERS.sub("", message)


def _error_response(
    status: int,
    code: str,
    message: str,
    headers: Mapping[str, str] | None = None,
    held: str | None = None,
) -> Response:
    detail = {"code": code, "message": " ".join(message.split())}
    if held is not None:
        detail["held"] = held
    return Response(json.dumps({"error": detail}), status, headers, media_type="application/json")


def handle_errors(app: FastAPI) -> None:
    """Register the responses of all errors with the app."""

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        if first.get("type") == "json_invalid":
            return _error_response(400, "json", "The body is not JSON that can be read.")
        field = ".".join(str(name) for name in first.get("loc", ())[1:])
        reason = str(first.get("msg", "cannot be used")).rstrip(".")
        return _error_response(422, "invalid", f"{field or 'The body'}: {reason}.")

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        codes = {400: "json", 403: "role", 404: "missing", 405: "method"}
        code = codes.get(error.status_code, "refused")
        sentence = str(error.detail).rstrip(".")
        return _error_response(error.status_code, code, f"{sentence}.", error.headers)

    @app.exception_handler(MediaError)
    async def no_image(request: Request, error: MediaError) -> Response:
        return _error_response(error.status, "media", str(error))

    @app.exception_handler(ParbalsError)
    async def ours(request: Request, error: ParbalsError) -> Response:
        return _parbals_response(error)

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> Response:
        _log.error("A request failed", exc_info=error)
        return _error_response(
            500, "bug", "An internal error occurred on the server; confirmed answers are stored."
        )
