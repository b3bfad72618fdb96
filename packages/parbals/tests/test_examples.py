"""The examples in docstrings of the root modules, the strategies and the features run as shown."""

import doctest
from importlib import import_module

import pytest

MODULES = (
    "arrays",
    "errors",
    "features.frames",
    "features.pca",
    "features.reading",
    "features.table",
    "features.text",
    "features.words",
    "files",
    "labels",
    "machine",
    "randomness",
    "select",
    "strategies.backends.base",
    "strategies.batchbald",
    "strategies.problem",
    "strategies.table",
    "strategies.universes.gaussian",
    "testing",
    "types",
    "validate",
    "wording",
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_run_as_shown(name):
    results = doctest.testmod(import_module(f"parbals.{name}"))
    assert results.attempted > 0
    assert results.failed == 0


def test_examples_of_scikit_activeml_run_as_shown():
    pytest.importorskip("skactiveml")
    assert doctest.testmod(import_module("parbals.skactiveml.query")).failed == 0
