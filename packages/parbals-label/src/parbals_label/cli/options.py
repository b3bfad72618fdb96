"""Options that several commands of a project share."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from parbals.cli.output import JSON, progress
from parbals.errors import InputError

from parbals_label.shared_options import ENCODE_WITH, flag, names, option, packed

if TYPE_CHECKING:
    from parbals.learner.evaluation.report import Report

    from parbals_label.store.store import Store

__all__ = ["AUDIT_BY", "COST", "ENCODE_WITH", "FOLDER", "FORCE", "GOAL", "NO_REPORT", "PATH"]
__all__ += ["PRIOR_SCORES", "READING", "SECONDS", "SHOWN", "Share"]
__all__ += ["command", "flag", "names", "opened", "option", "packed", "pair", "renewed"]

PATH = click.Path(path_type=Path)


SECONDS = click.FloatRange(0, 1e9, min_open=True)
"""A time that somebody may wait for."""

FOLDER = click.argument("folder", metavar="DIR", type=PATH)


def command(function: Any) -> click.Command:
    """A command on a project: DIR is its first argument, --json its last option."""
    JSON(function)
    parameters = function.__click_params__  # the last one first
    parameters.insert(0, parameters.pop())
    made: click.Command = click.command()(FOLDER(function))
    return made


def pair(text: str, advice: str) -> tuple[str, str]:
    """What stands before and behind an equals sign."""
    before, _, behind = (part.strip() for part in text.partition("="))
    if not before or not behind:
        raise InputError(f"{text!r} {advice}")
    return before, behind


def _costs(context: Any, parameter: Any, value: str | None) -> dict[str, float] | None:
    """Names and numbers as in a=1,b=0.01."""
    pairs = [part.rpartition("=") for part in value.split(",")] if value is not None else []
    try:
        found = {name.strip(): float(cost) for name, _, cost in pairs}
    except ValueError:
        found = {"": 0.0}
    if any(not name or not 0.0 < cost < float("inf") for name, cost in found.items()):
        raise click.BadParameter(f"{value!r} is no list of costs; say ada=1,machine:llm=0.01.")
    return found or None


COST = option(
    "--cost NAME=COST,..",
    "What an answer of each annotator costs: questions are chosen by what their answers are worth "
    "for it, second opinions among them.",
    to="costs",
    callback=_costs,
)

FORCE = flag("--force", "Replace the file if it is there already.")

NO_REPORT = flag("--no-report", "Only store the labels; the report stays as it was.")

AUDIT_BY = option(
    "--audit-by",
    "Who is asked for the audit's labels. With anyone programs are, too, but what they say "
    "certifies nothing.  [default: people]",
    click.Choice(["people", "anyone"]),
)

PRIOR_SCORES = option(
    "--prior-scores FILE",
    "What another model, such as an LLM or CLIP, says of every item before anybody labels: an "
    "id and a column of scores for each class. Labels that contradict it win.",
    PATH,
)


def SHOWN(command: Any) -> Any:
    """Which columns annotators see."""
    words = "Columns that annotators do not see; those that may be the answer are hidden anyway."
    command = names("--hide COLS", words, to="hidden")(command)
    words = "Columns to show although they may be the answer."
    return names("--show COLS", words, to="shown")(command)


class Share(click.ParamType):
    """5% or 0.05; a bare 5 could mean either, and is refused."""

    name = "share"

    def convert(self, value: Any, parameter: Any, context: Any) -> float:
        text = str(value).strip()
        is_percent = text.endswith("%")
        try:
            share = float(text.removesuffix("%")) / (100.0 if is_percent else 1.0)
        except ValueError:
            share = -1.0
        if not 0.0 < share < 1.0:
            self.fail(f"{text!r} is not a share; say 5% or 0.05.", parameter, context)
        return share


def opened(folder: Path, *, read_only: bool = False) -> "Store":
    """The project in a folder, as ``Store.open``; what that takes is loaded now."""
    from parbals_label.store.store import Store

    return Store.open(folder, read_only=read_only)


def renewed(store: "Store") -> "Report":
    """Report and predict again from the labels that a project has now."""
    from parbals_label.project.engine import refresh

    with progress() as show:
        return refresh(store, show)


READING = packed(
    "reading",
    dict,
    names("--names A,B,..", "Names for the columns of a table that has no header row."),
    option("--encoding NAME", "Encoding of a text file, if it is detected wrong."),
    option(
        "--encoding-errors",
        "With replace, bytes that the encoding does not have are read as \ufffd.",
        click.Choice(["strict", "replace"]),
        default="strict",
    ),
)
"""How data are read, where they do not tell: arguments of ``open_source``."""


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


GOAL = packed(
    "goal",
    _given,
    option(
        "--goal-labels N",
        "How many items are to be labelled; progress is shown against it.",
        click.IntRange(1),
    ),
    option(
        "--goal-error SHARE",
        "An error to reach (5% or 0.05); progress is shown against it.",
        Share(),
    ),
)
"""What people set out for, as settings of the project."""
