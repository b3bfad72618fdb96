"""The examples in the docstrings of the library run as shown."""

import doctest
import importlib
import pkgutil

import parbals
import pytest

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(parbals.__path__, "parbals.")
    if not module.name.endswith("__main__")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_run_as_shown(name):
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        pytest.skip(f"an optional dependency is missing: {error}")
    results = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert results.failed == 0
