"""The publishers' real files, where the folder named by PARBALS_DATA holds them."""

import os
from pathlib import Path

import numpy as np
import pytest
from parbals_bench.datasets.base import one_vs_all
from parbals_bench.datasets.table import load_dataset

HERE = os.environ.get("PARBALS_DATA")
pytestmark = pytest.mark.skipif(not HERE, reason="PARBALS_DATA names no folder with the real files")


def real(name, **options):
    folder = Path(HERE or "") / name.replace("-", "_")
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    return load_dataset(name, folder, **options)


def test_airline():
    data = real("airline")
    assert np.bincount(data.y_pool).tolist() == [58_879, 45_025]
    assert (len(data.X_target_source), len(data.X_test)) == (12_988, 12_988)
    np.testing.assert_array_equal(data.X_pool.sum(axis=1), 22)
    assert (
        data.X_pool.shape[1] == 107 + 4
    )  # each of the four columns of words has a slot for new values
    assert real("airline", features="tabular-qcut").X_pool.shape[1] == 107 + 4
    assert real("airline", features="tabular-values").X_pool.shape[1] == 128
    assert not data.notes


def test_credit_card():
    data = real("credit-card")
    assert 0.08 < data.y_pool.mean() < 0.10
    assert data.X_pool.shape[1] == 3 * 10 + 4
    assert len(data.X_pool) == pytest.approx(
        0.6 * (len(data.X_pool) + len(data.X_target_source) + len(data.X_test)), rel=0.02
    )


def test_the_rows_of_the_smaller_file_are_divided_as_we_divide_the_whole_one():
    import pyarrow.parquet as pq
    from parbals_bench.datasets.credit_card import paper_split

    path = next(iter((Path(HERE or "") / "credit_card").glob("card_transdata*.parquet")), None)
    if path is None:
        pytest.skip("the smaller file is not there")
    rows = pq.read_table(path, columns=["row", "paper_split"])
    ours = paper_split(1_000_000)[rows["row"].to_numpy()]
    assert ours.tolist() == rows["paper_split"].to_pylist()


def test_ag_news():
    data = real("ag-news")
    assert len(data.X_test) == len(data.X_target_source) == 3_800
    assert data.classes[0] == "World"
    two = one_vs_all(data, "Sports")
    assert 0.2 < two.y_pool.mean() < 0.3
    assert np.isfinite(data.X_pool).all()


def test_cifar10():
    data = real("cifar10")
    assert np.bincount(data.y_pool).tolist() == [5_000] * 10
    assert np.abs(np.bincount(data.y_test) - 500).max() < 75  # random halves
    assert (np.diff(data.y_pool) < 0).any()
