"""The command ``label``: a program or an endpoint labels the items that are worth it."""

import json
import math
import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from parbals.cli.options import JSON

if TYPE_CHECKING:
    from parbals.machines.loop import Result, Watcher
    from parbals.machines.pace import Stop

__all__ = ["label"]

_INTERRUPTED = 130
_LONGEST_NAME = 100


class _Seconds(click.FloatRange):
    """A finite number above zero; NaN passes every comparison of ``FloatRange``."""

    def __init__(self) -> None:
        super().__init__(min=0, min_open=True)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a number of seconds.", param, ctx)
        return number


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option(
    "--with",
    "command",
    metavar="COMMAND",
    help="Program that reads items and writes labels as JSON lines.",
)
@click.option(
    "--url", metavar="URL", help="Endpoint that takes items and returns labels as JSON lines."
)
@click.option(
    "--token-env",
    metavar="VARIABLE",
    help="Environment variable with a bearer token for the endpoint.",
)
@click.option(
    "--name",
    metavar="ANNOTATOR",
    help="Labels are kept as machine:ANNOTATOR; by default from the command.",
)
@click.option(
    "-n",
    "batch_size",
    default=20,
    show_default=True,
    type=click.IntRange(1, 10_000),
    help="Items a batch.",
)
@click.option(
    "--budget", type=click.IntRange(1), metavar="LABELS", help="Stop after so many stored labels."
)
@click.option("--max-seconds", type=_Seconds(), metavar="S", help="Stop after this time.")
@click.option(
    "--rate", type=click.IntRange(1), metavar="N", help="Ask at most so many items in any minute."
)
@click.option(
    "--retries",
    default=3,
    show_default=True,
    type=click.IntRange(0, 100),
    help="Further tries for what is missing.",
)
@click.option(
    "--timeout",
    default=120.0,
    show_default=True,
    type=_Seconds(),
    metavar="S",
    help="Longest silence before a retry.",
)
@click.option(
    "--strategy",
    default="project",
    show_default=True,
    type=click.Choice(["project", "random"]),
    help="How items are chosen: as the project does, or at random.",
)
@click.option(
    "--until-advised", is_flag=True, help="Stop when the report says that more labels hardly help."
)
@click.option(
    "--ask-again",
    is_flag=True,
    help="Also ask about items that this annotator abstained on before.",
)
@click.option(
    "--no-report", is_flag=True, help="Only store the labels; the report stays as it was."
)
@JSON
@click.pass_context
def label(
    context: click.Context,
    /,
    folder: Path,
    command: str | None,
    url: str | None,
    token_env: str | None,
    name: str | None,
    max_seconds: float | None,
    no_report: bool,
    as_json: bool,
    **rules: Any,
) -> None:
    """Let a program or an HTTP endpoint label items: an LLM, a rule, a simulation.

    Labels are stored as they arrive, under machine:ANNOTATOR and apart from people's. Ctrl-C stops
    after storing what has arrived; running the command again goes on. Exit code 1: the annotator
    did not work.

    \b
    Examples:
      parbals label spam --with "python keyword_rule.py" --budget 200
      parbals label spam --url http://127.0.0.1:8000/label --rate 60 --until-advised
    """
    from parbals.errors import InputError
    from parbals.machines.endpoints import Endpoint, check_url, url_name
    from parbals.machines.loop import Rules, label_items
    from parbals.machines.pace import Stop
    from parbals.machines.programs import Program, program_name, split_command
    from parbals.store.store import Store

    if (command is None) == (url is None):
        raise InputError("Say who labels: either --with COMMAND or --url URL.")
    if token_env is not None and url is None:
        raise InputError("--token-env is for --url; a program reads its environment itself.")
    words = None if command is None else split_command(command)
    default = program_name(words) if words is not None else url_name(check_url(url or ""))
    annotator = f"machine:{_checked_name(name, default)}"
    token = None if token_env is None else _token(token_env)
    settings = Rules(**rules)
    with Store.open(folder) as store:
        if store.settings.features is None:
            from parbals.errors import ProjectError
            from parbals.project.features import embed_advice

            advice = embed_advice(folder, store.settings.encoder)
            raise ProjectError(f"This project has no features yet; {advice}.")
        machine = (
            Program(words, store.settings.media)
            if words
            else Endpoint(url or "", settings.timeout, token)
        )
        stop = Stop(max_seconds)
        from parbals.files import cache_folder
        from parbals.numerics import use_disk_cache

        use_disk_cache(cache_folder())
        total = store.n_items - store.n_labelled
        about = {"program": default} if words else {"endpoint": default}
        with (
            _clean_stop(stop),
            _watch(total if settings.budget is None else min(total, settings.budget)) as watcher,
        ):
            result = label_items(store, annotator, machine, settings, stop, watcher, **about)
        _say(as_json, annotator, result)
        if not no_report and result.stored and result.ended != "interrupted":
            from parbals.project.engine import refresh

            report = refresh(store)
            if not as_json:
                click.echo(str(report))
    context.exit({"interrupted": _INTERRUPTED, "failed": 1}.get(result.ended, 0))


def _checked_name(name: str | None, default: str) -> str:
    from parbals.errors import InputError

    if name is None:
        return re.sub(r"[^\w.:-]+", "-", default)[:_LONGEST_NAME].strip("-") or "program"
    chosen = name.strip()
    if (
        not chosen
        or len(chosen) > _LONGEST_NAME
        or not chosen.isprintable()
        or chosen.startswith("machine:")
    ):
        raise InputError(
            f"--name is {name!r}; give 1 to {_LONGEST_NAME} printable characters, without the "
            "prefix machine: that is put in front."
        )
    return chosen


def _token(variable: str) -> str:
    from parbals.errors import InputError

    token = os.environ.get(variable, "").strip()
    if not token or not token.isascii() or not token.isprintable():
        raise InputError(
            f"The environment variable {variable} holds no usable token; set it before the run."
        )
    return token


@contextmanager
def _clean_stop(stop: "Stop") -> Iterator[None]:
    """The first Ctrl-C asks to stop, the second one insists."""

    def handle(number: int, frame: FrameType | None) -> None:
        if stop.reason == "interrupted":
            raise KeyboardInterrupt
        stop.ask()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _watch(total: int) -> Iterator["Watcher"]:
    """A bar for people, plain sentences in a log."""
    from parbals.machines.loop import Watcher

    if not sys.stderr.isatty():
        yield Watcher(say=lambda sentence: click.echo(sentence, err=True))
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True, highlight=False), transient=True) as bar:
        task = bar.add_task("starting", total=total)
        yield Watcher(
            stage=lambda text: bar.update(task, description=text),
            stored=lambda n: bar.update(task, advance=n),
            say=lambda sentence: bar.console.print(sentence, markup=False),
        )


def _say(as_json: bool, annotator: str, result: "Result") -> None:
    from dataclasses import asdict

    from parbals.machines.loop import ENDINGS

    if as_json:
        click.echo(json.dumps({"annotator": annotator, **asdict(result)}, ensure_ascii=False))
        return
    why = ENDINGS[result.ended] + (f" ({result.fault})" if result.fault else "")
    click.echo(
        f"{result.stored:,} labels stored as {annotator}, {result.abstained:,} abstained, "
        f"{result.failed:,} without a usable answer. Ended: {why}."
    )
