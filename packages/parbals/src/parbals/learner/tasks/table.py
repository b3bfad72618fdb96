"""The tasks by name; a task is loaded when somebody has it, because their models take a while."""

from collections.abc import Hashable, Sequence
from importlib import import_module
from typing import Any

from parbals.learner.tasks.base import Task
from parbals.validate import check_choice

__all__ = ["TASKS", "task_named"]

TASKS = {
    "classes": ("base", "Classes"),
    "many-labels": ("many", "ManyLabels"),
    "ordinal": ("ordinal", "Ordinal"),
    "regression": ("numbers", "Numbers"),
}
"""Name → module of this folder, and class."""


def task_named(name: Any, classes: Sequence[Hashable] | None) -> Task:
    """The task with these classes, or what there is."""
    check_choice(name, tuple(TASKS), "task")
    module, kind = TASKS[name]
    task: Task = getattr(import_module(f"parbals.learner.tasks.{module}"), kind)(classes)
    return task
