"""A learner whose pool is in a Dask cluster (here the threads of this process)."""

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
    """A learner with ten labels and two pending items."""
    learner = parbals.ActiveLearner(X, ["no", "yes"], random_state=4, **options)
    learner.tell(range(10), ["no", "yes"] * 5)
    learner.mark_pending([300, 301])
    return learner


@pytest.mark.parametrize(
    "preparation", [pytest.param({}, marks=pytest.mark.full), {"standardise": True}]
)
def test_it_asks_what_a_learner_in_memory_asks(pool, preparation):
    array = da.from_array(pool, chunks=(128, 4))
    in_memory = learner_of(pool, n_candidates=600, **preparation)
    # A distributed pool is scored as a whole, whatever n_candidates is.
    distributed = learner_of(array, n_candidates=20, **preparation)
    assert distributed.ask(5).tolist() == in_memory.ask(5).tolist()
    assert distributed.ask(3).tolist() == in_memory.ask(3).tolist()


def test_it_says_that_neighbours_are_ignored(pool):
    learner = learner_of(da.from_array(pool, chunks=(128, 6)), pool_structure=True)
    assert any("lie together is ignored" in note for note in learner.choose(2).notes)


def test_it_reports_what_a_learner_in_memory_reports(pool):
    in_memory = learner_of(pool).report(5)
    distributed = learner_of(da.from_array(pool, chunks=(128, 4))).report(5)
    assert distributed.next_gain == pytest.approx(in_memory.next_gain, rel=1e-4)


def test_a_strategy_that_needs_features_is_given_some_candidates(pool, monkeypatch):
    fetched = []
    rows = FeatureTable.rows

    def recording_rows(self, positions):
        if not isinstance(positions, slice):  # the prior looks at all of so few rows
            fetched.append(len(positions))
        return rows(self, positions)

    monkeypatch.setattr(FeatureTable, "rows", recording_rows)
    array = da.from_array(pool, chunks=(128, 6))
    items = learner_of(array, strategy="coreset", n_candidates=40).ask(5)
    assert len(set(items.tolist()) - {*range(10), 300, 301}) == 5
    assert max(fetched) == 40 + 2  # candidates and pending items


def test_targets_may_be_distributed_too(pool):
    array = da.from_array(pool, chunks=(128, 6))
    in_memory = learner_of(pool, X_target=pool[:90], strategy="epig")
    distributed = learner_of(array, X_target=array[:90], strategy="epig")
    assert distributed.ask(5).tolist() == in_memory.ask(5).tolist()


def test_bad_entries_are_named_by_row_and_column(pool):
    bad = pool.copy()
    bad[401, 5] = np.inf
    array = da.from_array(bad, chunks=(128, 6))
    with pytest.raises(InputError, match=r"X_pool\[401, 5\] is inf"):
        parbals.ActiveLearner(array, [0, 1])


def test_it_is_saved_and_loaded_without_its_features(pool, tmp_path):
    array = da.from_array(pool, chunks=(128, 6))
    learner = learner_of(array)
    learner.save(tmp_path / "learner.zip", include_features=False)
    loaded = parbals.ActiveLearner.load(tmp_path / "learner.zip", X_pool=array)
    assert loaded.ask(4).tolist() == learner.ask(4).tolist()


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
