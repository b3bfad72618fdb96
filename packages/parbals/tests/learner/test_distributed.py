"""A learner whose pool lives in a Dask cluster (here the threads of this process)."""

import subprocess
import sys

import numpy as np
import parbals
import pytest
from parbals.errors import InputError
from parbals.learner.features import FeatureTable

da = pytest.importorskip("dask.array")


@pytest.fixture(scope="module")
def pool():
    generator = np.random.default_rng(2)
    return generator.standard_normal((600, 6)) * [9.0, 4.0, 2.0, 1.0, 0.5, 0.1]


def learner_of(X, **options):
    """Ten labels, and two items that are out."""
    learner = parbals.ActiveLearner(X, ["no", "yes"], random_state=4, **options)
    learner.tell(range(10), ["no", "yes"] * 5)
    learner.mark_pending([300, 301])
    return learner


@pytest.mark.parametrize(
    "preparation", [pytest.param({}, marks=pytest.mark.full), {"standardise": True}]
)
def test_it_asks_what_a_learner_in_memory_asks(pool, preparation):
    array = da.from_array(pool, chunks=(128, 4))
    here = learner_of(pool, n_candidates=600, **preparation)
    there = learner_of(array, n_candidates=20, **preparation)  # scored as a whole all the same
    assert there.ask(5).tolist() == here.ask(5).tolist()
    assert there.ask(3).tolist() == here.ask(3).tolist()


def test_it_reports_what_a_learner_in_memory_reports(pool):
    here, there = (learner_of(X).report(5) for X in (pool, da.from_array(pool, chunks=(128, 4))))
    assert there.next_gain == pytest.approx(here.next_gain, rel=1e-4)


def test_a_strategy_that_needs_features_is_given_some_candidates(pool, monkeypatch):
    fetched, rows = [], FeatureTable.rows

    def recorded(self, positions):
        if not isinstance(positions, slice):  # the prior looks at all of so few rows
            fetched.append(len(positions))
        return rows(self, positions)

    monkeypatch.setattr(FeatureTable, "rows", recorded)
    array = da.from_array(pool, chunks=(128, 6))
    chosen = learner_of(array, strategy="coreset", n_candidates=40).ask(5)
    assert len(set(chosen.tolist()) - {*range(10), 300, 301}) == 5
    assert max(fetched) == 40 + 2  # candidates, and what is out


def test_targets_may_be_distributed_too(pool):
    array = da.from_array(pool, chunks=(128, 6))
    here = learner_of(pool, X_target=pool[:90], strategy="epig")
    there = learner_of(array, X_target=array[:90], strategy="epig")
    assert there.ask(5).tolist() == here.ask(5).tolist()


def test_bad_entries_are_found_where_they_lie(pool):
    bad = pool.copy()
    bad[401, 5] = np.inf
    array = da.from_array(bad, chunks=(128, 6))
    with pytest.raises(InputError, match=r"X_pool\[401, 5\] is inf"):
        parbals.ActiveLearner(array, [0, 1])


def test_it_is_saved_and_loaded_without_its_features(pool, tmp_path):
    array = da.from_array(pool, chunks=(128, 6))
    learner = learner_of(array)
    learner.save(tmp_path / "learner.zip", include_features=False)
    again = parbals.ActiveLearner.load(tmp_path / "learner.zip", X_pool=array)
    assert again.ask(4).tolist() == learner.ask(4).tolist()


def test_it_needs_no_client_and_leaves_the_settings_of_dask_as_they_were():
    """In a process of its own: other tests have loaded Dask's cluster library already."""
    program = (
        "import dask, dask.array as da, numpy as np, parbals\n"
        "X = da.from_array(np.random.default_rng(0).normal(size=(60, 3)), chunks=(30, 3))\n"
        "learner = parbals.ActiveLearner(X, [0, 1], random_state=0)\n"
        "learner.tell([0, 1], [0, 1])\n"
        "assert len(learner.ask(2)) == len(learner.ask(2)) == 2\n"
        "assert dask.config.get('distributed.comm.timeouts.connect')\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
