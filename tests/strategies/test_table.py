"""The table: all published names, entry points of other packages, and what is said when one is
wrong."""

from importlib.metadata import EntryPoint

import pytest

from parbals import plugins
from parbals.errors import InputError
from parbals.strategies import STRATEGIES, Strategy, all_strategies, strategy_named

NAMES = [
    "random",
    "confidence",
    "margin",
    "entropy",
    "coreset",
    "badge",
    "galaxy",
    "glister",
    "bald",
    "power-bald",
    "softmax-bald",
    "softrank-bald",
    "batchbald",
    "epig",
    "power-epig",
    "softmax-epig",
    "softrank-epig",
    "parbals-map-epig",
    "parbals-epig",
]


def test_every_strategy_of_the_paper_is_there():
    assert list(STRATEGIES) == NAMES


def test_each_says_what_it_costs_and_where_it_was_published():
    assert all(strategy.cost for strategy in STRATEGIES.values())
    assert all(strategy.reference for name, strategy in STRATEGIES.items() if name != "random")


def test_an_unknown_name_is_told_what_there_is():
    with pytest.raises(
        InputError, match=r"no strategy 'epigg'; choose one of: random, .*parbals-epig"
    ):
        strategy_named("epigg")
    with pytest.raises(InputError, match="no strategy None"):
        strategy_named(None)


def advertised(monkeypatch, *entries):
    points = [EntryPoint(name, value, "parbals.strategies") for name, value in entries]
    monkeypatch.setattr(plugins, "entry_points", lambda group: points)


def test_an_installed_package_adds_its_own(monkeypatch):
    advertised(monkeypatch, ("mine", "strategies_of_others:GOOD"))
    assert isinstance(strategy_named("mine"), Strategy)
    assert list(all_strategies())[-1] == "mine"


def test_ours_cannot_be_replaced(monkeypatch):
    advertised(monkeypatch, ("epig", "strategies_of_others:GOOD"))
    assert strategy_named("epig") is STRATEGIES["epig"]


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("no_such_module:X", "cannot be loaded"),
        ("strategies_of_others:NOT_ONE", "must name a parbals"),
    ],
)
def test_a_broken_one_is_named_and_stops_nothing_else(monkeypatch, value, complaint):
    advertised(monkeypatch, ("broken", value))
    with pytest.raises(InputError, match=complaint):
        strategy_named("broken")
    assert list(all_strategies()) == NAMES
    assert strategy_named("random")
