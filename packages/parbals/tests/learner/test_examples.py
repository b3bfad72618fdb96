"""Examples in docstrings of the learner run, and print what they say."""

import doctest
from importlib import import_module

import pytest

MODULES = [
    "active",
    "choosing",
    "descriptions",
    "features",
    "ledger",
    "models",
    "paper",
    "settings",
    "state",
    "tasks.base",
    "tasks.multilabel",
    "tasks.ordinal",
    "tasks.regression",
    "tasks.table",
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    result = doctest.testmod(import_module(f"parbals.learner.{name}"))
    assert result.attempted
    assert not result.failed
