"""A user's own labelled arrays become a benchmark dataset."""

import numpy as np
import pytest
from parbals.errors import InputError, LabelError
from parbals_bench.datasets.own import load


def test_arrays_are_taken_as_they_are(tmp_path):
    X = np.random.default_rng(0).standard_normal((50, 6)).astype(np.float32)
    np.savez(tmp_path / "mine.npz", X=X, label=np.arange(50) % 3)
    data = load(tmp_path / "mine.npz")
    assert data.classes == ("0", "1", "2")
    assert data.X_pool.shape == (30, 6)
    assert {row.tobytes() for row in data.X_pool} <= {row.tobytes() for row in X}


def test_rows_without_a_label_are_left_out(tmp_path):
    labels = np.array(["a", "b", ""] * 20)
    np.savez(tmp_path / "mine.npz", X=np.arange(60.0)[:, None], label=labels)
    data = load(tmp_path / "mine.npz")
    assert len(data.X_pool) + len(data.X_target_source) + len(data.X_test) == 40
    assert data.notes == ("20 rows of mine.npz have no label and were left out",)
    assert ((data.X_pool[:, 0] % 3) == data.y_pool).all()  # features stay with their labels


class TestLabelsOfArrays:
    X = np.random.default_rng(0).standard_normal((50, 6)).astype(np.float32)

    @pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
    def test_the_array_is_named(self, tmp_path, save):
        save(tmp_path / "mine.npz", X=self.X, y=np.arange(50) % 3, text=np.array(["x"] * 50))
        data = load(tmp_path / "mine.npz", label="y")
        assert data.classes == ("0", "1", "2")
        place = {row.tobytes(): i for i, row in enumerate(self.X)}
        assert [place[row.tobytes()] % 3 for row in data.X_pool] == data.y_pool.tolist()

    def test_an_array_that_is_not_there_is_told_with_those_that_are(self, tmp_path):
        np.savez(tmp_path / "mine.npz", X=self.X, y=np.arange(50) % 3)
        with pytest.raises(InputError, match=r"has no array 'label' .*; there are: 'X', 'y'\."):
            load(tmp_path / "mine.npz")

    def test_what_is_no_good_is_refused(self, tmp_path):
        np.savez(tmp_path / "two.npz", X=self.X, Z=self.X, y=np.arange(50) % 3)
        with pytest.raises(InputError, match=r"2 arrays besides id, text, y \('X', 'Z'\)"):
            load(tmp_path / "two.npz", label="y")
        np.savez(tmp_path / "objects.npz", X=self.X, y=np.array([{}] * 50, object))
        with pytest.raises(InputError, match="could run code"):
            load(tmp_path / "objects.npz", label="y")
        np.savez(tmp_path / "short.npz", X=self.X, y=np.arange(49) % 3)
        with pytest.raises(InputError, match="different lengths"):
            load(tmp_path / "short.npz", label="y")
        np.savez(tmp_path / "huge.npz", X=np.where(np.eye(50) == 1, 1e300, 0), y=np.arange(50) % 3)
        with pytest.raises(InputError, match=r"huge\.npz, row 1, column 1 is 1e\+300"):
            load(tmp_path / "huge.npz", label="y")
        (tmp_path / "page.npz").write_bytes(b"<html>")
        with pytest.raises(InputError, match=r"is damaged or is not an \.npz file"):
            load(tmp_path / "page.npz", label="y")


def test_the_seed_divides(tmp_path):
    np.savez(tmp_path / "mine.npz", X=np.arange(100.0)[:, None], label=np.arange(100) % 2)
    one, same, other = (load(tmp_path / "mine.npz", seed=seed) for seed in (0, 0, 1))
    assert (len(one.X_pool), len(one.X_target_source), len(one.X_test)) == (60, 20, 20)
    assert one.X_test.tolist() == same.X_test.tolist() != other.X_test.tolist()


def test_what_cannot_be_used_is_said(tmp_path):
    (tmp_path / "x.csv").write_text("x,label\n1,yes\n")
    for place in (None, tmp_path / "x.csv", tmp_path / "none.npz"):
        with pytest.raises(InputError, match=r"is no \.npz file with data of your own"):
            load(place)
    np.savez(tmp_path / "x.npz", X=np.arange(30.0)[:, None], label=["yes"] * 30)
    with pytest.raises(LabelError, match="only the label 'yes'"):
        load(tmp_path / "x.npz")
    np.savez(tmp_path / "y.npz", text=["a"] * 30, label=["yes", "no"] * 15)
    with pytest.raises(InputError, match="holds no features"):
        load(tmp_path / "y.npz")
    np.savez(tmp_path / "z.npz", X=np.arange(2.0)[:, None], label=["yes", "no"])
    with pytest.raises(InputError, match="too few labelled rows"):
        load(tmp_path / "z.npz")
