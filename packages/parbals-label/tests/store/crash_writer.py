"""A program that uses a project and can be killed: the tests start it, and read from a pipe what it
was told is stored.

crash_writer.py submit FOLDER ANNOTATOR START STOP     answers items one by one, printing each
number when confirmed crash_writer.py serve FOLDER                           answers what it is told
on stdin, one JSON line each crash_writer.py full FOLDER ROUNDS SUBMITS SEED        works on a disk
that fills up and is cleared again crash_writer.py unprivileged FOLDER                    tries to
write as a user who may only read
"""

import json
import os
import random
import sys
from pathlib import Path

from parbals.errors import ParbalsError, ProjectError
from parbals_label.store.records import Submission
from parbals_label.store.store import Store

CLASSES = ("cat", "dog", 'it\'s "both"')


LABELS = {
    "many-labels": ("[]", '["cat","dog"]', 'cat|it\'s "both"'),
    "regression": ("0.5", "-2.0", "1e21"),
}


def label_of(number, task="classes"):
    # another label whenever 50 items have gone round
    return LABELS.get(task, CLASSES)[(number + 2 * (number // 50)) % 3]


def say(*words):
    print(*words, flush=True)  # noqa: T201


def submit(folder, annotator, start, stop):
    with Store.open(folder) as store:
        say("ready")
        for number in range(int(start), int(stop)):
            label = label_of(number, store.settings.task)
            answer = Submission(number % store.n_items, label, f"{annotator}-{number}")
            store.submit([answer], annotator=annotator, revise=True)
            say(number)


def serve(folder):
    with Store.open(folder) as store:
        say("ready")
        for line in sys.stdin:
            order = json.loads(line)
            try:
                answer = Submission(order["position"], order["label"], order.get("request"))
                result = store.submit([answer], annotator=order["annotator"])
                say("new" if result.new else "repeated")
            except ParbalsError as error:
                say(type(error).__name__)


def full(folder, rounds, submits, seed):
    import resource

    chance = random.Random(int(seed))
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    number = refused = 0
    with Store.open(folder) as store:
        for _ in range(int(rounds)):
            # No file may be written beyond this size: SQLite meets it in its log and when it folds
            # the log in.
            resource.setrlimit(
                resource.RLIMIT_FSIZE, (chance.randrange(20_000, int(submits) * 10_000), hard)
            )
            for _ in range(int(submits)):
                answer = Submission(number % store.n_items, label_of(number), f"a-{number}")
                try:
                    store.submit([answer], annotator="a", revise=True)
                except ProjectError:
                    refused += 1
                    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
                    continue  # the same answer again, now that there is room
                say(number)
                number += 1
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    say("refused", refused)


def unprivileged(folder):
    if os.getuid() == 0:
        os.setuid(65534)
    with Store.open(folder, read_only=True) as store:
        say(json.dumps(store.current_labels()))
    try:
        with Store.open(folder) as store:
            store.submit([Submission(0, CLASSES[0])], annotator="nobody")
    except ProjectError as error:
        say(error)
    try:
        Store.create(Path(folder) / "new", classes=CLASSES, settings={})
    except ProjectError as error:
        say(error)


if __name__ == "__main__":
    {"submit": submit, "serve": serve, "full": full, "unprivileged": unprivileged}[sys.argv[1]](
        *sys.argv[2:]
    )
