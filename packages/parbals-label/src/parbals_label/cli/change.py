"""The commands that change a project: edit, add, release; and history: what was true when."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from parbals.cli.output import JSON, comma_list, progress, say
from parbals.errors import InputError

if TYPE_CHECKING:
    from parbals_label.encoders.base import Options
    from parbals_label.store.settings import ProjectSettings

from parbals_label.cli.options import (
    AUDIT_BY,
    ENCODE_WITH,
    FOLDER,
    FORCE,
    GOAL,
    PRIOR_SCORES,
    READING,
    SHOWN,
    renewed,
)

__all__ = ["COMMANDS"]


@click.command()
@FOLDER
@click.option(
    "--add-class", "added", multiple=True, metavar="NAME", help="A new class; may be repeated."
)
@click.option(
    "--rename-class",
    "renamed",
    multiple=True,
    metavar="OLD=NEW",
    help="Another name for a class: its labels stay, and history keeps the old name.",
)
@click.option(
    "--merge-class",
    "merged",
    multiple=True,
    metavar="A=B",
    help="What was A is B from now on, and A is no class any more; history keeps it.",
)
@click.option(
    "--remove-class",
    "removed",
    multiple=True,
    metavar="NAME",
    help="Remove a class that nobody has ever answered with.",
)
@click.option(
    "--class-order",
    "order",
    callback=comma_list,
    metavar="A,B,..",
    help="The classes as they stand on the page and its keys: all of them, or the first ones.",
)
@click.option("--strategy", metavar="NAME", help="Chooses from now on; see `parbals strategies`.")
@click.option(
    "--metric",
    metavar="NAME",
    help="What the model is judged by from now on: accuracy, balanced-accuracy, f1:CLASS or "
    "log-loss.",
)
@click.option(
    "--guidelines",
    metavar="FILE|TEXT",
    help='What annotators should know: a text, or a file that holds it; "" removes it.',
)
@click.option(
    "--highlight",
    callback=lambda context, parameter, value: (
        None if value is None else comma_list(context, parameter, value)
    ),
    metavar="A,B,..",
    help="Words to mark in texts on the page.",
)
@click.option("--find", metavar="CLASS", help='Look for this rare class; "" ends that.')
@click.option("--answers-wanted", type=click.IntRange(1, 100), help="People who label each item.")
@click.option(
    "--lease-minutes", type=click.IntRange(1, 1440), help="How long the page keeps an item for one."
)
@AUDIT_BY
@PRIOR_SCORES
@SHOWN
@GOAL
@JSON
def edit(
    folder: Path,
    added: tuple[str, ...],
    renamed: tuple[str, ...],
    merged: tuple[str, ...],
    removed: tuple[str, ...],
    order: tuple[str, ...],
    strategy: str | None,
    metric: str | None,
    guidelines: str | None,
    highlight: tuple[str, ...] | None,
    find: str | None,
    answers_wanted: int | None,
    lease_minutes: int | None,
    audit_by: str | None,
    prior_scores: Path | None,
    shown: tuple[str, ...],
    hidden: tuple[str, ...],
    goal: dict[str, int | float],
    as_json: bool,
) -> None:
    """Change a project: all of what is asked for, or nothing. Without options, show it.

    No label is lost, and a page that is open goes on: it takes new names with its next item.

    \b
    Examples:
      parbals edit spam --add-class "none of these"
      parbals edit spam --rename-class junk=spam --guidelines guide.md
      parbals edit spam --merge-class advert=spam --class-order spam,ham
      parbals edit spam --strategy confidence --goal-labels 300
    """
    from parbals.learner.numbers.metric import metric_of, setting_of
    from parbals.learner.tasks.table import task_named

    from parbals_label.project.classes import change_classes
    from parbals_label.project.scores import store_scores
    from parbals_label.store.store import Store

    given = {
        "strategy": strategy,
        "loss": None if metric is None else setting_of(metric),
        "guidelines": None if guidelines is None else _text_of(guidelines),
        "highlight": highlight,
        "answers_wanted": answers_wanted,
        "lease_minutes": lease_minutes,
        "audit_by": audit_by,
    }
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    changes |= goal
    if find is not None:
        changes["find"] = find or None
    pairs, joined = dict(map(_pair, renamed)), dict(map(_pair, merged))
    wanted = bool(changes or pairs or added or shown or hidden or joined or removed or order)
    wanted = wanted or prior_scores is not None
    with Store.open(folder, read_only=not wanted) as store:
        had_predictions, old_scores = store.settings.predictions is not None, store.settings.scores
        if wanted:
            with store.together():
                changes |= change_classes(
                    store, renamed=pairs, merged=joined, added=added, removed=removed, order=order
                )
                names = changes.get("classes", store.classes)
                if shown or hidden:
                    changes["hidden"] = _hidden(store.settings, shown, hidden)
                # A name that is there twice is refused by the store, which says which.
                kind = task_named(store.settings.task, list(dict.fromkeys(names)) or None)
                kind.check_settings("auto", "auto", find=find or None)
                kind.check_strategy(strategy or store.settings.strategy)
                if metric is not None:
                    kind.check_metric(metric)
                if find and find not in names:
                    raise InputError(f"{find!r} is to be found, but is not a class of the project.")
                if changes:
                    store.update_settings(**changes)
                if prior_scores is not None:
                    scores = store_scores(store, prior_scores)
                    store.update_settings(scores=scores, predictions=None)
        settings, classes = store.settings, store.classes
        if old_scores is not None and old_scores != settings.scores:
            (folder / old_scores.file).unlink(missing_ok=True)
        if had_predictions and settings.predictions is None and store.n_labelled:
            renewed(store)
    said = {
        "task": settings.task,
        "classes": list(classes),
        "strategy": settings.strategy,
        "metric": metric_of(settings.loss),
        "guidelines": settings.guidelines,
        "highlight": list(settings.highlight),
        "find": settings.find or "",
        "answers_wanted": settings.answers_wanted,
        "lease_minutes": settings.lease_minutes,
        "audit_by": settings.audit_by,
        "hidden": list(settings.hidden),
        "prior_scores": settings.scores is not None,
        "goal_labels": settings.goal_labels,
        "goal_error": settings.goal_error,
    }
    lines = [f"{name.replace('_', ' '):<15} {_shown(value)}" for name, value in said.items()]
    if added:
        lines.append("Earlier answers were given without the new class; who gave them may revise.")
    say(as_json, said, "\n".join(lines))


def _hidden(settings: "ProjectSettings", show: tuple[str, ...], hide: tuple[str, ...]) -> list[str]:
    """The columns that nobody sees from now on."""
    for name in (*show, *hide):
        if name not in settings.columns:
            raise InputError(
                f"The items have no column {name!r}; there are {', '.join(settings.columns)}."
            )
    hidden = [n for n in settings.columns if (n in settings.hidden and n not in show) or n in hide]
    if len(hidden) == len(settings.columns):
        raise InputError("Nothing would be left to see; leave a column that is shown.")
    return hidden


def _text_of(given: str) -> str:
    """The text itself, or what is in a file of that name."""
    path = Path(given)
    try:
        return path.read_text("utf-8") if len(given) < 1000 and path.is_file() else given
    except (OSError, UnicodeDecodeError):
        raise InputError(f"{path} cannot be read as text in UTF-8.") from None


def _pair(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not equals or not old.strip() or not new.strip():
        raise InputError(f"{text!r} does not rename a class; write OLD=NEW.")
    return old.strip(), new.strip()


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(value) or "none"
    first = " ".join(str(value).split())
    return (first[:80] + "…" if len(first) > 80 else first) or "none"


@click.command()
@FOLDER
@click.argument("data", type=click.Path(path_type=Path))
@click.option("--new-only", is_flag=True, help="Leave out rows whose id the project has already.")
@click.option(
    "--label", metavar="COL", help="Column with known labels; by default as when it was made."
)
@click.option(
    "--id", "id_column", metavar="COL", help="Column with ids; by default as when it was made."
)
@READING
@click.option("--no-report", is_flag=True, help="Do not predict the new items now.")
@ENCODE_WITH
@JSON
def add(
    folder: Path,
    data: Path,
    new_only: bool,
    label: str | None,
    id_column: str | None,
    reading: dict[str, Any],
    no_report: bool,
    encode_with: "Options",
    as_json: bool,
) -> None:
    """Add the items of DATA to a project: the same columns, the same encoder.

    The features of all items are made again, learnt from old and new ones together. Labels,
    batches and history stay; the new items may be chosen from now on, also by an open page.

    \b
    Examples:
      parbals add spam more.csv
      parbals add spam everything.csv --new-only
    """
    from parbals_label.project.grow import add_items
    from parbals_label.store.store import Store

    with Store.open(folder) as store:
        with progress() as show:
            made = add_items(
                store,
                data,
                id_column=id_column,
                label=label,
                new_only=new_only,
                reading=reading,
                encode_with=encode_with,
                progress=show,
            )
        total = store.n_items
        record: dict[str, Any] = {
            "added": made.n_items,
            "labels": made.n_labels,
            "known": made.n_known,
        }
        record |= {"items": total, "features": made.n_features, "notes": list(made.notes)}
        text = f"{made.n_items:,} items added, {made.n_labels:,} of them labelled"
        text += f"; {made.n_known:,} were there already" if made.n_known else ""
        say(as_json, record, "\n".join([f"{text}. The project has {total:,} items.", *made.notes]))
        if made.n_items and store.n_labelled and not no_report:
            renewed(store)


@click.command()
@FOLDER
@click.option("--item", metavar="ID", help="What happened to one item.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="CSV to write instead of lines; - is the screen."
)
@FORCE
@JSON
def history(folder: Path, item: str | None, out: Path | None, force: bool, as_json: bool) -> None:
    """Everything that was answered and decided, oldest first, by the names of that time.

    \b
    Examples:
      parbals history spam
      parbals history spam --item 17
      parbals history spam --out history.csv
    """
    from parbals_label.project.exports import check_destination, write_export
    from parbals_label.project.history import COLUMNS, history_rows, history_text
    from parbals_label.store.store import Store

    if out is not None:
        check_destination(folder, out, force=force)
    with Store.open(folder, read_only=True) as store:
        rows = history_rows(store, item)
    if out is not None:
        count = write_export(out, rows, "csv", COLUMNS)
        if str(out) != "-":
            say(as_json, {"file": str(out), "rows": count}, f"{count:,} rows in {out}.")
        return
    say(as_json, rows, "\n".join(map(history_text, rows)) or "Nothing has happened yet.")


@click.command()
@FOLDER
@click.option("--annotator", metavar="NAME", help="Only what is out with this person or program.")
@JSON
def release(folder: Path, annotator: str | None, as_json: bool) -> None:
    """Give back the items that are out, so that others get them; also while the page is open.

    Items of the page wait there again; those handed out as a file may be chosen again. Nothing is
    lost: an answer that still comes is stored.

    \b
    Examples:
      parbals release spam
      parbals release spam --annotator ann
    """
    from parbals_label.store.records import RELEASED
    from parbals_label.store.store import Store

    with Store.open(folder) as store, store.together():
        count = store.release_all(annotator)
        store.log(RELEASED, name=annotator, count=count)
    of = "" if annotator is None else f" that {annotator} had"
    say(as_json, {"released": count}, f"{count:,} items{of} are free again.")


COMMANDS = (edit, add, history, release)
