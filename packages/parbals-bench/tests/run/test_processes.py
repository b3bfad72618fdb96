"""Real processes, really killed."""

import os
import random
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from bench_helpers import (
    SMALL_SETTINGS,
    InProcess,
    always_die,
    load_or_die,
    load_tiny,
    never_load,
    runs_of,
    without_seconds,
)
from dose import full_count
from parbals_bench.run.folder import ResultsFolder
from parbals_bench.run.grid import run_grid
from parbals_bench.run.processes import LocalProcesses
from parbals_bench.run.records import read_line

_PROGRAM = Path(__file__).with_name("grid_program.py")


def start(folder):
    return subprocess.Popen([sys.executable, str(_PROGRAM), str(folder.path)])


def wait_for_lines(folder, n, process):
    while sum(path.read_bytes().count(b"\n") for path in folder.runs.glob("*.jsonl")) < n:
        assert process.poll() is None, "the grid ended before it could be killed"
        time.sleep(0.005)


def children_of(pid):
    """Living child processes, from /proc."""
    children = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            children.append(int(stat.parent.name))
    return children


def is_gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_killed_in_the_middle_and_started_again_the_results_are_the_same(
    tmp_path, tiny_runs, computed_here
):
    """Those of its worker are the same as in this process, which goes on."""
    folder = ResultsFolder(tmp_path)
    process = start(folder)
    wait_for_lines(folder, 1, process)
    workers = children_of(process.pid)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert 1 <= len(without_seconds(folder)) < len(computed_here)
    before = {path.name: path.read_bytes() for path in folder.runs.glob("*.jsonl")}
    assert workers
    while not all(map(is_gone, workers)):  # a worker ends with the process that started it
        time.sleep(0.02)

    assert run_grid(tiny_runs, folder, load_tiny, InProcess()) == []
    assert without_seconds(folder) == computed_here
    for name, content in before.items():  # what was there was not computed again
        assert (folder.runs / name).read_bytes().startswith(content[: content.rfind(b"\n") + 1])


@pytest.mark.faults
def test_killed_twenty_times_anywhere(tmp_path, computed_here):
    folder = ResultsFolder(tmp_path)
    chance = random.Random(0)
    for _ in range(full_count(20)):
        process = start(folder)
        time.sleep(chance.uniform(0.2, 6.0))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert start(folder).wait() == 0
    assert without_seconds(folder) == computed_here


@pytest.mark.full
def test_a_worker_that_dies_costs_its_time_and_data_that_cannot_be_loaded_their_runs(tmp_path):
    """The first run's process dies and another computes it; unloadable data are asked for once."""
    good = runs_of("tiny", "10+2x3", "random", [0], settings=SMALL_SETTINGS)
    bad = runs_of("nowhere", "10+2x3", "random", range(3), settings=SMALL_SETTINGS)
    loader = partial(load_or_die, marker=str(tmp_path / "died"))
    first, *others = LocalProcesses(1).results([*good, *bad], loader)
    assert (tmp_path / "died").exists()
    assert read_line(first.line).run == good[0]
    assert [outcome.no_data for outcome in others] == [True] * 3
    assert "nowhere cannot be loaded: There is no dataset" in others[-1].error


def test_a_loader_that_fails_unexpectedly_is_quoted():
    (outcome,) = InProcess().results(runs_of(seeds=[0]), never_load)
    assert outcome.error == "airline cannot be loaded: ZeroDivisionError: nobody expected this"


def test_a_worker_that_always_dies_is_given_up_with_a_reason():
    (outcome,) = LocalProcesses(1).results(runs_of(seeds=[0]), always_die)
    assert outcome.line is None
    assert "exit code -9" in outcome.error


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="cores cannot be pinned here")
def test_no_core_has_two_owners_and_ours_are_left_as_they_were():
    allowed = os.sched_getaffinity(0)
    variable = os.environ.get("OMP_NUM_THREADS")
    shares = LocalProcesses()._shares
    assert sorted(core for share in shares for core in share) == sorted(allowed)
    assert len(LocalProcesses(1)._shares[0]) == len(allowed)
    list(LocalProcesses(1).results([], load_tiny))
    assert os.sched_getaffinity(0) == allowed
    assert os.environ.get("OMP_NUM_THREADS") == variable
