"""Decide everything about a new project before its first item is stored.

:func:`make_plan` chooses what becomes features, finds the classes, loads the encoder, and checks
all settings against the task. An error here leaves no trace on the disk.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from parbals.errors import InputError
from parbals.features.reading import guess_reading
from parbals.learner.tasks.table import task_named
from parbals.strategies.table import DEFAULT_STRATEGY

from parbals_label.answer_form import NUMBERS, AnswerForm
from parbals_label.encoders.base import Options
from parbals_label.encoders.table import AUTO, default_encoder
from parbals_label.project.embedding import Recipe, check_descriptions, open_encoder
from parbals_label.project.features import COLUMNS, GIVEN, TABLE
from parbals_label.project.goal import metric_of, metric_setting
from parbals_label.project.media import media_folder
from parbals_label.project.sniff import Sniffed, group_columns
from parbals_label.readers.items import check_numbers, classes_in
from parbals_label.readers.source import Source, check_column

__all__ = ["Plan", "make_plan"]


@dataclass(frozen=True)
class Plan:
    """Everything that is decided before the first item is stored.

    Attributes:
        sniffed: the data.
        form: the task and its classes.
        settings: those of the new project, checked.
        recipe: how items become features; its encoder is loaded.
        notes: sentences about columns that were left out.
    """

    sniffed: Sniffed
    form: AnswerForm
    settings: dict[str, Any]
    recipe: Recipe
    notes: tuple[str, ...]

    @property
    def reads_texts(self) -> bool:
        """Whether an encoder reads texts, so that duplicates can be recognised by their words."""
        has_encoder = self.recipe.name not in (GIVEN, COLUMNS, TABLE)
        return has_encoder and self.sniffed.kind != "image"


class _FeatureColumns(NamedTuple):
    """The encoder's name, the columns it reads, and table columns that are appended to them."""

    encoder: str
    columns: list[str]
    table: Sequence[str] = ()
    notes: tuple[str, ...] = ()


def make_plan(
    sniffed: Sniffed, settings: Mapping[str, Any], encoder: str | None, options: Options
) -> Plan:
    """Choose the features, find the classes, and check the settings against both."""
    chosen = _choose_features(sniffed, None if encoder == AUTO else encoder)
    # Loaded before the rows are read: it may be missing, or read something else.
    recipe = Recipe(
        chosen.encoder,
        open_encoder(chosen.encoder, options, sniffed.kind),
        chosen.columns,
        chosen.table,
        media_folder(sniffed.data),
        options,
    )
    task = settings.get("task", "classes")
    form = AnswerForm(task, tuple(_find_classes(sniffed, task)))
    metric_setting = _check_task(form, settings)
    check_descriptions(settings.get("descriptions") or {}, form.classes, recipe.encoder)
    if settings.get("find") not in (None, *form.classes):
        raise InputError(
            f"--find names {settings['find']!r}, which is not one of the classes: "
            f"{', '.join(form.classes)}."
        )
    if encoder == COLUMNS:
        check_numbers(sniffed.source, chosen.columns)  # here an error can still name the row
    project_settings = {
        "prior_scale": "auto",
        **settings,
        "loss": metric_setting,
        "data": str(sniffed.data.resolve()),
        "encoder": chosen.encoder,
        "encoded_columns": chosen.columns,
        "table_columns": chosen.table,
        "media": str(media_folder(sniffed.data)),
        "id_column": sniffed.id_column,
        "label_column": sniffed.roles.label,
    }
    return Plan(sniffed, form, project_settings, recipe, chosen.notes)


def _choose_features(sniffed: Sniffed, encoder: str | None) -> _FeatureColumns:
    """Choose the encoder and its columns.

    Columns that the user named come first, then a matrix or images that are the data themselves,
    then a single column that can only be a text, then all columns as a table.
    """
    source = sniffed.source
    roles = sniffed.roles
    table, notes = _named_table_columns(sniffed)
    if roles.text:
        name = encoder or default_encoder("text")
        return _FeatureColumns(name, list(roles.text), table, notes)
    if roles.image:
        name = encoder or default_encoder("image")
        return _FeatureColumns(name, [roles.image], table, notes)
    if table:
        return _table_features(source, encoder, table, notes)
    if source.features is not None:
        return _FeatureColumns(GIVEN, [])
    if source.kind == "images":
        return _FeatureColumns(encoder or default_encoder("image"), ["image"])
    if len(sniffed.unassigned) == 1:
        (column,) = sniffed.unassigned
        is_number_or_date = guess_reading([row.values[column] for row in source.head]) is not None
        if encoder or not is_number_or_date:
            return _FeatureColumns(encoder or default_encoder("text"), [column])
    if sniffed.groups.table and not sniffed.groups.texts and encoder is None:
        return _table_features(source, None, sniffed.groups.table, _left_out(sniffed))
    raise InputError(_which_columns(sniffed))


def _named_table_columns(sniffed: Sniffed) -> tuple[list[str], tuple[str, ...]]:
    """The columns that the user named as a table, and notes about those that "all" leaves out."""
    source = sniffed.source
    columns = list(sniffed.roles.features)
    notes: tuple[str, ...] = ()
    if columns == ["all"] and "all" not in source.columns:
        columns = sniffed.groups.table
        notes = _left_out(sniffed)
    for column in columns:
        check_column(source, column)
    for column in group_columns(source, columns).texts:
        raise InputError(
            f"The column {column!r} of {source.name} holds sentences; say --text {column} to read "
            "them."
        )
    return columns, notes


def _left_out(sniffed: Sniffed) -> tuple[str, ...]:
    """A note for each column that is not part of the table."""
    groups = sniffed.groups
    has_names = bool(sniffed.id_column) or sniffed.roles.id is not None
    identifiers = (
        f"{name!r} is left out: it only identifies rows"
        f"{'' if has_names else f'; --id {shlex.quote(name)} names the items by it'}."
        for name in groups.identifiers
    )
    texts = (f"{name!r} is left out: it is a text; --text reads it." for name in groups.texts)
    return (*identifiers, *texts)


def _table_features(
    source: Source, encoder: str | None, columns: list[str], notes: tuple[str, ...]
) -> _FeatureColumns:
    """Plain numbers are taken as they are; any other table is encoded."""
    if encoder is None:
        encoder = COLUMNS if _all_numbers(source, columns) else TABLE
    return _FeatureColumns(encoder, columns, notes=notes)


def _all_numbers(source: Source, columns: Sequence[str]) -> bool:
    """Whether every cell of the columns is a plain number."""
    try:
        check_numbers(replace(source, rows=lambda: iter(source.head)), columns)
        check_numbers(source, columns)  # read the whole file only if its first rows are numbers
    except InputError:
        return False
    return True


def _which_columns(sniffed: Sniffed) -> str:
    """The question which columns to use, with options to copy where the columns suggest some."""
    source = sniffed.source
    question = (
        f"Which column of {source.name} tells the items apart? Say --text, --image or --features"
    )
    if not sniffed.groups.texts:
        return f"{question} with some of: {', '.join(sniffed.unassigned or source.columns)}."
    options = f"--text {shlex.quote(','.join(sniffed.groups.texts))}"
    if sniffed.groups.table:
        options += f" --features {shlex.quote(','.join(sniffed.groups.table))}"
    return f"{question}; to use all of them: {options}."


def _find_classes(sniffed: Sniffed, task: str) -> list[str]:
    """The classes that the user named, else those of the label column; none for numbers."""
    if sniffed.classes or task == NUMBERS:
        return sniffed.classes
    if sniffed.roles.label is None:
        raise InputError(
            "Which classes are there? Name them: --classes spam,ham (or --label with a label "
            "column)."
        )
    return classes_in(sniffed.source, sniffed.roles.label, task)


def _check_task(form: AnswerForm, settings: Mapping[str, Any]) -> str:
    """Check metric, strategy and goals against the task; the metric as settings store it."""
    task = task_named(form.task, list(form.classes) or None)
    stored = settings.get("loss")
    metric = task.check_metric(metric_of(stored) if stored else stored)
    task.check_strategy(settings.get("strategy", DEFAULT_STRATEGY))
    task.check_settings(
        "auto",
        "auto",
        find=settings.get("find"),
        describe=settings.get("descriptions") or None,
        goal_error=settings.get("goal_error") if form.task == NUMBERS else None,
    )
    return metric_setting(metric)
