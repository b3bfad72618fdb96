"""The command `parbals label`: an LLM or a program labels items."""

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from threading import Event
from types import FrameType
from typing import TYPE_CHECKING, Any

import click
from parbals.cli.output import print_result, printable, progress
from parbals.errors import InputError
from parbals.wording import PROGRAM_PREFIX

from parbals_label.cli.llm import LLM, LlmOptions, opened_model, print_estimate
from parbals_label.cli.options import (
    COST,
    NO_REPORT,
    SECONDS,
    command,
    flag,
    open_store,
    option,
    update_report,
)

if TYPE_CHECKING:
    from parbals_label.machines.asking import MachineAnnotator, Rules
    from parbals_label.machines.loop import Result
    from parbals_label.store.store import Store

__all__ = ["clean_stop", "label"]

_INTERRUPTED = 130
"""Exit code after Ctrl-C."""
_LONGEST_NAME = 100
_MAX_WAIT_SECONDS = 120.0
"""Longest wait of an LLM before a retry."""


@command
@LLM
@option(
    "--with COMMAND",
    "Run this program instead, which reads items and writes labels as JSON lines.",
    argument="command",
)
@option(
    "--name ANNOTATOR",
    "Store the labels under machine:ANNOTATOR.  [default: the name of the model or program]",
)
@option(
    "-n N",
    "Ask for this many items at once.",
    click.IntRange(1, 10_000),
    argument="batch_size",
    default=20,
)
@option(
    "--budget N",
    "Stop after N stored labels.",
    click.IntRange(1),
)
@option(
    "--max-cost MONEY",
    "Let the LLM cost no more than this in all, earlier runs included; needs --price.",
    click.FloatRange(0, 1e9, min_open=True),
)
@option(
    "--check N",
    "Label nothing; queue N random answers of a program for people to check, which measures its "
    "error.",
    click.IntRange(1, 10_000),
    argument="n_checks",
)
@option(
    "--unsure N",
    "Label nothing; queue the N answers that a program is least sure of for people.",
    click.IntRange(1, 10_000),
    argument="n_unsure",
)
@flag("--pause", "Pause a program or LLM; a run that is at work stops at its next request.")
@flag("--resume", "Let a paused program or LLM label again.")
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
@flag("--report", "Report how good programs and LLMs are, and what they cost; ask nobody.")
@COST
@NO_REPORT
@click.pass_context
def label(
    context: click.Context,
    /,
    folder: Path,
    llm: LlmOptions,
    command: str | None,
    name: str | None,
    report: bool,
    n_checks: int | None,
    n_unsure: int | None,
    pause: bool,
    resume: bool,
    costs: dict[str, float] | None,
    no_report: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Label items with an LLM or a program.

    Labels are stored as they arrive, apart from people's. Ctrl-C stops after storing the labels
    that have arrived; run the command again to continue. Exit code 1: the annotator did not work.

    \b
    Examples:
      parbals label spam --llm http://localhost:8000/v1 --model qwen --dry-run
      parbals label spam --llm https://api.openai.com/v1 --model m --price 0.15,0.60 --max-cost 5
      parbals label spam --check 20
      parbals label spam --with "python keyword_rule.py" --budget 200
      parbals label spam --with "python keyword_rule.py" --name rule --cost me=1,rule=0.01
      parbals label spam --report --cost me=0.50
    """
    if report:
        _print_quality(folder, name, costs, as_json=as_json)
        return
    if n_checks is not None or n_unsure is not None:
        if llm.url is not None or command is not None:
            raise InputError("--check and --unsure label nothing; leave out --llm and --with.")
        _queue_checks(folder, n_checks, n_unsure, name, as_json=as_json)
        return
    if pause or resume:
        if pause == resume or llm.url is not None or command is not None:
            raise InputError("Say --pause or --resume alone; leave out --llm and --with.")
        _set_paused(folder, name, is_paused=pause, as_json=as_json)
        return
    if (llm.url is None) == (command is None):
        raise InputError("Say who labels: --llm URL with --model NAME, or --with COMMAND.")
    if command is not None and (llm.model or llm.price or llm.dry_run or llm.key_variable):
        raise InputError("--model, --price, --key and --dry-run belong to --llm, not to --with.")
    if command is not None and options["max_cost"] is not None:
        raise InputError("--max-cost belongs to --llm; --budget limits the labels of a program.")
    with open_store(folder) as store:
        from parbals_label.project.features import features_of

        features_of(store)  # before anything starts: without features nothing can be chosen
        if llm.dry_run:
            print_estimate(store, llm, options["budget"], as_json=as_json)
            return
        with _annotator(store, llm, command, name, costs, options) as (program, annotator, rules):
            result = _run(store, annotator, program, rules, as_json=as_json)
        if not no_report and result.stored and result.ended != "interrupted":
            _print_report(store, as_json=as_json)
    context.exit({"interrupted": _INTERRUPTED, "failed": 1}.get(result.ended, 0))


def _queue_checks(
    folder: Path, n_random: int | None, n_unsure: int | None, name: str | None, *, as_json: bool
) -> None:
    """Queue random answers of a program, or the least sure ones, for people to check."""
    with open_store(folder) as store:
        from parbals_label.project.checks import queue_checks, queue_unsure

        if n_random is not None and n_unsure is not None:
            raise InputError("Say --check or --unsure, not both.")
        if n_random is not None:
            checks = queue_checks(store, n_random, name)
        else:
            checks = queue_unsure(store, n_unsure or 0, name)
        items = [item.id for item in store.items(checks.positions)]
        steps = f"Next: parbals serve {folder}, label them, then parbals label {folder} --report"
        sentences = f"{checks.sentence}\n{steps}"
        print_result(as_json, {"annotator": checks.program, "items": items}, sentences)


def _set_paused(folder: Path, name: str | None, *, is_paused: bool, as_json: bool) -> None:
    """Pause or resume a program."""
    with open_store(folder) as store:
        from parbals_label.project.pausing import set_paused

        sentence = set_paused(store, name, is_paused=is_paused)
        print_result(as_json, {"paused": list(store.settings.paused)}, sentence)


@contextmanager
def _annotator(
    store: "Store",
    llm: LlmOptions,
    command: str | None,
    name: str | None,
    costs: dict[str, float] | None,
    options: dict[str, Any],
) -> Iterator[tuple["MachineAnnotator", str, "Rules"]]:
    """Who labels, under which name, and by which rules."""
    from parbals_label.machines.loop import Rules
    from parbals_label.machines.programs import Program, split_command

    budget = options.pop("budget")
    max_cost = options.pop("max_cost")
    if command is not None:
        program = Program(split_command(command), store.settings.media)
        short_name = _checked_name(name, program.name)
        annotator = f"{PROGRAM_PREFIX}{short_name}"
        all_costs = _full_names(costs, short_name, annotator)
        yield program, annotator, Rules(**options, budget=budget, costs=all_costs)
        return
    batch_size = options.pop("batch_size")
    short_name = _checked_name(name, str(llm.model))
    annotator = f"{PROGRAM_PREFIX}{short_name}"
    # The model itself retries and limits its rate; so long may a batch be silent meanwhile.
    silence = (options["retries"] + 1) * (options["timeout"] + _MAX_WAIT_SECONDS)
    rules = Rules(
        batch_size=batch_size,
        budget=budget,
        retries=0,
        timeout=silence,
        costs=_full_names(costs, short_name, annotator),
    )
    with opened_model(store, llm, annotator, max_cost, **options) as model:
        yield model, annotator, rules


def _run(
    store: "Store", annotator: str, program: "MachineAnnotator", rules: "Rules", *, as_json: bool
) -> "Result":
    """Let the annotator label, and print the result."""
    from parbals_label.machines.loop import ENDINGS, label_items
    from parbals_label.project.checks import CHECK_SIZE
    from parbals_label.project.program_errors import program_errors
    from parbals_label.store.replies import usage_of

    stop = Event()
    total = store.n_items - store.n_labelled
    if rules.budget is not None:
        total = min(total, rules.budget)
    with clean_stop(stop), progress("labels") as show:
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
    usage = next((usage for usage in usage_of(store.folder) if usage.annotator == annotator), None)
    lines = [
        f"{result.stored:,} labels stored as {annotator}, {result.abstained:,} abstained, "
        f"{result.failed:,} without a usable answer. Ended: {reason}."
    ]
    if usage is not None:
        lines.append(f"So far {usage.sentence}.")
    answers = program_errors(store).get(annotator)
    if answers is not None and (answers.error is None or not answers.error.is_random):
        lines.append(
            "How often is it wrong? Have people check random answers: "
            f"parbals label {store.folder} --name {annotator.removeprefix(PROGRAM_PREFIX)} "
            f"--check {CHECK_SIZE}"
        )
    print_result(
        as_json,
        {
            "annotator": annotator,
            **asdict(result),
            "usage": None if usage is None else asdict(usage),
        },
        printable("\n".join(lines)),
    )
    return result


def _print_quality(
    folder: Path, name: str | None, costs: dict[str, float] | None, *, as_json: bool
) -> None:
    """Print how good programs and LLMs are, or the one of this name."""
    from parbals_label.project.program_report import program_reports
    from parbals_label.store.replies import usage_of

    with open_store(folder, read_only=True) as store:
        reports = program_reports(store, usage_of(folder), _human_cost(costs, name))
    if name is not None:
        reports = [report for report in reports if report.annotator == f"{PROGRAM_PREFIX}{name}"]
    if not reports:
        raise InputError("No program or LLM of that name has labelled this project yet.")
    sections = []
    for report in reports:
        title = f"{report.annotator}, {report.n_labels:,} labels"
        sections.append("\n".join([title, *(f"  {line}" for line in report.lines)]))
    values = [
        {
            **asdict(report),
            "export_error": report.export_error,
            "cost_of_rest": report.cost_of_rest,
            "n_for_goal": report.n_for_goal,
        }
        for report in reports
    ]
    print_result(as_json, {"programs": values}, printable("\n\n".join(sections)))


def _human_cost(costs: dict[str, float] | None, program: str | None) -> float | None:
    """The mean cost of a label by a person; None if it was not said."""
    by_people = [
        cost
        for name, cost in (costs or {}).items()
        if not name.startswith(PROGRAM_PREFIX) and name != program
    ]
    return sum(by_people) / len(by_people) if by_people else None


def _print_report(store: "Store", *, as_json: bool) -> None:
    """Compute a new report, and print it unless the output is JSON."""
    from parbals_label.project.samples import random_samples
    from parbals_label.project.summary import goal_of
    from parbals_label.project.summary_lines import report_lines

    report = update_report(store)
    if not as_json:
        lines = report_lines(report, goal_of(store), store.n_labelled, random_samples(store))
        click.echo(printable("\n".join(lines)))


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
