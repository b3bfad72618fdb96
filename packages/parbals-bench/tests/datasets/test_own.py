"""A user's own labelled arrays become a benchmark dataset."""

import numpy as np
import pytest
from parbals.errors import InputError
from parbals_bench.datasets.own import load

X = np.random.default_rng(0).standard_normal((50, 6)).astype(np.float32)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_are_taken_as_they_are(tmp_path, save):
    save(tmp_path / "mine.npz", X=X, y=np.arange(50) % 3)
    data = load(tmp_path / "mine.npz")
    assert data.classes == ("0", "1", "2")
    assert data.X_pool.shape == (30, 6)
    place = {row.astype(np.float32).tobytes(): i for i, row in enumerate(X)}
    rows = [row.astype(np.float32).tobytes() for row in data.X_pool]
    assert [place[row] % 3 for row in rows] == data.y_pool.tolist()


def test_the_seed_divides(tmp_path):
    np.savez(tmp_path / "mine.npz", X=np.arange(100.0)[:, None], y=np.arange(100) % 2)
    one, same, other = (load(tmp_path / "mine.npz", seed=seed) for seed in (0, 0, 1))
    assert (len(one.X_pool), len(one.X_target_source), len(one.X_test)) == (60, 20, 20)
    assert one.X_test.tolist() == same.X_test.tolist() != other.X_test.tolist()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": X}, "labels y"),
        ({"X": X, "y": np.array([{}] * 50, object)}, "labels y"),
        ({"X": np.array(["a"] * 50), "y": np.arange(50) % 3}, "numbers X"),
        ({"X": X, "y": np.arange(49) % 3}, "50 rows in X"),
        ({"X": np.where(np.eye(50) == 1, 1e300, 0), "y": np.arange(50) % 3}, "X of mine.npz"),
        ({"X": X[:2], "y": [0, 1]}, "the test set has 0 rows"),
    ],
)
def test_what_cannot_be_used_is_said(tmp_path, arrays, message):
    np.savez(tmp_path / "mine.npz", **arrays)
    with pytest.raises(InputError, match=message):
        load(tmp_path / "mine.npz")


def test_what_is_no_such_file_is_said(tmp_path):
    (tmp_path / "page.npz").write_bytes(b"<html>")
    np.save(tmp_path / "rows.npy", X)
    for place in (None, tmp_path, tmp_path / "page.npz", tmp_path / "rows.npy", tmp_path / "no"):
        with pytest.raises(InputError, match=r"is no \.npz file with numbers X"):
            load(place)


TARGET = {"X_target": X[:7], "X_test": X[:20], "y_test": np.arange(20) % 3}
POOL = {"X": X, "y": np.arange(50) % 3}


def test_a_target_of_its_own_leaves_the_pool_whole(tmp_path):
    np.savez(tmp_path / "mine.npz", **POOL, **TARGET)
    data = load(tmp_path / "mine.npz")
    np.testing.assert_array_equal(data.X_pool, X)
    np.testing.assert_array_equal(data.X_target_source, X[:7])
    np.testing.assert_array_equal(data.X_test, X[:20])
    assert data.y_test.tolist() == (np.arange(20) % 3).tolist()


def test_without_target_rows_half_of_the_test_rows_are_targets(tmp_path):
    np.savez(tmp_path / "mine.npz", **POOL, X_test=X[:20], y_test=np.arange(20) % 3)
    data = load(tmp_path / "mine.npz")
    assert (len(data.X_pool), len(data.X_target_source), len(data.X_test)) == (50, 10, 10)
    numbers = {row.tobytes(): i for i, row in enumerate(X)}
    targets = {numbers[row.tobytes()] for row in data.X_target_source}
    tested = [numbers[row.tobytes()] for row in data.X_test]
    assert targets | set(tested) == set(range(20))
    assert data.y_test.tolist() == [number % 3 for number in tested]


def test_classes_of_the_test_set_are_those_of_the_pool(tmp_path):
    labels = np.where(np.arange(50) % 3 == 0, "spam", "ham")
    np.savez(tmp_path / "mine.npz", X=X, y=labels, X_test=X[:4], y_test=["spam"] * 4)
    data = load(tmp_path / "mine.npz")
    assert data.classes == ("ham", "spam")
    assert data.y_test.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X_test": None}, "has no X_test; a target needs labelled rows"),
        ({"y_test": None}, "has no y_test; a target needs labelled rows"),
        ({"X_test": None, "y_test": None}, "has no X_test and no y_test; a target"),
        ({"X_test": X[:20, :5]}, "X_test of mine.npz has 5 columns and X has 6"),
        ({"X_target": X[:, :4]}, "X_target of mine.npz has 4 columns and X has 6"),
        ({"X_target": X[0]}, "X_target of mine.npz has shape"),
        ({"X_target": np.full((2, 6), np.nan)}, r"X_target of mine.npz\[0, 0\] is nan"),
        ({"y_test": np.arange(19) % 3}, "20 rows in X_test and labels"),
        ({"y_test": np.arange(20) % 4}, "y_test of mine.npz has the label '3', which y lacks"),
    ],
)
def test_a_target_that_cannot_be_used_is_refused(tmp_path, changes, message):
    arrays = {**POOL, **TARGET, **changes}
    np.savez(tmp_path / "mine.npz", **{k: v for k, v in arrays.items() if v is not None})
    with pytest.raises(InputError, match=message):
        load(tmp_path / "mine.npz")
