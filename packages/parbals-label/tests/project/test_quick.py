"""The fallback queue: items at once, without a model, and never assigned twice."""

import os
import sys

import numpy as np
import pytest
from parbals_label.project.features import store_features
from parbals_label.project.quick import quick_batch
from parbals_label.project.target import add_target
from parbals_label.store.records import Submission
from parbals_label.store.settings import PredictionsFile
from parbals_label.store.store import Store
from repository import SOURCES

N = 60


@pytest.fixture
def store(tmp_path):
    """Three clouds of twenty items."""
    with Store.create(tmp_path / "p", classes=["a", "b"], settings={"columns": ["text"]}) as store:
        store.add_items((str(n), {"text": f"item {n}"}) for n in range(N))
        rows = np.eye(3)[np.arange(N) % 3] * 10.0
        rows += np.random.default_rng(0).normal(size=rows.shape)
        store.update_settings(features=store_features(store.folder, rows.astype(np.float32)))
        yield store


def predict(store, shares):
    """Store predictions in which class a has these shares."""
    matrix = np.stack([shares, 1.0 - shares], axis=1).astype(np.float32)
    made = store_features(store.folder, matrix, name="predictions")
    store.update_settings(
        predictions=PredictionsFile(made.file, made.digest, made.shape, answers=1)
    )


def test_before_any_label_the_items_stand_for_the_whole(store):
    positions = store.batch_positions(quick_batch(store, 3))
    assert sorted(p % 3 for p in positions) == [0, 1, 2], "one of each cloud"
    assert store.batches()[0].strategy == "k-means"


@pytest.mark.parametrize("n_items", [60, 3_000])
def test_before_any_label_most_items_are_of_the_target_set(tmp_path, n_items):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((n_items, 4)).astype(np.float32)
    is_target = rows[:, 0] > np.sort(rows[:, 0])[-n_items // 10]  # no gap to the others
    settings = {"columns": ["region"]}
    with Store.create(tmp_path / "t", classes=["a", "b"], settings=settings) as store:
        store.add_items(
            (str(n), {"region": "north" if is_target[n] else "south"}) for n in range(n_items)
        )
        store.update_settings(features=store_features(store.folder, rows))
        add_target(store, "region = north")
        positions = store.batch_positions(quick_batch(store, 5))
    assert len(positions) == 5
    assert is_target[positions].mean() > 0.7, "a tenth of the items is"


def test_afterwards_the_least_sure_predictions_come_first(store):
    store.submit([Submission(7, "a")], annotator="ann")
    shares = np.linspace(0.5, 1.0, N)
    predict(store, shares[np.random.default_rng(1).permutation(N)])
    unsure = np.argsort(np.load(store.folder / store.settings.predictions.file).max(axis=1))
    expected = [p for p in unsure.tolist() if p != 7][:5]
    number = quick_batch(store, 5)
    assert store.batch_positions(number) == expected
    assert store.batches()[-1].strategy == "confidence"
    assert not set(store.batch_positions(quick_batch(store, 5))) & {7, *expected}


def test_labels_without_predictions_or_features_that_are_gone_give_random_items(store):
    store.submit([Submission(7, "a")], annotator="ann")
    quick_batch(store, 5)
    assert store.batches()[-1].strategy == "random"
    (store.folder / store.settings.features.file).unlink()
    assert quick_batch(store, 5) is not None


def test_the_audit_has_its_share_and_the_last_items_are_given_too(store):
    store.update_settings(audit=list(range(10, 30)))
    number = quick_batch(store, 9)
    positions = store.batch_positions(number)
    assert [p for p in positions if 10 <= p < 30] == [10, 11, 12], "every third, in order"
    assert store.batches()[0].settings["n_audit"] == 3
    n_left = len(store.batch_positions(quick_batch(store, 1000)))
    assert n_left == N - 9
    assert quick_batch(store) is None


def test_identical_rows_are_chosen_once_each(store):
    same = store_features(store.folder, np.zeros((N, 3), np.float32))
    store.update_settings(features=same)
    assert len(set(store.batch_positions(quick_batch(store, 5)))) == 5


def test_no_model_is_loaded():
    import subprocess

    program = "import sys, parbals_label.project.quick; sys.exit('jax' in sys.modules)"
    environment = {"PYTHONPATH": os.pathsep.join(map(str, SOURCES))}
    assert subprocess.run([sys.executable, "-c", program], env=environment).returncode == 0
