"""`parbals data`: what there is, bringing it here, and encoding its texts and images."""

from pathlib import Path

import click
from parbals.cli.output import JSON, encoder_options, progress, say

__all__ = ["data"]


@click.group()
def data() -> None:
    """Datasets of the paper's experiment, and small ones that need no download.

    \b
    Examples:
      parbals data list
      parbals data fetch yelp
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

    records = [
        {
            "name": name,
            "title": entry.title,
            "summary": entry.summary,
            "page": entry.origin.page if entry.origin else None,
        }
        for name, entry in DATASETS.items()
    ]
    width = max(map(len, DATASETS))
    lines = [f"{name:<{width}}  {entry.summary}" for name, entry in DATASETS.items()]
    say(as_json, records, "\n".join(lines))


@data.command()
@click.argument("name")
@click.option(
    "--to",
    type=click.Path(path_type=Path),
    help="Folder; by default that of the dataset in $PARBALS_DATA.",
)
@JSON
def fetch(name: str, to: Path | None, as_json: bool) -> None:
    """Download a dataset; a file that is there already and unchanged is left alone.

    Files are compared with the checksums that their publishers give. Where there is none, that of
    the first download is kept beside the file, in one ending in .sha256, and checked the next time.
    Archives of tens of gigabytes are left to curl: the command to use is printed.

    \b
    Examples:
      parbals data fetch cifar10
      parbals data fetch yelp --to ~/data/yelp
    """
    from parbals.errors import InputError

    from parbals_bench.datasets.base import data_folder
    from parbals_bench.datasets.fetch import fetch as fetch_files
    from parbals_bench.datasets.fetch import record_path
    from parbals_bench.datasets.table import dataset_named

    origin = dataset_named(name).origin
    folder = data_folder(to, name)
    if origin is None:
        raise InputError(f"{name} needs no download.")
    if not origin.remotes:
        raise origin.error(folder)
    with progress(quiet=as_json, in_bytes=True) as show:
        paths = fetch_files(origin.remotes, folder, show)
    lines = [str(path) for path in paths]
    for remote, path in zip(origin.remotes, paths, strict=True):
        if remote.checksum is None:
            record = record_path(path)
            lines.append(
                f"{path.name}: no published checksum is known; its SHA-256 is kept in {record}"
            )
    say(as_json, [str(path) for path in paths], "\n".join(lines))


@data.command()
@click.argument("name")
@click.option("--encoder", required=True, metavar="ENC", help="See `parbals data encoders`.")
@click.option(
    "--data",
    "folder",
    type=click.Path(path_type=Path),
    help="The dataset's folder; by default in $PARBALS_DATA.",
)
@encoder_options("Leave out images that cannot be read instead of stopping at them.")
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
    """Encode a dataset's texts or images into files beside them; run again, it goes on.

    Rows that cannot be read and were left out (--skip-bad) are listed in the file ending in
    .npy.json; the dataset is then loaded without them.

    \b
    Examples:
      parbals data embed ag-news --encoder bert-base-uncased
      parbals data embed cifar10 --encoder hf:models/dinov2 --device cuda --half
    """
    from parbals.errors import InputError
    from parbals_label.encoders.base import Options

    from parbals_bench.datasets.base import data_folder
    from parbals_bench.datasets.embedded import embed_parts
    from parbals_bench.datasets.table import dataset_named

    read = dataset_named(name).read
    if read is None:
        raise InputError(f"{name} has neither texts nor images to encode.")
    with progress(quiet=as_json) as show:
        parts = embed_parts(
            read(folder),
            data_folder(folder, name),
            encoder,
            options=Options(device, half, batch_size, skip_bad),
            progress=show,
        )
    records = [
        {
            "file": str(part.path),
            "rows": part.n_rows,
            "features": part.n_features,
            "computed": part.n_computed,
            "skipped": [bad.name for bad in part.skipped],
        }
        for part in parts
    ]
    lines = []
    for part in parts:
        rows = f"{part.n_rows:,} rows of {part.n_features}, {part.n_computed:,} computed now"
        left_out = f"; {len(part.skipped)} left out, listed in {part.path}.json"
        lines.append(f"{part.path}: {rows}{left_out if part.skipped else ''}")
    say(as_json, records, "\n".join(lines))


@data.command()
@JSON
def encoders(as_json: bool) -> None:
    """All encoders, what each reads and gives; those of installed packages included.

    \b
    Example:
      parbals data encoders
    """
    from parbals_label.encoders.table import all_encoders

    entries = all_encoders()
    records = [
        {"name": name, "reads": entry.kind, "summary": entry.summary}
        for name, entry in entries.items()
    ]
    width = max(map(len, entries))
    lines = [
        f"{name:<{width}}  {entry.kind or 'either':<6}  {entry.summary}"
        for name, entry in entries.items()
    ]
    say(as_json, records, "\n".join(lines))
