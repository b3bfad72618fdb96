"""The command `parbals label`: a program or an LLM labels items."""

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
from parbals.cli.output import print_result, printable, progress
from parbals.errors import InputError
from parbals.wording import PROGRAM_PREFIX

from parbals_label.cli.options import COST, NO_REPORT, SECONDS, command, open_store, option

__all__ = ["clean_stop", "label"]

_INTERRUPTED = 130
"""Exit code after Ctrl-C."""
_LONGEST_NAME = 100


@command
@option(
    "--with COMMAND",
    "Run this program, which reads items and writes labels as JSON lines; "
    "examples/annotators/chat_endpoint.py asks an LLM.",
    argument="command",
    required=True,
)
@option(
    "--name ANNOTATOR",
    "Store the labels under machine:ANNOTATOR.  [default: the name of the program]",
)
@option(
    "-n N",
    "Ask for this many items at once.",
    click.IntRange(1, 10_000),
    argument="batch_size",
    default=20,
)
@option("--budget N", "Stop after N stored labels.", click.IntRange(1))
@option("--rate N", "Ask for at most N items a minute, retries included.", click.IntRange(1))
@option(
    "--retries N",
    "Ask up to N more times for missing labels.",
    click.IntRange(0, 100),
    default=3,
    rare=True,
)
@option(
    "--timeout S",
    "Wait at most S seconds for the next label before a retry.",
    SECONDS,
    default=120.0,
    rare=True,
)
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
    """Label items with a program or an LLM.

    Labels are stored as they arrive, apart from people's. Ctrl-C stops after storing the labels
    that have arrived; run the command again to continue. Exit code 1: the program did not work.

    \b
    Examples:
      parbals label spam --with "python keyword_rule.py" --budget 200
      parbals label spam --with "python chat_endpoint.py --model m --task 'Spam?'" --rate 60
      parbals label spam --with "python keyword_rule.py" --name rule --cost me=1,rule=0.01
    """
    from parbals_label.machines.loop import ENDINGS, Rules, label_items
    from parbals_label.machines.programs import Program, split_command

    words = split_command(command)
    stop = Event()
    with open_store(folder) as store:
        from parbals_label.project.features import features_of

        program = Program(words, store.settings.media)
        short_name = _checked_name(name, program.name)
        annotator = f"{PROGRAM_PREFIX}{short_name}"
        rules = Rules(**options, costs=_full_names(costs, short_name, annotator))
        features_of(store)  # before anything starts: without features nothing can be chosen
        total = store.n_items - store.n_labelled
        if rules.budget is not None:
            total = min(total, rules.budget)
        with clean_stop(stop), progress() as show:
            result = label_items(
                store,
                annotator,
                program,
                rules,
                stop,
                say=lambda sentence: click.echo(printable(sentence), err=True),
                progress=lambda stage, stored: show("labels", stored, total, stage),
            )
        reason = ENDINGS[result.ended]
        if result.fault:
            reason += f" ({result.fault})"
        print_result(
            as_json,
            {"annotator": annotator, **asdict(result)},
            f"{result.stored:,} labels stored as {annotator}, {result.abstained:,} abstained, "
            f"{result.failed:,} without a usable answer. Ended: {reason}.",
        )
        if not no_report and result.stored and result.ended != "interrupted":
            from parbals_label.project.engine import refresh
            from parbals_label.project.summary import goal_of, report_lines

            report = refresh(store)
            if not as_json:
                lines = report_lines(report, goal_of(store), report.n_labelled)
                click.echo(printable("\n".join(lines)))
    context.exit({"interrupted": _INTERRUPTED, "failed": 1}.get(result.ended, 0))


def _full_names(
    costs: dict[str, float] | None, short_name: str, annotator: str
) -> dict[str, float] | None:
    """Costs by the names that labels are stored under."""
    if not costs:
        return costs
    costs = {annotator if name == short_name else name: cost for name, cost in costs.items()}
    if annotator not in costs:
        raise InputError(
            f"--cost does not say what {short_name} costs; add {short_name}=0.01 or the like."
        )
    return costs


def _checked_name(name: str | None, default: str) -> str:
    from parbals_label.store.names import check_name

    if name is None:
        return re.sub(r"[^\w.:-]+", "-", default)[:_LONGEST_NAME].strip("-") or "program"
    return check_name(name)


@contextmanager
def clean_stop(stop: Event) -> Iterator[None]:
    """Set ``stop`` at the first Ctrl-C or SIGTERM; the second one interrupts."""

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    previous = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
