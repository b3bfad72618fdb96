"""The commands that make a project and its features: init, embed, adapt."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from parbals.cli.output import progress, say
from parbals.errors import InputError

from parbals_label.answer_form import MANY, TASKS, AnswerForm
from parbals_label.cli.options import (
    AUDIT_BY,
    ENCODE_WITH,
    GOAL,
    PATH,
    PRIOR_SCORES,
    READING,
    SHOWN,
    command,
    flag,
    names,
    opened,
    option,
    pair,
)

if TYPE_CHECKING:
    from parbals_label.encoders.base import Options

__all__ = ["adapt", "embed", "init"]


@command
@click.argument("data", type=PATH)
@names("--text COLS", "Text columns to encode, separated by commas.")
@option("--image COL", "Column with paths of images.")
@names(
    "--features COLS",
    "Columns of a table to use as features: numbers, categories, dates, yes/no, gaps allowed; "
    "`all` takes every column that is nothing else. Beside --text or --image both are used.",
)
@names("--classes A,B,..", "The classes; by default those in the label column.")
@option(
    "--task",
    "What a label is: one of the classes, many-labels (several or none of them), ordinal "
    "(classes from low to high) or regression (a number).  [default: classes]",
    click.Choice(TASKS),
)
@option(
    "--labels-per-item",
    "many is another way to say --task many-labels.",
    click.Choice(["one", "many"]),
)
@option("--label COL", "Column with labels that are known already; empty cells are unlabelled.")
@SHOWN
@option(
    "--id COL",
    'Column with the items\' names; by default `id`, if there is one. --id "" numbers the '
    "rows instead.",
    to="id_column",
)
@option(
    "--encoder NAME", "By default auto, the best that is installed; others: docs/howto/features.md."
)
@option(
    "--describe CLASS=SENTENCE",
    "What a class is, in a sentence that the text encoder reads too; once for each class. The "
    "model then predicts before the first label.",
    multiple=True,
)
@PRIOR_SCORES
@READING
@option("--strategy NAME", "By default parbals-epig; see `parbals strategies`.")
@option(
    "--metric NAME",
    "What the model is judged by, and items are chosen for: accuracy, balanced-accuracy, "
    "f1:CLASS or log-loss; of many labels hamming, subset, micro-f1 or macro-f1; of ordered "
    "classes accuracy or rank-error; of numbers rmse.  [default: the first of them]",
)
@option("--seed", "Makes every batch reproducible.", click.IntRange(0), default=0)
@option(
    "--audit N",
    "So many random items measure the error: every third one to label until all are labelled. "
    "They teach the model nothing; it cannot be added later.",
    click.IntRange(0),
    default=0,
)
@AUDIT_BY
@GOAL
@option(
    "--find CLASS",
    "A rare class to find: ask for items likely to be of it, and say how much is found.",
)
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
    goal: dict[str, Any],
    encode_with: "Options",
    as_json: bool,
    **given: Any,
) -> None:
    """Make a project in the new folder DIR from DATA.

    DATA is CSV, TSV, JSON or JSONL (also packed, .csv.gz), Parquet, .npy or .npz, or a folder
    of images.

    \b
    Examples:
      parbals init spam messages.csv --text message --classes ham,spam --audit 50
      parbals init flights passengers.csv --features all --label satisfied
      parbals init tickets tickets.csv --text note --features age,city,opened --classes a,b
      parbals init pets photos/ --classes cat,dog
      parbals init vectors embeddings.npy --classes yes,no
      parbals init spam messages.csv --text message --classes ham,spam \
        --describe spam="advertising nobody asked for" --describe ham="a message from a friend"
      parbals init hunt messages.csv --text message --classes ham,spam --find spam
      parbals init topics news.csv --text title --task many-labels --classes sport,money,law
      parbals init stars reviews.csv --text review --task ordinal --classes 1,2,3,4,5
      parbals init prices houses.csv --features all --task regression --label price
    """
    from parbals.strategies.table import DEFAULT, strategy_named

    from parbals_label.encoders.table import better_encoder
    from parbals_label.project.create import Roles, create_project
    from parbals_label.project.goal import metric_setting

    if labels_per_item == "many" and task not in (None, MANY):
        raise InputError(f"--labels-per-item many does not go with --task {task}; leave one out.")
    task = task or (MANY if labels_per_item == "many" else TASKS[0])
    settings = {name: value for name, value in given.items() if value is not None} | goal
    settings |= {"task": task, "loss": metric and metric_setting(metric)}
    strategy_named(settings.setdefault("strategy", DEFAULT))
    advice = 'describes no class; write --describe CLASS="a sentence".'
    with progress() as show:
        made = create_project(
            folder,
            data,
            Roles(text, image, features, label, id_column, shown, hidden),
            list(classes) or None,
            settings | {"descriptions": dict(pair(one, advice) for one in describe)},
            audit=audit,
            encoder=encoder,
            reading=reading,
            encode_with=encode_with,
            scores=prior_scores,
            progress=show,
        )
    read_as = f" (read as {made.encoding})" if made.encoding else ""
    named = (
        f"The items are named by their numbers, 1 to {made.n_items}, in the order of {data.name}."
        if made.id_column is None
        else "The items are named by their files."
        if data.is_dir() and made.id_column == "image"
        else f"The items are named by the column {made.id_column!r}."
    )
    if made.n_audit:
        named += f"\n{made.n_audit:,} random items are kept for measuring the error."
    named = "\n".join([named, *made.notes])
    if encoder in (None, "auto") and (better := better_encoder(made.encoder, folder)):
        named += f"\n{better}"
    kind = "classes" if made.classes else "labels are"
    hint = AnswerForm(task, made.classes).hint
    by = f"{made.encoder} and table" if made.table_columns else made.encoder
    say(
        as_json,
        {name.removeprefix("n_"): value for name, value in asdict(made).items()},
        f"{made.n_items:,} items{read_as}, {made.n_labels:,} of them labelled, {made.n_features} "
        f"features ({by}), {kind} {hint}.\n{named}\nNext: parbals "
        f"serve {folder}, or parbals next {folder} -n 20 --out batch.csv",
    )


@command
@option("--encoder NAME", "auto, or a name; an unknown one lists all.", required=True)
@names("--columns COLS", "Columns to encode; by default as last time.")
@names("--features COLS", "Further columns of a table to use beside them; by default as last time.")
@ENCODE_WITH
def embed(
    folder: Path,
    encoder: str,
    columns: tuple[str, ...],
    features: tuple[str, ...],
    encode_with: "Options",
    as_json: bool,
) -> None:
    """Make the features of a project again; labels and history stay.

    \b
    Examples:
      parbals embed spam --encoder words --columns subject,message
      parbals embed spam --encoder bert-base-uncased
    """
    from parbals_label.project.embedding import embed_project

    with opened(folder) as store, progress() as show:
        made = embed_project(
            store,
            encoder,
            list(columns) or None,
            show,
            table=list(features) or None,
            encode_with=encode_with,
        )
        encoder = store.settings.encoder or encoder  # where it was auto
    record = {"features": made.n_features, "encoder": encoder, "notes": list(made.notes)}
    say(as_json, record, "\n".join([f"{made.n_features} features by {encoder}.", *made.notes]))


@command
@option(
    "--encoder hf:FOLDER",
    "A model of transformers to start from; by default the project's own encoder, and "
    "all-MiniLM-L6-v2 where that is words or sentences.",
)
@flag("--force", "Take the adapted encoder even where held-out labels advise not.")
@ENCODE_WITH
def adapt(
    folder: Path, encoder: str | None, force: bool, encode_with: "Options", as_json: bool
) -> None:
    """Fine-tune the project's encoder on its labels, and make the features again.

    Of a table, grow trees on the labels: what they say stands beside the columns. Best from about
    100 labels on. It is taken only where it predicts held-out labels better than the features that
    are there. The audit's items teach it nothing. An interrupted run goes on
    where it was. `parbals embed DIR --encoder auto` goes back.

    \b
    Examples:
      parbals adapt spam
      parbals adapt spam --encoder hf:models/mpnet
      parbals adapt birds --encoder hf:models/dinov2-small
    """
    from parbals.wording import percent

    from parbals_label.project.adapting import adapt_project

    with opened(folder) as store, progress() as show:
        found = adapt_project(store, show, encoder=encoder, options=encode_with, force=force)
    text = (
        f"Of {found.n_labels:,} labels, each held out once, the adapted features get "
        f"{percent(found.error)} wrong (log loss {found.log_loss:.3f}), the frozen features "
        f"{percent(found.frozen_error)} ({found.frozen_log_loss:.3f}). "
    )
    text += (
        f"The project uses the adapted one now, {folder / found.encoder}; see parbals status "
        f"{folder}."
        if found.used
        else "So the features stay as they were; more labels may change that."
    )
    say(as_json, asdict(found), text)
