"""Real projects, and the real server as a process that can be killed and started again."""

import csv
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from message_data import message, truth
from parbals_label.project.create import Roles, create_project
from parbals_label.store.store import Store

SCRIPT = "<script>window.hacked = true</script><img src=x onerror='window.hacked = true'>"
LONG = "It was a long story. " * 400
MANY = [
    f"{kind} {number}"
    for kind in ("Birds", "Fishes", "Mammals", "Reptiles")
    for number in (1, 2, 3)
]
SERVE = "from parbals_label.cli.serve import serve; serve()"
WITHOUT_WORKER = (
    "from parbals_label.web.supervisor import Supervisor as s;s.start = s.stop = lambda self: None;"
)
"""Before ``SERVE``: where enough items wait, nobody needs the process that chooses more."""
_SETTINGS = {"strategy": "parbals-epig", "seed": 0}


def text_project(
    folder, n=60, classes=("ham", "spam"), queued=range(20, 60), texts=None, task="classes"
):
    """Made-up messages; those at ``queued`` wait on the page, so that no test waits for a model."""
    data = folder.with_suffix(".csv")
    rows = {number: message(number) for number in range(n)} | dict(texts or {})
    with open(data, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "message"])
        writer.writerows([f"m{number:02d}", rows[number]] for number in range(n))
    settings = {**_SETTINGS, "task": task}
    names = None if classes is None else list(classes)
    create_project(folder, data, Roles(text=("message",), id="id"), names, settings)
    queue_up(folder, queued)
    return folder


def queue_up(folder, positions):
    with Store.open(folder) as store:
        store.record_batch(
            "random", 0, [(position, None, None) for position in positions], {}, queued=True
        )


def label_some(folder, positions, people=("Grace",), wrong=()):
    """Labels of earlier days; all people but the first give ``wrong`` positions the other label."""
    from parbals_label.store.records import Submission

    with Store.open(folder) as store:
        for person in people:
            flip = {True: "ham", False: "spam"}
            answers = [
                Submission(
                    p, flip[truth(p) == "spam"] if p in wrong and person != people[0] else truth(p)
                )
                for p in positions
            ]
            store.submit(answers, annotator=person)


def image_project(folder, n=12, names=None):
    """A folder of drawn circles and squares; ``names=""`` numbers them."""
    from PIL import Image, ImageDraw

    pictures = folder.with_name(f"{folder.name}-pictures")
    pictures.mkdir()
    generator = random.Random(0)
    for number in range(n):
        picture = Image.new("RGB", (640, 420), (236, 232, 224))
        x = generator.randint(150, 480)
        y = generator.randint(120, 300)
        size = generator.randint(50, 100)
        draw = ImageDraw.Draw(picture)
        (draw.ellipse if number % 2 else draw.rectangle)(
            [x - size, y - size, x + size, y + size], fill=(20, 110, 140)
        )
        picture.save(pictures / f"{number:02d}.png")
    create_project(folder, pictures, Roles(id=names), ["circle", "square"], _SETTINGS)
    queue_up(folder, range(n))
    return folder


def table_project(folder, n=20):
    """Rows of numbers and words."""
    data = folder.with_suffix(".csv")
    with open(data, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["rooms", "area", "city", "note"])
        writer.writerows(
            [1 + i % 5, 30 + 7 * i, ("Łódź", "Oslo")[i % 2], "" if i % 3 else "near the park"]
            for i in range(n)
        )
    create_project(
        folder, data, Roles(features=("rooms", "area")), ["cheap", "fair", "dear"], _SETTINGS
    )
    queue_up(folder, range(n))
    return folder


def wide_project(folder, n=12):
    """Rows of many columns with long names."""
    data = folder.with_suffix(".csv")
    names = [f"How satisfied they were with part {c} of it" for c in range(12)]
    with open(data, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["Type of customer", *names])
        writer.writerows(
            ["A loyal customer", *((i * c) % 5 + 0.5 for c in range(12))] for i in range(n)
        )
    create_project(folder, data, Roles(features=tuple(names)), ["happy", "not"], _SETTINGS)
    queue_up(folder, range(n))
    return folder


def mail_project(folder, n=12):
    """Two columns of text and one of numbers, all shown together."""
    data = folder.with_suffix(".csv")
    with open(data, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["subject", "body", "size"])
        writer.writerows([f"About {i}", message(i), 100 + i] for i in range(n))
    create_project(folder, data, Roles(text=("subject", "body")), ["keep", "drop"], _SETTINGS)
    queue_up(folder, range(n))
    return folder


class Served:
    """The page of a project; ``kill`` is kill -9."""

    def __init__(self, folder: Path, port: int | None = None, *, worker: bool = True) -> None:
        self.folder = folder
        self.program = SERVE if worker else WITHOUT_WORKER + SERVE
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = port or probe.getsockname()[1]
        self.start()

    def start(self):
        """Start the server and wait until it has printed its link."""
        self.log = self.folder.with_name(f"{self.folder.name}-server.log")
        options = ["--no-browser", "--port", str(self.port)]
        command = [sys.executable, "-c", self.program, str(self.folder), *options]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                command,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        for _ in range(3000):
            match = re.search(r"http://\S+", self.log.read_text("utf-8"))
            if match:
                self.link = match[0]
                return self
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        raise AssertionError(f"the server did not start: {self.log.read_text('utf-8')}")

    def kill(self):
        """kill -9 for the server and its worker, as a power cut would."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self):
        if self.process.poll() is None:
            self.kill()

    def address(self, page="label"):
        return f"http://127.0.0.1:{self.port}/#{page}"

    def answers(self, annotator):
        """Every answer of a person that is on disk, oldest first."""
        with Store.open(self.folder, read_only=True) as store:
            answers = [
                answer for position in range(store.n_items) for answer in store.history(position)
            ]
        return sorted(
            (answer for answer in answers if answer.annotator == annotator),
            key=lambda answer: answer.answer,
        )

    def labels(self, annotator):
        """Id → the label this person holds now."""
        last = {answer.item_id: answer.label for answer in self.answers(annotator)}
        return {name: label for name, label in last.items() if label is not None}

    def passes(self, annotator):
        """Id → the kind of this person's pass."""
        with Store.open(self.folder, read_only=True) as store:
            passed = {
                position: kinds[annotator]
                for position, kinds in store.passes().items()
                if annotator in kinds
            }
            return {item.id: passed[item.position] for item in store.items(list(passed))}
