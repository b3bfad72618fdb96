"""One class against the others, and divisions that anyone can repeat."""

import numpy as np
import pytest
from parbals.errors import InputError, LabelError
from parbals_bench.datasets.base import Data, halves, one_vs_all, three_parts
from parbals_bench.datasets.table import load_dataset


@pytest.fixture(scope="module")
def digits():
    return load_dataset("digits")


def test_one_class_against_the_others(digits):
    data = one_vs_all(digits, "3")
    assert data.classes == ("not 3", "3")
    assert data.positive == "3"
    np.testing.assert_array_equal(data.y_pool == 1, digits.y_pool == 3)
    np.testing.assert_array_equal(data.y_test == 1, digits.y_test == 3)
    assert data.X_pool is digits.X_pool


def test_a_class_that_is_not_there_is_refused(digits):
    with pytest.raises(LabelError, match="digits has no class 'ten'; its 10 classes are: 0, 1"):
        one_vs_all(digits, "ten")


def test_a_class_without_a_row_in_the_pool_is_refused():
    data = Data(
        "x",
        np.zeros((2, 1)),
        np.array([0, 1]),
        np.zeros((1, 1)),
        np.zeros((1, 1)),
        np.array([2]),
        ("a", "b", "c"),
    )
    with pytest.raises(LabelError, match="no row of the pool is of class 'c'"):
        one_vs_all(data, "c")


def test_features_and_labels_must_go_together():
    with pytest.raises(InputError, match="pool has 2 rows of features and 1 labels"):
        Data(
            "x",
            np.zeros((2, 1)),
            np.array([0]),
            np.zeros((1, 1)),
            np.zeros((1, 1)),
            np.array([0]),
            ("a", "b"),
        )


def test_halves_use_every_row_once_and_are_always_the_same():
    first, second = halves(101, "airline")
    assert sorted([*first, *second]) == list(range(101))
    assert len(first) == 50
    np.testing.assert_array_equal(first, halves(101, "airline")[0])
    assert first.tolist() != halves(101, "cifar10")[0].tolist()


def test_three_parts_use_every_row_once_and_follow_the_seed():
    parts = three_parts(1000, "x", 0)
    assert [len(part) for part in parts] == [600, 200, 200]
    assert sorted(np.concatenate(parts)) == list(range(1000))
    assert parts[0].tolist() != three_parts(1000, "x", 1)[0].tolist()


@pytest.mark.parametrize(
    ("name", "n"), [("digits", 1797), ("breast-cancer", 569), ("sms-spam", 5574)]
)
def test_sets_that_need_no_files(name, n):
    data = load_dataset(name)
    other = load_dataset(name, seed=1)
    assert len(data.X_pool) + len(data.X_target_source) + len(data.X_test) == n
    assert not data.notes
    assert data.y_test.tolist() != other.y_test.tolist()
    assert set(data.y_pool.tolist()) == set(range(len(data.classes)))


class TestMissingFiles:
    """What a person is told to do ends in files where they are looked for."""

    def said(self, name, folder=None):
        with pytest.raises(InputError) as caught:
            load_dataset(name, folder)
        return str(caught.value)

    def test_the_folder_that_was_looked_in_is_part_of_the_command(self, tmp_path, monkeypatch):
        monkeypatch.setenv("PARBALS_DATA", str(tmp_path))
        usual = tmp_path / "ag_news" / "train.csv"
        other = tmp_path / "my data"
        assert f"`curl -L -C - --create-dirs -o {usual} https://" in self.said("ag-news")
        assert f" && curl -L -C - --create-dirs -o '{other / 'test.csv'}' https://" in self.said(
            "ag-news", other
        )
        assert "run `parbals bench data fetch ag-news`, or" in self.said("ag-news")
        assert f"`parbals bench data fetch ag-news --data '{other}'`" in self.said("ag-news", other)
        assert "curl" not in self.said("airline", other)  # there is no address to fetch it from
        assert "fetch" not in self.said("airline", other)

    @pytest.mark.parametrize(
        ("name", "archive"), [("iwildcam", "iwildcam_v2.0"), ("fmow", "fmow_v1.1")]
    )
    def test_an_archive_of_many_gigabytes_is_left_to_curl(self, tmp_path, name, archive):
        path = tmp_path / f"{archive}.tar.gz"
        download = f"`curl -L -C - --create-dirs -o {path} https://"
        unpack = f"unpack it with `tar -xzf {path} -C {tmp_path}`"
        message = self.said(name, tmp_path)
        assert download in message
        assert unpack in message
        assert "data fetch" not in message
