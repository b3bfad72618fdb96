"""The group `parbals bench data`: list, download and encode the datasets of the experiment."""

from pathlib import Path
from typing import Any

import click
from parbals.cli.base import SETTINGS, Group
from parbals.cli.output import JSON, print_result, progress, table
from parbals.errors import InputError
from parbals_label.shared_options import ENCODE_WITH

__all__ = ["data"]

_FOLDER = click.option(
    "--data",
    "folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Use this folder of the dataset.  [default: its folder in $PARBALS_DATA]",
)


@click.group(cls=Group)
def data() -> None:
    """List, download and encode datasets.

    They are those of the paper, and small ones that need no download.

    \b
    Examples:
      parbals bench data list
      parbals bench data fetch ag-news
    """


@data.command("list")
@JSON
def list_(as_json: bool) -> None:
    """List all datasets with their size.

    \b
    Example:
      parbals bench data list
    """
    from parbals_bench.datasets.table import all_datasets

    rows = [(name, entry.summary) for name, entry in all_datasets().items()]
    print_result(
        as_json, [{"name": name, "summary": summary} for name, summary in rows], table(rows)
    )


@data.command()
@click.argument("name")
@_FOLDER
@JSON
def fetch(name: str, folder: Path | None, as_json: bool) -> None:
    """Download a dataset.

    Files that exist are kept. Some datasets need an account, or are archives of tens of gigabytes:
    the command then prints what to download, and where to put it.

    \b
    Examples:
      parbals bench data fetch ag-news
      parbals bench data fetch yelp --data ~/data/yelp
    """
    from parbals_bench.datasets.base import data_folder
    from parbals_bench.datasets.fetch import fetch_files
    from parbals_bench.datasets.table import dataset_named

    origin = dataset_named(name).origin
    if origin is None:
        raise InputError(f"{name} needs no download.")
    with progress("fetching", quiet=as_json) as show:
        paths = fetch_files(origin, data_folder(folder, name), show)
    print_result(as_json, [str(path) for path in paths], "\n".join(map(str, paths)))


@data.command()
@click.argument("name")
@click.option(
    "--encoder",
    required=True,
    metavar="NAME",
    help="Choose the encoder, such as bert-base-uncased; docs/howto/features.md lists them.",
)
@_FOLDER
@SETTINGS
@ENCODE_WITH
@JSON
def embed(name: str, encoder: str, folder: Path | None, encode_with: Any, as_json: bool) -> None:
    """Encode the texts or images of a dataset.

    The features are written beside the data. An interrupted run continues where it stopped.

    \b
    Examples:
      parbals bench data embed ag-news --encoder bert-base-uncased
      parbals bench data embed cifar10 --encoder hf:models/dinov2 --device cuda --half
    """
    from parbals_bench.datasets.base import data_folder
    from parbals_bench.datasets.embedded import embed_parts
    from parbals_bench.datasets.table import dataset_named

    read = dataset_named(name).read
    if read is None:
        raise InputError(f"{name} has neither texts nor images to encode.")
    with progress("fetching", quiet=as_json) as show:
        files = embed_parts(
            read(folder), data_folder(folder, name), encoder, options=encode_with, progress=show
        )
    records = []
    lines = []
    for file in files:
        records.append({"file": str(file.path), "rows": file.n_rows, "computed": file.n_computed})
        line = f"{file.path}: {file.n_rows:,} rows of {file.n_features}, "
        line += f"{file.n_computed:,} computed now"
        if file.skipped:
            line += f"; {len(file.skipped)} could not be read, first {file.skipped[0].name}"
        lines.append(line)
    print_result(as_json, records, "\n".join(lines))
