"""Commands that change a project: edit, add."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from parbals.cli.output import print_result, progress
from parbals.errors import InputError
from parbals.wording import counted

from parbals_label.cli.options import (
    AUDIT_BY,
    ENCODE_WITH,
    PATH,
    PRIOR_SCORES,
    READING,
    SETTINGS,
    command,
    flag,
    goal_options,
    grouped,
    key_and_value,
    names,
    open_store,
    option,
    update_report,
    visible_columns,
)
from parbals_label.shared_options import comma_list

if TYPE_CHECKING:
    from parbals_label.encoders.base import Options
    from parbals_label.store.settings import ProjectSettings
    from parbals_label.store.store import Store

__all__ = ["add", "edit"]

_PRINTED_SETTINGS = (
    "task",
    "strategy",
    "guidelines",
    "highlight",
    "find",
    "answers_wanted",
    "lease_minutes",
    "hidden",
    "goal_labels",
    "goal_error",
)
_LONGEST_VALUE = 80
"""Characters of a setting that are printed."""
_LONGEST_PATH = 1000
"""Characters of --guidelines that may still be the name of a file."""


def _class_changes(**options: Any) -> dict[str, Any]:
    """Arguments of ``change_classes``, from the options that were set."""
    advice = "does not rename a class; write OLD=NEW."
    for name in ("renamed", "merged"):
        options[name] = dict(key_and_value(text, advice) for text in options[name])
    return {name: value for name, value in options.items() if value}


_CLASS_OPTIONS = grouped(
    "classes",
    _class_changes,
    option("--add-class NAME", "Add a class; can be repeated.", argument="added", multiple=True),
    option(
        "--rename-class OLD=NEW",
        "Rename a class. Its labels stay, and history keeps the old name.",
        argument="renamed",
        multiple=True,
    ),
    option(
        "--merge-class A=B",
        "Merge class A into B. History keeps the original labels.",
        argument="merged",
        multiple=True,
    ),
    option(
        "--remove-class NAME",
        "Remove a class that never had a label.",
        argument="removed",
        multiple=True,
    ),
    names(
        "--class-order A,B,..",
        "Order the classes on the page and its keys: all of them, or the first ones.",
        argument="order",
        rare=True,
    ),
)


@dataclass(frozen=True)
class _Changes:
    """The changes that somebody asked for.

    Attributes:
        classes: arguments of ``change_classes``.
        settings: new values of the project's settings, by name.
        metric: the new metric as it was written, to be checked.
        shown: columns to show.
        hidden: columns to hide.
        prior_scores: a file with the scores of another model.
    """

    classes: dict[str, Any]
    settings: dict[str, Any]
    metric: str | None
    shown: tuple[str, ...]
    hidden: tuple[str, ...]
    prior_scores: Path | None

    def __bool__(self) -> bool:
        has_scores = self.prior_scores is not None
        return bool(self.classes or self.settings or self.shown or self.hidden or has_scores)


@command
@_CLASS_OPTIONS
@option("--strategy NAME", "Choose the query strategy; `parbals strategies` lists them.")
@option(
    "--metric NAME",
    "Set the metric to optimise and report: accuracy, balanced-accuracy, f1:CLASS or log-loss.",
)
@option(
    "--guidelines FILE|TEXT",
    'Set the guidelines for annotators: a text, or a file that holds it; "" removes them.',
)
@option("--highlight A,B,..", "Highlight these words in texts on the page.", rare=True)
@option("--find CLASS", 'Search for items of this rare class; "" ends the search.')
@option("--answers-wanted N", "Ask this many people to label each item.", click.IntRange(1, 100))
@option(
    "--lease-minutes N",
    "Reserve an assigned item for this many minutes.",
    click.IntRange(1, 1440),
    rare=True,
)
@AUDIT_BY
@PRIOR_SCORES
@visible_columns()
@goal_options()
def edit(
    folder: Path,
    classes: dict[str, Any],
    metric: str | None,
    prior_scores: Path | None,
    shown: tuple[str, ...],
    hidden: tuple[str, ...],
    goal: dict[str, int | float],
    as_json: bool,
    **settings: Any,
) -> None:
    """Change or show the classes and settings of a project.

    Without options, show them. Makes all the changes or, if one of them is wrong, none. No label
    is lost, and an open page takes new names with its next item.

    \b
    Examples:
      parbals edit spam --add-class "none of these"
      parbals edit spam --rename-class junk=spam --guidelines guide.md
      parbals edit spam --merge-class advert=spam --class-order spam,ham
      parbals edit spam --strategy confidence --goal-labels 300
    """
    changes = _Changes(
        classes=classes,
        settings=_parse_settings(settings | goal, metric),
        metric=metric,
        shown=shown,
        hidden=hidden,
        prior_scores=prior_scores,
    )
    with open_store(folder, read_only=not changes) as store:
        had_predictions = store.settings.predictions is not None
        if changes:
            _apply(store, changes)
        # Said before anything slow begins: with many classes a report takes minutes.
        _print_settings(store, "added" in classes, as_json)
        if had_predictions and store.settings.predictions is None and store.n_labelled:
            update_report(store)


def _parse_settings(options: dict[str, Any], metric: str | None) -> dict[str, Any]:
    """New values of settings, from the options that were set."""
    from parbals_label.project.goal import metric_setting

    settings = {name: value for name, value in options.items() if value is not None}
    if metric is not None:
        settings["loss"] = metric_setting(metric)
    if "guidelines" in settings:
        settings["guidelines"] = _text_or_file(settings["guidelines"])
    if "highlight" in settings:
        settings["highlight"] = comma_list(None, None, settings["highlight"])
    if "find" in settings:
        settings["find"] = settings["find"] or None
    return settings


def _apply(store: "Store", changes: _Changes) -> None:
    """Make the changes in one transaction."""
    from parbals_label.project.classes import change_classes
    from parbals_label.project.features import remove_matrices
    from parbals_label.project.scores import store_scores

    old_scores = store.settings.scores
    with store.transaction():
        settings = changes.settings | change_classes(store, **changes.classes)
        if changes.shown or changes.hidden:
            settings["hidden"] = _hidden_columns(store.settings, changes.shown, changes.hidden)
        _check(store, settings, changes.metric)
        if settings:
            store.update_settings(**settings)
        if changes.prior_scores is not None:
            scores = store_scores(store, changes.prior_scores)
            store.update_settings(scores=scores, predictions=None)
    remove_matrices(store, old_scores)


def _check(store: "Store", settings: dict[str, Any], metric: str | None) -> None:
    """Refuse settings that do not fit the task of the project."""
    from parbals.learner.tasks.table import task_named

    classes = settings.get("classes", store.classes)
    find = settings.get("find")
    # The store refuses a name that occurs twice, and says which.
    task = task_named(store.settings.task, list(dict.fromkeys(classes)) or None)
    task.check_settings("auto", "auto", find=find)
    task.check_strategy(settings.get("strategy") or store.settings.strategy)
    if metric is not None:
        task.check_metric(metric)
    if find and find not in classes:
        raise InputError(f"--find names {find!r}, which is not a class of the project.")


def _print_settings(store: "Store", has_new_class: bool, as_json: bool) -> None:
    """Print the settings of the project, one a line."""
    from parbals_label.project.goal import metric_of

    settings = store.settings
    record: dict[str, Any] = {"classes": store.classes, "metric": metric_of(settings.loss)}
    record |= {name: getattr(settings, name) for name in _PRINTED_SETTINGS}
    record["measure_by"] = settings.audit_by
    record["prior_scores"] = settings.scores is not None
    lines = [f"{name.replace('_', ' '):<15} {_one_line(value)}" for name, value in record.items()]
    if has_new_class:
        lines.append("Earlier items may belong to the new class; their annotators may revise them.")
    print_result(as_json, record, "\n".join(lines))


def _hidden_columns(
    settings: "ProjectSettings", show: tuple[str, ...], hide: tuple[str, ...]
) -> list[str]:
    """The columns that annotators do not see from now on."""
    for name in (*show, *hide):
        if name not in settings.columns:
            raise InputError(
                f"The items have no column {name!r}; there are {', '.join(settings.columns)}."
            )
    hidden = (set(settings.hidden) - set(show)) | set(hide)
    if hidden >= set(settings.columns):
        raise InputError("All columns would be hidden; leave one that annotators see.")
    return [name for name in settings.columns if name in hidden]


def _text_or_file(text: str) -> str:
    """The text itself, or the content of a file of that name."""
    path = Path(text)
    try:
        is_file = len(text) < _LONGEST_PATH and path.is_file()
        return path.read_text("utf-8") if is_file else text
    except (OSError, UnicodeDecodeError):
        raise InputError(f"{path} cannot be read as text in UTF-8.") from None


def _one_line(value: Any) -> str:
    """A setting as the end of a line."""
    if isinstance(value, tuple):
        return ", ".join(value) or "none"
    text = " ".join(str(value or "").split())
    if len(text) > _LONGEST_VALUE:
        return f"{text[:_LONGEST_VALUE]}…"
    return text or "none"


@command
@click.argument("data", type=PATH)
@flag("--new-only", "Skip rows whose id is in the project already.")
@option("--label COL", "Read known labels from this column.  [default: as in init]")
@option("--id COL", "Name items by this column.  [default: as in init]", argument="id_column")
@READING
@flag("--no-report", "Do not predict the new items now.", rare=True)
@SETTINGS
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
    """Add items to a project.

    DATA has the columns of the first file. The features of all items are recomputed by the same
    encoder. Labels, batches and history stay; new items may be chosen at once, also by an open
    page.

    \b
    Examples:
      parbals add spam more.csv
      parbals add spam everything.csv --new-only
    """
    from parbals_label.project.grow import add_items

    with open_store(folder) as store:
        with progress("reading") as show:
            added = add_items(
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
        record = {
            "added": added.n_items,
            "labels": added.n_labels,
            "items": total,
            "known": added.n_known,
            "features": added.n_features,
            "notes": list(added.notes),
        }
        text = f"{counted(added.n_items, 'item')} added, {added.n_labels:,} of them labelled"
        if added.n_known:
            text += f"; {added.n_known:,} were there already"
        text += f". The project has {total:,} items."
        print_result(as_json, record, "\n".join([text, *added.notes]))
        if added.n_items and store.n_labelled and not no_report:
            update_report(store)
