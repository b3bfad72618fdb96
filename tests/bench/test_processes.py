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
from bench_helpers import SMALL_SETTINGS, TINY_SUITE, always_die, load_or_die, never_load, runs_of

from parbals.bench.executors import attempt
from parbals.bench.folder import ResultsFolder
from parbals.bench.grid import read_suite, run_grid
from parbals.bench.loading import load_data
from parbals.bench.processes import LocalProcesses, _Queue
from parbals.bench.records import read_line
from parbals.errors import InputError

_PROGRAM = Path(__file__).with_name("grid_program.py")


def results_of(folder):
    return {record.key: record.without_seconds() for record in folder.records()}


def start(folder, suite_file):
    return subprocess.Popen([sys.executable, str(_PROGRAM), str(folder.path), str(suite_file)])


def wait_for_lines(folder, n, process):
    while sum(path.read_bytes().count(b"\n") for path in folder.runs.glob("*.jsonl")) < n:
        assert process.poll() is None, "the grid ended before it could be killed"
        time.sleep(0.005)


def children_of(pid):
    """Living child processes, from /proc."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


def is_gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.fixture(scope="module")
def suite_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("suite") / "tiny.toml"
    path.write_text(TINY_SUITE)
    return path


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = ResultsFolder(tmp_path_factory.mktemp("whole"))
    assert run_grid(read_suite(TINY_SUITE).runs, folder, load_data, LocalProcesses(1)) == []
    return results_of(folder)


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_killed_in_the_middle_and_started_again_the_results_are_the_same(
    tmp_path, suite_file, uninterrupted
):
    folder = ResultsFolder(tmp_path)
    process = start(folder, suite_file)
    wait_for_lines(folder, 2, process)
    workers = children_of(process.pid)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    held = results_of(folder)
    assert 2 <= len(held) < len(uninterrupted)
    before = {path.name: path.read_bytes() for path in folder.runs.glob("*.jsonl")}
    for _ in range(200):
        if all(map(is_gone, workers)):
            break
        time.sleep(0.05)
    assert workers
    assert all(map(is_gone, workers)), "a worker outlived the process that started it"

    assert start(folder, suite_file).wait() == 0
    assert results_of(folder) == uninterrupted
    for name, content in before.items():  # what was there was not computed again
        assert (folder.runs / name).read_bytes().startswith(content[: content.rfind(b"\n") + 1])


@pytest.mark.faults
def test_killed_twenty_times_anywhere(tmp_path, suite_file, uninterrupted):
    folder = ResultsFolder(tmp_path)
    chance = random.Random(0)
    for _ in range(20):
        process = start(folder, suite_file)
        time.sleep(chance.uniform(0.2, 6.0))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert start(folder, suite_file).wait() == 0
    assert results_of(folder) == uninterrupted


def test_it_computes_what_this_process_would_compute(uninterrupted):
    run = next(run for run in read_suite(TINY_SUITE).runs if run.strategy == "confidence")
    outcome = attempt(run, load_data)
    assert read_line(outcome.line).without_seconds() == uninterrupted[run.key]


def test_a_worker_that_dies_once_costs_nothing_but_time(tmp_path):
    runs = runs_of("breast-cancer", "10+1x3", "random", [0], settings=SMALL_SETTINGS)
    loader = partial(load_or_die, marker=str(tmp_path / "died"))
    (outcome,) = LocalProcesses(1).results(runs, loader)
    assert (tmp_path / "died").exists()
    assert read_line(outcome.line).run == runs[0]


@pytest.mark.parametrize("n_seeds", [1, 3])
def test_data_that_cannot_be_loaded_end_the_grid_even_when_they_come_last(n_seeds, tmp_path):
    runs = [
        *runs_of("breast-cancer", "10+1x3", "random", [0], settings=SMALL_SETTINGS),
        *runs_of("airline", "10+1x3", "random", range(n_seeds), settings=SMALL_SETTINGS),
    ]
    outcomes = list(LocalProcesses(1).results(runs, partial(load_data, folder=tmp_path)))
    assert [outcome.no_data for outcome in outcomes] == [False] + [True] * n_seeds
    assert "airline cannot be loaded: train.csv is not in" in outcomes[-1].error


def test_a_loader_that_fails_unexpectedly_is_quoted():
    (outcome,) = LocalProcesses(1).results(runs_of(seeds=[0]), never_load)
    assert outcome.error == "airline cannot be loaded: ZeroDivisionError: nobody expected this"


def test_a_worker_that_always_dies_is_given_up_with_a_reason():
    (outcome,) = LocalProcesses(1).results(runs_of(seeds=[0]), always_die)
    assert outcome.line is None
    assert "exit code -9" in outcome.error


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="cores cannot be pinned here")
def test_no_core_has_two_owners_and_ours_are_left_as_they_were():
    allowed, variable = os.sched_getaffinity(0), os.environ.get("OMP_NUM_THREADS")
    shares = LocalProcesses()._shares
    assert sorted(core for share in shares for core in share) == sorted(allowed)
    assert len(LocalProcesses(1)._shares[0]) == len(allowed)
    list(LocalProcesses(1).results([], load_data))
    assert os.sched_getaffinity(0) == allowed
    assert os.environ.get("OMP_NUM_THREADS") == variable
    with pytest.raises(InputError, match="0 processes"):
        LocalProcesses(0)


def test_where_compiling_is_slow_a_cell_begins_with_one_run_and_the_others_follow(tmp_path):
    suite = read_suite(TINY_SUITE)
    folder = ResultsFolder(tmp_path / "led")
    done = []
    assert not run_grid(
        suite.runs,
        folder,
        load_data,
        LocalProcesses(2, compile_first=True),
        lambda progress: done.append(progress.last),
    )
    assert len(results_of(folder)) == len(suite.runs)


def test_a_cell_waits_for_its_first_run_while_other_cells_begin():
    runs = sorted(read_suite(TINY_SUITE).runs, key=lambda run: run.cell)
    cells = list(dict.fromkeys(run.cell for run in runs))
    queue = _Queue(runs, compile_first=True)
    leaders = [queue.next() for _ in cells]
    assert [run.cell for run in leaders] == cells
    assert queue.next() is None  # everybody else waits
    queue.finished(leaders[1])
    assert queue.next().cell == cells[1]
    queue.again(leaders[0])  # its process died before the programs were there
    assert queue.next() == leaders[0]
    assert queue.next().cell == cells[1]
    assert queue.next() is None
