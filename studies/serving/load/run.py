"""Is a label lost, duplicated or delayed when fifty people label at once over HTTP?

    python studies serving.load --write                  # 50 people × 200 labels
    python studies serving.load --people 10 --labels 20  # smaller; only prints

Everybody takes three items at a time, thinks for a moment (exponential, --think seconds in the
mean) before each label, sends one request in fifty twice, as a browser does after a lost answer,
and asks for the progress now and then, as the page does. So it takes about labels × think seconds:
100 for 50 people with half a second each, who together give 100 labels a second. The time of an
acknowledgement is from the first byte sent to the last byte received; 200 means that the label is
on disk. In the end the project is opened again and every confirmed label is looked up.

Waiting times depend on what else the machine does. Processor time hardly does: what the server and
its worker took for a label, takes and looks at the progress included, is counted as well.
"""

import argparse
import asyncio
import json
import os
import platform
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
from parbals_label.project.features import store_features
from parbals_label.store.store import Store

CLASSES = ["a", "b", "c"]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--people", type=int, default=50)
    parser.add_argument("--labels", type=int, default=200, help="by each of them")
    parser.add_argument("--think", type=float, default=0.5, help="mean seconds before a label")
    parser.add_argument("--write", action="store_true", help="write README.md, record.json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="parbals-annotators-") as folder:
        project = make_project(Path(folder) / "project", 2 * options.people * options.labels)
        results = measure(project, options.people, options.labels, options.think)
        results |= count(project, results.pop("confirmed"))
    numbers = summary(results)
    lines = table(numbers)
    print("\n".join(lines))
    if options.write:
        text = (
            f"# Does the server keep up with {options.people} annotators?\n\n"
            f"{options.people} people × {options.labels} "
            f"labels over HTTP, {options.think:g} s of thought before each, one server and one "
            f"worker on {os.cpu_count()} cores ({platform.machine()}), which the simulated people "
            "share.\nWritten by `python studies serving.load --write`; do not "
            "edit.\n\n"
        )
        page = Path(__file__).with_name("README.md")
        page.write_text(text + "\n".join(lines) + "\n", encoding="utf-8")
        settings = {"people": options.people, "labels": options.labels, "think": options.think}
        data = {"asked": settings, "found": numbers}
        page.with_name("record.json").write_text(json.dumps(data, indent=1) + "\n")
    return 1 if results["lost"] or results["doubled"] or results["wrong"] else 0


def make_project(folder: Path, n_items: int) -> Path:
    """Items with 32 features and three classes."""
    rows = np.random.default_rng(0).standard_normal((n_items, 32)).astype(np.float32)
    settings = {
        "strategy": "parbals-epig",
        "seed": 0,
        "columns": ["text"],
        "encoder": "given",
        "encoded_columns": [],
    }
    with Store.create(folder, classes=CLASSES, settings=settings) as store:
        store.add_items((f"item {n}", {"text": f"the text of item {n}"}) for n in range(n_items))
        store.update_settings(features=store_features(folder, rows))
    return folder


def measure(project: Path, people: int, labels: int, think: float) -> dict:
    """Start the server, let everybody label, stop it."""
    code = "from parbals_label.cli.serve import serve; serve()"
    command = [sys.executable, "-c", code, str(project), "--no-browser", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        link = server.stdout.readline().split()[-1]
        port = int(link.split(":")[2].split("/")[0])
        token = link.split("token=")[1]
        before = np.array(cpu_seconds(server.pid))
        results = asyncio.run(everybody(port, token, people, labels, think))
        results["cpu"] = np.array(cpu_seconds(server.pid)) - before
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(60)
    return results


def cpu_seconds(server: int) -> tuple[float, float, float]:
    """Seconds of processor time: the server's own in programs and in the system, its worker's.

    The worker's are those of all child processes, also of such as have ended; NaN where nobody
    tells.
    """
    if not Path(f"/proc/{server}/stat").exists():
        return float("nan"), float("nan"), float("nan")
    everything = [_times(file) for file in Path("/proc").glob("[0-9]*/stat")]
    user, system, *ended = next(times for process, _, times in everything if process == server)
    running = [sum(times) for _, parent, times in everything if parent == server]
    return user, system, sum(ended) + sum(running)


def _times(file: Path) -> tuple[int, int, list[float]]:
    """A process, its parent, and its seconds: own and ended children's, programs and system."""
    try:
        start, _, numbers = file.read_text().rpartition(")")
    except OSError:  # it has just ended
        return 0, 0, []
    fields = numbers.split()
    seconds = [int(ticks) / os.sysconf("SC_CLK_TCK") for ticks in fields[11:15]]
    return int(start.split()[0]), int(fields[1]), seconds


async def everybody(port: int, token: str, people: int, labels: int, think: float) -> dict:
    """All annotators at once."""
    start = time.perf_counter()
    crowd = [Person(number, port, token, think) for number in range(people)]
    work = asyncio.gather(*(person.work(labels) for person in crowd))
    while not work.done():
        n_confirmed = sum(len(person.confirmed) for person in crowd)
        seconds = time.perf_counter() - start
        print(
            f"\r{n_confirmed:,} of {people * labels:,} labels, {seconds:.0f} s ",
            end="",
            file=sys.stderr,
        )
        await asyncio.wait({work}, timeout=1)
    print(file=sys.stderr)
    await work
    acks = np.concatenate([person.acks for person in crowd])
    return {
        "seconds": time.perf_counter() - start,
        "acks": acks,
        "waits": np.array([person.waited for person in crowd]),
        "confirmed": {
            request: label for person in crowd for request, label in person.confirmed.items()
        },
        "refused": sum(person.refused for person in crowd),
    }


class Person:
    """Somebody at a browser: one connection, three items at a time."""

    def __init__(self, number: int, port: int, token: str, think: float) -> None:
        self.name = f"person {number}"
        self.port = port
        self.token = token
        self.think = think
        self.chance = random.Random(number)
        self.acks: list[float] = []
        self.confirmed: dict[str, tuple[str, int, str]] = {}
        self.refused = 0
        self.waited = 0.0
        self.next_look = time.monotonic() + self.chance.uniform(0, 5)

    async def work(self, labels: int) -> None:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        while len(self.confirmed) < labels:
            request = {"annotator": self.name, "n": min(3, labels - len(self.confirmed))}
            status, reply = await self.call("POST", "/api/take", request)
            if status != 200:
                raise SystemExit(f"{self.name} got no items: {status}, {reply}")
            if not reply["items"]:
                await asyncio.sleep(0.5)
                self.waited += 0.5
            for item in reply["items"]:
                await asyncio.sleep(self.chance.expovariate(1 / self.think))
                await self.label(item["position"])
            if time.monotonic() > self.next_look:
                self.next_look = time.monotonic() + 5
                await self.call("GET", "/api/live", None)
        self.writer.close()

    async def label(self, position: int) -> None:
        label = self.chance.choice(CLASSES)
        request = f"{self.name}/{position}"
        answer = {"position": position, "label": label, "request_id": request}
        for _ in range(2 if self.chance.random() < 0.02 else 1):
            start = time.perf_counter()
            status, _ = await self.call(
                "POST", "/api/answers", {"annotator": self.name, "answers": [answer]}
            )
            self.acks.append(time.perf_counter() - start)
            if status == 200:
                self.confirmed[request] = (self.name, position, label)
            else:
                self.refused += 1

    async def call(self, method: str, path: str, body: dict | None) -> tuple[int, dict]:
        data = b"" if body is None else json.dumps(body).encode()
        kind = (
            f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n"
            if body is not None
            else ""
        )
        headers = f"Host: 127.0.0.1:{self.port}\r\nAuthorization: Bearer {self.token}\r\n"
        head = f"{method} {path} HTTP/1.1\r\n{headers}{kind}\r\n"
        self.writer.write(head.encode() + data)
        start = await self.reader.readuntil(b"\r\n\r\n")
        length = int(start.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        return int(start.split(b" ")[1]), json.loads(await self.reader.readexactly(length))


def count(project: Path, confirmed: dict) -> dict:
    """What the project holds, against what was confirmed."""
    with Store.open(project) as store:
        problems = store.check()
        strategies = Counter()
        for batch in store.batches():
            strategies[batch.strategy] += len(batch.items)
        answers = [
            answer for position in store.current_labels() for answer in store.history(position)
        ]
        n_reports = len(store.reports())
    assert not problems, problems
    stored = Counter(answer.request for answer in answers)
    by_request = {
        answer.request: (answer.annotator, answer.position, answer.label) for answer in answers
    }
    return {
        "labels": len(confirmed),
        "lost": sum(request not in stored for request in confirmed),
        "doubled": sum(n - 1 for n in stored.values())
        + len(answers)
        - len({(a.annotator, a.position) for a in answers}),
        "wrong": sum(
            by_request.get(request, label) != label for request, label in confirmed.items()
        ),
        "strategies": strategies,
        "reports": n_reports,
    }


def summary(results: dict) -> dict:
    """What was found, as numbers."""
    p50, p95, p99 = np.percentile(1000 * results["acks"], [50, 95, 99])
    user, system, worker = 1000 * results["cpu"] / results["labels"]
    counts = {name: results[name] for name in ("labels", "lost", "doubled", "wrong", "refused")}
    return counts | {
        "seconds": round(results["seconds"], 1),
        "ack_ms_p50": round(p50, 1),
        "ack_ms_p95": round(p95, 1),
        "ack_ms_p99": round(p99, 1),
        "server_cpu_ms_per_label": round(user + system, 2),
        "server_cpu_ms_per_label_user": round(user, 2),
        "server_cpu_ms_per_label_system": round(system, 2),
        "worker_cpu_ms_per_label": round(worker, 2),
        "seconds_without_an_item": round(results["waits"].mean(), 1),
        "chosen": dict(results["strategies"].most_common()),
        "reports": results["reports"],
    }


def table(n: dict) -> list[str]:
    """The numbers for people."""
    strategies = ", ".join(f"{count:,} by {name}" for name, count in n["chosen"].items())
    user = n["server_cpu_ms_per_label_user"]
    system = n["server_cpu_ms_per_label_system"]
    rows = [
        ("labels confirmed", f"{n['labels']:,} in {n['seconds']:.0f} s"),
        ("lost", f"{n['lost']}"),
        ("doubled", f"{n['doubled']}"),
        ("stored with another label or name", f"{n['wrong']}"),
        ("requests refused", f"{n['refused']}"),
        ("acknowledged within, median", f"{n['ack_ms_p50']:.0f} ms"),
        ("acknowledged within, 95 %", f"{n['ack_ms_p95']:.0f} ms"),
        ("acknowledged within, 99 %", f"{n['ack_ms_p99']:.0f} ms"),
        (
            "processor time of the server, a label",
            f"{user + system:.1f} ms ({system:.1f} of it in the system)",
        ),
        ("processor time of its worker, a label", f"{n['worker_cpu_ms_per_label']:.1f} ms"),
        ("seconds without an item, mean of the people", f"{n['seconds_without_an_item']:.1f}"),
        ("items chosen meanwhile", strategies),
        ("reports made meanwhile", f"{n['reports']}"),
    ]
    return ["| | |", "| --- | ---: |", *(f"| {name} | {value} |" for name, value in rows)]
