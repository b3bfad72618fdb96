"""`parbals label --llm` killed while requests are on their way, and with a clock that jumps."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing

import pytest
from chat_server import KEY, chat_server, item_of
from dose import full_count
from message_data import message, truth
from parbals_label.project.create import Roles, create_project
from parbals_label.store.replies import REPLIES_NAME, usage_of
from parbals_label.store.store import Store
from repository import PACKAGES, SOURCES

N_CONNECTIONS = 8
KILLS = pytest.mark.parametrize(
    "kills", [2, pytest.param(full_count(50), marks=pytest.mark.faults, id="full")]
)


def make_project(folder, n_items):
    data = folder.with_suffix(".csv")
    lines = ["id,message", *(f'{i:03d},"{message(i)} {i}"' for i in range(n_items))]
    data.write_text("\n".join(lines), encoding="utf-8")
    roles = Roles(text=("message",))
    create_project(folder, data, roles, ["ham", "spam"], {"strategy": "random"})
    return folder


def start(project, url, *options, **environment):
    """Begin to label a project by the server at an address."""
    words = ["label", str(project), "--llm", url, "--model", "m", "--price", "1,10"]
    return subprocess.Popen(
        [sys.executable, "-m", "parbals", *words, "--no-report", *options],
        env=os.environ
        | {"OPENAI_API_KEY": KEY, "PYTHONPATH": os.pathsep.join(map(str, SOURCES))}
        | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process):
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    return output


def rows_of(project):
    """Each request on the record: its prompt, and whether a reply has come."""
    with closing(sqlite3.connect(project / REPLIES_NAME)) as connection:
        return connection.execute("SELECT prompt, content IS NOT NULL FROM replies").fetchall()


def check_labels(project):
    with Store.open(project) as store:
        assert store.check() == []
        for position, by_annotator in store.current_labels().items():
            assert by_annotator == {"machine:m": truth(position)}
            assert len(store.history(position)) == 1, "no answer is stored twice"
        return store.n_labelled


@KILLS
def test_a_killed_run_forgets_no_payment_and_asks_for_no_reply_twice(kills, tmp_path):
    chance = random.Random(0)
    n_items = 20 + 5 * kills
    project = make_project(tmp_path / "spam", n_items)
    with chat_server(delay=0.1) as server:
        for _ in range(kills):
            goal = len(server.seen) + chance.randint(1, 8)
            process = start(project, server.url)
            while len(server.seen) < goal and process.poll() is None:
                time.sleep(0.005)
            time.sleep(0.15 * chance.random())
            process.send_signal(signal.SIGKILL)
            process.communicate()
            while server.running.now:
                time.sleep(0.01)
            assert len(rows_of(project)) >= len(server.seen), "every request is on the record"
        finish(start(project, server.url))
    assert check_labels(project) == n_items
    rows = rows_of(project)
    replies = Counter(prompt for prompt, has_reply in rows if has_reply)
    assert set(replies.values()) == {1}, "no reply was paid for twice"
    assert len(server.seen) <= n_items + N_CONNECTIONS * kills
    assert len(rows) - len(server.seen) <= N_CONNECTIONS * kills
    asked = Counter(item_of(request) for request in server.seen)
    assert max(asked.values()) <= 1 + kills


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(4, marks=pytest.mark.full),
        pytest.param(full_count(50), marks=pytest.mark.faults, id="full"),
    ],
)
def test_kills_do_not_lift_a_budget(kills, tmp_path):
    """What was on its way counts at the most that it can cost."""
    chance = random.Random(1)
    project = make_project(tmp_path / "spam", 30)
    budget = 0.05
    with chat_server(delay=0.1) as server:
        for _ in range(kills):
            goal = len(server.seen) + chance.randint(1, 4)
            process = start(project, server.url, "--max-cost", f"{budget:.2f}")
            while len(server.seen) < goal and process.poll() is None:
                time.sleep(0.005)
            process.send_signal(signal.SIGKILL)
            process.communicate()
        finish(start(project, server.url, "--max-cost", f"{budget:.2f}"))
    (usage,) = usage_of(project)
    assert usage.cost <= budget
    assert len(server.seen) * 280e-6 <= usage.cost
    check_labels(project)


@pytest.mark.parametrize(
    "seconds",
    [10 * 365 * 86_400, *(pytest.param(hour, marks=pytest.mark.full) for hour in (3_600, -3_600))],
)
def test_a_clock_that_jumps_loses_and_doubles_nothing(seconds, tmp_path):
    project = make_project(tmp_path / "spam", 24)
    clock = tmp_path / "clock"
    clock.write_text("0", encoding="ascii")
    folders = [PACKAGES["parbals-label"] / "tests" / "web" / "soak_clock", *SOURCES]
    environment = {
        "PARBALS_SOAK_CLOCK": str(clock),
        "PYTHONPATH": os.pathsep.join(map(str, folders)),
    }

    def jump(request, number):
        if number == 5:
            clock.write_text(str(seconds), encoding="ascii")

    with chat_server(jump, delay=0.05) as server:
        finish(start(project, server.url, "--budget", "10", **environment))
        finish(start(project, server.url, **environment))
    assert check_labels(project) == 24
    assert len(server.seen) == usage_of(project)[0].n_requests == 24
