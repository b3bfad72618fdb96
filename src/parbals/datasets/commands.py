"""`parbals data`: what there is, and bringing it here."""

import json
import sys
from pathlib import Path

import click

__all__ = ["data"]


@click.group()
def data() -> None:
    """Datasets of the paper's experiment, and small ones that need no download.

    \b
    Examples:
      parbals data list
      parbals data fetch airline
    """


@data.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def list_(as_json: bool) -> None:
    """All datasets, and where each comes from.

    \b
    Example:
      parbals data list
    """
    from parbals.datasets.table import DATASETS

    records = [
        {"name": name, "summary": entry.summary, "page": entry.source.page if entry.source else None}
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
@click.option("--to", type=click.Path(path_type=Path), help="Folder; by default that of the dataset in $PARBALS_DATA.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
def fetch(name: str, to: Path | None, as_json: bool) -> None:
    """Download a dataset; a download that was cut goes on where it stopped.

    \b
    Examples:
      parbals data fetch cifar10
      parbals data fetch yelp --to ~/data/yelp
    """
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

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
