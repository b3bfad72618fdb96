"""What a suite calls a dataset."""

import numpy as np
import pytest
from bench_helpers import OWN_DATA
from parbals.errors import InputError
from parbals_bench.run.loading import load_data, resolved_tables


def test_one_class_against_the_others():
    three = load_data("digits:3")
    first = load_data("digits")
    assert (three.classes, first.classes) == (("not 3", "3"), ("not 0", "0"))
    assert three.y_pool.mean() == pytest.approx(0.1, abs=0.03)


def test_all_classes():
    assert load_data("digits:*").classes == tuple("0123456789")


def test_two_classes_stay_as_they_are():
    assert load_data("breast-cancer").classes == ("malignant", "benign")


def test_a_class_or_a_dataset_that_does_not_exist():
    with pytest.raises(InputError, match="no class '12'"):
        load_data("digits:12")
    with pytest.raises(InputError, match="There is no dataset 'nowhere'; choose one of: airline"):
        load_data("nowhere")


def test_each_dataset_has_its_place_in_the_folder(tmp_path):
    with pytest.raises(InputError, match=str(tmp_path / "credit_card")):
        load_data("credit-card", tmp_path)


class TestNamesOfTheSuitesOwn:
    def test_a_file_beside_the_suite(self, tmp_path):
        np.savez(tmp_path / "my data.npz", **OWN_DATA)
        tables = resolved_tables({"mine": {"path": "my data.npz"}}, tmp_path)
        assert load_data("mine", None, tables).classes == ("no", "yes")
        assert load_data("mine:no", None, tables).classes == ("not no", "no")

    def test_other_features_of_a_known_dataset(self, tmp_path):
        tables = resolved_tables(
            {"bins": {"dataset": "credit-card", "features": "tabular-values"}}, tmp_path
        )
        with pytest.raises(InputError, match=str(tmp_path / "there" / "credit_card")):
            load_data("bins", tmp_path / "there", tables)

    @pytest.mark.parametrize(
        ("table", "message"),
        [
            ({}, r"\[data.mine\] has no path; write path"),
            ({"dataset": "arline"}, "There is no dataset 'arline'"),
        ],
    )
    def test_mistakes_are_refused(self, table, message, tmp_path):
        with pytest.raises(InputError, match=message):
            resolved_tables({"mine": table}, tmp_path)
        with pytest.raises(InputError, match="has the name of a known dataset"):
            resolved_tables({"airline": {"path": "a.csv"}}, tmp_path)
