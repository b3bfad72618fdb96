"""Health checks and metrics: ``/healthz``, ``/readyz``, ``/metrics``, and the log of requests.

``/healthz`` checks that the project can be read, ``/readyz`` that a label could be stored. They
need no token and answer in one word. ``/metrics`` is for Prometheus and needs a token that gives
access to nothing else, from the file ``page-metrics-token`` of the project's folder. None of them
checks the Host header, because probes use IP addresses, and pages of other sites have no token.
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

__all__ = ["ALWAYS", "Watch", "has_metrics_token"]

_log = logging.getLogger("parbals.web")
_TIMEOUT_SECONDS = 5.0
_HEALTHY_SECONDS = 1.0
"""How long a successful health check is valid."""
_READY_SECONDS = 2.0
"""How long a readiness check is valid."""
_SILENT_SECONDS = 60.0
"""After so long without a sign of life the worker is reported; it is ended later."""
ALWAYS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Watch:
    """ASGI middleware around ``app``; ``metrics_token`` gives access to ``/metrics``.

    ``session`` is None for a project that does not exist.
    """

    def __init__(self, app: Any, session: Session | None, metrics_token: str) -> None:
        self.app = app
        self._session = session
        self._token = metrics_token
        self._healthy_until = 0.0
        self._checked_until = 0.0
        self._is_ready = False
        self._check_lock = asyncio.Lock()
        disable_created_metrics()  # otherwise each counter has a second series
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "parbals_requests", "Requests answered.", ("route", "code"), registry=self._registry
        )
        self._seconds = Histogram(
            "parbals_request_seconds",
            "Seconds from a request's arrival to its answer's end.",
            ("route",),
            buckets=_BUCKETS,
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
        started_at = time.perf_counter()
        status = 0

        async def send_and_record(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            if scope["path"] == "/healthz":
                await (await self._health(scope))(scope, receive, send_and_record)
            elif scope["path"] == "/readyz":
                await (await self.readiness())(scope, receive, send_and_record)
            elif scope["path"] == "/metrics":
                await (await self._metrics(scope))(scope, receive, send_and_record)
            else:
                await self.app(scope, receive, send_and_record)
        finally:
            seconds = time.perf_counter() - started_at
            route = _route(scope)
            self._requests.labels(route, status).inc()
            self._seconds.labels(route).observe(seconds)
            if REQUESTS.isEnabledFor(logging.INFO):
                _log_request(scope, status, seconds)

    async def _health(self, scope: Scope) -> Response:
        """Return 200 while the project can be read; the worker's state is in ``/metrics``."""
        is_healthy = scope["method"] in ("GET", "HEAD")
        if is_healthy and time.monotonic() > self._healthy_until:
            check = self.session.desk.read(lambda store: store.settings_mark())
            is_healthy = await _succeeds(check, "The project cannot be read")
            self._healthy_until = time.monotonic() + _HEALTHY_SECONDS if is_healthy else 0.0
        if not is_healthy:
            return PlainTextResponse("unavailable\n", 503, ALWAYS)
        return PlainTextResponse("ok\n", 200, ALWAYS)

    async def is_ready(self) -> bool:
        """Whether a label could be stored; checked at most once in two seconds."""
        async with self._check_lock:
            if time.monotonic() > self._checked_until:
                check = self.session.desk.write(lambda store: store.probe())
                self._is_ready = await _succeeds(check, "No label can be stored now")
                self._checked_until = time.monotonic() + _READY_SECONDS
        return self._is_ready

    async def readiness(self) -> Response:
        """Return 200 while a label could be stored; the answer names what else does not work.

        Labels are stored without the worker, too.
        """
        if not await self.is_ready():
            return PlainTextResponse("unavailable\n", 503, ALWAYS)
        words = ["ready"]
        if self.session.desk.journal_behind:
            words.append("journal behind")
        worker = self.session.supervisor
        if worker.state == "failed":
            words.append("worker failed")
        elif worker.silent_seconds > _SILENT_SECONDS:
            words.append("worker silent")
        return PlainTextResponse(f"{', '.join(words)}\n", 200, ALWAYS)

    def _add_server_metrics(self, registry: CollectorRegistry) -> None:
        """Add metrics of the disk, the writing thread and the worker."""
        desk = self.session.desk
        worker = self.session.supervisor
        n_free_bytes = shutil.disk_usage(self.session.folder).free
        is_up = worker.process_id is not None
        seconds = round(worker.seconds_to_choose, 3)
        _counter(registry, "writes_failed", "Writes that failed.", desk.failed)
        help_text = "Stored rows that the journal lacks."
        _gauge(registry, "journal_rows_behind", help_text, desk.journal_behind)
        _gauge(registry, "disk_free_bytes", "Free bytes on the project's disk.", n_free_bytes)
        _counter(registry, "worker_restarts", "Crashes of the worker process.", worker.ends)
        _gauge(registry, "worker_up", "1 while the worker process runs.", is_up)
        _gauge(registry, "choosing_seconds", "Seconds that the latest batch took.", seconds)

    async def _metrics(self, scope: Scope) -> Response:
        """Return the metrics for Prometheus."""
        if not has_metrics_token(scope, self._token):
            message = "Send the token of the project's file page-metrics-token as a bearer token.\n"
            return PlainTextResponse(message, 401, {**ALWAYS, "www-authenticate": "Bearer"})
        registry = CollectorRegistry()
        try:
            await self.session.desk.read_slowly(lambda store: _add_project_metrics(store, registry))
        except ParbalsError as error:
            return PlainTextResponse(f"{error}\n", 503, ALWAYS)
        self._add_server_metrics(registry)
        body = generate_latest(registry) + generate_latest(self._registry)
        return Response(body, headers={**ALWAYS, "content-type": _METRICS_TYPE})


def has_metrics_token(scope: Scope, token: str) -> bool:
    """Whether a request carries the token of ``/metrics``, once."""
    values = [value for name, value in scope["headers"] if name == b"authorization"]
    return len(values) == 1 and secrets.compare_digest(values[0], f"Bearer {token}".encode())


async def _succeeds(action: Awaitable[object], warning: str) -> bool:
    """Whether an action succeeds in time; otherwise a warning is logged with the reason."""
    try:
        await asyncio.wait_for(action, _TIMEOUT_SECONDS)
    except (ParbalsError, TimeoutError) as error:
        facts = {"reason": str(error) or "it takes too long"}
        _log.warning(warning, extra={"facts": facts})
        return False
    return True


def _add_project_metrics(store: Store, registry: CollectorRegistry) -> None:
    """Add metrics that are read from the project, because other processes change it as well."""
    n_completed = store.n_completed()
    n_labelled = store.n_labelled
    queue = store.queue_counts()
    items = {
        "labelled": n_labelled,
        "passed": n_completed - n_labelled,
        "unlabelled": store.n_items - n_completed,
    }
    _gauge(registry, "items", "Items by state.", items)
    queued = {"waiting": queue.waiting, "out": queue.assigned}
    _gauge(registry, "queue_items", "Items in the queue, by state.", queued)
    answers, passes, batches, *_ = store.revision()
    _counter(registry, "answers", "Answers stored, corrections included.", answers)
    _counter(registry, "passes", "Passes stored.", passes)
    _counter(registry, "batches", "Batches chosen.", batches)
    backups = store.events(BACKED_UP)
    if backups:
        help_text = "Seconds since the latest backup."
        _gauge(registry, "backup_age_seconds", help_text, _age(backups[-1].created))
    report = store.latest_report()
    if report is not None:
        help_text = "Seconds since the latest report."
        _gauge(registry, "report_age_seconds", help_text, _age(report.created))
        _gauge(registry, "report_labels", "Labels in the latest report.", report.n_labels)


def _age(created: str) -> float:
    """Return the seconds since an ISO time."""
    return round(max(0.0, time.time() - datetime.fromisoformat(created).timestamp()), 1)


def _counter(registry: CollectorRegistry, name: str, help_text: str, count: int) -> None:
    Counter(f"parbals_{name}", help_text, registry=registry).inc(count)


def _gauge(
    registry: CollectorRegistry, name: str, help_text: str, value: float | Mapping[str, float]
) -> None:
    """Add a gauge with one value, or with one for each state."""
    if not isinstance(value, Mapping):
        Gauge(f"parbals_{name}", help_text, registry=registry).set(value)
        return
    gauge = Gauge(f"parbals_{name}", help_text, ("state",), registry=registry)
    for state, count in value.items():
        gauge.labels(state).set(count)


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
    """Return the name of the route; unknown paths share one name, so that metrics stay few."""
    if scope["path"] in ("/healthz", "/readyz", "/metrics"):
        return str(scope["path"][1:])
    return getattr(scope.get("endpoint"), "__name__", "refused")
