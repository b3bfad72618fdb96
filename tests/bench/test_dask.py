"""A real cluster on this machine, and a worker of it that is killed."""

import os
import signal
import sys

import pytest
from bench_helpers import TINY_SUITE

from parbals.bench.executors import DaskCluster, attempt
from parbals.bench.folder import ResultsFolder
from parbals.bench.grid import read_suite, run_grid
from parbals.bench.records import read_line
from parbals.bench.small import load_small
from parbals.errors import InputError, MissingDependencyError


def test_without_dask_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingDependencyError, match=r'pip install "dask\[distributed\]"'):
        DaskCluster("tcp://127.0.0.1:1")


@pytest.mark.filterwarnings("default")  # Dask's own warnings are not ours to fix
def test_a_killed_worker_costs_no_run(tmp_path):
    distributed = pytest.importorskip("distributed")
    suite = read_suite(TINY_SUITE)
    runs = suite.only(strategies=["random", "confidence"], seeds=1)
    folder = ResultsFolder(tmp_path)
    killed = []
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=0
    ) as cluster:

        def kill_one(progress):
            if progress.done == 1 and not killed:
                with distributed.Client(cluster, set_as_default=False) as client:
                    (pid,) = client.run(os.getpid).values()
                killed.append(pid)
                os.kill(pid, signal.SIGKILL)

        executor = DaskCluster(cluster.scheduler_address)
        assert run_grid(runs, folder, load_small, executor, kill_one) == []
    assert killed
    found = {record.key: record.without_seconds() for record in folder.records()}
    assert found == {run.key: read_line(attempt(run, load_small).line).without_seconds() for run in runs}


@pytest.mark.filterwarnings("default")
def test_a_scheduler_that_is_not_there():
    pytest.importorskip("distributed")
    with pytest.raises(InputError, match="no Dask scheduler at tcp://127"):
        DaskCluster("tcp://127.0.0.1:9", timeout=0.5)
