"""Errors as answers: one sentence for people and one word for programs, whatever went wrong."""

import json
import logging
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

__all__ = ["ERRORS", "RefusedError", "handle_errors", "refusal"]

_log = logging.getLogger("parbals.web")

_PAGES = Path(__file__).with_name("pages")
"""For people who may not come in: a page called by the word of the refusal."""


class ErrorDetail(BaseModel):
    """One sentence for people, a word for programs; ``held`` is the label a conflict is about."""

    code: str
    message: str
    held: str | None = None


_SCHEMA = {
    "type": "object",
    "required": ["error"],
    "properties": {"error": ErrorDetail.model_json_schema()},
}
ERRORS: dict[int | str, dict[str, Any]] = {
    codes: {"content": {"application/json": {"schema": _SCHEMA}}, "description": meaning}
    for codes, meaning in (("4XX", "Refused"), ("5XX", "It cannot be done just now"))
}
"""What every route may answer instead, for the API's description. As a model of each route and
status, it would take a tenth of a second to start the server."""


class RefusedError(Exception):
    """The guard lets a request go no further."""

    def __init__(self, status: int, code: str, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def refusal(path: str, error: RefusedError | ParbalsError) -> Response:
    """JSON, or a page for a person who opens the page without a right to.

    An error of ours comes where the project cannot be asked who a visitor is.
    """
    if isinstance(error, ParbalsError):
        return _answer_to(error)
    page = _PAGES / f"{error.code}.html"
    if page.is_file() and not path.startswith("/api"):
        return HTMLResponse(page.read_bytes(), error.status, error.headers)
    return _answer(error.status, error.code, str(error), error.headers)


def _answer_to(error: ParbalsError) -> Response:
    """What an error of ours answers."""
    if isinstance(error, LabelConflictError):
        return _answer(409, "conflict", str(error), held=error.current_label)
    if isinstance(error, RequestIdReusedError):
        return _answer(409, "request", str(error))
    if isinstance(error, NotAssignedError):
        return _answer(403, "role", str(error))
    if isinstance(error, InputError):
        return _answer(422, "invalid", str(error))
    if isinstance(error, BusyError):
        return _answer(429, "busy", str(error), {"Retry-After": "1"})
    word = "damaged" if isinstance(error, ProjectDamagedError) else "project"
    word = "missing" if isinstance(error, MissingDependencyError) else word
    return _answer(503, word, str(error), {"Retry-After": "5"})


def _answer(
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
    """Tell the app what each error answers."""

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        if first.get("type") == "json_invalid":
            return _answer(400, "json", "The body is not JSON that can be read.")
        place = ".".join(str(part) for part in first.get("loc", ())[1:])
        reason = str(first.get("msg", "cannot be used")).rstrip(".")
        return _answer(422, "invalid", f"{place or 'The body'}: {reason}.")

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        words = {400: "json", 403: "role", 404: "missing", 405: "method"}
        code = words.get(error.status_code, "refused")
        sentence = str(error.detail).rstrip(".")
        return _answer(error.status_code, code, f"{sentence}.", error.headers)

    @app.exception_handler(MediaError)
    async def no_image(request: Request, error: MediaError) -> Response:
        return _answer(error.status, "media", str(error))

    @app.exception_handler(ParbalsError)
    async def ours(request: Request, error: ParbalsError) -> Response:
        return _answer_to(error)

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> Response:
        _log.error("A request failed", exc_info=error)
        return _answer(
            500, "bug", "The server made a mistake; what was confirmed before is stored."
        )
