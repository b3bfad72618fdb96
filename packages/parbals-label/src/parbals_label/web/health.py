"""Around the guarded application: requests' ids and times, ``/healthz``, ``/readyz``, ``/metrics``.

``/healthz`` (the project can be read) and ``/readyz`` (a label could be stored now, which is tried)
need no token and say one word. ``/metrics`` is for Prometheus and needs a token of
its own, which opens nothing else: that of the file ``page-metrics-token`` in the project's folder.
None looks at the name that the server is called by: probes call it by addresses, and other
sites' pages, which that check is against, have no token.
"""

import asyncio
import logging
import secrets
import shutil
import time
from collections.abc import Awaitable, Mapping
from datetime import datetime
from typing import Any

from parbals.errors import ParbalsError
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics import disable_created_metrics
from starlette.responses import PlainTextResponse, Response
from starlette.types import Message, Receive, Scope, Send

from parbals_label.server.logs import REQUESTS
from parbals_label.store.records import BACKED_UP
from parbals_label.store.store import Store
from parbals_label.web.session import Session

__all__ = ["ALWAYS", "Watch"]

_log = logging.getLogger("parbals.web")
_PATIENCE = 5.0
_FRESH, _TRIED = 1.0, 2.0
ALWAYS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
_TEXT = "text/plain; version=0.0.4; charset=utf-8"
_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Watch:
    """Pure ASGI middleware around ``app``; ``metrics_token`` opens ``/metrics``.

    Without a session there is no project behind it, and nobody is let in.
    """

    def __init__(self, app: Any, session: Session | None, metrics_token: str) -> None:
        self.app, self._session = app, session
        self._token = f"Bearer {metrics_token}".encode()
        self._healthy_until = self._tried_until = 0.0
        self._is_ready, self._trying = False, asyncio.Lock()
        disable_created_metrics()  # each counter would have a second series with its beginning
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "parbals_requests", "Requests answered.", ("route", "code"), registry=self._registry
        )
        self._seconds = Histogram(
            "parbals_request_seconds",
            "Seconds from a request's arrival to its answer's end.",
            ("route",),
            buckets=_BOUNDS,
            registry=self._registry,
        )

    @property
    def session(self) -> Session:
        assert self._session is not None
        return self._session

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), 0

        async def marked(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            if scope["path"] == "/healthz":
                await (await self._health(scope))(scope, receive, marked)
            elif scope["path"] == "/readyz":
                await (await self.readiness())(scope, receive, marked)
            elif scope["path"] == "/metrics":
                await (await self._metrics(scope))(scope, receive, marked)
            else:
                await self.app(scope, receive, marked)
        finally:
            seconds, route = time.perf_counter() - began, _route(scope)
            self._requests.labels(route, status).inc()
            self._seconds.labels(route).observe(seconds)
            if REQUESTS.isEnabledFor(logging.INFO):
                _log_request(scope, status, seconds)

    async def _health(self, scope: Scope) -> Response:
        """200 while the project can be read; how it goes with the worker is for ``/metrics``."""
        is_well = scope["method"] in ("GET", "HEAD")
        if is_well and time.monotonic() > self._healthy_until:
            asked = self.session.desk.read(lambda store: store.settings_mark())
            is_well = await _comes_off(asked, "The project cannot be read")
            self._healthy_until = time.monotonic() + _FRESH if is_well else 0.0
        word, status = ("ok", 200) if is_well else ("unavailable", 503)
        return PlainTextResponse(f"{word}\n", status, ALWAYS)

    async def readiness(self) -> Response:
        """200 while a label could be stored; tried at most once in two seconds, whoever asks."""
        async with self._trying:
            if time.monotonic() > self._tried_until:
                tried = self.session.desk.write(lambda store: store.probe())
                self._is_ready = await _comes_off(tried, "No label can be stored now")
                self._tried_until = time.monotonic() + _TRIED
        behind = ", journal behind" if self.session.desk.journal_behind else ""
        word, status = (f"ready{behind}", 200) if self._is_ready else ("unavailable", 503)
        return PlainTextResponse(f"{word}\n", status, ALWAYS)

    async def _metrics(self, scope: Scope) -> Response:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        if len(given) != 1 or not secrets.compare_digest(given[0], self._token):
            words = "Send the token of the project's file page-metrics-token as a bearer token.\n"
            return PlainTextResponse(words, 401, {**ALWAYS, "www-authenticate": "Bearer"})
        registry = CollectorRegistry()
        try:
            await self.session.desk.read_slowly(lambda s: _add_project_metrics(s, registry))
        except ParbalsError as error:
            return PlainTextResponse(f"{error}\n", 503, ALWAYS)
        worker = self.session.supervisor
        up, seconds = worker.process_id is not None, round(worker.seconds_to_choose, 3)
        desk, free = self.session.desk, shutil.disk_usage(self.session.folder).free
        _counter(registry, "writes_failed", "Writes that the project did not take.", desk.failed)
        waiting = "Confirmed rows that the journal lacks."
        _gauge(registry, "journal_rows_behind", waiting, desk.journal_behind)
        _gauge(registry, "disk_free_bytes", "Free bytes on the project's disk.", free)
        ended = "Ends of the process that chooses items."
        _counter(registry, "worker_restarts", ended, worker.ends)
        _gauge(registry, "worker_up", "1 while the process that chooses items runs.", up)
        _gauge(registry, "choosing_seconds", "Seconds that the latest batch took.", seconds)
        body = generate_latest(registry) + generate_latest(self._registry)
        return Response(body, headers={**ALWAYS, "content-type": _TEXT})


async def _comes_off(action: Awaitable[object], complaint: str) -> bool:
    """Whether something is done in time; else the log says why not."""
    try:
        await asyncio.wait_for(action, _PATIENCE)
    except (ParbalsError, TimeoutError) as error:
        facts = {"reason": str(error) or "it takes too long"}
        _log.warning(complaint, extra={"facts": facts})
        return False
    return True


def _add_project_metrics(store: Store, registry: CollectorRegistry) -> None:
    """What is counted in the project: other processes change it as well."""
    n_done, n_labelled, queue = store.n_completed(), store.n_labelled, store.queue_counts()
    items = {"labelled": n_labelled, "passed": n_done - n_labelled}
    items["unlabelled"] = store.n_items - n_done
    _gauge(registry, "items", "Items by state.", items)
    chosen = {"waiting": queue.waiting, "out": queue.assigned}
    _gauge(registry, "queue_items", "Chosen items, by state.", chosen)
    answers, passes, batches, *_ = store.revision()
    _counter(registry, "answers", "Answers stored, corrections included.", answers)
    _counter(registry, "passes", "Passes stored.", passes)
    _counter(registry, "batches", "Batches chosen.", batches)
    report, backups = store.latest_report(), store.events(BACKED_UP)
    if backups:
        since = "Seconds since the latest backup."
        _gauge(registry, "backup_age_seconds", since, _age(backups[-1].created))
    if report is not None:
        since = "Seconds since the latest report."
        _gauge(registry, "report_age_seconds", since, _age(report.created))
        _gauge(registry, "report_labels", "Labels that the latest report knows.", report.n_labels)


def _age(created: str) -> float:
    return round(max(0.0, time.time() - datetime.fromisoformat(created).timestamp()), 1)


def _counter(registry: CollectorRegistry, name: str, about: str, count: int) -> None:
    Counter(f"parbals_{name}", about, registry=registry).inc(count)


def _gauge(
    registry: CollectorRegistry, name: str, about: str, value: float | Mapping[str, float]
) -> None:
    """A number, or one for each state."""
    if not isinstance(value, Mapping):
        Gauge(f"parbals_{name}", about, registry=registry).set(value)
        return
    gauge = Gauge(f"parbals_{name}", about, ("state",), registry=registry)
    for state, number in value.items():
        gauge.labels(state).set(number)


def _log_request(scope: Scope, status: int, seconds: float) -> None:
    """Log a request without its query, which may hold a token, and without who sent it."""
    facts = {
        "method": scope["method"],
        "path": f"{scope.get('prefix', '')}{scope['path']}",
        "status": status,
        "ms": round(1000 * seconds, 1),
    }
    REQUESTS.info("request", extra={"facts": facts})


def _route(scope: Scope) -> str:
    """What answered, from a short list: an address that nobody knows must not make a metric."""
    if scope["path"] in ("/healthz", "/readyz", "/metrics"):
        return str(scope["path"][1:])
    return getattr(scope.get("endpoint"), "__name__", "refused")
