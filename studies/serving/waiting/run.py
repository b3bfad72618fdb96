"""Does a person who labels one item a second ever wait for the page?

    python studies serving.waiting --classes 10 --items 2000 --labels 300

The server and its worker run as `parbals serve` runs them. The person does what the page does: they
hold one item and three behind it, answer one a second, and fetch more. It prints one JSON record:
how often nothing was in hand, the longest time a request for items took, who chose the labelled
items, and how old the report was at worst, in labels and in seconds.

With ``--fair`` a second of the person is one of an otherwise idle machine: while the worker wants
to compute, only the processor time that it gets counts. What is then seen does not depend on what
else the machine does (Linux only; elsewhere the clock on the wall is taken).
"""

import argparse
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

SERVE = "from parbals_label.cli.serve import serve; serve()"
N_FEATURES = 64
SPREAD = 0.5
IN_HAND = 4
RETRY = 0.25


def main(arguments: list[str] | None = None) -> int:
    """Make a project, serve it, label, and print the record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--items", type=int, default=2_000)
    parser.add_argument("--labels", type=int, default=300)
    parser.add_argument("--pace", type=float, default=1.0, help="seconds between two labels")
    parser.add_argument("--fair", action="store_true", help="count what the worker gets")
    parser.add_argument("--known", type=int, default=0, help="labels that are there before")
    parser.add_argument(
        "--warm", action="store_true", help="begin when the model has chosen once: it has compiled"
    )
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "project"
        truth = make_project(project, options.items, options.classes, options.known)
        environment = {"PARBALS_CACHE_DIR": str(Path(folder) / "cache")}
        server = subprocess.Popen(
            [sys.executable, "-c", SERVE, str(project), "--no-browser", "--port", "0"],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | environment,
        )
        try:
            assert server.stdout is not None
            link = server.stdout.readline().split()[-1]
            if options.warm:
                wait_for_model(project)
            clock = Clock(server.pid if options.fair else None)
            record = label(link, truth, options.labels, options.pace, clock)
        finally:
            server.send_signal(signal.SIGINT)
            server.communicate()
        record["chosen_by"] = chosen_by(project, options.known)
    print(json.dumps({"classes": options.classes, "items": options.items, **record}))
    return 0


def make_project(folder: Path, n_items: int, n_classes: int, n_known: int) -> list[str]:
    """Clouds of points that overlap; the true class of every item."""
    from parbals_label.project.features import store_features
    from parbals_label.store.records import Submission
    from parbals_label.store.store import Store

    generator = np.random.default_rng(0)
    number = generator.integers(n_classes, size=n_items)
    centres = SPREAD * generator.standard_normal((n_classes, N_FEATURES))
    rows = centres[number] + generator.standard_normal((n_items, N_FEATURES))
    truth = [f"class {n}" for n in number]
    settings = {"columns": ["text"], "encoder": "words", "encoded_columns": ["text"]}
    settings |= {"prior_scale": "auto", "loss": "error"}
    names = [f"class {n}" for n in range(n_classes)]
    with Store.create(folder, classes=names, settings=settings) as store:
        store.add_items((str(n), {"text": f"item number {n}"}) for n in range(n_items))
        store.update_settings(features=store_features(folder, rows.astype(np.float32)))
        labelled = generator.permutation(n_items)[:n_known].tolist()
        if labelled:
            store.submit([Submission(p, truth[p]) for p in labelled], annotator="before")
    return truth


def wait_for_model(folder: Path) -> None:
    """Until a batch of the project's own strategy waits."""
    from parbals_label.store.store import Store

    with Store.open(folder, read_only=True) as store:
        while store.settings.strategy not in store.unopened():
            time.sleep(RETRY)


class Clock:
    """Seconds since it was made; of a ``parent``'s child, the seconds as they would be if idle."""

    def __init__(self, parent: int | None) -> None:
        self.parent = parent if Path("/proc/self/task").exists() else None
        self.passed = 0.0
        self.last = time.monotonic()
        self.used = self._usage()[1]

    def sleep_until(self, moment: float) -> None:
        """Until so many seconds have passed."""
        while self.now() < moment:
            time.sleep(0.05)

    def now(self) -> float:
        """While the child wants to compute, its processor time; otherwise the time on the wall."""
        moment = time.monotonic()
        (is_busy, used) = self._usage()
        slice_ = moment - self.last
        cpu_seconds = min(slice_, max(0.0, used - self.used)) if is_busy else slice_
        self.passed = self.passed + cpu_seconds
        self.last = moment
        self.used = used
        return self.passed

    def _usage(self) -> tuple[bool, float]:
        if self.parent is None:
            return False, 0.0
        is_busy = False
        ticks = 0
        for process in Path("/proc").glob("[0-9]*"):
            if _fields(process / "stat")[1] == str(self.parent):
                for thread in map(_fields, (process / "task").glob("*/stat")):
                    is_busy = is_busy or thread[0] == "R"
                    ticks += int(thread[11]) + int(thread[12])
        return is_busy, ticks / os.sysconf("SC_CLK_TCK")


def _fields(file: Path) -> list[str]:
    """State, parent, ... of a process or thread; one that has just ended has none."""
    try:
        return file.read_text().rpartition(")")[2].split()
    except OSError:
        return ["Z"] + ["0"] * 20


def label(link: str, truth: list[str], n_labels: int, pace: float, clock: Clock) -> dict[str, Any]:
    """Answer ``n_labels`` items, one every ``pace`` seconds; what was seen meanwhile."""
    client = Client(link)
    hand: list[int] = []
    times: list[float] = []
    n_empty = 0
    slowest = 0.0
    oldest = 0.0
    n_newer = 0
    n_before = None
    answered: set[int] = set()
    begin = clock.now()
    while len(times) < n_labels:
        requested_at = time.monotonic()
        reply = client.post("/api/take", {"annotator": "ann", "n": IN_HAND})
        slowest = max(slowest, time.monotonic() - requested_at)
        hand = [i["position"] for i in reply["items"] if i["position"] not in answered]
        if not hand:
            n_empty += 1
            time.sleep(RETRY)
            continue
        clock.sleep_until(begin + len(times) * pace)
        position = hand.pop(0)
        answer = {"position": position, "label": truth[position], "request_id": f"r{position}"}
        client.post("/api/answers", {"annotator": "ann", "answers": [answer]})
        answered.add(position)
        times.append(clock.now())
        live = client.get("/api/live")
        n_before = live["labelled"] - len(times) if n_before is None else n_before
        in_report = max(0, (live["report"] or {"n_labels": 0})["n_labels"] - n_before)
        if in_report < len(times):
            n_newer = max(n_newer, len(times) - in_report)
            oldest = max(oldest, times[-1] - times[in_report])
    return {
        "labels": n_labels,
        "seconds": round(clock.now() - begin, 1),
        "empty": n_empty,
        "slowest_request": round(slowest, 3),
        "report_behind_labels": n_newer,
        "report_behind_seconds": round(oldest, 1),
    }


def chosen_by(folder: Path, n_known: int) -> dict[str, int]:
    """How many labelled items each strategy chose."""
    from parbals_label.store.store import Store

    with Store.open(folder, read_only=True) as store:
        counts = {str(name): n for name, n in store.chosen_by().items() if name is not None}
        assert sum(counts.values()) + n_known == store.n_labelled
        return counts


class Client:
    """Talks to the server as the page does."""

    def __init__(self, link: str) -> None:
        address, self.token = link.split("/?token=")
        self.connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=300)

    def get(self, path: str) -> Any:
        return self._call("GET", path, None)

    def post(self, path: str, body: dict[str, Any]) -> Any:
        return self._call("POST", path, json.dumps(body))

    def _call(self, method: str, path: str, body: str | None) -> Any:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        try:
            self.connection.request(method, path, body, headers)
            response = self.connection.getresponse()
        except (ConnectionError, http.client.HTTPException):  # closed, after a long pause
            self.connection.close()
            self.connection.request(method, path, body, headers)
            response = self.connection.getresponse()
        answer = json.loads(response.read())
        if response.status != 200:
            raise SystemExit(f"{path}: {answer}")
        return answer
