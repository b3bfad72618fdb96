"""The project's commands: init, embed, next, tell, status, export, salvage.

Those that look (status, export) read what was stored and load no model; those that think (next,
tell) keep their compiled programs on disk.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from parbals.cli.options import JSON, comma_list, encoding_options

__all__ = ["COMMANDS"]

_FOLDER = click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
_ENCODING = encoding_options("Leave unreadable images blank instead of stopping at them.")


@click.command()
@_FOLDER
@click.argument("data", type=click.Path(path_type=Path))
@click.option(
    "--text",
    callback=comma_list,
    metavar="COLS",
    help="Text columns to encode, separated by commas.",
)
@click.option("--image", metavar="COL", help="Column with paths of images.")
@click.option(
    "--features",
    callback=comma_list,
    metavar="COLS",
    help="Columns with numbers to use as features.",
)
@click.option(
    "--classes",
    callback=comma_list,
    metavar="A,B,..",
    help="The classes; by default those in the label column.",
)
@click.option(
    "--label",
    metavar="COL",
    help="Column with labels that are known already; empty cells are unlabelled.",
)
@click.option(
    "--id",
    "id_column",
    metavar="COL",
    help='Column with the items\' names; by default `id` if there is one. --id "" numbers the rows instead.',
)
@click.option(
    "--encoder",
    metavar="NAME",
    help="By default tfidf, pixels or columns; see `parbals data encoders`.",
)
@click.option(
    "--encoding", metavar="NAME", help="Encoding of a text file, if it is detected wrong."
)
@click.option("--split", metavar="NAME", help="Split of a Hugging Face dataset folder.")
@click.option(
    "--strategy", default="parbals-epig", show_default=True, help="See `parbals strategies`."
)
@click.option(
    "--seed",
    default=0,
    show_default=True,
    type=click.IntRange(0),
    help="Makes every batch reproducible.",
)
@_ENCODING
@JSON
def init(
    folder: Path,
    data: Path,
    text: tuple[str, ...],
    image: str | None,
    features: tuple[str, ...],
    classes: tuple[str, ...],
    label: str | None,
    id_column: str | None,
    encoder: str | None,
    encoding: str | None,
    split: str | None,
    strategy: str,
    seed: int,
    batch_size: int,
    device: str | None,
    half: bool,
    skip_bad: bool,
    as_json: bool,
) -> None:
    """Make a project in the new folder DIR from DATA.

    DATA is CSV, TSV, JSONL, Parquet, .npy or .npz, a folder of images, or a Hugging Face dataset
    folder.

    \b
    Examples:
      parbals init spam messages.csv --text message --classes ham,spam
      parbals init pets photos/ --classes cat,dog
      parbals init vectors embeddings.npy --classes yes,no
    """
    from parbals.features.encoders.base import Options
    from parbals.project.create import Roles, create_project
    from parbals.project.features import Encoding
    from parbals.strategies.table import strategy_named

    strategy_named(strategy)
    roles = Roles(text, image, features, label, id_column)
    settings = {"strategy": strategy, "seed": seed}
    with _progress() as progress:
        made = create_project(
            folder,
            data,
            roles,
            list(classes) or None,
            settings,
            encoder=encoder,
            encoding=encoding,
            split=split,
            encode_with=Encoding(Options(device, half), batch_size, skip_bad),
            progress=progress,
        )
    read_as = f" (read as {made.encoding})" if made.encoding else ""
    named = (
        f"The items are named by their numbers, 1 to {made.n_items}, in the order of {data.name}."
        if made.id_column is None
        else f"The items are named by the column {made.id_column!r}."
    )
    _say(
        as_json,
        {
            "items": made.n_items,
            "labels": made.n_labels,
            "features": made.n_features,
            "classes": made.classes,
            "encoder": made.encoder,
            "encoding": made.encoding,
            "id_column": made.id_column,
        },
        f"{made.n_items:,} items{read_as}, {made.n_labels:,} of them labelled, {made.n_features} "
        f"features ({made.encoder}), classes {', '.join(made.classes)}.\n{named}\nNext: parbals "
        f"serve {folder}, or parbals next {folder} -n 20 --out batch.csv",
    )


@click.command()
@_FOLDER
@click.option("--encoder", required=True, metavar="NAME", help="See `parbals data encoders`.")
@click.option(
    "--columns",
    callback=comma_list,
    metavar="COLS",
    help="Columns to encode; by default as last time.",
)
@_ENCODING
@JSON
def embed(
    folder: Path,
    encoder: str,
    columns: tuple[str, ...],
    batch_size: int,
    device: str | None,
    half: bool,
    skip_bad: bool,
    as_json: bool,
) -> None:
    """Make the features of a project anew; labels and history stay.

    \b
    Examples:
      parbals embed spam --encoder tfidf --columns subject,message
      parbals embed spam --encoder minilm-l6-v2
    """
    from parbals.features.encoders.base import Options
    from parbals.project.create import embed_project
    from parbals.project.features import Encoding
    from parbals.store.store import Store

    how = Encoding(Options(device, half), batch_size, skip_bad)
    with Store.open(folder) as store, _progress() as progress:
        n_features = embed_project(store, encoder, list(columns) or None, progress, encode_with=how)
    _say(
        as_json,
        {"features": n_features, "encoder": encoder},
        f"{n_features} features by {encoder}.",
    )


@click.command("next")
@_FOLDER
@click.option(
    "-n", "n_items", default=20, show_default=True, type=click.IntRange(1), help="How many items."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="CSV to fill in; by default DIR/batch-NUMBER.csv.",
)
@click.option(
    "--again",
    type=click.IntRange(1),
    metavar="NUMBER",
    help="Write an earlier batch's file once more.",
)
@JSON
def next_(folder: Path, n_items: int, out: Path | None, again: int | None, as_json: bool) -> None:
    """Choose the items worth labelling next and write them to a CSV; fill in its `label` column.

    Items stay out until they are answered; whoever asks meanwhile gets others, chosen with these in
    mind. A file that holds labels which were not told yet, or is no batch file, is never
    overwritten.

    \b
    Examples:
      parbals next spam -n 20 --out batch.csv
      parbals next spam --again 1
    """
    from parbals.errors import InputError
    from parbals.project.exports import write_batch_csv
    from parbals.project.outputs import check_batch_target
    from parbals.store.store import Store

    with Store.open(folder) as store:
        known = {record.batch: record for record in store.batches()}
        if again is not None and again not in known:
            raise InputError(f"There is no batch {again}; there are {len(known)} so far.")
        # Before anything is chosen: items that are out without a file are easily forgotten.
        expected = max(known, default=0) + 1 if again is None else again
        check_batch_target(store, out or folder / f"batch-{expected}.csv", folder)
        if again is None:
            from parbals.files import cache_folder
            from parbals.numerics import use_disk_cache
            from parbals.project.engine import choose_batch

            use_disk_cache(cache_folder())
            with _status("choosing ..."):
                number, batch = choose_batch(store, n_items)
            positions, notes = batch.indices.tolist(), list(batch.notes)
        else:
            number, notes = again, []
            positions = [item.position for item in known[again].items]
        path = out or folder / f"batch-{number}.csv"
        rows = [(item.id, item.content) for item in store.items(positions)]
        try:
            if number != expected and out is None:  # another command came in between
                check_batch_target(store, path, folder)
            write_batch_csv(path, rows, store.settings.columns, store.classes)
        except InputError as error:
            raise InputError(
                f"{error} Batch {number} is chosen and waits: `parbals next {folder} --again "
                f"{number} --out FILE` writes its file."
            ) from error
        classes = store.classes
    _say(
        as_json,
        {"batch": number, "file": str(path), "ids": [name for name, _ in rows], "notes": notes},
        f"Batch {number}: {len(rows)} items in {path}.\nFill in the column `label` "
        f"({', '.join(classes)}), then: "
        f"parbals tell {folder} {path}" + "".join(f"\n{note}" for note in notes),
    )


@click.command()
@_FOLDER
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--annotator", default="me", show_default=True, help="Whose labels these are.")
@click.option(
    "--revise",
    is_flag=True,
    help="Let labels replace this annotator's earlier ones; history keeps both.",
)
@click.option(
    "--no-report", is_flag=True, help="Only store the labels; the report stays as it was."
)
@JSON
def tell(
    folder: Path, file: Path, annotator: str, revise: bool, no_report: bool, as_json: bool
) -> None:
    """Read labels from a filled-in CSV (also TSV, JSONL), partly filled, reordered or with extra
    columns.

    All labels are stored or, if one of them is wrong, none.

    \b
    Examples:
      parbals tell spam batch.csv
      parbals tell spam batch.csv --annotator kim --revise
    """
    from parbals.project.ids import positions_of_answers
    from parbals.project.summary import newer_answers
    from parbals.readers.answers import read_answers
    from parbals.store.records import Submission
    from parbals.store.store import Store

    with Store.open(folder) as store:
        answers = read_answers(file, store.classes)
        positions = positions_of_answers(store, answers, file.name)
        submissions = [
            Submission(p, answer.label) for p, answer in zip(positions, answers, strict=True)
        ]
        result = (
            store.submit(submissions, annotator=annotator, revise=revise) if submissions else None
        )
        counts = (
            {"new": 0, "repeated": 0, "revised": 0}
            if result is None
            else {"new": result.new, "repeated": result.repeated, "revised": result.revised}
        )
        told = f"{counts['new']} new labels, {counts['revised']} revised, {counts['repeated']} known already."
        if not as_json:
            click.echo(told)  # confirmed before anything slow begins
        report = None
        is_behind = (
            counts["new"]
            or counts["revised"]
            or store.latest_report() is None
            or newer_answers(store)
        )
        if not no_report and store.n_labelled and is_behind:
            from parbals.files import cache_folder
            from parbals.numerics import use_disk_cache
            from parbals.project.engine import refresh

            use_disk_cache(cache_folder())
            with _progress() as progress:
                report = refresh(store, lambda done: progress("predicting", done))
    if as_json:
        _say(True, {**counts, "report": None if report is None else report.as_dict()}, "")
    elif report is not None:
        click.echo(str(report))


@click.command()
@_FOLDER
@JSON
def status(folder: Path, as_json: bool) -> None:
    """Progress, class balance and the latest report; answers at once.

    \b
    Example:
      parbals status spam
    """
    from parbals.project.summary import overview, overview_lines
    from parbals.store.store import Store

    with Store.open(folder, read_only=True) as store:
        found = overview(store)
    _say(as_json, found, "\n".join(overview_lines(found)))


@click.command()
@_FOLDER
@click.option(
    "--format",
    "fmt",
    default="csv",
    show_default=True,
    type=click.Choice(["csv", "jsonl", "parquet"]),
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="File to write; by default DIR/export.FORMAT; - is the screen.",
)
@click.option("--labelled-only", is_flag=True, help="Leave out items without a label.")
@click.option("--renew", is_flag=True, help="First predict anew, from all labels there are.")
@JSON
def export(
    folder: Path, fmt: str, out: Path | None, labelled_only: bool, renew: bool, as_json: bool
) -> None:
    """Labels and predicted probabilities of every item, in a file safe to open in a spreadsheet.

    The probabilities are those of the latest report; it says so if labels are newer.

    \b
    Examples:
      parbals export spam --format csv --out labels.csv
      parbals export spam --renew
      parbals export spam --format jsonl --out - --labelled-only
    """
    from parbals.project.exports import write_export
    from parbals.project.outputs import check_export_target
    from parbals.project.summary import export_columns, export_records, newer_answers
    from parbals.store.store import Store

    path = out or folder / f"export.{fmt}"
    with Store.open(folder, read_only=not renew) as store:
        check_export_target(store, path, folder)
        if renew and store.n_labelled:
            from parbals.files import cache_folder
            from parbals.numerics import use_disk_cache
            from parbals.project.engine import refresh

            use_disk_cache(cache_folder())
            with _progress() as progress:
                refresh(store, lambda done: progress("predicting", done))
        newer, latest = newer_answers(store), store.latest_report()
        count = write_export(path, export_records(store, labelled_only), fmt, export_columns(store))
    note = None
    if newer:
        n_labels = 0 if latest is None else latest.n_labels
        note = (
            f"The probabilities are from {n_labels:,} labels, and {newer:,} "
            f"answer{'s are' if newer > 1 else ' is'} newer: `parbals export {folder} --renew` "
            "predicts anew first."
        )
        click.echo(f"parbals: {note}", err=True)
    if str(path) != "-":
        record = {"file": str(path), "items": count, "newer_answers": newer, "note": note}
        _say(as_json, record, f"{count:,} items in {path}.")


@click.command()
@_FOLDER
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), help="CSV to write; - is the screen."
)
@JSON
def salvage(folder: Path, out: Path, as_json: bool) -> None:
    """Take every answer that can still be read and proved out of a damaged project; changes nothing
    in it.

    One row for each answer in the order given, revisions included; the id is empty where the item
    cannot be read.

    \b
    Example:
      parbals salvage spam --out answers.csv
    """
    from parbals.project.exports import write_export
    from parbals.project.outputs import check_target
    from parbals.store.store import Store

    check_target(folder, out)
    columns = ["id", "position", "label", "annotator", "revision", "source", "comment", "created"]
    answers = list(Store.salvage(folder))
    rows = (
        {"id": answer.item_id, **{name: getattr(answer, name) for name in columns[1:]}}
        for answer in answers
    )
    count = write_export(out, rows, "csv", columns)
    if str(out) != "-":
        _say(as_json, {"file": str(out), "answers": count}, f"{count:,} answers in {out}.")


def _say(as_json: bool, record: dict[str, Any], text: str) -> None:
    click.echo(json.dumps(record, ensure_ascii=False, default=str) if as_json else text)


@contextmanager
def _progress() -> Iterator[Any]:
    """A bar for people, nothing in a log: called with a stage and how many are done."""
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    if not sys.stderr.isatty():
        yield lambda stage, done: None
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description} {task.completed:,.0f}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=None)
        yield lambda stage, done: bar.update(task, description=stage, completed=done)


@contextmanager
def _status(text: str) -> Iterator[None]:
    from rich.console import Console

    with Console(stderr=True).status(text):
        yield


COMMANDS = (init, embed, next_, tell, status, export, salvage)
