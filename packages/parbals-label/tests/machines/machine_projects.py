"""Tiny projects, and what every annotator of the tests begins with."""

import csv
import os
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from threading import Event

from message_data import message, truth
from parbals_label.project.create import Roles, create_project

PRELUDE = '''
import json, os, sys, time
from pathlib import Path
COUNT = Path(__file__).with_suffix(".count")
def turn():
    """How often this program was started, this time included."""
    n = int(COUNT.read_text()) + 1 if COUNT.exists() else 1
    COUNT.write_text(str(n))
    return n
def say(item, label="ham", **more):
    print(json.dumps({"id": item["id"], "label": label, **more}), flush=True)
def items():
    return [json.loads(line) for line in sys.stdin]
'''


def make_project(folder, n=12, labelled=0, strategy="random"):
    """``n`` messages in two classes, the first few labelled by import."""
    data = folder.with_suffix(".csv")
    with open(data, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "message", "label"])
        writer.writerows(
            [f"{i:03d}", message(i), truth(i) if i < labelled else ""] for i in range(n)
        )
    create_project(
        folder,
        data,
        Roles(text=("message",), label="label"),
        ["ham", "spam"],
        {"strategy": strategy},
    )
    return folder


@contextmanager
def stopping_after(path):
    """A stop that comes as soon as the file is there."""
    stop = Event()

    def end():
        while not path.exists():
            time.sleep(0.02)
        stop.set()

    thread = threading.Thread(target=end)
    thread.start()
    yield stop
    thread.join()


def alive(number):
    """Whether a process runs; one that has ended and waits for its parent does not."""
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return not Path("/proc/self").exists()
