"""Exports as downloads: made in a thread of their own, and gone when nobody waits for them."""

import asyncio
import os
import re
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Literal

from fastapi import Request
from parbals.errors import InputError, ProjectError
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from parbals_label.project.exports import write_export
from parbals_label.project.summary import export_columns, export_records
from parbals_label.store.store import Store

__all__ = ["MEDIA_TYPES", "Download", "Exporter", "Format"]

Format = Literal["csv", "jsonl", "parquet"]
MEDIA_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "jsonl": "application/x-ndjson",
    "parquet": "application/octet-stream",
}
_LOOK_SECONDS = 0.5


class Download(StreamingResponse):
    """An open file, closed in the end however much of it was wanted."""

    def __init__(self, file: IO[bytes], name: str, media_type: str) -> None:
        self._file = file
        headers = {
            "Content-Disposition": f'attachment; filename="{name}"',
            "Content-Length": str(os.fstat(file.fileno()).st_size),
        }
        parts = iter(lambda: file.read(1 << 16), b"")
        super().__init__(parts, media_type=media_type, headers=headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.close()

    def close(self) -> None:
        """Nobody wants it any more."""
        self._file.close()


class Exporter:
    """Makes one export at a time.

    Each has a thread and a store of its own, for a million items take minutes, and everything else
    that walks over the items would wait behind it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._one = asyncio.Lock()

    async def download(self, request: Request, fmt: Format, labelled_only: bool) -> Download:
        """The finished export; it is given up when the one who asked has left."""
        async with self._one:
            file = await self._wait(request, fmt, labelled_only)
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", self._folder.resolve().name).strip("-.")
        return Download(file, f"{name or 'project'}-labels.{fmt}", MEDIA_TYPES[fmt])

    async def _wait(self, request: Request, fmt: Format, labelled_only: bool) -> IO[bytes]:
        gone = threading.Event()

        def make() -> IO[bytes]:
            with Store.open(self._folder, read_only=True) as store:
                return _write(store, fmt, labelled_only, gone)

        making = asyncio.ensure_future(asyncio.to_thread(make))
        try:
            while not making.done():
                await asyncio.wait({making}, timeout=_LOOK_SECONDS)
                if not making.done() and await request.is_disconnected():
                    gone.set()
            return making.result()
        finally:
            gone.set()


def _write(store: Store, fmt: str, labelled_only: bool, gone: threading.Event) -> IO[bytes]:
    """An open file without a name: it is gone when it is closed, also by a server that dies."""

    def records() -> Iterator[Mapping[str, Any]]:
        for record in export_records(store, labelled_only):
            if gone.is_set():
                raise ProjectError("Nobody waits for this export any more.")
            yield record

    number, path = tempfile.mkstemp(prefix="parbals-export-")
    os.close(number)
    try:
        write_export(path, records(), fmt, export_columns(store))
        return open(path, "rb", opener=_open_to_delete)
    except OSError as error:
        raise InputError(f"The export could not be written ({error.strerror}).") from None
    finally:
        with suppress(PermissionError):  # Windows deletes it when it is closed
            os.unlink(path)


def _open_to_delete(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_TEMPORARY", 0))
