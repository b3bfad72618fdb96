"""A model that Label Studio can connect: it predicts tasks, and learns from what is annotated.

Label Studio asks ``/health`` and ``/setup`` when it is connected, ``/predict`` when somebody opens
a task, and tells ``/webhook`` of every annotation. It waits a second or less for most of these, so
they only read and write the project; another thread fits the model. All of them lie behind a
secret word in the address: Label Studio sends no password with its webhooks.
"""

import asyncio
import json
import logging
import secrets
import threading
from collections.abc import Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from parbals.errors import InputError, ParbalsError

from parbals_label.label_studio.annotations import (
    Heard,
    forget_annotations,
    record_annotations,
)
from parbals_label.label_studio.interface import Interface, read_interface
from parbals_label.label_studio.state import State
from parbals_label.label_studio.tasks import Matcher, Predictions, project_uid
from parbals_label.store.store import Store

__all__ = ["make_backend"]

_MOST_BYTES = 64 << 20
_log = logging.getLogger(__name__)


class _Backend:
    """The project as the server's one thread sees it."""

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
            numbers = [
                annotation.get("id")
                for annotation in body.get("annotations") or ()
                if isinstance(annotation, Mapping)
            ]
            forget_annotations(self.store, project_uid(project), numbers, heard)
        for note in heard.notes:
            _log.warning(note)
        if heard.changed or action == "START_TRAINING":
            self._changed()
        return {"labels": heard.labels, "revised": heard.revised, "withdrawn": heard.withdrawn}

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


class _Fitting:
    """Fits the model in a thread of its own; what changes meanwhile is fitted afterwards, once."""

    def __init__(self, open_store: Callable[[], Store]) -> None:
        self._open, self._wanted, self._ended = open_store, threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def ask(self) -> None:
        self._wanted.set()

    def stop(self) -> None:
        self._ended.set()
        self._wanted.set()

    def _work(self) -> None:
        from parbals_label.project.engine import refresh
        from parbals_label.project.summary import newer_answers

        with self._open() as store:
            while True:
                is_new = store.settings.predictions is None or newer_answers(store)
                if store.n_labelled and is_new and not self._ended.is_set():
                    try:
                        refresh(store)
                    except ParbalsError as error:  # the next label brings the next try
                        _log.warning("The model was not fitted: %s", error)
                self._wanted.wait()
                self._wanted.clear()
                if self._ended.is_set():
                    return


def make_backend(open_store: Callable[[], Store], word: str) -> FastAPI:
    """The application; its routes begin with the secret ``word``.

    ``open_store`` is called in the thread that uses what it opens.
    """
    fitting = _Fitting(open_store)
    kept: list[_Backend] = []

    @asynccontextmanager
    async def alive(app: FastAPI) -> Any:
        with open_store() as store:
            kept.append(_Backend(store, fitting.ask))
            fitting.start()
            try:
                yield
            finally:
                fitting.stop()

    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, lifespan=alive)
    routes: dict[str, Callable[[_Backend, Mapping[str, Any]], dict[str, Any]]] = {
        "setup": _Backend.setup,
        "predict": _Backend.predict,
        "webhook": _Backend.webhook,
        "train": lambda backend, _: backend.webhook({"action": "START_TRAINING"}),
    }

    @app.get("/{given}/health")
    async def health(given: str) -> Response:
        return _refused() if not _same(given, word) else JSONResponse({"status": "UP"})

    @app.get("/{given}/versions")
    async def versions(given: str) -> Response:
        return _refused() if not _same(given, word) else JSONResponse({"versions": []})

    # Not `def`, which would run in threads: the store belongs to the one that opened it.
    @app.post("/{given}/{name}")
    async def post(given: str, name: str, request: Request) -> Response:
        if not _same(given, word):
            return _refused()
        if name not in routes:
            return JSONResponse({"error": f"There is no {name!r} here."}, 404)
        try:
            return JSONResponse(routes[name](kept[0], await _body(request)))
        except ParbalsError as error:
            _log.warning("%s: %s", name, error)
            return JSONResponse({"error": str(error)}, 400)

    return app


def _same(given: str, word: str) -> bool:
    return secrets.compare_digest(given.encode("utf-8", "replace"), word.encode())


def _refused() -> Response:
    return JSONResponse({"error": "Use the whole address that the command printed."}, 401)


async def _body(request: Request) -> Mapping[str, Any]:
    """The JSON object of a request."""
    parts, size = [], 0
    with suppress(asyncio.TimeoutError):
        async with asyncio.timeout(10.0):
            async for part in request.stream():
                size += len(part)
                if size > _MOST_BYTES:
                    raise InputError(f"The body has more than {_MOST_BYTES:,} bytes.")
                parts.append(part)
    try:
        body = json.loads(b"".join(parts))
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise InputError("The body is not a JSON object.")
    return body
