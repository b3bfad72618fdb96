"""The server's application: the API, the page's own files, and the guard in front of both."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Response
from parbals import __version__
from starlette.exceptions import HTTPException

from parbals_label.web.door import Door
from parbals_label.web.guard import Guard
from parbals_label.web.labelling import labelling_routes
from parbals_label.web.place import Place
from parbals_label.web.refusals import handle_errors
from parbals_label.web.session import Session
from parbals_label.web.team import team_routes
from parbals_label.web.viewing import viewing_routes

__all__ = ["make_app"]

_STATIC = Path(__file__).with_name("static")
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")
_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
}


def make_app(session: Session, *, token: str, place: Place) -> Guard:
    """The guarded application of an open project, found at a place; ``token`` opens it."""
    door = Door(session.desk, token)

    @asynccontextmanager
    async def alive(app: FastAPI) -> AsyncIterator[None]:
        await session.start()
        try:
            yield
        finally:
            await session.stop()

    app = FastAPI(
        title="parbals",
        summary="The labelling page's interface; 200 for a label means that it is on disk.",
        version=__version__,
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=alive,
    )
    handle_errors(app)
    # Not include_router, which looks through every part again for every request.
    for part in (
        labelling_routes(session, door),
        viewing_routes(session),
        team_routes(session, door, place),
    ):
        app.router.routes.extend(part.routes)
    add_static(app)
    return Guard(app, door=door, place=place)


def add_static(app: Any, folder: Path = _STATIC) -> None:
    """The page's own files: names are plain words, so that no path leads anywhere else."""

    def read(name: str) -> Response:
        path = folder / name
        kind = _TYPES.get(path.suffix)
        if _NAME.fullmatch(name) is None or kind is None or not path.is_file():
            raise HTTPException(404, "There is no such page")
        return Response(path.read_bytes(), media_type=kind)

    @app.get("/", include_in_schema=False)
    async def index() -> Response:
        return read("index.html")

    @app.get("/static/{name:path}", include_in_schema=False)
    async def static(name: str) -> Response:
        return read(name)
