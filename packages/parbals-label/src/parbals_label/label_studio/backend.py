"""A model that Label Studio can connect: it predicts tasks, and learns from what is annotated.

Label Studio asks ``/health`` and ``/setup`` when it is connected, ``/predict`` when somebody opens
a task, and tells ``/webhook`` of every annotation. It waits a second or less for most of these, so
they only read and write the project; another thread fits the model. All of them lie behind a
secret word in the address: Label Studio sends no password with its webhooks. What it sends waits at
the same desk as the page's requests do, and events that arrive together share one commit.
"""

import asyncio
import json
import logging
import secrets
import threading
from collections.abc import Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from parbals.errors import InputError, ParbalsError

from parbals_label.label_studio.annotations import Heard, forget_annotations, record_annotations
from parbals_label.label_studio.interface import Interface, read_interface
from parbals_label.label_studio.tasks import Matcher, Predictions, State, project_uid
from parbals_label.server.desk import Desk
from parbals_label.store.store import Store

__all__ = ["make_backend"]

_MOST_BYTES, _MOST_BODIES = 16 << 20, 8
"""Of one request, and requests that are read at a time: only Label Studio knows the word."""
_BODY_SECONDS = 10.0
_log = logging.getLogger("parbals.label_studio")


class _Backend:
    """The project as one thread of the desk sees it."""

    def __init__(self, store: Store, changed: Callable[[], None]) -> None:
        self.store, self._changed = store, changed
        self._matcher = Matcher(store)

    def version(self) -> str:
        """Changes whenever the model does, so that Label Studio asks for predictions again."""
        stored = self.store.settings.predictions
        return "parbals-0" if stored is None else f"parbals-{stored.answers}"

    def setup(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Refused where the interface offers none of the classes."""
        if body.get("schema"):
            self._interface(body["schema"])
        return {"model_version": self.version()}

    def predict(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """A list of predictions for each task: none for one that is not about an item of ours."""
        interface = self._interface(body.get("label_config"))
        tasks = body.get("tasks")
        if not isinstance(tasks, list):
            raise InputError("`tasks` is not a list.")
        predictions, version, results = Predictions(self.store), self.version(), []
        for task in tasks:
            position = self._matcher.position(task) if isinstance(task, Mapping) else None
            found = None if position is None else predictions.of(position, interface)
            results.append([] if found is None else [{**found, "model_version": version}])
        return {"results": results, "model_version": version}

    def webhook(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """What an event changed; those that are about nothing of ours change nothing."""
        project, action = body.get("project"), body.get("action")
        heard = Heard()
        if isinstance(project, Mapping) and action in ("ANNOTATION_CREATED", "ANNOTATION_UPDATED"):
            self._hear(project, body.get("task"), body.get("annotation"), heard)
        elif isinstance(project, Mapping) and action == "ANNOTATIONS_DELETED":
            deleted = body.get("annotations")
            found = deleted if isinstance(deleted, list) else []
            numbers = [one.get("id") for one in found if isinstance(one, Mapping)]
            forget_annotations(self.store, project_uid(project), numbers, heard)
        for note in heard.notes:
            _log.warning("An annotation was left aside", extra={"facts": {"why": note}})
        if heard.changed or action == "START_TRAINING":
            self._changed()
        return {"labels": heard.labels, "revised": heard.revised, "withdrawn": heard.withdrawn}

    def train(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Fit the model again."""
        return self.webhook({"action": "START_TRAINING"})

    def _hear(self, project: Mapping[str, Any], task: Any, annotation: Any, heard: Heard) -> None:
        position = self._matcher.position(task) if isinstance(task, Mapping) else None
        if position is None:
            return
        uid, interface = project_uid(project), self._interface(project.get("label_config"))
        people = State(self.store, uid).people
        record_annotations(
            self.store, interface, uid, position, [annotation], heard, people=people, is_all=False
        )

    def _interface(self, config: Any) -> Interface:
        return read_interface(str(config or ""), self.store.classes, self.store.former_classes)


class _Fitting(threading.Thread):
    """Fits the model whenever it is ``wanted``; what changes meanwhile is fitted afterwards."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self._folder, self.wanted, self._is_ended = folder, threading.Event(), False

    def stop(self) -> None:
        self._is_ended = True
        self.wanted.set()

    def run(self) -> None:
        from parbals_label.project.engine import refresh
        from parbals_label.project.summary import newer_answers

        with Store.open(self._folder) as store:
            while not self._is_ended:
                is_new = store.settings.predictions is None or newer_answers(store)
                if store.n_labelled and is_new:
                    try:
                        refresh(store)
                    except ParbalsError as error:  # the next label brings the next try
                        _log.warning("The model was not fitted: %s", error)
                self.wanted.wait()
                self.wanted.clear()


def make_backend(folder: Path, word: str) -> FastAPI:
    """The application of a project; its routes begin with the secret ``word``."""
    fitting, desk, sizes = _Fitting(folder), Desk(folder), asyncio.Semaphore(_MOST_BODIES)
    seen: dict[int, _Backend] = {}  # by the store of each thread

    @asynccontextmanager
    async def alive(app: FastAPI) -> Any:
        desk.start()
        fitting.start()
        try:
            yield
        finally:
            fitting.stop()
            desk.stop()

    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, lifespan=alive)
    looks = {"health": {"status": "UP"}, "versions": {"versions": []}}
    lines = {"setup": desk.read_slowly, "predict": desk.read_slowly}
    lines |= {"webhook": desk.write, "train": desk.write}

    @app.api_route("/{given}/{name}", methods=["GET", "POST"])
    async def answer(given: str, name: str, request: Request) -> Response:
        if not secrets.compare_digest(given.encode("utf-8", "replace"), word.encode()):
            return JSONResponse({"error": "Use the whole address that the command printed."}, 401)
        if request.method == "GET" and name in looks:
            return JSONResponse(looks[name])
        if request.method == "GET" or name not in lines:
            return JSONResponse({"error": f"There is no {name!r} here."}, 404)

        def act(store: Store) -> dict[str, Any]:
            backend = seen.setdefault(id(store), _Backend(store, fitting.wanted.set))
            found: dict[str, Any] = getattr(backend, name)(body)
            return found

        try:
            async with sizes:
                body = await _body(request)
                return JSONResponse(await lines[name](act))
        except ParbalsError as error:
            _log.warning(
                "A request of Label Studio was refused", extra={"facts": {"why": str(error)}}
            )
            return JSONResponse(
                {"error": str(error)}, 400 if isinstance(error, InputError) else 503
            )

    return app


async def _body(request: Request) -> Mapping[str, Any]:
    """The JSON object of a request."""
    received = bytearray()
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for part in request.stream():
                received += part
                if len(received) > _MOST_BYTES:
                    raise InputError(f"The body has more than {_MOST_BYTES:,} bytes.")
        body = json.loads(bytes(received))
    except (TimeoutError, ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise InputError("The body is not a JSON object.")
    return body
