"""Datasets are found by name, ours or another package's."""

from importlib.metadata import EntryPoint, EntryPoints

import pytest
from parbals import plugins
from parbals.errors import InputError
from parbals_bench.datasets.table import DATASETS, all_datasets, dataset_named, dataset_title


def advertised(monkeypatch, *entries):
    """Pretend that an installed package has these entry points, (name, value)."""
    points = EntryPoints(EntryPoint(name, value, "parbals.datasets") for name, value in entries)
    monkeypatch.setattr(plugins, "entry_points", lambda group: points.select(group=group))


def test_an_installed_package_adds_its_own(monkeypatch):
    advertised(monkeypatch, ("mine", "parbals_bench.datasets.scikit_learn:DIGITS"))
    assert dataset_named("mine") is DATASETS["digits"]
    assert dataset_title("mine") == "Digits"
    assert list(all_datasets()) == [*DATASETS, "mine"]


def test_ours_cannot_be_replaced(monkeypatch):
    advertised(monkeypatch, ("airline", "parbals_bench.datasets.scikit_learn:DIGITS"))
    assert dataset_named("airline") is DATASETS["airline"]


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("no_such_module:X", "The dataset 'broken' .* cannot be loaded"),
        ("parbals_bench.datasets.base:halves", "must name a parbals_bench.datasets.base.Dataset"),
    ],
)
def test_a_broken_one_is_named_and_stops_nothing_else(monkeypatch, value, complaint):
    advertised(monkeypatch, ("broken", value))
    with pytest.raises(InputError, match=complaint):
        dataset_named("broken")
    assert dataset_title("broken") == "broken"
    assert list(all_datasets()) == list(DATASETS)


def test_unknown_names_are_answered_with_the_known_ones(monkeypatch):
    advertised(monkeypatch, ("mine", "parbals_bench.datasets.scikit_learn:DIGITS"))
    with pytest.raises(InputError, match=r"no dataset 'mnist'; choose one of: airline, .*, mine"):
        dataset_named("mnist")
