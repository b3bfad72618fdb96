"""The commands that change a project: edit, add, release; and history: what was true when."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from parbals.cli.output import progress, say
from parbals.errors import InputError
from parbals.wording import counted

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
    packed,
    pair,
    renewed,
)
from parbals_label.shared_options import comma_list

if TYPE_CHECKING:
    from parbals_label.encoders.base import Options
    from parbals_label.store.settings import ProjectSettings

__all__ = ["COMMANDS"]

_SAID = (
    *("task", "strategy", "guidelines", "highlight", "find", "answers_wanted", "lease_minutes"),
    *("audit_by", "hidden", "goal_labels", "goal_error"),
)
"""Settings that people see as they are."""


def _class_changes(**given: Any) -> dict[str, Any]:
    advice = "does not rename a class; write OLD=NEW."
    for name in ("renamed", "merged"):
        given[name] = dict(pair(one, advice) for one in given[name])
    return {name: value for name, value in given.items() if value}


CLASSES = packed(
    "classes",
    _class_changes,
    option("--add-class NAME", "A new class; may be repeated.", to="added", multiple=True),
    option(
        "--rename-class OLD=NEW",
        "Another name for a class: its labels stay, and history keeps the old name.",
        to="renamed",
        multiple=True,
    ),
    option(
        "--merge-class A=B",
        "What was A is B from now on, and A is no class any more; history keeps it.",
        to="merged",
        multiple=True,
    ),
    option(
        "--remove-class NAME",
        "Remove a class that nobody has ever answered with.",
        to="removed",
        multiple=True,
    ),
    names(
        "--class-order A,B,..",
        "The classes as they stand on the page and its keys: all of them, or the first ones.",
        to="order",
    ),
)
"""Arguments of ``change_classes`` that were asked for."""


@command
@CLASSES
@option("--strategy NAME", "Chooses from now on; see `parbals strategies`.")
@option(
    "--metric NAME",
    "What the model is judged by from now on: accuracy, balanced-accuracy, f1:CLASS or log-loss.",
)
@option(
    "--guidelines FILE|TEXT",
    'What annotators should know: a text, or a file that holds it; "" removes it.',
)
@option("--highlight A,B,..", "Words to mark in texts on the page.")
@option("--find CLASS", 'Look for this rare class; "" ends that.')
@option("--answers-wanted", "People who label each item.", click.IntRange(1, 100))
@option("--lease-minutes", "How long the page keeps an item for one.", click.IntRange(1, 1440))
@AUDIT_BY
@PRIOR_SCORES
@SHOWN
@GOAL
def edit(
    folder: Path,
    classes: dict[str, Any],
    metric: str | None,
    guidelines: str | None,
    prior_scores: Path | None,
    shown: tuple[str, ...],
    hidden: tuple[str, ...],
    goal: dict[str, int | float],
    as_json: bool,
    **given: Any,
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
    from parbals.learner.tasks.table import task_named

    from parbals_label.project.classes import change_classes
    from parbals_label.project.features import remove_matrices
    from parbals_label.project.goal import metric_of, metric_setting
    from parbals_label.project.scores import store_scores

    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    changes |= goal
    if metric is not None:
        changes["loss"] = metric_setting(metric)
    if guidelines is not None:
        changes["guidelines"] = _text_of(guidelines)
    if "highlight" in changes:
        changes["highlight"] = comma_list(None, None, changes["highlight"])
    if "find" in changes:
        changes["find"] = changes["find"] or None
    wanted = bool(changes or classes or shown or hidden or prior_scores is not None)
    with opened(folder, read_only=not wanted) as store:
        had_predictions, old_scores = store.settings.predictions is not None, store.settings.scores
        if wanted:
            with store.together():
                changes |= change_classes(store, **classes)
                find, strategy = changes.get("find"), changes.get("strategy")
                names = changes.get("classes", store.classes)
                if shown or hidden:
                    changes["hidden"] = _hidden(store.settings, shown, hidden)
                # A name that is there twice is refused by the store, which says which.
                kind = task_named(store.settings.task, list(dict.fromkeys(names)) or None)
                kind.check_settings("auto", "auto", find=find)
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
        settings = store.settings
        said: dict[str, Any] = {"classes": store.classes, "metric": metric_of(settings.loss)}
        if wanted:
            remove_matrices(store, old_scores)
        if had_predictions and settings.predictions is None and store.n_labelled:
            renewed(store)
    said |= {name: getattr(settings, name) for name in _SAID}
    said["prior_scores"] = settings.scores is not None
    lines = [f"{name.replace('_', ' '):<15} {_shown(value)}" for name, value in said.items()]
    if "added" in classes:
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


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(value) or "none"
    first = " ".join(str(value or "").split())
    return (first[:80] + "…" if len(first) > 80 else first) or "none"


@command
@click.argument("data", type=PATH)
@flag("--new-only", "Leave out rows whose id the project has already.")
@option("--label COL", "Column with known labels; by default as when it was made.")
@option("--id COL", "Column with ids; by default as when it was made.", to="id_column")
@READING
@flag("--no-report", "Do not predict the new items now.")
@ENCODE_WITH
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

    with opened(folder) as store:
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
        record: dict[str, Any] = {"added": made.n_items, "labels": made.n_labels, "items": total}
        record |= {"known": made.n_known, "features": made.n_features, "notes": list(made.notes)}
        text = f"{counted(made.n_items, 'item')} added, {made.n_labels:,} of them labelled"
        text += f"; {made.n_known:,} were there already" if made.n_known else ""
        say(as_json, record, "\n".join([f"{text}. The project has {total:,} items.", *made.notes]))
        if made.n_items and store.n_labelled and not no_report:
            renewed(store)


@command
@option("--item ID", "What happened to one item.")
def history(folder: Path, item: str | None, as_json: bool) -> None:
    """Everything that was answered and decided, oldest first, by the names of that time.

    \b
    Examples:
      parbals history spam
      parbals history spam --item 17
    """
    from parbals_label.project.history import history_rows, history_text

    with opened(folder, read_only=True) as store:
        rows = history_rows(store, item)
    say(as_json, rows, "\n".join(map(history_text, rows)) or "Nothing has happened yet.")


@command
@option("--annotator NAME", "Only what is out with this person or program.")
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

    with opened(folder) as store, store.together():
        count = store.release_all(annotator)
        store.log(RELEASED, name=annotator, count=count)
    of, are = f" that {annotator} had" if annotator else "", "is" if count == 1 else "are"
    say(as_json, {"released": count}, f"{counted(count, 'item')}{of} {are} free again.")


COMMANDS = (edit, add, history, release)
