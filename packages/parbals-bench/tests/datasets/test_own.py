"""A user's own labelled file becomes a benchmark dataset: columns, text or a ready array."""

import numpy as np
import pytest
from parbals.errors import InputError, LabelError
from parbals_bench.datasets.base import three_parts
from parbals_bench.datasets.own import load


@pytest.fixture
def table(tmp_path, make_csv):
    rng = np.random.default_rng(0)
    rows = [
        [f"c{i}", rng.integers(18, 80), rng.choice(["red", "blue"]),
         f"please {('pay', 'call')[i % 2]} today {i % 5}", ("no", "yes")[i % 2]]
        for i in range(100)
    ]  # fmt: skip
    make_csv(tmp_path / "people.csv", rows, ["customer", "age", "colour", "note", "bought"])
    return tmp_path / "people.csv"


def test_columns_become_features_and_ids_are_left_out(table):
    data = load(table, label="bought")
    assert data.classes == ("no", "yes")
    assert (len(data.X_pool), len(data.X_target_source), len(data.X_test)) == (60, 20, 20)
    assert data.X_pool.shape[1] == 1 + 10 + 2 + 10  # age as number and bins, colour, notes
    assert data.notes == ("'customer' is left out: it only tells the rows apart.",)


def test_the_seed_divides(table):
    assert (
        load(table, label="bought").y_test.tolist()
        != load(table, label="bought", seed=1).y_test.tolist()
    )


def test_text_is_read_where_it_is_named(table):
    data = load(table, label="bought", text="note")
    assert data.X_pool.shape[1] >= 3
    with pytest.raises(InputError, match=r"'story' is not a column; there are: 'customer', 'age'"):
        load(table, label="bought", text="story")


def test_a_label_column_that_is_not_there_is_named(table):
    with pytest.raises(InputError, match=r"people\.csv has no column 'label'"):
        load(table)


def test_arrays_are_taken_as_they_are_or_reduced(tmp_path):
    X = np.random.default_rng(0).standard_normal((50, 6)).astype(np.float32)
    X[:, 5] = X[:, 4]
    np.savez(tmp_path / "mine.npz", X=X, label=np.arange(50) % 3)
    data = load(tmp_path / "mine.npz")
    assert data.classes == ("0", "1", "2")
    assert data.X_pool.shape == (30, 6)
    assert {row.tobytes() for row in data.X_pool} <= {row.tobytes() for row in X}
    assert load(tmp_path / "mine.npz", features="pca").X_pool.shape == (30, 5)


def test_rows_without_a_label_are_left_out(tmp_path):
    labels = np.array(["a", "b", ""] * 20)
    np.savez(tmp_path / "mine.npz", X=np.arange(60.0)[:, None], label=labels)
    data = load(tmp_path / "mine.npz")
    assert len(data.X_pool) + len(data.X_target_source) + len(data.X_test) == 40
    assert data.notes == ("20 rows of mine.npz have no label and were left out",)
    assert ((data.X_pool[:, 0] % 3) == data.y_pool).all()  # features stay with their labels


def test_rows_of_a_table_without_a_label_are_counted(tmp_path, make_csv):
    rows = [[i % 7, i % 3, "" if i < 17 else ("a", "b")[i % 2]] for i in range(50)]
    make_csv(tmp_path / "some.csv", rows, ["x", "z", "label"])
    data = load(tmp_path / "some.csv")
    assert len(data.X_pool) + len(data.X_target_source) + len(data.X_test) == 33
    assert data.notes == ("17 rows of some.csv have no label and were left out",)


@pytest.mark.parametrize("cell", ["inf", "many"])
def test_a_cell_that_is_no_number_counts_as_missing(tmp_path, make_csv, cell):
    rows = [[i % 3, cell if i in (20, 40, 60, 80) else 0.5 * i, "ab"[i % 2]] for i in range(100)]
    make_csv(tmp_path / "mine.csv", rows, ["kind", "size", "label"])
    data = load(tmp_path / "mine.csv")
    assert all(np.isfinite(X).all() for X in (data.X_pool, data.X_target_source, data.X_test))
    assert any("'size'" in note for note in data.notes)


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


def test_other_rows_leave_the_pool_as_it_is(tmp_path, make_csv):
    rows = [[f"{('bad', 'good')[i % 2]} film {i % 4}", i % 2] for i in range(60)]
    tested = set(three_parts(60, "own", 0)[2].tolist())
    other = [["a word never heard", y] if i in tested else [x, y] for i, (x, y) in enumerate(rows)]
    for name, written in (("a", rows), ("b", other)):
        make_csv(tmp_path / f"{name}.csv", written, ["text", "label"])
    for options in ({"text": "text"}, {"features": "tabular"}):
        one, two = (load(tmp_path / f"{name}.csv", **options) for name in ("a", "b"))
        np.testing.assert_array_equal(one.X_pool, two.X_pool)
        assert not np.array_equal(one.X_test, two.X_test)


def test_what_cannot_be_used_is_said(tmp_path, make_csv):
    with pytest.raises(InputError, match="own data needs a place"):
        load()
    make_csv(tmp_path / "x.csv", [[i, "yes"] for i in range(30)], ["x", "label"])
    with pytest.raises(LabelError, match="only the label 'yes'"):
        load(tmp_path / "x.csv")
    make_csv(tmp_path / "y.csv", [[i % 4, ("a", "b")[i % 2]] for i in range(30)], ["x", "label"])
    with pytest.raises(InputError, match='no array of features; use features="tabular"'):
        load(tmp_path / "y.csv", features="given")
