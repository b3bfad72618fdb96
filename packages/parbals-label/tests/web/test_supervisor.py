"""The supervisor: a worker that ends is started again, and one that keeps ending is reported."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from parbals_label.web import supervisor as module
from parbals_label.web.supervisor import Supervisor, worker_environment

CHOOSES_AND_DIES = """
import json, sys
say = lambda **words: print(json.dumps(words), flush=True)
say(state="idle")
json.loads(sys.stdin.readline())
say(state="choosing")
say(state="idle", chose=1)
print("chatter", flush=True)
sys.exit("out of memory")
"""
DIES_ONCE_BEFORE_IT_CHOOSES = """
import json, os, sys
say = lambda **words: print(json.dumps(words), flush=True)
say(state="idle")
command = json.loads(sys.stdin.readline())
if not os.path.exists(sys.argv[1]):
    open(sys.argv[1], "w").close()
    sys.exit("out of memory")
say(state="idle", chose=command["choose"])
sys.stdin.read()
"""
NEVER_ENDS = """
import time
print('{"state": "idle"}', flush=True)
time.sleep(1000)
"""
SAYS_THAT_IT_IS_ALIVE = """
import time
print('{"state": "choosing"}', flush=True)
while True:
    print('{"alive": true}', flush=True)
    time.sleep(0.01)
"""


class Clock:
    """Time that passes when a test says so."""

    def __init__(self):
        self.seconds = 0.0

    def monotonic(self):
        return self.seconds


@pytest.fixture
def supervised(tmp_path, monkeypatch):
    """``supervised(program, react)``: a worker of a few lines; ``react`` hears every change."""
    monkeypatch.setattr(module, "_STOP_SECONDS", 0.1)
    running = []

    def start(program, react, *arguments):
        supervisor = Supervisor(tmp_path, lambda: react(supervisor), first_pause=0.01)
        supervisor.command = [sys.executable, "-S", "-c", program, *arguments]
        running.append(supervisor)
        supervisor.start()
        return supervisor

    yield start
    for supervisor in running:
        supervisor.stop()


def test_a_worker_that_chooses_and_then_dies_every_time_has_failed(supervised):
    failed = threading.Event()
    lives = set()

    def react(supervisor):
        lives.add(supervisor.process_id)
        if supervisor.state == "failed":
            failed.set()
        elif supervisor.state == "idle":
            supervisor.ask(1)

    supervisor = supervised(CHOOSES_AND_DIES, react)
    assert failed.wait(300)
    assert supervisor.n_batches >= 3, "each life had chosen something"
    assert len(lives - {None}) >= 3
    assert "has stopped 3 times, last with code 1 (out of memory)" in supervisor.message


def test_what_a_worker_has_not_chosen_is_chosen_by_the_next_one(supervised, tmp_path):
    chosen = threading.Event()
    requested = threading.Event()

    def react(supervisor):
        if supervisor.state == "idle" and not requested.is_set():
            requested.set()
            supervisor.ask(7)
        supervisor.ask(0)  # nothing else is missing
        if supervisor.n_chosen:
            chosen.set()

    supervisor = supervised(DIES_ONCE_BEFORE_IT_CHOOSES, react, str(tmp_path / "died"))
    assert chosen.wait(300)
    assert (supervisor.n_chosen, supervisor.ends) == (7, 1)


def test_a_worker_that_does_not_end_is_ended(supervised):
    idle = threading.Event()
    supervisor = supervised(NEVER_ENDS, lambda supervisor: idle.set())
    assert idle.wait(300)
    process = supervisor._process
    supervisor.stop()
    assert isinstance(process, subprocess.Popen)
    assert process.returncode == -9


def test_a_worker_that_was_stopped_is_ended_and_started_again(supervised, monkeypatch):
    limit = 0.2
    clock = Clock()
    monkeypatch.setattr(module, "_MAX_SILENCE_SECONDS", limit)
    monkeypatch.setattr(module, "time", clock)
    receive = Supervisor._receive
    computed_for_long = threading.Event()
    restarted = threading.Event()
    lives = []

    def receive_and_pass_time(supervisor, line):
        receive(supervisor, line)
        clock.seconds += 0.6 * limit
        if clock.seconds > 10 * limit:
            computed_for_long.set()

    def react(supervisor):
        if supervisor.state == "choosing":
            lives.append(supervisor.process_id)
            if len(lives) == 2:
                restarted.set()

    monkeypatch.setattr(Supervisor, "_receive", receive_and_pass_time)
    supervisor = supervised(SAYS_THAT_IT_IS_ALIVE, react)
    assert computed_for_long.wait(60)
    assert supervisor.ends == 0, "a worker that computes for long is left alone"
    os.kill(lives[0], signal.SIGSTOP)
    while supervisor.ends == 0:
        clock.seconds += 0.6 * limit  # a step is too short to end the next worker
        time.sleep(0.02)
    assert restarted.wait(60)
    assert lives[0] != lives[1]
    assert supervisor.ends == 1


def test_a_worker_leaves_the_gpu_to_others_unless_the_user_says_otherwise(monkeypatch):
    name = "XLA_PYTHON_CLIENT_PREALLOCATE"
    monkeypatch.delenv(name, raising=False)
    assert worker_environment()[name] == "false"
    monkeypatch.setenv(name, "true")
    assert worker_environment()[name] == "true"
