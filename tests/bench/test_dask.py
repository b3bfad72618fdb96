"""Real clusters on this machine, and workers of them that are killed."""

import os
import signal
import sys
import threading
from dataclasses import replace
from functools import partial

import pytest
from bench_helpers import TINY_SUITE, load_when_told

from parbals.bench.dask_cluster import DaskCluster
from parbals.bench.executors import InProcess
from parbals.bench.folder import ResultsFolder
from parbals.bench.grid import read_suite, run_grid
from parbals.bench.loading import load_data
from parbals.errors import InputError, MissingDependencyError


def results_of(folder):
    return {record.key: record.without_seconds() for record in folder.records()}


@pytest.fixture(scope="module")
def runs():
    return read_suite(TINY_SUITE).only(strategies=["random", "confidence"], seeds=2)


@pytest.fixture(scope="module")
def in_process(tmp_path_factory, runs):
    folder = ResultsFolder(tmp_path_factory.mktemp("whole"))
    assert run_grid(runs, folder, load_data, InProcess()) == []
    return results_of(folder)


@pytest.fixture
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
        pids, busy = client.run(os.getpid), client.processing()
    return [pid for address, pid in pids.items() if busy.get(address)]


def test_without_dask_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingDependencyError, match=r'pip install "dask\[distributed\]"'):
        DaskCluster("tcp://127.0.0.1:1")


@pytest.mark.filterwarnings("default")  # Dask's own warnings are not ours to fix
def test_a_worker_killed_in_the_middle_of_its_run_costs_no_run(tmp_path, cluster, runs, in_process):
    """One of two workers is killed while both compute; the other one, and its successor, do the
    whole grid."""
    started, go_on = tmp_path / "started", tmp_path / "go-on"
    killed = []

    def kill_one():
        # Both workers hold their first run until the signal, so the killed one is certainly in the
        # middle of it.
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
    told = []
    try:
        failures = run_grid(
            runs, folder, loader, DaskCluster(cluster.scheduler_address), told.append
        )
    finally:
        done.set()
        go_on.touch()
        killer.join()
    assert failures == []
    assert len(killed) == 1
    assert results_of(folder) == in_process
    assert (told[0].done, told[-1].done, told[-1].failed) == (0, len(runs), 0)
    assert sum(path.read_bytes().count(b"\n") for path in folder.runs.glob("*.jsonl")) == len(
        runs
    )  # none twice


@pytest.mark.filterwarnings("default")
def test_a_run_that_fails_over_there_is_reported_and_the_others_go_on(
    tmp_path, cluster, runs, in_process
):
    good = runs[0]
    failing = replace(good, dataset="nowhere")
    folder = ResultsFolder(tmp_path)
    executor = DaskCluster(cluster.scheduler_address)
    assert executor.n_parallel == 2
    (failure,) = run_grid([failing, good], folder, load_data, executor)
    assert failure.run == failing
    assert "There is no dataset 'nowhere'" in failure.reason
    assert results_of(folder) == {good.key: in_process[good.key]}


@pytest.mark.filterwarnings("default")
def test_a_scheduler_that_is_not_there():
    pytest.importorskip("distributed")
    with pytest.raises(InputError, match="no Dask scheduler at tcp://127"):
        DaskCluster("tcp://127.0.0.1:9", timeout=0.5)
