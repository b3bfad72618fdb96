"""The commands that make a project, choose and take labels: init, embed, next, tell."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from parbals.cli.look import export, salvage, status
from parbals.cli.options import (
    ENCODER_OPTIONS,
    ENCODING,
    FOLDER,
    JSON,
    NAMES,
    SPLIT,
    comma_list,
    goal_options,
)
from parbals.cli.output import about, progress, say, ticking, warn_of_network

if TYPE_CHECKING:
    from parbals.store.store import Store

__all__ = ["COMMANDS"]

_LONG = 10.0
"""Seconds that are worth a warning."""


@click.command()
@FOLDER
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
    help="Columns of a table to use as features: numbers, categories, dates, yes/no, gaps allowed; "
    "`all` takes every column that is nothing else. Beside --text or --image both are used.",
)
@NAMES
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
    help='Column with the items\' names; by default `id`, if there is one. --id "" numbers the '
    "rows instead.",
)
@click.option(
    "--encoder",
    metavar="NAME",
    help="By default auto: the best that is installed; see `parbals data encoders`.",
)
@ENCODING
@SPLIT
@click.option(
    "--strategy", metavar="NAME", help="By default parbals-epig; see `parbals strategies`."
)
@click.option(
    "--metric",
    default="accuracy",
    show_default=True,
    metavar="NAME",
    help="What the model is judged by, and items are chosen for: accuracy, balanced-accuracy, "
    "f1:CLASS or log-loss.",
)
@click.option(
    "--seed",
    default=0,
    show_default=True,
    type=click.IntRange(0),
    help="Makes every batch reproducible.",
)
@click.option(
    "--audit",
    default=0,
    show_default=True,
    type=click.IntRange(0),
    metavar="N",
    help="So many random items measure the error: every third one to label until all are labelled. "
    "They teach the model nothing; it cannot be added later.",
)
@goal_options
@click.option(
    "--find",
    metavar="CLASS",
    help="A rare class to find: ask for items likely to be of it, and say how much is found.",
)
@ENCODER_OPTIONS
@JSON
def init(
    folder: Path,
    data: Path,
    text: tuple[str, ...],
    image: str | None,
    features: tuple[str, ...],
    names: tuple[str, ...],
    classes: tuple[str, ...],
    label: str | None,
    id_column: str | None,
    encoder: str | None,
    encoding: str | None,
    split: str | None,
    strategy: str | None,
    metric: str,
    seed: int,
    audit: int,
    goal_labels: int | None,
    goal_error: float | None,
    find: str | None,
    batch_size: int,
    device: str | None,
    half: bool,
    skip_bad: bool,
    as_json: bool,
) -> None:
    """Make a project in the new folder DIR from DATA.

    DATA is CSV, TSV, JSON or JSONL (also packed, .csv.gz), Parquet, .npy or .npz, a folder of
    images, a Hugging Face dataset folder, or an export of Label Studio, Argilla or Prodigy.

    \b
    Examples:
      parbals init spam messages.csv --text message --classes ham,spam --audit 50
      parbals init flights passengers.csv --features all --label satisfied
      parbals init tickets tickets.csv --text note --features age,city,opened --classes a,b
      parbals init pets photos/ --classes cat,dog
      parbals init vectors embeddings.npy --classes yes,no
      parbals init hunt messages.csv --text message --classes ham,spam --find spam
    """
    from parbals.features.encoders.base import Options
    from parbals.features.encoders.table import better_encoder
    from parbals.learner.metric import setting_of
    from parbals.project.create import Roles, create_project
    from parbals.project.rare import rare_class_hint
    from parbals.store.store import Store
    from parbals.strategies.table import DEFAULT, strategy_named

    strategy = strategy or DEFAULT
    strategy_named(strategy)
    warn_of_network(folder)
    with progress() as show:
        made = create_project(
            folder,
            data,
            Roles(text, image, features, label, id_column),
            list(classes) or None,
            {"strategy": strategy, "seed": seed, "loss": setting_of(metric), "find": find}
            | {"goal_labels": goal_labels or 0, "goal_error": goal_error or 0.0},
            audit=audit,
            encoder=encoder,
            encoding=encoding,
            split=split,
            names=list(names) or None,
            encode_with=Options(device, half, batch_size, skip_bad),
            progress=show,
        )
    read_as = f" (read as {made.encoding})" if made.encoding else ""
    named = (
        f"The items are named by their numbers, 1 to {made.n_items}, in the order of {data.name}."
        if made.id_column is None
        else f"The items are named by the column {made.id_column!r}."
    )
    if made.n_audit:
        named += f"\n{made.n_audit:,} random items are kept for measuring the error."
    named = "\n".join([named, *made.notes])
    if encoder in (None, "auto") and (better := better_encoder(made.encoder, folder)):
        named += f"\n{better}"
    by = f"{made.encoder} and table" if made.table_columns else made.encoder
    with Store.open(folder, read_only=True) as store:
        named += f"\n{hint}" if (hint := rare_class_hint(store)) else ""
    say(
        as_json,
        {name.removeprefix("n_"): value for name, value in asdict(made).items()},
        f"{made.n_items:,} items{read_as}, {made.n_labels:,} of them labelled, {made.n_features} "
        f"features ({by}), classes {', '.join(made.classes)}.\n{named}\nNext: parbals "
        f"serve {folder}, or parbals next {folder} -n 20 --out batch.csv",
    )


@click.command()
@FOLDER
@click.option(
    "--encoder", required=True, metavar="NAME", help="auto, or one of `parbals data encoders`."
)
@click.option(
    "--columns",
    callback=comma_list,
    metavar="COLS",
    help="Columns to encode; by default as last time.",
)
@click.option(
    "--features",
    callback=comma_list,
    metavar="COLS",
    help="Further columns of a table to use beside them; by default as last time.",
)
@ENCODER_OPTIONS
@JSON
def embed(
    folder: Path,
    encoder: str,
    columns: tuple[str, ...],
    features: tuple[str, ...],
    batch_size: int,
    device: str | None,
    half: bool,
    skip_bad: bool,
    as_json: bool,
) -> None:
    """Make the features of a project again; labels and history stay.

    \b
    Examples:
      parbals embed spam --encoder words --columns subject,message
      parbals embed spam --encoder bert-base-uncased
    """
    from parbals.features.encoders.base import Options
    from parbals.project.embedding import embed_project
    from parbals.store.store import Store

    how = Options(device, half, batch_size, skip_bad)
    with Store.open(folder) as store, progress() as show:
        made = embed_project(
            store,
            encoder,
            list(columns) or None,
            show,
            table=list(features) or None,
            encode_with=how,
        )
        encoder = store.settings.encoder or encoder  # where it was auto
    record = {"features": made.n_features, "encoder": encoder, "notes": list(made.notes)}
    say(as_json, record, "\n".join([f"{made.n_features} features by {encoder}.", *made.notes]))


@click.command("next")
@FOLDER
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
@click.option(
    "--quick", is_flag=True, help="Choose at once: what the latest predictions are least sure of."
)
@JSON
def next_(
    folder: Path, n_items: int, out: Path | None, again: int | None, quick: bool, as_json: bool
) -> None:
    """Choose the items worth labelling next and write them to a CSV; fill in its `label` column.

    Items stay out until they are answered; anyone who asks meanwhile gets different ones, chosen
    with these in mind. A file that holds labels which were not told yet, or is not a batch file, is
    never overwritten.

    \b
    Examples:
      parbals next spam -n 20 --out batch.csv
      parbals next spam --quick
      parbals next spam --again 1
    """
    from parbals.errors import InputError
    from parbals.project.batch_files import write_batch_csv
    from parbals.project.destinations import check_batch_destination
    from parbals.store.store import Store

    with Store.open(folder) as store:
        known = {record.batch: record for record in store.batches()}
        if again is not None and again not in known:
            raise InputError(f"There is no batch {again}; there are {len(known)} so far.")
        # Before anything is chosen: items that are out without a file are easily forgotten.
        expected = max(known, default=0) + 1 if again is None else again
        check_batch_destination(store, out or folder / f"batch-{expected}.csv", folder)
        if again is None:
            number, notes = _choose(store, n_items, quick)
            positions = store.batch_positions(number)
        else:
            number, notes = again, []
            positions = [item.position for item in known[again].items]
        path = out or folder / f"batch-{number}.csv"
        rows = [(item.id, item.content) for item in store.items(positions)]
        try:
            if number != expected and out is None:  # another command came in between
                check_batch_destination(store, path, folder)
            write_batch_csv(path, rows, store.settings.columns, store.classes)
        except InputError as error:
            raise InputError(
                f"{error} Batch {number} is chosen and waits: `parbals next {folder} --again "
                f"{number} --out FILE` writes its file."
            ) from error
        classes = ", ".join(store.classes)
    text = f"Batch {number}: {len(rows)} items in {path}.\nFill in the column `label` ({classes}), "
    say(
        as_json,
        {"batch": number, "file": str(path), "ids": [name for name, _ in rows], "notes": notes},
        "\n".join([f"{text}then: parbals tell {folder} {path}", *notes]),
    )


def _choose(store: "Store", n_items: int, quick: bool) -> tuple[int, list[str]]:
    """The batch's number and notes; a long wait is announced, and a quick batch offered."""
    from parbals.errors import InputError
    from parbals.project.quick import quick_batch, seconds_to_choose

    if quick:
        number = quick_batch(store, n_items, queued=False)
        if number is None:
            raise InputError("No item is free: every one is labelled, out or passed.")
        return number, []
    from parbals.project.engine import choose_batch

    expected = seconds_to_choose(store, n_items)
    if expected is not None and expected > _LONG:
        click.echo(
            f"Choosing takes about {about(expected)}, as last time; --quick chooses at once.",
            err=True,
        )
    with progress() as show, ticking(show, "choosing", expected):
        number, batch = choose_batch(store, n_items)
    return number, list(batch.notes)


@click.command()
@FOLDER
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
    """Read labels from a filled-in CSV (also TSV, JSONL, Parquet, a Hugging Face dataset folder).

    It may be partly filled, reordered, or have more columns. All labels are stored or, if one of
    them is wrong, none. Exports of Label Studio, Argilla and Prodigy are read as well; where they
    name their annotators, labels are stored under these names.

    \b
    Examples:
      parbals tell spam batch.csv
      parbals tell spam batch.csv --annotator kim --revise
    """
    from parbals.project.batch_files import positions_of_answers
    from parbals.project.summary import goal_of, newer_answers, report_lines
    from parbals.readers.answers import ToolRow, read_answers, tool_answers
    from parbals.store.records import Submission, SubmitResult
    from parbals.store.store import Store

    with Store.open(folder) as store:
        answers = tool_answers(file, store.classes, store.former_classes)
        if answers is None:
            filled = read_answers(file, store.classes, former=store.former_classes)
            answers = [ToolRow(*row, None) for row in filled]
        positions = positions_of_answers(store, answers, file.name)
        given: dict[str, list[Submission]] = {}
        for position, answer in zip(positions, answers, strict=True):
            who = answer.annotator or annotator
            given.setdefault(who, []).append(Submission(position, answer.label))
        names, counts = ("new", "repeated", "revised"), SubmitResult()
        with store.together():
            for who, submissions in given.items():
                stored = store.submit(submissions, annotator=who, revise=revise)
                counts = SubmitResult(*(getattr(counts, n) + getattr(stored, n) for n in names))
        if not as_json:  # confirmed before anything slow begins
            click.echo(
                f"{counts.new} new labels, {counts.revised} revised, {counts.repeated} known "
                "already."
            )
        report = None
        is_behind = store.latest_report() is None or newer_answers(store)
        if not no_report and store.n_labelled and (counts.new or counts.revised or is_behind):
            from parbals.project.engine import refresh

            with progress() as show:
                report = refresh(store, show)
        goal = goal_of(store)
    if as_json:
        record = {name: getattr(counts, name) for name in names}
        say(True, {**record, "report": report and report.as_dict()}, "")
    elif report is not None:
        click.echo("\n".join(report_lines(report.as_dict(), goal, report.n_labelled)))


COMMANDS = (init, embed, next_, tell, status, export, salvage)
