"""The table: all published names, what each row says, entry points of other packages."""

import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest
from parbals import plugins
from parbals.errors import InputError
from parbals.strategies import STRATEGIES, Strategy, all_strategies, strategy_named
from parbals.strategies.table import (
    COLD_START_STRATEGY,
    DEFAULT_STRATEGY,
    RANDOM_STRATEGY,
    strategy_title,
)

NAMES = [
    "random",
    "confidence",
    "margin",
    "entropy",
    "coreset",
    "kmeans",
    "typiclust",
    "probcover",
    "dropquery",
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


NOT_IN_THE_PAPER = {COLD_START_STRATEGY, "typiclust", "probcover", "dropquery"}


def test_every_strategy_is_there():
    assert list(STRATEGIES) == NAMES


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_row_is_all_there_is_to_say(name):
    """A title, a sentence for people, the paper's tables, a line of its own, cost and reference."""
    row = STRATEGIES[name]
    others = [other for other in STRATEGIES.values() if other is not row]
    assert row.title
    assert row.title not in {other.title for other in others}
    assert row.about.split()[0] in ("chosen", "drawn")  # This item was ...
    assert not row.about.endswith(".")
    assert bool(row.tables) == (name not in NOT_IN_THE_PAPER)
    assert set(row.tables) <= {"bayesian", "heuristics"}
    assert row.style is not None
    assert row.style[:3] not in {other.style[:3] for other in others}
    assert row.cost
    assert row.reference or name == RANDOM_STRATEGY


def test_names_with_a_part_to_play_are_in_the_table():
    assert {DEFAULT_STRATEGY, COLD_START_STRATEGY, RANDOM_STRATEGY} <= set(STRATEGIES)
    assert not STRATEGIES[COLD_START_STRATEGY].uses_predictions
    assert strategy_title(DEFAULT_STRATEGY) == "ParBaLS EPIG"
    assert strategy_title("gone") == "gone"


def test_looking_at_the_table_loads_no_jax():
    code = "import sys; from parbals.strategies import STRATEGIES; print('jax' in sys.modules)"
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout == "False\n"


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
