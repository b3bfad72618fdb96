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
