"""Several projects behind one address: a list at /, and the page of each below /p/NAME/.

Each project keeps its own store, guard, sessions and worker, and is opened when somebody first asks
for it. An invitation is to one project: a session of one opens nothing of another, whatever its
people are called, because the owner of one project may invite anybody under any name. The server's
own link is every project's owner; the list shows others what this browser has sessions for, and,
where a proxy logs people in, what they are invited to by that name.
"""

import asyncio
import hmac
import secrets
import time
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import click
from fastapi import FastAPI, Request, Response
from parbals.errors import InputError, ParbalsError, ProjectError
from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse
from starlette.types import Receive, Scope, Send

from parbals_label.server import connections
from parbals_label.server.pace import RateLimiter
from parbals_label.store.folder import FILE_NAME
from parbals_label.store.people import OWNER, name_key
from parbals_label.web.door import SESSION_SECONDS, Door, Visitor, require_owner, visitor_of
from parbals_label.web.guard import Guard
from parbals_label.web.health import ALWAYS, Watch
from parbals_label.web.place import Place, remember_address
from parbals_label.web.refusals import RefusedError, handle_errors, refusal
from parbals_label.web.rooms import Room
from parbals_label.web.schemas import InModel
from parbals_label.web.serve import add_static, open_browser, run_listening, showing, warn_of_reach

__all__ = ["Projects", "projects_in", "run_projects"]

_GUEST = "guest"
"""The role, at the list, of who has not the server's own link."""


def projects_in(folder: Path) -> dict[str, Path]:
    """Name → folder of the projects that lie in a folder."""
    try:
        found = {
            path.name: path for path in sorted(folder.iterdir()) if (path / FILE_NAME).exists()
        }
    except OSError as error:
        raise InputError(f"{folder} cannot be read as a folder ({error.strerror}).") from None
    if not found:
        raise InputError(
            f"There is no project in {folder}: it must hold folders made by `parbals init`."
        )
    by_key: dict[str, str] = {}
    for name in found:
        other = by_key.setdefault(name_key(name), name)
        if other != name:
            raise InputError(
                f"{folder} holds {other!r} and {name!r}, which people would take for one; rename "
                "one of the folders."
            )
    return found


def run_projects(folder: Path, *, place: Place, browser: bool, new_token: bool) -> None:
    """Show every project in a folder until Ctrl-C."""
    folders = projects_in(folder)
    busy = f"Another server already shows the projects in {folder}; stop it first."
    with showing(folder, place, busy, new_token) as (listener, place, token):
        app = Projects(folders, place, token)
        for room in app.rooms.values():
            with suppress(OSError):  # a folder that cannot be written is told when it is opened
                remember_address(room.folder, room.place)

        def announce() -> None:
            shown = place.origin if place.public else place.link(token)
            click.echo(f"The list of {len(folders)} projects: {shown}\nEnd with Ctrl-C.")
            click.echo(f"People are invited to each: `parbals team invite {folder}/NAME PERSON`.")
            if place.public:
                click.echo(
                    f"The link for yourself ends in ?token= and what {folder}/page-token says."
                )
            warn_of_reach(place)
            if browser:
                open_browser(folder, place.link(token))

        run_listening(connections.make_server(app), listener, announce)


class _FrontDoor(Door):
    """Knows the server's own link. Its sessions are proved by the token itself, and kept nowhere.

    They show the list and begin a project's own session; a new token ends them.
    """

    def __init__(self, token: str) -> None:
        self._token = token
        self.rate_limiter = RateLimiter()
        self.session_seconds = SESSION_SECONDS

    async def by_link(self, token: str) -> Visitor | None:
        given = token.encode("utf-8", "surrogatepass")
        return Visitor(None, OWNER) if hmac.compare_digest(given, self._token.encode()) else None

    async def by_session(self, cookie: str, key: str | None, host: str) -> Visitor | None:
        body, _, proof = cookie.rpartition(".")
        if not _same(proof, self._sign("cookie", body, host)):
            return None
        if int(body.partition(".")[0]) <= time.time():
            return None
        if key is not None and not _same(key, self._sign("key", cookie)):
            return None
        return Visitor(None, OWNER, session=cookie)

    async def by_name(self, name: str) -> Visitor | None:
        return Visitor(name, _GUEST)

    async def start_session(self, visitor: Visitor, token: str, host: str) -> tuple[str, str]:
        self.rate_limiter.admit(visitor.signature, answers=1)
        body = f"{time.time() + self.session_seconds:.0f}.{secrets.token_urlsafe(16)}"
        cookie = f"{body}.{self._sign('cookie', body, host)}"
        return cookie, self._sign("key", cookie)

    def _sign(self, *parts: str) -> str:
        words = "\n".join(parts).encode("utf-8", "surrogatepass")
        return blake2b(words, key=self._token.encode(), digest_size=32).hexdigest()


def _same(given: str, right: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), right.encode())


class _NoDoor(_FrontDoor):
    """Of a project that is not there, with a token nobody knows: it refuses as others would."""

    async def by_name(self, name: str) -> Visitor | None:
        return None


class _FrontGuard(Guard):
    """The list itself says nothing: strangers see an empty one, and no secret opens more."""

    async def _visitor(self, scope: Scope, headers: dict[str, str]) -> Visitor:
        try:
            return await super()._visitor(scope, headers)
        except RefusedError as error:
            if error.code != "token":
                raise
            return Visitor(None, _GUEST, self._origin(scope, headers))


class ListIn(InModel):
    """The keys that this browser keeps, by the names of their projects."""

    keys: Annotated[dict[str, str], Field(max_length=1000)]


class OpenIn(InModel):
    """A project to open with the server's own link."""

    name: str


class Projects:
    """The ASGI application of a folder of projects."""

    def __init__(self, folders: dict[str, Path], place: Place, token: str) -> None:
        self.rooms = {name: Room(name, path, place, token) for name, path in folders.items()}
        self._token = token
        nobody = Guard(None, door=_NoDoor(secrets.token_urlsafe(32)), place=place)
        self._nowhere = Watch(nobody, None, secrets.token_urlsafe())
        self._front = _FrontGuard(self._list_app(), door=_FrontDoor(token), place=place)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["path"].startswith("/p/"):
            await self._project(scope, receive, send)
        elif scope["path"] in ("/healthz", "/readyz"):
            await (await self._health(scope["path"]))(scope, receive, send)
        else:
            await self._front(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await asyncio.gather(*(room.close() for room in self.rooms.values()))
        await send({"type": "lifespan.shutdown.complete"})

    async def _project(self, scope: Scope, receive: Receive, send: Send) -> None:
        name, slash, rest = scope["path"].removeprefix("/p/").partition("/")
        room, path = self.rooms.get(name), f"/{rest}"
        if not slash:
            to_page = RedirectResponse(f"/p/{quote(name, safe='')}/", 303)
            return await to_page(scope, receive, send)
        watch = self._nowhere  # a stranger learns no names
        if room is not None and path not in ("/healthz", "/readyz"):
            try:
                watch = await room.open()
            except ProjectError as error:
                return await refusal(path, error)(scope, receive, send)
        elif path in ("/healthz", "/readyz"):
            path = "/api/none"
        await watch({**scope, "path": path, "prefix": f"/p/{name}"}, receive, send)
        return None

    async def _health(self, path: str) -> Response:
        """Well while it answers; ready while every open project can store a label."""
        if path == "/readyz":
            for room in self.rooms.values():
                if room.watch is not None and (await room.watch.readiness()).status_code != 200:
                    return PlainTextResponse("unavailable\n", 503, ALWAYS)
        return PlainTextResponse("ok\n", 200, ALWAYS)

    def _list_app(self) -> FastAPI:
        app = FastAPI(title="parbals", openapi_url=None, docs_url=None, redoc_url=None)
        handle_errors(app)
        add_static(app, index="projects.html")

        @app.get("/api/me")
        async def me(request: Request) -> dict[str, Any]:
            if not visitor_of(request).is_owner:
                raise HTTPException(401, "The link is missing or no longer good")
            return {"name": None}

        @app.post("/api/projects")
        async def projects(body: ListIn, request: Request) -> dict[str, Any]:
            """The projects that this visitor may open."""
            visitor = visitor_of(request)
            rooms = list(self.rooms.values())
            may = await asyncio.gather(*(self._may(room, visitor, body, request) for room in rooms))
            shown = [await room.row() for room, open_to in zip(rooms, may, strict=True) if open_to]
            if not visitor.is_owner:
                shown = [{**row, "trouble": None} for row in shown]
            return {"owner": visitor.is_owner, "projects": shown}

        @app.post("/api/open")
        async def open_one(body: OpenIn, request: Request) -> Response:
            """Begin a session in a project for who has the server's own link."""
            visitor, room = require_owner(request), self.rooms.get(body.name)
            if room is None:
                raise HTTPException(404, "There is no such project")
            try:
                await room.open()
            except ProjectError as error:
                raise ProjectError(room.trouble or str(error)) from None
            host = request.headers["host"].lower()
            key, cookie = await room.guard.begin(visitor, self._token, host)
            return JSONResponse({"key": key}, headers={"Set-Cookie": cookie})

        return app

    async def _may(self, room: Room, visitor: Visitor, body: ListIn, request: Request) -> bool:
        if visitor.is_owner:
            return True
        if visitor.name is None and room.name not in body.keys:
            return False
        try:
            await room.open()
            door = room.guard.door
            if visitor.name is not None:
                return await door.by_name(visitor.name) is not None
            host = request.headers["host"].lower()
            cookie = request.cookies.get(room.place.cookie(host), "")
            return await door.by_session(cookie, body.keys[room.name], host) is not None
        except ParbalsError:
            return False
