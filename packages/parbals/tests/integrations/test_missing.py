"""A tool that is not there is named, with the command that brings it."""

import importlib
import sys

import pytest
from parbals.errors import MissingDependencyError


@pytest.mark.parametrize(
    ("module", "tool", "extra"),
    [("skactiveml", "skactiveml", "skactiveml"), ("torch", "torch", "torch")],
)
def test_without_the_tool_the_command_is_named(module, tool, extra, monkeypatch):
    ours = f"parbals.integrations.{module}"
    for name in [n for n in sys.modules if f"{n}.".startswith((f"{tool}.", f"{ours}."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, tool, None)
    with pytest.raises(MissingDependencyError, match=rf"pip install 'parbals\[{extra}\]'"):
        importlib.import_module(ours)


def test_datasets_are_needed_only_to_write_one(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    from parbals.integrations.huggingface import labelled_dataset

    with pytest.raises(MissingDependencyError, match=r"parbals\[datasets\]"):
        labelled_dataset(None, [])
