"""The body of a request, whole and within limits, before anything else sees it."""

import asyncio
from collections.abc import MutableMapping
from typing import Any

from parbals_label.web.refusal import Receive, RefusedError, Scope

__all__ = ["BODY_SECONDS", "MOST_BYTES", "read_body"]

MOST_BYTES = 1_000_000
"""Longest body of a request."""
BODY_SECONDS = 10.0


async def read_body(
    scope: Scope, headers: dict[str, str], receive: Receive, seconds: float
) -> Receive | None:
    """The whole body, within limits of size and time; None if the client left too early."""
    length = headers.get("content-length", "0")
    if not length.isascii() or not length.isdigit():
        raise RefusedError(400, "length", "Content-Length is not a number.")
    if int(length) > MOST_BYTES:
        raise RefusedError(413, "size", f"A request may have at most {MOST_BYTES:,} bytes.")
    if scope["method"] == "GET":
        if int(length) or "transfer-encoding" in headers:
            raise RefusedError(400, "body", "A GET request takes no body.")
    else:
        kind, _, parameters = headers.get("content-type", "").partition(";")
        charset = parameters.strip().lower().replace('"', "")
        if (
            kind.strip().lower() != "application/json"
            or charset not in ("", "charset=utf-8")
            or "content-encoding" in headers
        ):
            raise RefusedError(415, "type", "The body must be application/json in UTF-8.")
    parts, size, more = [], 0, True
    try:
        async with asyncio.timeout(seconds):
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return None
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                more = message.get("more_body", False)
                if size > MOST_BYTES:
                    raise RefusedError(
                        413, "size", f"A request may have at most {MOST_BYTES:,} bytes."
                    )
    except TimeoutError:
        raise RefusedError(408, "slow", "The body took too long to arrive; try again.") from None
    whole: bytes | None = b"".join(parts)

    async def replay() -> MutableMapping[str, Any]:
        nonlocal whole
        if whole is None:
            return await receive()
        body, whole = whole, None
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
