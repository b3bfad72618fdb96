"""A real cluster on this machine, and a worker of it that is killed."""

import os
import re
import signal
import sys
import threading
from functools import partial

import pytest
from bench_helpers import load_tiny, load_when_told, runs_of, without_seconds
from parbals.errors import InputError, MissingDependencyError
from parbals.installing import install_command
from parbals_bench.run.executors import DaskCluster
from parbals_bench.run.folder import ResultsFolder
from parbals_bench.run.grid import run_grid


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=0
    ) as cluster:
        yield cluster


def busy_pids(cluster):
    """Process ids of the workers that compute a run now."""
    import distributed

    with distributed.Client(cluster, set_as_default=False) as client:
        pids = client.run(os.getpid)
        busy = client.processing()
    return [pid for address, pid in pids.items() if busy.get(address)]


def test_without_dask_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(
        MissingDependencyError, match=re.escape(install_command("parbals[cluster]"))
    ):
        DaskCluster("tcp://127.0.0.1:1")


@pytest.mark.filterwarnings("default")  # Dask's own warnings are not ours to fix
def test_a_run_that_fails_over_there_is_reported(tmp_path, cluster):
    runs = runs_of("nowhere", seeds=[0])
    executor = DaskCluster(cluster.scheduler_address)
    (failure,) = run_grid(runs, ResultsFolder(tmp_path), load_tiny, executor)
    assert failure.run == runs[0]
    assert "There is no dataset 'nowhere'" in failure.error


@pytest.mark.filterwarnings("default")
@pytest.mark.full
def test_a_worker_killed_in_the_middle_of_its_run_costs_no_run(
    tmp_path, cluster, tiny_runs, computed_here
):
    """One of two workers is killed while both compute; the other, and its successor, go on."""
    started = tmp_path / "started"
    go_on = tmp_path / "go-on"
    killed = []

    def kill_one():
        # Both workers hold their first run until the signal, so one is killed in the middle of it.
        while not started.exists() or len(pids := busy_pids(cluster)) < 2:
            if done.wait(0.05):
                return
        killed.append(pids[0])
        os.kill(pids[0], signal.SIGKILL)
        go_on.touch()

    done = threading.Event()
    killer = threading.Thread(target=kill_one)
    killer.start()
    folder = ResultsFolder(tmp_path / "results")
    loader = partial(load_when_told, started=str(started), go_on=str(go_on))
    try:
        executor = DaskCluster(cluster.scheduler_address)
        failures = run_grid(tiny_runs, folder, loader, executor)
    finally:
        done.set()
        go_on.touch()
        killer.join()
    assert failures == []
    assert len(killed) == 1
    assert without_seconds(folder) == computed_here
    lines = [path.read_bytes().count(b"\n") for path in folder.runs.glob("*.jsonl")]
    assert sum(lines) == len(tiny_runs)  # none twice


@pytest.mark.filterwarnings("default")
def test_a_scheduler_that_is_not_there():
    pytest.importorskip("distributed")
    with pytest.raises(InputError, match="no Dask scheduler at tcp://127"):
        DaskCluster("tcp://127.0.0.1:9", timeout=0.5)
