"""Options that several commands of a project share."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from parbals.cli.base import SETTINGS, Command
from parbals.cli.output import JSON, progress
from parbals.errors import InputError

from parbals_label.shared_options import ENCODE_WITH, flag, grouped, names, option

if TYPE_CHECKING:
    from parbals.learner.evaluation.report import Report

    from parbals_label.store.store import Store

__all__ = [
    "AUDIT_BY",
    "COST",
    "ENCODE_WITH",
    "FOLDER",
    "FORCE",
    "NO_REPORT",
    "PATH",
    "PRIOR_SCORES",
    "READING",
    "SECONDS",
    "SETTINGS",
    "TARGET",
    "TARGET_WEIGHTS",
    "Share",
    "command",
    "command_in",
    "flag",
    "goal_options",
    "grouped",
    "key_and_value",
    "names",
    "open_store",
    "option",
    "update_report",
    "visible_columns",
]

PATH = click.Path(path_type=Path)
SECONDS = click.FloatRange(0, 1e9, min_open=True)
"""A positive number of seconds."""

FOLDER = click.argument("folder", metavar="DIR", type=PATH)


def command(function: Any, name: str | None = None) -> click.Command:
    """A command on a project: DIR is its first argument, --json its last option."""
    JSON(function)
    parameters = function.__click_params__  # the last one first
    parameters.insert(0, parameters.pop())
    project_command: click.Command = click.command(name, cls=Command)(FOLDER(function))
    return project_command


def command_in(group: click.Group, name: str | None = None) -> Callable[[Any], click.Command]:
    """A command on a project that belongs to a group of commands."""

    def decorate(function: Any) -> click.Command:
        project_command = command(function, name)
        group.add_command(project_command)
        return project_command

    return decorate


def key_and_value(text: str, advice: str) -> tuple[str, str]:
    """The words before and behind an equals sign; ``advice`` ends the message where one is missing.

    >>> key_and_value("junk = spam", "renames no class")
    ('junk', 'spam')
    """
    key, _, value = text.partition("=")
    if not key.strip() or not value.strip():
        raise InputError(f"{text!r} {advice}")
    return key.strip(), value.strip()


def _parse_costs(context: Any, parameter: Any, value: str | None) -> dict[str, float] | None:
    """Parse names and numbers as in a=1,b=0.01."""
    if value is None:
        return None
    costs = {}
    for entry in value.split(","):
        name, _, number = entry.rpartition("=")
        try:
            cost = float(number)
        except ValueError:
            cost = 0.0
        if not name.strip() or not 0.0 < cost < float("inf"):
            raise click.BadParameter(f"{value!r} is no list of costs; say ada=1,machine:llm=0.01.")
        costs[name.strip()] = cost
    return costs


COST = option(
    "--cost NAME=COST,..",
    "Set the cost per answer for each annotator, in any unit. Maximises information per cost, and "
    "may ask for second opinions.",
    argument="costs",
    callback=_parse_costs,
)

FORCE = flag("--force", "Replace the file if it exists.")

NO_REPORT = flag("--no-report", "Keep the old report; the next command updates it.", rare=True)

AUDIT_BY = option(
    "--measure-by",
    "Choose who labels the test items of --measure. Labels from programs never count.  "
    "[default: people]",
    click.Choice(["people", "anyone"]),
    argument="audit_by",
    former="--audit-by",
    rare=True,
)

PRIOR_SCORES = option(
    "--prior-scores FILE",
    "Start from another model, such as an LLM or CLIP: a file with an id and a column of scores "
    "for each class. Labels that contradict it win.",
    PATH,
    rare=True,
)


TARGET = option(
    "--target FILE|FILTER",
    "Choose labels for a model that will be used on these rows: a file with the same columns, or "
    'a filter on the items, such as "region = north".  [default: the items themselves]',
)

TARGET_WEIGHTS = option(
    "--target-weights COL",
    "Weight the rows of --target by this column.",
    rare=True,
)


def visible_columns(*, rare: bool = False) -> Callable[[Any], Any]:
    """Options --show and --hide: the columns that annotators see."""
    hide = names(
        "--hide COLS",
        "Hide these columns from annotators. Columns that may reveal the label are hidden anyway.",
        argument="hidden",
        rare=rare,
    )
    show = names(
        "--show COLS",
        "Show these columns even if they may reveal the label.",
        argument="shown",
        rare=rare,
    )
    return lambda function: show(hide(function))


class Share(click.ParamType):
    """5% or 0.05; a bare 5 could mean either, and is refused."""

    name = "share"

    def convert(self, value: Any, parameter: Any, context: Any) -> float:
        text = str(value).strip()
        divisor = 100.0 if text.endswith("%") else 1.0
        try:
            share = float(text.removesuffix("%")) / divisor
        except ValueError:
            share = -1.0
        if not 0.0 < share < 1.0:
            self.fail(f"{text!r} is not a share; say 5% or 0.05.", parameter, context)
        return share


def open_store(folder: Path, *, read_only: bool = False) -> "Store":
    """Open the project in a folder; its heavy modules are imported now."""
    from parbals_label.store.store import Store

    return Store.open(folder, read_only=read_only)


def update_report(store: "Store") -> "Report":
    """Compute report and predictions from the labels that the project has now."""
    from parbals_label.project.engine import refresh

    with progress("updating the report") as show:
        return refresh(store, show)


READING = grouped(
    "reading",
    dict,
    names("--names A,B,..", "Name the columns of a table without a header row.", rare=True),
    option(
        "--encoding NAME",
        "Set the encoding of a text file, such as latin-1, where detection fails.",
        rare=True,
    ),
    option(
        "--encoding-errors",
        "Stop at bytes that the encoding does not have, or replace them by \ufffd.",
        click.Choice(["strict", "replace"]),
        default="strict",
        rare=True,
    ),
)
"""How data files are read: arguments of ``open_source``."""


def _set_values(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def goal_options(*, rare: bool = False) -> Callable[[Any], Any]:
    """Options --goal-labels and --goal-error, as settings of the project."""
    return grouped(
        "goal",
        _set_values,
        option(
            "--goal-labels N",
            "Set the number of items to label; progress is shown against it.",
            click.IntRange(1),
            rare=rare,
        ),
        option(
            "--goal-error SHARE",
            "Set the error to reach, as 5% or 0.05; progress is shown against it.",
            Share(),
            rare=rare,
        ),
    )
