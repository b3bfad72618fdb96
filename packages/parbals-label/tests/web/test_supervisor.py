"""The supervisor: a worker that ends is started again, and one that keeps ending is reported."""

import subprocess
import sys
import threading

import pytest
from parbals_label.web import supervisor as module
from parbals_label.web.supervisor import Supervisor

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
NEVER_ENDS = """
import time
print('{"state": "idle"}', flush=True)
time.sleep(1000)
"""


@pytest.fixture
def supervised(tmp_path):
    """``supervised(program, react)``: a worker of a few lines; ``react`` hears every change."""
    running = []

    def start(program, react):
        supervisor = Supervisor(tmp_path, lambda: react(supervisor), first_pause=0.01)
        supervisor.command = [sys.executable, "-S", "-c", program]
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


def test_a_worker_that_does_not_end_is_ended(supervised, monkeypatch):
    monkeypatch.setattr(module, "_STOP_SECONDS", 0.1)
    idle = threading.Event()
    supervisor = supervised(NEVER_ENDS, lambda supervisor: idle.set())
    assert idle.wait(300)
    process = supervisor._process
    supervisor.stop()
    assert isinstance(process, subprocess.Popen)
    assert process.returncode == -9
