"""What a suite calls a dataset."""

import pytest

from parbals.bench.loading import load_data
from parbals.errors import InputError


def test_one_class_against_the_others():
    three, first = load_data("digits:3"), load_data("digits")
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
