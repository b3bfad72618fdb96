"""Commands of projects: one file for each group of them, loaded when one of them is looked up."""

from typing import Any

from parbals.cli.base import CommandTable

__all__ = ["BY_NAME"]

BY_NAME = CommandTable(
    "parbals_label.cli",
    {
        "init": "project:init",
        "add": "change:add",
        "edit": "change:edit",
        "embed": "project:embed",
        "adapt": "project:adapt",
        "target": "target:target",
        "serve": "serve:serve",
        "next": "batch:next_",
        "tell": "batch:tell",
        "label": "label:label",
        "label-studio": "label_studio:label_studio",
        "labels": "labels:labels",
        "queue": "queue:queue",
        "status": "results:status",
        "measure": "measure:measure",
        "estimate": "measure:estimate",
        "predict": "predict:predict",
        "export": "results:export",
        "team": "team:team",
        "backup": "backup:backup",
        "check": "backup:check",
    },
)


def __getattr__(name: str) -> Any:
    """COMMANDS, a tuple of all commands, which the package's entry point names."""
    if name != "COMMANDS":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return tuple(BY_NAME.values())
