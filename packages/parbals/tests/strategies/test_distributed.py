"""Pools in a Dask cluster: worker processes on this machine, one of which is killed."""

import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import parbals
import pytest
from parbals.errors import InputError
from parbals.strategies.distributed import DistributedRows
from parbals.strategies.universes import gaussian

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")

pytestmark = pytest.mark.filterwarnings("default")  # Dask's own warnings are not ours to fix


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=0
    ) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    """For as long as it is open, Dask computes in the cluster, and else in threads of its own."""
    with distributed.Client(cluster) as client:
        client.wait_for_workers(2)
        yield client


def parts_of(n_classes):
    """A fitted model, a pool of 700 rows and a target set of 40."""
    generator = np.random.default_rng(n_classes)
    X = generator.standard_normal((800, 5)) * [3.0, 2.0, 1.0, 0.5, 0.2]
    noise = generator.gumbel(size=(800, n_classes))
    labels = np.argmax(X @ generator.standard_normal((5, n_classes)) + noise, axis=1)
    model = parbals.BayesianLogisticRegression(
        inference="ep", classes=range(n_classes), random_state=0
    )
    return model.fit(X[:60], labels[:60]), X[60:760], X[760:]


@pytest.fixture(scope="module")
def parts():
    return parts_of(2)


def in_memory(parts, **options):
    return parbals.select_batch_from_model(*parts, 8, random_state=1, **options)


def in_cluster(parts, array, **options):
    model, _, target = parts
    return parbals.select_batch_from_model(model, array, target, 8, random_state=1, **options)


@pytest.mark.parametrize("loss", ["error", pytest.param("log", marks=pytest.mark.full)])
def test_a_cluster_chooses_what_memory_chooses(client, parts, loss):
    array = da.from_array(parts[1], chunks=(100, 5)).persist()
    terms = {"pending": [3, 600], "loss": loss}
    local = in_memory(parts, **terms)
    remote = in_cluster(parts, array, **terms)
    assert remote.indices.tolist() == local.indices.tolist()
    np.testing.assert_allclose(remote.scores, local.scores, rtol=1e-5)
    np.testing.assert_allclose(remote.initial_scores, local.initial_scores, rtol=1e-5)


@pytest.mark.parametrize(
    ("n_classes", "strategy"),
    [
        *[(2, "epig"), (2, "bald"), (2, "power-epig"), (2, "random"), (4, "epig")],
        pytest.param(4, "parbals-epig", marks=pytest.mark.full),
    ],
)
def test_every_strategy_in_closed_form_and_any_chunks(n_classes, strategy):
    parts = parts_of(n_classes)
    array = da.from_array(parts[1], chunks=((1, 0, 399, 300), (2, 3)))
    local = in_memory(parts, strategy=strategy)
    remote = in_cluster(parts, array, strategy=strategy)
    assert remote.indices.tolist() == local.indices.tolist()


def test_targets_are_sampled_from_the_cluster(parts):
    model, pool, _ = parts
    array = da.from_array(np.tile(pool, (2, 1)), chunks=(300, 5))
    for X_target in (None, array):
        local, remote = (
            parbals.select_batch_from_model(model, X, X_target, 4, "epig", random_state=0)
            for X in (array.compute(), array)
        )
        assert remote.indices.tolist() == local.indices.tolist()


def test_rows_are_fetched_in_any_order(parts):
    _, pool, _ = parts
    rows = DistributedRows(da.from_array(pool.astype(np.float32), chunks=(64, 2)))
    positions = np.array([699, 3, 64, 63, 3])
    assert rows[positions].dtype == np.float32
    np.testing.assert_array_equal(rows[positions], pool[positions].astype(np.float32))
    np.testing.assert_array_equal(rows[5:70], pool[5:70].astype(np.float32))
    subset = rows.take(np.array([8, 5, 600]))
    np.testing.assert_array_equal(subset[np.array([2, 0])], rows[np.array([600, 8])])
    np.testing.assert_array_equal(subset.map_rows(first_column), pool[[8, 5, 600], 0].astype("f4"))


def first_column(rows):
    return rows[:, 0]


def test_only_pending_chosen_and_the_highest_rows_are_fetched(parts, monkeypatch):
    """However large the pool is."""
    fetched = []
    get = DistributedRows.__getitem__

    def recorded(self, rows):
        features = get(self, rows)
        fetched.append(len(features))
        return features

    monkeypatch.setattr(DistributedRows, "__getitem__", recorded)
    monkeypatch.setattr(gaussian, "MAX_SCREENED", 127)
    model, pool, target = parts
    for copies in (1, 4):
        fetched.clear()
        array = da.from_array(np.tile(pool, (copies, 1)), chunks=(200, 5))
        in_cluster((model, pool, target), array, pending=[0, 1])
        assert fetched[0] == 4 * 127 + 2
        assert fetched[-1] == 8


def test_the_posterior_is_sent_once_to_each_worker(client, parts, tmp_path):
    """And not with each of forty chunks; the scheduler reads the graph as well."""

    class FirstColumn:
        def __init__(self, folder):
            self.folder = folder

        def __call__(self, rows):
            return rows[:, 0]

        def __setstate__(self, state):
            self.folder = state["folder"]
            (Path(self.folder) / f"{os.getpid()}-{time.monotonic_ns()}").touch()

    rows = DistributedRows(da.from_array(np.arange(120.0).reshape(40, 3), chunks=(1, 3)).persist())
    assert rows.map_rows(FirstColumn(str(tmp_path))).tolist() == list(range(0, 120, 3))
    arrived = [int(path.name.split("-")[0]) for path in tmp_path.iterdir()]
    workers = list(client.run(os.getpid).values())
    assert sorted(pid for pid in arrived if pid in workers) == sorted(workers)


def kill_worker_when(client, is_time, after):
    """Kill a worker process that is at work as soon as ``is_time``, then do ``after``."""
    killed = []

    def kill():
        while not is_time() or not any(client.processing().values()):
            if finished.wait(0.05):
                return
        busy = [address for address, tasks in client.processing().items() if tasks]
        killed.append(client.run(os.getpid, workers=busy[:1])[busy[0]])
        os.kill(killed[0], signal.SIGKILL)
        after()

    finished = threading.Event()
    thread = threading.Thread(target=kill)
    thread.start()
    return killed, finished, thread


def test_a_worker_killed_while_it_scores_costs_nothing(client, parts, tmp_path):
    """Chunks wait to be read until one of the two workers that read them is dead."""
    started = str(tmp_path / "started")
    go_on = str(tmp_path / "go-on")

    def held(block):
        Path(started).touch()
        while not Path(go_on).exists():
            time.sleep(0.05)
        return block

    array = da.from_array(parts[1], chunks=(100, 5)).map_blocks(held, dtype=float, meta=np.ones(0))
    killed, finished, thread = kill_worker_when(
        client, Path(started).exists, after=Path(go_on).touch
    )
    try:
        remote = in_cluster(parts, array)
    finally:
        finished.set()
        Path(go_on).touch()
        thread.join()
    assert len(killed) == 1
    assert remote.indices.tolist() == in_memory(parts).indices.tolist()


def test_chunks_that_died_with_their_worker_are_made_again(client, parts):
    array = da.from_array(parts[1], chunks=(100, 5)).persist()
    distributed.wait(array)
    held = {address: keys for address, keys in client.has_what().items() if keys}
    pids = client.run(os.getpid)
    os.kill(pids[next(iter(held))], signal.SIGKILL)
    remote = in_cluster(parts, array)
    assert remote.indices.tolist() == in_memory(parts).indices.tolist()


def test_bad_entries_are_named_by_their_row(parts):
    pool = parts[1].copy()
    pool[431, 2] = np.nan
    with pytest.raises(InputError, match=r"X_pool\[431, 2\] is nan"):
        in_cluster(parts, da.from_array(pool, chunks=(100, 5)))


def test_a_chunk_of_another_size_than_declared_is_refused(parts):
    first = dask.delayed(parts[1][:300])
    second = dask.delayed(parts[1][300:])
    array = da.concatenate(
        [da.from_delayed(first, (300, 5), float), da.from_delayed(second, (350, 5), float)]
    )
    with pytest.raises(InputError, match=r"begins at row 300 has shape \(400, 5\)"):
        in_cluster(parts, array)


def test_what_a_distributed_pool_cannot_do_says_the_way_out(parts):
    _, pool, target = parts
    array = da.from_array(pool, chunks=(100, 5))
    for options in ({"strategy": "coreset"}, {"strategy": "margin"}):
        with pytest.raises(InputError, match=r'inference="ep".*X_pool\[positions\].compute\(\)'):
            in_cluster(parts, array, **options)
    draws = parbals.BayesianLogisticRegression(20, inference="laplace", classes=[0, 1])
    with pytest.raises(InputError, match=r'ParBaLS EPIG with this model .* inference="ep"'):
        in_cluster((draws.fit_prior(5), pool, target), array)


def test_arrays_that_cannot_be_a_pool(parts):
    model, pool, _ = parts
    array = da.from_array(pool, chunks=(100, 5))
    bag = pytest.importorskip("dask.bag")
    for bad, message in (
        (array[array[:, 0] > 0], "compute_chunk_sizes"),
        (bag.from_sequence([1, 2]), r"X_pool.to_dask_array\(lengths=True\)"),
        (array[:, 0], "shape"),
        (array.astype("complex64"), "real numbers"),
        (array[:, :4], "4 features, and the model knows 5"),
    ):
        with pytest.raises(InputError, match=message):
            parbals.select_batch_from_model(model, bad)
