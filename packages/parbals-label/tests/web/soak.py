"""Twenty people label for a while, and everything that can happen to a server happens to theirs.

    python tests/web/soak.py --minutes 30

People take items, label, correct, pass and take back over HTTP; what gets no answer they send again
with the same request id, and now and then they send something old once more. Meanwhile the server
and its worker are killed (-9), the clock jumps hours to and fro, and the disk is full for a moment.
At the end what was confirmed is compared with what is stored: lost, doubled and wrong labels are
counted, and any is exit code 1.
"""

import argparse
import http.client
import json
import os
import random
import resource
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from page_server import CLASSES, Server, make_project, workers_of
from parbals_label.store.store import Store

CLOCK = Path(__file__).with_name("soak_clock")
FAULTS = ("server killed", "worker killed", "clock jumped", "disk full")
NO_LIMIT = resource.RLIM_INFINITY


@dataclass
class Person:
    """Somebody with a memory: which label each item has by them, by which confirmed requests."""

    name: str
    chance: random.Random
    labels: dict = field(default_factory=dict)
    confirmed: dict = field(default_factory=dict)
    said: Counter = field(default_factory=Counter)
    number: int = 0

    def request(self):
        self.number += 1
        return f"{self.name}-{self.number}"


class Soak:
    """The project, its server and what is done to both."""

    def __init__(self, folder, *, people, items, seed, pause):
        self.folder = make_project(
            folder, n_items=items, queued=min(20, items), answers_wanted=people
        )
        self.clock = Path(folder).with_name("clock")
        self.pause = pause
        self.chance = random.Random(seed)
        self.people = [Person(f"p{n}", random.Random(f"{seed}-{n}")) for n in range(people)]
        self.faults = Counter()
        self.over = threading.Event()
        self.items = items
        self.strange: list[str] = []
        self.jump(0)
        self.server = self.start()

    def start(self, port=0):
        os.environ["PARBALS_SOAK_CLOCK"] = str(self.clock)
        os.environ["PYTHONPATH"] = os.pathsep.join(
            [str(CLOCK), *filter(None, [os.environ.get("PYTHONPATH")])]
        )
        try:
            return Server(self.folder, port=port)
        finally:
            os.environ["PYTHONPATH"] = os.environ["PYTHONPATH"].partition(os.pathsep)[2]

    def jump(self, seconds):
        draft = self.clock.with_suffix(".new")
        draft.write_text(str(seconds), "ascii")
        draft.replace(self.clock)

    def ask(self, path, body):
        """The answer to a request that is sent until there is one; None when it is over."""
        while True:
            try:
                answer = self.server.post(path, body)
                if answer.status not in (429, 503):
                    return answer
            except (OSError, http.client.HTTPException):
                pass  # no answer: it may be stored or not, so the same again
            if self.over.wait(0.2):
                return None

    def live(self, person):
        """One person's work, until it is over."""
        mine = []
        while not self.over.is_set():
            if not mine:
                answer = self.ask("/api/take", {"annotator": person.name, "n": 3})
                if answer is None:
                    return
                mine = [item["position"] for item in answer.json.get("items", [])]
                mine = mine or [person.chance.randrange(self.items)]
            self.act(person, mine.pop())
            self.over.wait(self.pause * 2 * person.chance.random())

    def act(self, person, position):
        """Label, correct, take back, pass, or repeat something old."""
        dice = person.chance.random()
        label = person.chance.choice(CLASSES)
        if dice < 0.05 and person.confirmed:
            path, body, _ = person.chance.choice(list(person.confirmed.values()))
            self.tell(person, path, body, "repeated")
            return
        if dice > 0.7 and person.labels:  # back to something that was done before
            position = person.chance.choice(list(person.labels))
        head = {"annotator": person.name, "position": position}
        if dice < 0.1:
            body = head | {"kind": "skip", "request_id": person.request()}
            self.tell(person, "/api/passes", body, "passed")
            return
        if dice > 0.9 and person.labels.get(position):
            body = head | {"request_id": person.request()}
            if self.tell(person, "/api/undo", body, "taken back"):
                person.labels[position] = None
            return
        one = {"position": position, "label": label, "request_id": person.request()}
        if position in person.labels:
            one["revise"] = True
        body = {"annotator": person.name, "answers": [one]}
        is_new = person.labels.get(position) != label  # else nothing is stored, and that is right
        if self.tell(person, "/api/answers", body, "labelled", is_new):
            person.labels[position] = label

    def tell(self, person, path, body, what, is_new=True):
        answer = self.ask(path, body)
        if answer is None:  # cut off by the end: stored or not, nobody was told
            first = body.get("answers", [body])[0]
            person.labels.pop(first["position"], None)
            person.said["unanswered"] += 1
            return False
        if answer.status == 200:
            person.said[what] += 1
            first = body.get("answers", [body])[0]
            person.confirmed.setdefault(first["request_id"], (path, body, is_new))
            return True
        person.said[f"refused {answer.status}"] += 1
        if answer.status >= 500:
            self.strange.append(f"{path}: {answer.status} {answer.body[:200]!r}")
        return False

    def break_something(self, kind):
        """One fault, and its end."""
        self.faults[kind] += 1
        if kind == "server killed":
            port = self.server.port
            self.server.kill()
            self.server = self.start(port)
        elif kind == "worker killed":
            for process in workers_of(self.server):
                os.kill(process, signal.SIGKILL)
        elif kind == "clock jumped":
            self.jump(self.chance.choice([-86400, -3600, -1, 0, 60, 3600, 7 * 86400]))
        else:
            process = self.server.process.pid
            resource.prlimit(process, resource.RLIMIT_FSIZE, (20_000, NO_LIMIT))
            time.sleep(1.0 + self.chance.random())
            resource.prlimit(process, resource.RLIMIT_FSIZE, (NO_LIMIT, NO_LIMIT))

    def run(self, seconds, between):
        """People work and things break, for so long; what there is to say afterwards."""
        end = time.monotonic() + seconds
        threads = [threading.Thread(target=self.live, args=(p,)) for p in self.people]
        for thread in threads:
            thread.start()
        kinds = list(FAULTS)
        try:
            while time.monotonic() < end:
                time.sleep(min(between, max(0.0, end - time.monotonic())))
                self.break_something(kinds[sum(self.faults.values()) % len(kinds)])
        finally:
            self.over.set()
            for thread in threads:
                thread.join()
            code, _, errors = self.server.stop()
        if code or "Traceback" in errors:
            self.strange.append(f"the server ended with code {code}: {errors[-500:]}")
        return self.count()

    def count(self):
        """What was confirmed against what is stored."""
        with Store.open(self.folder) as store:
            problems = store.check()
            stored = Counter(
                answer.request for n in range(store.n_items) for answer in store.history(n)
            )
            stored_labels = store.current_labels()
            answers = store.revision()[0]
        asked = {request for p in self.people for request in p.confirmed}
        by_answer = {
            request
            for person in self.people
            for request, (path, _, is_new) in person.confirmed.items()
            if path != "/api/passes" and is_new
        }
        wrong = [
            (person.name, position, label, stored_labels.get(position, {}).get(person.name))
            for person in self.people
            for position, label in person.labels.items()
            if stored_labels.get(position, {}).get(person.name) != label
        ]
        said = sum((person.said for person in self.people), Counter())
        return {
            "confirmed": len(asked),
            "answers_stored": answers,
            "lost": len(by_answer - stored.keys()),
            "doubled": sum(n - 1 for request, n in stored.items() if request and n > 1),
            "wrong": len(wrong),
            "problems": problems + self.strange + [str(one) for one in wrong[:5]],
            "faults": dict(self.faults),
            "said": dict(said),
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--people", type=int, default=20)
    parser.add_argument("--items", type=int, default=2000)
    parser.add_argument("--between", type=float, default=15.0, help="seconds between faults")
    parser.add_argument("--pause", type=float, default=1.0, help="a person's mean pause in seconds")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(
            Path(folder) / "p",
            people=given.people,
            items=given.items,
            seed=given.seed,
            pause=given.pause,
        )
        result = soak.run(60 * given.minutes, given.between)
    print(json.dumps(result, indent=2))  # noqa: T201
    bad = result["lost"] + result["doubled"] + result["wrong"]
    print(f"{result['lost']} lost, {result['doubled']} doubled, {result['wrong']} wrong labels")  # noqa: T201
    sys.exit(1 if bad or result["problems"] else 0)


if __name__ == "__main__":
    main()
