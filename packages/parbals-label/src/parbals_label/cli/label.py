"""The command ``label``: a program labels the items that are worth it."""

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from threading import Event
from types import FrameType
from typing import Any

import click
from parbals.cli.output import progress, say, shown
from parbals.errors import InputError
from parbals.wording import PROGRAM

from parbals_label.cli.options import COST, NO_REPORT, SECONDS, command, opened, option

__all__ = ["clean_stop", "label"]

_INTERRUPTED = 130
_LONGEST_NAME = 100


@command
@option(
    "--with COMMAND",
    "Program that reads items and writes labels as JSON lines; examples/annotators/"
    "chat_endpoint.py asks an LLM or any other endpoint.",
    to="command",
    required=True,
)
@option("--name ANNOTATOR", "Labels are kept as machine:ANNOTATOR; by default from the command.")
@option("-n", "Items a batch.", click.IntRange(1, 10_000), to="batch_size", default=20)
@option("--budget LABELS", "Stop after so many stored labels.", click.IntRange(1))
@option("--retries", "Further tries for what is missing.", click.IntRange(0, 100), default=3)
@option("--timeout S", "Longest silence before a retry.", SECONDS, default=120.0)
@COST
@NO_REPORT
@click.pass_context
def label(
    context: click.Context,
    /,
    folder: Path,
    command: str,
    name: str | None,
    costs: dict[str, float] | None,
    no_report: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Let a program label items: an LLM, a rule, a simulation.

    Labels are stored as they arrive, under machine:ANNOTATOR and apart from people's. Ctrl-C stops
    after storing what has arrived; running the command again goes on. Exit code 1: the annotator
    did not work.

    \b
    Examples:
      parbals label spam --with "python keyword_rule.py" --budget 200
      parbals label spam --with "python chat_endpoint.py --model m --task 'Spam?'"
      parbals label spam --with "python keyword_rule.py" --name rule --cost me=1,rule=0.01
    """
    from parbals_label.machines.loop import ENDINGS, Rules, label_items
    from parbals_label.machines.programs import Program, split_command

    words = split_command(command)
    stop = Event()
    with opened(folder) as store:
        from parbals_label.project.features import features_of

        program = Program(words, store.settings.media)
        annotator = f"{PROGRAM}{(own := _checked_name(name, program.name))}"
        costs = costs and {annotator if who == own else who: cost for who, cost in costs.items()}
        if costs and annotator not in costs:
            raise InputError(f"--cost does not say what {own} costs; add {own}=0.01 or the like.")
        rules = Rules(**options, costs=costs)
        features_of(store)  # before anything starts: without features nothing can be chosen
        total = store.n_items - store.n_labelled
        total = total if rules.budget is None else min(total, rules.budget)
        with clean_stop(stop), progress() as show:
            result = label_items(
                store,
                annotator,
                program,
                rules,
                stop,
                say=lambda sentence: click.echo(shown(sentence), err=True),
                progress=lambda stage, stored: show("labels", stored, total, stage),
            )
        why = ENDINGS[result.ended] + (f" ({result.fault})" if result.fault else "")
        say(
            as_json,
            {"annotator": annotator, **asdict(result)},
            f"{result.stored:,} labels stored as {annotator}, {result.abstained:,} abstained, "
            f"{result.failed:,} without a usable answer. Ended: {why}.",
        )
        if not no_report and result.stored and result.ended != "interrupted":
            from parbals_label.project.engine import refresh
            from parbals_label.project.summary import goal_of, report_lines

            report = refresh(store)
            if not as_json:
                lines = report_lines(report, goal_of(store), report.n_labelled)
                click.echo(shown("\n".join(lines)))
    context.exit({"interrupted": _INTERRUPTED, "failed": 1}.get(result.ended, 0))


def _checked_name(name: str | None, default: str) -> str:
    from parbals_label.store.people import check_name

    if name is None:
        return re.sub(r"[^\w.:-]+", "-", default)[:_LONGEST_NAME].strip("-") or "program"
    return check_name(name)


@contextmanager
def clean_stop(stop: Event) -> Iterator[None]:
    """The first Ctrl-C asks to stop, the second one insists."""

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
