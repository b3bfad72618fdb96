"""Numbers for Prometheus, in its text form: how the labelling, the server and the worker stand."""

import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from parbals import __version__

from parbals_label.store.store import Store
from parbals_label.web.session import Session

__all__ = ["CONTENT_TYPE", "Requests", "render"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.015, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Requests:
    """How many requests there were, and how long they took; a few microseconds each."""

    def __init__(self) -> None:
        self.codes: Counter[tuple[str, int]] = Counter()
        self.buckets: defaultdict[str, list[int]] = defaultdict(lambda: [0] * (len(_BOUNDS) + 1))
        self.seconds: Counter[str] = Counter()

    def add(self, route: str, status: int, seconds: float) -> None:
        """One request that was answered."""
        self.codes[route, status] += 1
        self.buckets[route][bisect_left(_BOUNDS, seconds)] += 1
        self.seconds[route] += seconds  # type: ignore[assignment]

    def lines(self) -> Iterator[str]:
        """Both metrics."""
        codes = {f'route="{route}",code="{code}"': n for (route, code), n in self.codes.items()}
        yield from _metric("parbals_requests_total", "counter", "Requests answered.", codes)
        name = "parbals_request_seconds"
        yield from _head(name, "histogram", "Seconds from a request's arrival to its answer's end.")
        for route, counts in self.buckets.items():
            total = 0
            for bound, count in zip((*_BOUNDS, "+Inf"), counts, strict=True):
                total += count
                yield f'{name}_bucket{{route="{route}",le="{bound}"}} {total}'
            yield f'{name}_sum{{route="{route}"}} {self.seconds[route]:.6f}'
            yield f'{name}_count{{route="{route}"}} {total}'


async def render(session: Session, requests: Requests) -> str:
    """The whole page; raises what reading the project raises."""
    lines = await session.desk.read_slowly(lambda store: list(_project(store)))
    return "\n".join([*lines, *_worker(session), *requests.lines(), ""])


def _project(store: Store) -> Iterator[str]:
    n_done, n_labelled = store.n_done(), store.n_labelled
    states = {"labelled": n_labelled, "passed": n_done - n_labelled}
    states["unlabelled"] = store.n_items - n_done
    yield from _metric("parbals_items", "gauge", "Items by state.", _by("state", states))
    queue = store.queue_counts()
    waiting = _by("state", {"waiting": queue.free, "out": queue.out})
    yield from _metric("parbals_queue_items", "gauge", "Chosen items, by state.", waiting)
    answers, passes, batches, *_ = store.revision()
    yield from _metric(
        "parbals_answers_total", "counter", "Answers stored, corrections included.", {"": answers}
    )
    yield from _metric("parbals_passes_total", "counter", "Passes stored.", {"": passes})
    yield from _metric("parbals_batches_total", "counter", "Batches chosen.", {"": batches})
    report = store.latest_report()
    if report is not None:
        age = max(0.0, time.time() - datetime.fromisoformat(report.created).timestamp())
        about = "Seconds since the latest report."
        yield from _metric("parbals_report_age_seconds", "gauge", about, {"": round(age, 1)})
        about = "Labels that the latest report knows."
        yield from _metric("parbals_report_labels", "gauge", about, {"": report.n_labels})


def _worker(session: Session) -> Iterator[str]:
    worker = session.supervisor
    about = "Times that the process that chooses items has ended."
    yield from _metric("parbals_worker_restarts_total", "counter", about, {"": worker.ends})
    about = "1 while the process that chooses items runs."
    up = int(worker.process_id is not None)
    yield from _metric("parbals_worker_up", "gauge", about, {"": up})
    about = "Seconds that the latest batch took to choose."
    seconds = round(worker.seconds_to_choose, 3)
    yield from _metric("parbals_choosing_seconds", "gauge", about, {"": seconds})
    version = {f'version="{__version__}"': 1}
    yield from _metric("parbals_info", "gauge", "The server's version.", version)


def _by(label: str, values: Mapping[str, int]) -> dict[str, float]:
    return {f'{label}="{name}"': value for name, value in values.items()}


def _metric(name: str, kind: str, about: str, values: Mapping[str, float]) -> Iterable[str]:
    """``values``: labels as they are written, "" for none → number."""
    yield from _head(name, kind, about)
    for labels, value in values.items():
        yield f"{name}{{{labels}}} {value}" if labels else f"{name} {value}"


def _head(name: str, kind: str, about: str) -> Iterable[str]:
    yield f"# HELP {name} {about}"
    yield f"# TYPE {name} {kind}"
