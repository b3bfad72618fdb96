"""Without scikit-activeml the command that brings it is named."""

import importlib
import re
import sys

import pytest
from parbals.errors import MissingDependencyError
from parbals.installing import install_command


def test_without_the_tool_the_command_is_named(monkeypatch):
    hidden_modules = ("skactiveml.", "parbals.skactiveml.")
    for name in [n for n in sys.modules if f"{n}.".startswith(hidden_modules)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "skactiveml", None)
    with pytest.raises(
        MissingDependencyError, match=re.escape(install_command("parbals[skactiveml]"))
    ):
        importlib.import_module("parbals.skactiveml")
