"""The command `parbals label-studio connect`."""

import os
from dataclasses import asdict
from pathlib import Path
from threading import Event

import click
from parbals.cli.base import Group
from parbals.cli.output import JSON, print_result, printable
from parbals.errors import InputError

from parbals_label.cli.options import FOLDER, SECONDS, flag, open_store, option

__all__ = ["label_studio"]

_KEY = "LABEL_STUDIO_API_KEY"
_INTERRUPTED = 130
_ENDINGS = {
    "once": "it looked once",
    "done": "every item is labelled, skipped or deleted",
    "interrupted": "it was interrupted; run it again to go on",
}


@click.group("label-studio", cls=Group)
def label_studio() -> None:
    """Label in Label Studio; parbals chooses the tasks.

    \b
    Example:
      parbals label-studio connect spam --url http://localhost:8080 --project 1
    """


@label_studio.command()
@FOLDER
@option("--url URL", "Connect to Label Studio at this address.", required=True)
@option(
    "--project N",
    "Use the Label Studio project of this number, as in the address of its page.",
    click.IntRange(1),
    required=True,
)
@option(
    "-n N",
    "Create this many tasks at once; the next batch comes when half of them are left.",
    click.IntRange(1, 200),
    argument="batch_size",
    default=20,
)
@option("--every S", "Look for new annotations every S seconds.", SECONDS, default=5.0)
@flag("--once", "Look once, create a batch if one is needed, and end.")
@JSON
@click.pass_context
def connect(
    context: click.Context,
    /,
    folder: Path,
    url: str,
    project: int,
    batch_size: int,
    every: float,
    once: bool,
    as_json: bool,
) -> None:
    """Create tasks in a Label Studio project and read its labels.

    A project without a labelling interface gets one. Labels are stored under the annotators' email
    addresses. The key is read from LABEL_STUDIO_API_KEY. Runs until Ctrl-C; either side may be
    stopped and started at any time, and no task is created twice.

    \b
    Examples:
      parbals label-studio connect spam --url http://localhost:8080 --project 1
      parbals label-studio connect spam --url http://localhost:8080 --project 1 --once
    """
    from parbals_label.cli.label import clean_stop
    from parbals_label.label_studio.client import Client
    from parbals_label.label_studio.sync import Rules, keep_supplied
    from parbals_label.project.features import features_of

    with open_store(folder) as store:
        features_of(store)  # before anything starts: without features nothing can be chosen
        key = os.environ.get(_KEY)
        if not key:
            raise InputError(f"There is no key; put it into the environment variable {_KEY}.")
        client = Client(url, key)
        stop = Event()
        if client.is_readable:
            click.echo(
                "The connection is not encrypted, so others on the way can read the key; use https "
                "where the server has it.",
                err=True,
            )
        with clean_stop(stop):
            result = keep_supplied(
                store,
                client,
                project,
                Rules(batch_size, every, once),
                stop,
                say=lambda sentence: click.echo(printable(sentence), err=True),
            )
    print_result(
        as_json,
        asdict(result),
        f"{result.created:,} tasks created, {result.labels:,} labels stored, {result.revised:,} "
        f"changed, {result.withdrawn:,} undone, {result.passed:,} skipped. Ended: "
        f"{_ENDINGS[result.ended]}.",
    )
    context.exit(_INTERRUPTED if result.ended == "interrupted" else 0)
