"""Errors as answers: one sentence and one word of JSON, whatever went wrong."""

import json
import logging
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from parbals.errors import InputError, MissingDependencyError, ParbalsError, ProjectDamagedError
from starlette.exceptions import HTTPException

from parbals_label.project.media import MediaError
from parbals_label.store.answers import HeldLabelError, RequestUsedError
from parbals_label.web.desk import BusyError
from parbals_label.web.refusal import ErrorOut, error_body

__all__ = ["StrictRoute", "errors_of", "handle_failures"]

_log = logging.getLogger("parbals.web")

_MEANING = {
    400: "Not HTTP or JSON as it should be",
    401: "The token is missing or no longer good",
    403: "The request comes from another site's page, or its visitor may not do that",
    404: "There is no such item or page",
    405: "The method is not known here",
    408: "The body took too long to arrive",
    409: "It contradicts what the annotator said before",
    413: "It is too large",
    415: "It is of another type than it must be",
    421: "The server is not called by that name",
    422: "A value is missing or cannot be used",
    429: "Too much waits; try again in a moment",
    503: "The project cannot be used just now",
}
_ALWAYS = (400, 401, 403, 405, 421, 422, 429, 503)
_WITH_BODY = (408, 413, 415)


def errors_of(*more: int, body: bool = False) -> dict[int | str, dict[str, Any]]:
    """The errors a route can answer with, for the API's description."""
    codes = (*_ALWAYS, *(_WITH_BODY if body else ()), *more)
    return {code: {"model": ErrorOut, "description": _MEANING[code]} for code in sorted(set(codes))}


class _StrictRequest(Request):
    """JSON as the standard has it: no NaN, no nesting beyond reason."""

    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            try:
                self._json = json.loads((await self.body()).decode("utf-8"), parse_constant=_refuse)
            except (ValueError, RecursionError):
                raise HTTPException(400, "The body is not JSON that can be read.") from None
        return self._json


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


class StrictRoute(APIRoute):
    """A route whose body is read by the rules above."""

    def get_route_handler(self) -> Any:
        handler = super().get_route_handler()

        async def strict(request: Request) -> Response:
            return await handler(_StrictRequest(request.scope, request.receive))

        return strict


def handle_failures(app: FastAPI) -> None:
    """Tell the app what each error answers."""

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
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
        if isinstance(error, HeldLabelError):
            return _answer(409, "conflict", str(error), held=error.held)
        if isinstance(error, RequestUsedError):
            return _answer(409, "request", str(error))
        if isinstance(error, InputError):
            return _answer(422, "invalid", str(error))
        if isinstance(error, BusyError):
            return _answer(429, "busy", str(error), {"Retry-After": "1"})
        word = "damaged" if isinstance(error, ProjectDamagedError) else "project"
        word = "missing" if isinstance(error, MissingDependencyError) else word
        return _answer(503, word, str(error), {"Retry-After": "5"})

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> Response:
        _log.error("A request failed", exc_info=error)
        return _answer(
            500, "bug", "The server made a mistake; what was confirmed before is stored."
        )


def _answer(status: int, code: str, message: str, headers: Any = None, **more: Any) -> Response:
    body = error_body(code, " ".join(message.split()), **more)
    return Response(body, status, headers=headers, media_type="application/json")
