"""`parbals data`: what there is, where it comes from, and encoding its texts and images."""

from pathlib import Path
from typing import Any

import click
from parbals.cli.output import JSON, progress, say, table
from parbals.errors import InputError
from parbals_label.shared_options import ENCODE_WITH

__all__ = ["data"]


@click.group()
def data() -> None:
    """Datasets of the paper's experiment, and small ones that need no download.

    \b
    Examples:
      parbals data list
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
    from parbals_bench.datasets.table import DATASETS

    rows = [(name, entry.summary) for name, entry in DATASETS.items()]
    say(as_json, [{"name": name, "summary": summary} for name, summary in rows], table(rows))


@data.command()
@click.argument("name")
@click.option(
    "--encoder",
    required=True,
    metavar="ENC",
    help="Such as bert-base-uncased; a name that there is not lists all.",
)
@click.option(
    "--data",
    "folder",
    type=click.Path(path_type=Path),
    help="The dataset's folder; by default in $PARBALS_DATA.",
)
@ENCODE_WITH
@JSON
def embed(name: str, encoder: str, folder: Path | None, encode_with: Any, as_json: bool) -> None:
    """Encode a dataset's texts or images into files beside them; run again, it goes on.

    \b
    Examples:
      parbals data embed ag-news --encoder bert-base-uncased
      parbals data embed cifar10 --encoder hf:models/dinov2 --device cuda --half
    """
    from parbals_bench.datasets.base import data_folder
    from parbals_bench.datasets.embedded import embed_parts
    from parbals_bench.datasets.table import dataset_named

    read = dataset_named(name).read
    if read is None:
        raise InputError(f"{name} has neither texts nor images to encode.")
    with progress(quiet=as_json) as show:
        parts = embed_parts(
            read(folder), data_folder(folder, name), encoder, options=encode_with, progress=show
        )
    lines = []
    for part in parts:
        rows = f"{part.n_rows:,} rows of {part.n_features}, {part.n_computed:,} computed now"
        if part.skipped:
            rows += f"; {len(part.skipped)} could not be read, first {part.skipped[0].name}"
        lines.append(f"{part.path}: {rows}")
    records = [{"file": str(p.path), "rows": p.n_rows, "computed": p.n_computed} for p in parts]
    say(as_json, records, "\n".join(lines))
