"""Several projects on one server: a list at /, and the page of each project at /p/NAME/.

Each project has its own store, guard, sessions and worker, and is opened on its first request. An
invitation is for one project: a session of one project gives no access to another, even for the
same name, because the owner of a project may invite anybody under any name. The server's own link
gives access to all projects as owner. Others see the projects for which their browser has sessions
and, where a proxy logs people in, those to which that name was invited.
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
from parbals_label.server.rate_limits import RateLimiter
from parbals_label.store.folder import FILE_NAME
from parbals_label.store.names import name_key
from parbals_label.store.people import OWNER
from parbals_label.web.address import PageAddress
from parbals_label.web.door import SESSION_SECONDS, Door, Visitor, require_owner, visitor_of
from parbals_label.web.guard import Guard
from parbals_label.web.health import ALWAYS, Watch
from parbals_label.web.hosted_project import HostedProject
from parbals_label.web.list_sessions import ListSessions
from parbals_label.web.page_files import remember_address
from parbals_label.web.refusals import RefusedError, handle_errors, refusal
from parbals_label.web.schemas import InModel
from parbals_label.web.serve import add_static, open_browser, run_listening, serving, warn_of_reach

__all__ = ["Projects", "projects_in", "run_projects"]

_GUEST = "guest"
"""The role in the list of a visitor without the server's own link."""


def projects_in(folder: Path) -> dict[str, Path]:
    """Return name → folder of the projects in a folder."""
    try:
        folders = {
            path.name: path for path in sorted(folder.iterdir()) if (path / FILE_NAME).exists()
        }
    except OSError as error:
        raise InputError(f"{folder} cannot be read as a folder ({error.strerror}).") from None
    if not folders:
        raise InputError(
            f"There is no project in {folder}: it must contain folders created by `parbals init`."
        )
    by_key: dict[str, str] = {}
    for name in folders:
        other = by_key.setdefault(name_key(name), name)
        if other != name:
            raise InputError(
                f"{folder} contains {other!r} and {name!r}, which look the same; rename one of "
                "the folders."
            )
    return folders


def run_projects(folder: Path, *, address: PageAddress, browser: bool, new_token: bool) -> None:
    """Serve every project in a folder until Ctrl-C."""
    folders = projects_in(folder)
    busy = f"Another server already serves the projects in {folder}; stop it first."
    with serving(folder, address, busy, new_token) as (listener, address, token):
        app = Projects(folder, folders, address, token)
        for hosted in app.projects.values():
            with suppress(OSError):  # reported when the project is opened
                remember_address(hosted.folder, hosted.address)

        def announce() -> None:
            url = address.origin if address.public else address.link(token)
            click.echo(f"The list of {len(folders)} projects: {url}\nEnd with Ctrl-C.")
            click.echo(f"Invite people to a project: `parbals team invite {folder}/NAME PERSON`.")
            if address.public:
                click.echo(
                    f"Your own link ends in ?token= and the contents of {folder}/page-token."
                )
            warn_of_reach(next(iter(app.projects.values())).address)
            if browser:
                open_browser(folder, address.link(token))

        run_listening(connections.make_server(app), listener, announce)


class _FrontDoor(Door):
    """Authenticates the server's own link. Its sessions are signed with the token.

    They give access to the list and start a session of a project; a new token ends them, and so
    does the removal of their file.
    """

    def __init__(self, token: str, sessions: ListSessions | None) -> None:
        self._token = token
        self._sessions = sessions
        self.rate_limiter = RateLimiter()
        self.session_seconds = SESSION_SECONDS

    async def by_link(self, token: str) -> Visitor | None:
        return Visitor(None, OWNER) if _is_equal(token, self._token) else None

    async def by_session(self, cookie: str, key: str | None, host: str) -> Visitor | None:
        body, _, signature = cookie.rpartition(".")
        if not _is_equal(signature, self._sign("cookie", body, host)):
            return None
        if int(body.partition(".")[0]) <= time.time():
            return None
        if key is not None and not _is_equal(key, self._sign("key", cookie)):
            return None
        if self._sessions is None or cookie not in self._sessions:
            return None
        return Visitor(None, OWNER, session=cookie)

    async def by_name(self, name: str) -> Visitor | None:
        return Visitor(name, _GUEST)

    async def start_session(self, visitor: Visitor, token: str, host: str) -> tuple[str, str]:
        self.rate_limiter.admit(visitor.signature, answers=1)
        expires = time.time() + self.session_seconds
        body = f"{expires:.0f}.{secrets.token_urlsafe(16)}"
        cookie = f"{body}.{self._sign('cookie', body, host)}"
        if self._sessions is not None:
            self._sessions.add(cookie, self._token, host, expires)
        return cookie, self._sign("key", cookie)

    async def end_session(self, visitor: Visitor) -> None:
        if self._sessions is not None and visitor.session is not None:
            self._sessions.end(visitor.session)

    def _sign(self, *fields: str) -> str:
        message = "\n".join(fields).encode("utf-8", "surrogatepass")
        return blake2b(message, key=self._token.encode(), digest_size=32).hexdigest()


def _is_equal(value: str, expected: str) -> bool:
    """Compare two secrets in constant time."""
    return hmac.compare_digest(value.encode("utf-8", "surrogatepass"), expected.encode())


class _NoDoor(_FrontDoor):
    """For a project that does not exist, with a random token: it refuses like other projects."""

    def __init__(self) -> None:
        super().__init__(secrets.token_urlsafe(32), None)

    async def by_name(self, name: str) -> Visitor | None:
        return None


class _FrontGuard(Guard):
    """Lets unauthenticated visitors in as guests: their list is empty."""

    async def _visitor(self, scope: Scope, headers: dict[str, str]) -> Visitor:
        try:
            return await super()._visitor(scope, headers)
        except RefusedError as error:
            if error.code != "token":
                raise
            return Visitor(None, _GUEST, self._client_address(scope, headers))


class ListIn(InModel):
    """The session keys that the browser has stored, by project name."""

    keys: Annotated[dict[str, str], Field(max_length=1000)]


class OpenIn(InModel):
    """A project to open with the server's own link."""

    name: str


class Projects:
    """The ASGI application of a folder of projects."""

    def __init__(
        self, folder: Path, folders: dict[str, Path], address: PageAddress, token: str
    ) -> None:
        sessions = ListSessions(folder)
        sessions.remove_ended(token)
        self._door = _FrontDoor(token, sessions)
        self.projects = {
            name: HostedProject(name, path, address, token) for name, path in folders.items()
        }
        self._token = token
        no_guard = Guard(self._list_app(), door=_NoDoor(), address=address)
        self._missing_project = Watch(no_guard, None, secrets.token_urlsafe())
        self._list_guard = _FrontGuard(self._list_app(), door=self._door, address=address)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["path"].startswith("/p/"):
            await self._project(scope, receive, send)
        elif scope["path"] in ("/healthz", "/readyz"):
            await (await self._health(scope["path"]))(scope, receive, send)
        else:
            await self._list_guard(scope, receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await asyncio.gather(*(hosted.close() for hosted in self.projects.values()))
        await send({"type": "lifespan.shutdown.complete"})

    async def _project(self, scope: Scope, receive: Receive, send: Send) -> None:
        name, slash, subpath = scope["path"].removeprefix("/p/").partition("/")
        hosted = self.projects.get(name)
        path = f"/{subpath}"
        if not slash:
            to_page = RedirectResponse(f"/p/{quote(name, safe='')}/", 303)
            return await to_page(scope, receive, send)
        watch = self._missing_project  # the same response as for a project without access
        if path in ("/healthz", "/readyz"):
            path = "/api/none"
        elif await self._is_opened_by(hosted, {**scope, "path": path}) and hosted is not None:
            try:
                watch = await hosted.open()
            except ProjectError as error:
                return await refusal(path, error)(scope, receive, send)
        await watch({**scope, "path": path, "prefix": f"/p/{name}"}, receive, send)
        return None

    async def _is_opened_by(self, hosted: HostedProject | None, scope: Scope) -> bool:
        """Whether a request opens a project, or reaches one that is open.

        A stranger's request opens nothing. A project that does not exist takes as long as one that
        does, so that the time does not tell which names there are.
        """
        if hosted is not None and hosted.watch is not None:
            return True
        asked = hosted or next(iter(self.projects.values()), None)
        is_admitted = asked is not None and await asked.admits(scope)
        return is_admitted and hosted is not None

    async def _health(self, path: str) -> Response:
        """Healthy while it answers; ready while every open project can store a label."""
        if path == "/readyz":
            for hosted in self.projects.values():
                if hosted.watch is not None and not await hosted.watch.is_ready():
                    return PlainTextResponse("unavailable\n", 503, ALWAYS)
        return PlainTextResponse("ok\n", 200, ALWAYS)

    def _list_app(self) -> FastAPI:
        app = FastAPI(title="parbals", openapi_url=None, docs_url=None, redoc_url=None)
        handle_errors(app)
        add_static(app, index="projects.html")

        @app.get("/api/me")
        async def me(request: Request) -> dict[str, Any]:
            if not visitor_of(request).is_owner:
                raise HTTPException(401, "The link is missing or no longer valid")
            return {"name": None}

        @app.post("/api/leave")
        async def leave(request: Request) -> dict[str, bool]:
            """Sign out of the list: end the session of this browser."""
            await self._door.end_session(visitor_of(request))
            return {"done": True}

        @app.post("/api/projects")
        async def projects(body: ListIn, request: Request) -> dict[str, Any]:
            """Return the projects that this visitor may open."""
            visitor = visitor_of(request)
            hosted = list(self.projects.values())
            has_access = await asyncio.gather(
                *(self._has_access(project, visitor, body, request) for project in hosted)
            )
            rows = [
                await project.row()
                for project, is_open in zip(hosted, has_access, strict=True)
                if is_open
            ]
            if not visitor.is_owner:
                rows = [{**row, "trouble": None} for row in rows]
            return {"owner": visitor.is_owner, "projects": rows}

        @app.post("/api/open")
        async def open_one(body: OpenIn, request: Request) -> Response:
            """Start a session in a project for a visitor with the server's own link."""
            visitor = require_owner(request)
            hosted = self.projects.get(body.name)
            if hosted is None:
                raise HTTPException(404, "There is no such project")
            try:
                await hosted.open()
            except ProjectError as error:
                raise ProjectError(hosted.trouble or str(error)) from None
            host = request.headers["host"].lower()
            key, cookie = await hosted.guard.begin(visitor, self._token, host)
            return JSONResponse({"key": key}, headers={"Set-Cookie": cookie})

        return app

    async def _has_access(
        self, hosted: HostedProject, visitor: Visitor, body: ListIn, request: Request
    ) -> bool:
        """Whether a visitor may open a project: by a session or, behind a proxy, by name."""
        if visitor.is_owner:
            return True
        if visitor.name is None and hosted.name not in body.keys:
            return False
        door = hosted.door
        try:
            if visitor.name is not None:
                return await door.by_name(visitor.name) is not None
            host = request.headers["host"].lower()
            cookie = request.cookies.get(hosted.address.cookie(host), "")
            return await door.by_session(cookie, body.keys[hosted.name], host) is not None
        except ParbalsError:
            return False
