"""Commands that create a project and its features: init, embed, adapt."""

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from parbals.cli.output import print_result, progress
from parbals.errors import InputError
from parbals.wording import counted

from parbals_label.answer_form import MANY, TASKS, AnswerForm
from parbals_label.cli.options import (
    AUDIT_BY,
    ENCODE_WITH,
    PATH,
    PRIOR_SCORES,
    READING,
    SETTINGS,
    TARGET,
    TARGET_WEIGHTS,
    command,
    flag,
    goal_options,
    key_and_value,
    names,
    open_store,
    option,
    visible_columns,
)

if TYPE_CHECKING:
    from parbals_label.encoders.base import Options
    from parbals_label.project.create import NewProject

__all__ = ["adapt", "embed", "init"]


@command
@click.argument("data", type=PATH)
@names("--text COLS", "Encode these text columns, separated by commas.")
@option("--image COL", "Encode the images whose paths are in this column.")
@names(
    "--features COLS",
    "Use these columns of a table as features: numbers, categories, dates, yes/no, with missing "
    "values; `all` takes every other column. Can be combined with --text or --image.",
)
@names("--classes A,B,..", "Set the classes.  [default: those in the label column]")
@option(
    "--task",
    "Set the type of the labels: one of the classes, many-labels (several or none), ordinal "
    "(classes from low to high) or regression (a number).  [default: classes]",
    click.Choice(TASKS),
)
@click.option("--labels-per-item", type=click.Choice(["one", "many"]), hidden=True)
@option("--label COL", "Read known labels from this column; empty cells are unlabelled.")
@visible_columns(rare=True)
@option(
    "--id COL",
    'Name items by this column; --id "" numbers the rows.  [default: id, if there is one]',
    argument="id_column",
)
@option(
    "--encoder NAME",
    "Choose the encoder; docs/howto/features.md lists them.  [default: auto, the best that is "
    "installed]",
)
@option(
    "--describe CLASS=SENTENCE",
    "Describe a class; repeat it for each class. A text encoder reads the sentences, so that the "
    "model predicts before the first label.",
    multiple=True,
)
@PRIOR_SCORES
@READING
@option(
    "--strategy NAME",
    "Choose the query strategy; `parbals strategies` lists them.  [default: parbals-epig]",
)
@option(
    "--metric NAME",
    "Set the metric to optimise and report: accuracy, balanced-accuracy, f1:CLASS or log-loss; "
    "for many-labels hamming, subset, micro-f1 or macro-f1; for ordinal accuracy or rank-error; "
    "for regression rmse.  [default: the first of them]",
)
@option("--seed N", "Set the random seed of the batches.", click.IntRange(0), default=0, rare=True)
@option(
    "--measure N",
    "Reserve N random items as a test set that measures the error; every third item you label is "
    "one of them, and the model never trains on them. `parbals measure` begins it later.",
    click.IntRange(0),
    argument="audit",
    default=0,
)
@click.option("--audit", "earlier_audit", type=click.IntRange(0), default=0, hidden=True)
@AUDIT_BY
@goal_options(rare=True)
@option(
    "--find CLASS",
    "Search for items of a rare class, and estimate how many of them are found.",
)
@TARGET
@TARGET_WEIGHTS
@SETTINGS
@ENCODE_WITH
def init(
    folder: Path,
    data: Path,
    text: tuple[str, ...],
    image: str | None,
    features: tuple[str, ...],
    classes: tuple[str, ...],
    task: str | None,
    labels_per_item: str | None,
    label: str | None,
    shown: tuple[str, ...],
    hidden: tuple[str, ...],
    id_column: str | None,
    encoder: str | None,
    describe: tuple[str, ...],
    prior_scores: Path | None,
    reading: dict[str, Any],
    metric: str | None,
    audit: int,
    earlier_audit: int,
    goal: dict[str, Any],
    target: str | None,
    target_weights: str | None,
    encode_with: "Options",
    as_json: bool,
    **project_settings: Any,
) -> None:
    """Create a project from a file or a folder.

    DIR is the new folder of the project. DATA is CSV, TSV, JSON or JSONL (also compressed,
    .csv.gz), Excel (.xlsx), Parquet, .npy or .npz, or a folder of images.

    \b
    Examples:
      parbals init spam messages.csv --text message --classes ham,spam --measure 50
      parbals init flights passengers.csv --features all --label satisfied
      parbals init tickets tickets.csv --text note --features age,city,opened --classes a,b
      parbals init pets photos/ --classes cat,dog
      parbals init vectors embeddings.npy --classes yes,no
      parbals init spam messages.csv --text message --classes ham,spam \\
        --describe spam="advertising nobody asked for" --describe ham="a message from a friend"
      parbals init flights passengers.csv --features all --label satisfied --target 2027.csv
      parbals init hunt messages.csv --text message --classes ham,spam --find spam
      parbals init topics news.csv --text title --task many-labels --classes sport,money,law
      parbals init stars reviews.csv --text review --task ordinal --classes 1,2,3,4,5
      parbals init prices houses.csv --features all --task regression --label price
    """
    from parbals_label.project.create import Roles, create_project

    task = _task(task, labels_per_item)
    settings = _settings(project_settings | goal, task, metric, describe)
    roles = Roles(text, image, features, label, id_column, shown, hidden)
    with progress("reading") as show:
        created = create_project(
            folder,
            data,
            roles,
            list(classes) or None,
            settings,
            audit=audit or earlier_audit,
            encoder=encoder,
            reading=reading,
            encode_with=encode_with,
            scores=prior_scores,
            target=target,
            target_weights=target_weights,
            progress=show,
        )
    record = {name.removeprefix("n_"): value for name, value in asdict(created).items()}
    lines = [
        _size_line(created, task),
        _id_line(created, data),
        *_audit_lines(created),
        *_target_lines(created, target),
        *created.notes,
        *_encoder_lines(created, encoder, folder),
        _next_line(created, folder),
    ]
    print_result(as_json, record, "\n".join(lines))


def _task(task: str | None, labels_per_item: str | None) -> str:
    """The task that was asked for; `--labels-per-item many` is an earlier spelling of one."""
    if labels_per_item != "many":
        return task or TASKS[0]
    if task not in (None, MANY):
        raise InputError(f"--labels-per-item many does not go with --task {task}; leave one out.")
    return MANY


def _settings(
    options: dict[str, Any], task: str, metric: str | None, describe: tuple[str, ...]
) -> dict[str, Any]:
    """Settings of the new project, from the options that were set."""
    from parbals.strategies.table import DEFAULT_STRATEGY, strategy_named

    from parbals_label.project.goal import metric_setting

    settings = {name: value for name, value in options.items() if value is not None}
    settings.setdefault("strategy", DEFAULT_STRATEGY)
    strategy_named(settings["strategy"])
    settings["task"] = task
    settings["loss"] = metric and metric_setting(metric)
    advice = 'describes no class; write --describe CLASS="a sentence".'
    settings["descriptions"] = dict(key_and_value(text, advice) for text in describe)
    return settings


def _next_line(created: "NewProject", folder: Path) -> str:
    """What to do with the new project."""
    if created.n_labels == created.n_items:
        return (
            f"Every item is labelled. Next: parbals export {folder} --renew, which trains a model, "
            f"then parbals status {folder}, which estimates its error"
        )
    return f"Next: parbals serve {folder}, or parbals next {folder} -n 20 --out batch.csv"


def _size_line(created: "NewProject", task: str) -> str:
    """Numbers of items, labels and features, and the classes."""
    read_as = f" (read as {created.encoding})" if created.encoding else ""
    encoder = f"{created.encoder} and table" if created.table_columns else created.encoder
    kind = "classes" if created.classes else "labels are"
    hint = AnswerForm(task, created.classes).hint
    return (
        f"{created.n_items:,} items{read_as}, {created.n_labels:,} of them labelled, "
        f"{created.n_features} features ({encoder}), {kind} {hint}."
    )


def _id_line(created: "NewProject", data: Path) -> str:
    """What the items are named by."""
    if created.id_column is None:
        numbers = f"their numbers, 1 to {created.n_items}"
        return f"The items are named by {numbers}, in the order of {data.name}."
    if data.is_dir() and created.id_column == "image":
        return "The items are named by their files."
    return f"The items are named by the column {created.id_column!r}."


def _audit_lines(created: "NewProject") -> list[str]:
    if not created.n_audit:
        return []
    return [f"{created.n_audit:,} random items are reserved for measuring the error."]


def _target_lines(created: "NewProject", target: str | None) -> list[str]:
    if not created.n_target:
        return []
    rows = counted(created.n_target, "row")
    return [f"Labels are chosen for the target set: {rows} of {target}."]


def _encoder_lines(created: "NewProject", encoder: str | None, folder: Path) -> list[str]:
    """A better encoder to install, unless one was named."""
    from parbals_label.encoders.table import better_encoder

    if encoder not in (None, "auto"):
        return []
    advice = better_encoder(created.encoder, folder)
    return [advice] if advice else []


@command
@option(
    "--encoder NAME",
    "Choose the encoder: auto, or a name of docs/howto/features.md.",
    required=True,
)
@names("--columns COLS", "Encode these columns.  [default: as before]")
@names("--features COLS", "Use these columns of a table as well.  [default: as before]")
@SETTINGS
@ENCODE_WITH
def embed(
    folder: Path,
    encoder: str,
    columns: tuple[str, ...],
    features: tuple[str, ...],
    encode_with: "Options",
    as_json: bool,
) -> None:
    """Recompute the features with another encoder.

    Labels and history stay.

    \b
    Examples:
      parbals embed spam --encoder words --columns subject,message
      parbals embed spam --encoder bert-base-uncased
    """
    from parbals_label.project.embedding import embed_project

    with open_store(folder) as store, progress("encoding") as show:
        embedded = embed_project(
            store,
            encoder,
            list(columns) or None,
            show,
            table=list(features) or None,
            encode_with=encode_with,
        )
        encoder = store.settings.encoder or encoder  # the encoder that auto chose
    notes = list(embedded.notes)
    record = {"features": embedded.n_features, "encoder": encoder, "notes": notes}
    print_result(
        as_json, record, "\n".join([f"{embedded.n_features} features by {encoder}.", *notes])
    )


@command
@option(
    "--encoder hf:FOLDER",
    "Fine-tune this transformers model.  [default: the project's encoder; all-MiniLM-L6-v2 where "
    "that is words or sentences]",
)
@flag("--force", "Use the fine-tuned encoder even if it predicts held-out labels worse.")
@SETTINGS
@ENCODE_WITH
def adapt(
    folder: Path, encoder: str | None, force: bool, encode_with: "Options", as_json: bool
) -> None:
    """Fine-tune the encoder on the labels.

    For tables, append out-of-fold predictions of tree ensembles as features. Works best from about
    100 labels. The new features are used only if they predict held-out labels better than the
    present ones; test items are not trained on. The time it will take is printed first. Ctrl-C
    stops it, and the same command resumes at the same step.
    `parbals embed DIR --encoder auto` goes back.

    \b
    Examples:
      parbals adapt spam
      parbals adapt spam --encoder hf:models/mpnet
      parbals adapt birds --encoder hf:models/dinov2-small
    """
    from parbals.wording import duration, percent

    from parbals_label.project.adapting import adapt_project
    from parbals_label.project.engine import refresh

    ends_at = 0.0

    def announce(seconds: float) -> None:
        nonlocal ends_at
        ends_at = time.monotonic() + seconds
        click.echo(
            f"This takes {duration(seconds)}. Press Ctrl-C to stop; the same command resumes.",
            err=True,
        )

    with open_store(folder) as store, progress("fine-tuning") as show:

        def show_all(stage: str, done: float, total: float | None) -> None:
            left = ends_at - time.monotonic()
            show(stage, done, total, f"{duration(left)} left in all" if left > 0.0 else "")

        result = adapt_project(
            store, show_all, encoder=encoder, options=encode_with, force=force, announce=announce
        )
        expected = refresh(store, show).expected_error
    comparison = (
        f"Of {result.n_labels:,} labels, each held out once, the adapted features get "
        f"{percent(result.error)} wrong (log loss {result.log_loss:.3f}), the frozen features "
        f"{percent(result.frozen_error)} ({result.frozen_log_loss:.3f}). Items that are chosen "
        f"for labelling are harder than most: of the others {percent(expected.mean)} are expected "
        f"to be wrong ({percent(expected.low)} to {percent(expected.high)})."
    )
    if result.used:
        outcome = (
            f"The project now uses the adapted encoder, {folder / result.encoder}; see parbals "
            f"status {folder}."
        )
    else:
        outcome = "So the features stay as they were; more labels may change that."
    print_result(as_json, asdict(result), f"{comparison} {outcome}")
