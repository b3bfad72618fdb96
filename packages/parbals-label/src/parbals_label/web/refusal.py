"""A refusal, the same from every part of the server: a status, a word and a sentence."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from pydantic import BaseModel

__all__ = ["ErrorOut", "Receive", "RefusedError", "Scope", "Send", "error_body", "refuse"]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_PAGE = (
    "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport "
    "content='width=device-width'><title>parbals</title><body><h1>{title}</h1><p>{words}</p>"
    "</body></html>"
)
_LOCKED = (
    "Open the link that <code>parbals serve</code> printed, or the one that you were given for "
    "yourself; it ends in <code>?token=</code> and a long word."
)
_UNINVITED = (
    "You are logged in, but nobody has invited you to this project. Its owner can: "
    "<code>parbals invite DIR NAME</code>, with the name that you log in by."
)


class ErrorDetail(BaseModel):
    """One sentence for people, a word for programs; ``held`` is the label a conflict is about."""

    code: str
    message: str
    held: str | None = None


class ErrorOut(BaseModel):
    """Why a request was refused."""

    error: ErrorDetail


class RefusedError(Exception):
    """The request ends here."""

    def __init__(self, status: int, code: str, message: str, *headers: tuple[bytes, bytes]) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.headers = status, code, message, headers


def error_body(code: str, message: str, **more: Any) -> bytes:
    """The JSON of an error."""
    refusal = ErrorOut(error=ErrorDetail(code=code, message=message, **more))
    return refusal.model_dump_json(exclude_unset=True).encode()


async def refuse(scope: Scope, send: Send, refused: RefusedError) -> None:
    """Answer with a refusal: JSON, or a page for who opens one without a right to."""
    pages = {"token": ("This page needs its link", _LOCKED), "person": ("Not yet", _UNINVITED)}
    as_page = refused.code in pages and not scope["path"].startswith("/api")
    if as_page:
        title, words = pages[refused.code]
        body, kind = _PAGE.format(title=title, words=words).encode(), b"text/html; charset=utf-8"
    else:
        body, kind = error_body(refused.code, refused.message), b"application/json"
    headers = [
        (b"content-type", kind),
        (b"content-length", str(len(body)).encode()),
        *refused.headers,
    ]
    if scope["method"] != "GET":
        headers.append((b"connection", b"close"))  # the rest of a body that nobody reads
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
