"""`parbals data`: what there is, bringing it here, and encoding its texts and images."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from parbals.cli.options import JSON, encoding_options

__all__ = ["data"]

_NAMED = 10


@click.group()
def data() -> None:
    """Datasets of the paper's experiment, and small ones that need no download.

    \b
    Examples:
      parbals data list
      parbals data fetch airline
      parbals data embed ag-news --encoder bert-base-uncased
    """


@data.command("list")
@JSON
def list_(as_json: bool) -> None:
    """All datasets, and where each comes from.

    \b
    Example:
      parbals data list
    """
    from parbals.datasets.table import DATASETS

    records = [
        {
            "name": name,
            "summary": entry.summary,
            "page": entry.source.page if entry.source else None,
        }
        for name, entry in DATASETS.items()
    ]
    if as_json:
        click.echo(json.dumps(records, indent=2, ensure_ascii=False))
        return
    width = max(len(record["name"] or "") for record in records)
    for record in records:
        click.echo(f"{record['name']:<{width}}  {record['summary']}")


@data.command()
@click.argument("name")
@click.option(
    "--to",
    type=click.Path(path_type=Path),
    help="Folder; by default that of the dataset in $PARBALS_DATA.",
)
@JSON
def fetch(name: str, to: Path | None, as_json: bool) -> None:
    """Download a dataset; a download that was cut goes on where it stopped.

    Where the publisher gives no checksum, that of the download is kept beside it, in a file ending
    in .sha256, and checked the next time.

    \b
    Examples:
      parbals data fetch cifar10
      parbals data fetch yelp --to ~/data/yelp
    """
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    from parbals.datasets.arrivals import recorded
    from parbals.datasets.base import data_folder
    from parbals.datasets.fetch import fetch as fetch_files
    from parbals.datasets.table import dataset_named
    from parbals.errors import InputError

    source = dataset_named(name).source
    folder = data_folder(to, name)
    if source is None:
        raise InputError(f"{name} needs no download.")
    if not source.remotes:
        raise source.error(folder)
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn()
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as bar:
        tasks: dict[str, int] = {}

        def told(file: str, done: int, total: int | None) -> None:
            if file not in tasks:
                tasks[file] = bar.add_task(file, total=total)
            bar.update(tasks[file], completed=done, total=total)  # type: ignore[arg-type]

        paths = fetch_files(source.remotes, folder, told)
    if as_json:
        click.echo(json.dumps([str(path) for path in paths]))
    else:
        click.echo("\n".join(str(path) for path in paths))
    for remote, path in zip(source.remotes, paths, strict=True):
        if remote.sha256 is None:
            said = f"{path.name}: no published checksum is known; its SHA-256 is {recorded(path)}, kept in {path}.sha256"
            click.echo(said, err=as_json)
    if source.must_unpack and (unpacking := source.unpacking(folder)) is not None:
        click.echo(f"Next: {unpacking}", err=as_json)


@data.command()
@click.argument("name")
@click.option("--encoder", required=True, metavar="ENC", help="See `parbals data encoders`.")
@click.option(
    "--data",
    "folder",
    type=click.Path(path_type=Path),
    help="The dataset's folder; by default in $PARBALS_DATA.",
)
@encoding_options("Leave out images that cannot be read instead of stopping at them.")
@JSON
def embed(
    name: str,
    encoder: str,
    folder: Path | None,
    batch_size: int,
    device: str | None,
    half: bool,
    skip_bad: bool,
    as_json: bool,
) -> None:
    """Encode a dataset's texts or images into files beside them; an encoding that was cut goes on
    where it stopped.

    Rows that cannot be read and were left out (--skip-bad) are listed in the file ending in
    .npy.json; whoever loads the dataset gets it without them.

    \b
    Examples:
      parbals data embed ag-news --encoder bert-base-uncased
      parbals data embed cifar10 --encoder hf:models/dinov2 --device cuda --half
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    from parbals.datasets.base import data_folder
    from parbals.datasets.embedded import embed_parts
    from parbals.datasets.table import dataset_named
    from parbals.errors import InputError
    from parbals.features.encoders.base import Options

    read = dataset_named(name).read
    if read is None:
        raise InputError(f"{name} has neither texts nor images to encode.")
    raw = read(folder)
    counts = {part.stem: len(part.y) for part in raw.parts.values()}
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as bar:
        tasks: dict[str, Any] = {}

        def told(part: str, stage: str, done: int) -> None:
            shown = f"{stage} {part}"
            if shown not in tasks:
                tasks[shown] = bar.add_task(shown, total=counts[part])
            bar.update(tasks[shown], completed=done)

        made = embed_parts(
            raw,
            data_folder(folder, name),
            encoder,
            options=Options(device, half, batch_size, skip_bad),
            progress=told,
        )
    if as_json:
        records = [
            {
                "file": str(part.path),
                "rows": part.n_rows,
                "features": part.n_features,
                "computed": part.n_computed,
                "skipped": [name for _, name in part.skipped],
            }
            for part in made
        ]
        click.echo(json.dumps(records, indent=2, ensure_ascii=False))
        return
    for part in made:
        left_out = (
            f", {len(part.skipped)} left out: {_named(part.skipped, part.path)}"
            if part.skipped
            else ""
        )
        click.echo(
            f"{part.path}: {part.n_rows:,} rows of {part.n_features}, {part.n_computed:,} computed "
            f"now{left_out}"
        )


def _named(skipped: Sequence[tuple[int, str]], path: Path) -> str:
    """The names of the first few rows, and where the others are."""
    shown = ", ".join(name for _, name in skipped[:_NAMED])
    return (
        shown
        if len(skipped) <= _NAMED
        else f"{shown} and {len(skipped) - _NAMED} more, listed in {path}.json"
    )


@data.command()
@JSON
def encoders(as_json: bool) -> None:
    """All encoders, what each reads and gives; those of installed packages included.

    \b
    Example:
      parbals data encoders
    """
    from parbals.features.encoders.table import all_encoders

    found = all_encoders()
    if as_json:
        records = [
            {"name": name, "reads": entry.kind, "summary": entry.summary}
            for name, entry in found.items()
        ]
        click.echo(json.dumps(records, indent=2, ensure_ascii=False))
        return
    width = max(map(len, found))
    for name, entry in found.items():
        click.echo(f"{name:<{width}}  {entry.kind or 'either':<6}  {entry.summary}")
