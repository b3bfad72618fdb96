"""Tasks by name, loaded on first use because their models take a while to import."""

from collections.abc import Hashable, Sequence
from importlib import import_module
from typing import Any, NamedTuple

from parbals.learner.tasks.base import Task
from parbals.validate import check_choice

__all__ = ["TASKS", "task_named"]


class TaskEntry(NamedTuple):
    """Where a task is defined: a module of this folder and a class in it."""

    module: str
    class_name: str


TASKS = {
    "classes": TaskEntry("base", "Classification"),
    "many-labels": TaskEntry("multilabel", "MultiLabel"),
    "ordinal": TaskEntry("ordinal", "Ordinal"),
    "regression": TaskEntry("regression", "Regression"),
}
"""The values of ``ActiveLearner(task=...)``."""


def task_named(name: Any, classes: Sequence[Hashable] | None) -> Task:
    """Create the task ``name`` with these classes; unknown names are refused.

    >>> task_named("ordinal", ["low", "medium", "high"]).encode("high", "label")
    2
    """
    check_choice(name, tuple(TASKS), "task")
    entry = TASKS[name]
    module = import_module(f"parbals.learner.tasks.{entry.module}")
    task: Task = getattr(module, entry.class_name)(classes)
    return task
