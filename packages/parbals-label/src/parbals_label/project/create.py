"""Create a project from a user's data: items, first labels and features, all or nothing.

Three steps, each of which hands one record to the next:

1. :func:`_sniff` opens the file and looks at its first rows: :class:`Sniffed`.
2. :func:`_make_plan` decides what becomes features, what a label is, and checks all settings:
   :class:`Plan`. Nothing has been written so far.
3. :func:`_build` writes items, labels and features into a folder that appears when it is complete:
   :class:`NewProject`.
"""

import re
import shlex
import stat
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from parbals.errors import InputError
from parbals.features.reading import guess_reading
from parbals.features.table import is_identifier, is_text
from parbals.learner.evaluation.audit import draw_audit
from parbals.learner.tasks.table import task_named
from parbals.strategies.table import DEFAULT_STRATEGY

from parbals_label.answer_form import NUMBERS, AnswerForm
from parbals_label.encoders.base import Kind, Options
from parbals_label.encoders.embedding import Progress
from parbals_label.encoders.table import AUTO, default_encoder
from parbals_label.files import check_new_folder, new_folder
from parbals_label.project.duplicates import find_duplicates, near_duplicate_notes
from parbals_label.project.embedding import (
    EncodedItems,
    Recipe,
    check_descriptions,
    columns_of,
    make_features,
    open_encoder,
)
from parbals_label.project.features import COLUMNS, GIVEN, TABLE, store_features
from parbals_label.project.goal import metric_of, metric_setting
from parbals_label.project.scores import store_scores
from parbals_label.readers.cells import NO_LABEL, label_key
from parbals_label.readers.items import (
    NUMBERED,
    check_numbers,
    classes_in,
    id_column_of,
    plan_items,
)
from parbals_label.readers.open import open_source
from parbals_label.readers.source import Source, check_column
from parbals_label.store.folder import FOLDER_MODE
from parbals_label.store.records import Submission
from parbals_label.store.settings import check_classes
from parbals_label.store.store import Store

__all__ = ["NewProject", "Roles", "create_project", "media_folder"]


_LABEL_COLUMN_NAME = re.compile(
    r"((true|gold|final|actual|correct)[ _-]?)?"
    r"(labels?|targets?|class|classes|y|y_true|gold|(ground[ _-]?)?truth|answers?|votes|predicted)"
    r"([ _-]?(id|idx|name|text|str))?"
)
"""Names that data sets commonly give to their label column."""
_COMMON_VALUES = frozenset({"0", "1", "yes", "no", "true", "false", "y", "n", "t", "f"})
"""Names of classes that unrelated columns of a table may contain as well."""
_PROGRESS_ROWS = 1_000
"""Progress is reported once for so many rows."""


@dataclass(frozen=True)
class Roles:
    """The user's assignment of columns; what is empty is guessed from the data.

    Attributes:
        text: columns with texts to encode.
        image: the column with paths of images.
        features: columns of a table; ("all",) means every column without another role.
        label: the column with labels that exist already.
        id: the column that names the items; "" numbers the rows instead.
        show: columns to show to annotators even if they may reveal the label.
        hide: columns not to show to annotators.

    >>> Roles(text=("message",), label="spam").features
    ()
    """

    text: tuple[str, ...] = ()
    image: str | None = None
    features: tuple[str, ...] = ()
    label: str | None = None
    id: str | None = None
    show: tuple[str, ...] = ()
    hide: tuple[str, ...] = ()

    @property
    def encoded(self) -> list[str]:
        """The columns that are named as texts or images."""
        return [*self.text, self.image] if self.image else list(self.text)


class ColumnGroups(NamedTuple):
    """Columns by their first cells: values for a table, free texts, and identifiers of rows."""

    table: list[str]
    texts: list[str]
    identifiers: list[str]


@dataclass(frozen=True)
class Sniffed:
    """The user's data and wishes after one look at the first rows.

    Attributes:
        data: the file or folder.
        source: the same, opened.
        roles: as the user gave them.
        id_column: the column that names the items, or ``NUMBERED``.
        classes: as the user named them; empty where the label column has to tell.
        kind: what the encoded columns hold, None if only the encoder tells.
        unassigned: columns that have no role and do not look like the label.
    """

    data: Path
    source: Source
    roles: Roles
    id_column: str
    classes: list[str]
    kind: Kind | None
    unassigned: list[str]

    @cached_property
    def groups(self) -> ColumnGroups:
        """The unassigned columns, grouped by their contents."""
        return _group_columns(self.source, self.unassigned)


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


@dataclass(frozen=True)
class NewProject:
    """Summary of the project that was created.

    Attributes:
        encoding: the character encoding of a text file.
        id_column: None where the items are named by the numbers of their rows.
        table_columns: columns whose features are appended to those of the encoder.
        notes: sentences about how the data were read.
    """

    n_items: int
    n_labels: int
    n_features: int
    classes: tuple[str, ...]
    encoder: str
    encoding: str | None
    id_column: str | None
    n_audit: int = 0
    table_columns: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def create_project(
    folder: Path,
    data: Path,
    roles: Roles,
    classes: list[str] | None,
    settings: dict[str, Any],
    *,
    audit: int = 0,
    encoder: str | None = None,
    reading: Mapping[str, Any] | None = None,
    encode_with: Options | None = None,
    scores: Path | None = None,
    progress: Progress = lambda stage, done, total: None,
) -> NewProject:
    """Create a project in ``folder`` from ``data``; the folder appears only when it is complete.

    If it is interrupted while it encodes, the same call continues after the rows that were done.

    Args:
        folder: does not exist yet, or is empty.
        data: a file or folder that :func:`parbals_label.readers.open.open_source` reads.
        roles: which columns are what.
        classes: None where the label column tells them.
        settings: see :class:`parbals_label.store.settings.ProjectSettings`.
        audit: number of random unlabelled items that are reserved to measure the error.
        encoder: its name; by default the best one that is installed.
        reading: arguments of ``open_source``.
        encode_with: how the encoder is run.
        scores: a file with another model's scores, see :func:`store_scores`.
        progress: called with the stage, and how much of it is done.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     data = Path(folder) / "items.csv"
    ...     _ = data.write_text("id,size,weight\\na,1,2\\nb,3,5\\nc,8,1\\n")
    ...     roles = Roles(features=("size", "weight"))
    ...     project = create_project(Path(folder) / "p", data, roles, ["x", "y"], {})
    >>> project.n_items, project.encoder, project.id_column
    (3, 'columns', 'id')
    """
    check_new_folder(folder)
    sniffed = _sniff(data, roles, classes, reading or {})
    plan = _make_plan(sniffed, settings, encoder, encode_with or Options())
    return _build(folder, plan, audit, scores, progress)


def media_folder(data: Path) -> Path:
    """The folder that image paths are relative to."""
    return (data if data.is_dir() else data.parent).resolve()


# --- Step 1: look at the data -----------------------------------------------------------------


def _sniff(
    data: Path, roles: Roles, classes: list[str] | None, reading: Mapping[str, Any]
) -> Sniffed:
    """Open the data, check the names of columns and classes, and list the unassigned columns."""
    source = open_source(data, **reading)
    named_classes = [] if classes is None else check_classes(classes)
    for column in (*roles.encoded, *roles.show, *roles.hide):
        check_column(source, column)
    id_column = id_column_of(source, roles.label)
    assigned = {*roles.encoded, roles.label, roles.id or id_column}
    unassigned = [name for name in source.columns if name not in assigned]
    label_like = _label_like_columns(source, unassigned, named_classes)
    return Sniffed(
        data=data,
        source=source,
        roles=roles,
        # Ids in the file are never ignored silently: labels told by id would go to wrong items.
        id_column=id_column if roles.id is None else roles.id,
        classes=named_classes,
        kind=_encoded_kind(source, roles),
        unassigned=[name for name in unassigned if name not in label_like],
    )


def _encoded_kind(source: Source, roles: Roles) -> Kind | None:
    """What the encoded columns hold, where that is known already."""
    if roles.text:
        return "text"
    if roles.image or (source.kind == "images" and not roles.features):
        return "image"
    return None


def _label_like_columns(
    source: Source, columns: Sequence[str], classes: Sequence[str]
) -> dict[str, str]:
    """Column → reason, of columns that are or may be the label.

    As features, or shown beside an item, they would give the label away.
    """
    class_keys = {label_key(name) for name in classes}
    containing = [name for name in columns if _contains_classes(source, name, class_keys)]
    if len(containing) > 1 and class_keys <= _COMMON_VALUES:
        containing = []
    reasons = {}
    for name in columns:
        if _LABEL_COLUMN_NAME.fullmatch(label_key(name)):
            reasons[name] = "named like an answer"
    return reasons | dict.fromkeys(containing, "holding the classes")


def _contains_classes(source: Source, column: str, class_keys: set[str]) -> bool:
    """Whether the first cells of a column are classes, or lists of classes, and nothing else."""
    cells = (row.values[column] for row in source.head)
    entries = {label_key(str(cell)) for cell in cells if isinstance(cell, str | int | float)}
    entries -= NO_LABEL | {"", "[]"}
    if not entries:
        return False
    lists = ({name.strip(" '\"[]") for name in re.split("[|;,]", cell)} for cell in entries)
    return entries <= class_keys or all(names <= class_keys for names in lists)


def _group_columns(source: Source, columns: Sequence[str]) -> ColumnGroups:
    """Group columns by their first cells."""
    cells = columns_of((row.values for row in source.head), columns)
    texts = [name for name in columns if is_text(cells[name])]
    others = [name for name in columns if name not in texts]
    identifiers = [name for name in others if is_identifier(name, cells[name])]
    return ColumnGroups(
        table=[name for name in others if name not in identifiers],
        texts=texts,
        identifiers=identifiers,
    )


# --- Step 2: decide everything ----------------------------------------------------------------


class _FeatureColumns(NamedTuple):
    """The encoder's name, the columns it reads, and table columns that are appended to them."""

    encoder: str
    columns: list[str]
    table: Sequence[str] = ()
    notes: tuple[str, ...] = ()


def _make_plan(
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
            f"{settings['find']!r}, which is to be found, is not one of the classes: "
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
        return _table_features(source, None, sniffed.groups.table, _left_out(sniffed.groups))
    raise InputError(_which_columns(sniffed))


def _named_table_columns(sniffed: Sniffed) -> tuple[list[str], tuple[str, ...]]:
    """The columns that the user named as a table, and notes about those that "all" leaves out."""
    source = sniffed.source
    columns = list(sniffed.roles.features)
    notes: tuple[str, ...] = ()
    if columns == ["all"] and "all" not in source.columns:
        columns = sniffed.groups.table
        notes = _left_out(sniffed.groups)
    for column in columns:
        check_column(source, column)
    for column in _group_columns(source, columns).texts:
        raise InputError(
            f"The column {column!r} of {source.name} holds sentences; say --text {column} to read "
            "them."
        )
    return columns, notes


def _left_out(groups: ColumnGroups) -> tuple[str, ...]:
    """A note for each column that is not part of the table."""
    identifiers = (f"{name!r} is left out: it only identifies rows." for name in groups.identifiers)
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


# --- Step 3: write the project ----------------------------------------------------------------


def _build(
    folder: Path, plan: Plan, audit: int, scores: Path | None, progress: Progress
) -> NewProject:
    """Write items, labels and features into a draft that becomes ``folder`` when it is complete."""
    source = plan.sniffed.source
    folder.parent.mkdir(parents=True, exist_ok=True)
    # An empty folder that exists already keeps the permissions that its owner gave it.
    mode = stat.S_IMODE(folder.stat().st_mode) if folder.exists() else FOLDER_MODE
    classes = list(plan.form.classes)
    with (
        new_folder(folder, mode=mode) as draft,
        Store.create(draft, classes=classes, settings=plan.settings) as store,
    ):
        n_labels, blank_notes = _store_items(store, plan, progress)
        if scores is not None:
            store.update_settings(scores=store_scores(store, scores))
        duplicate_notes = find_duplicates(store, plan.recipe.columns) if plan.reads_texts else []
        if audit:
            _draw_audit(store, audit)
        hidden_notes = _hide_columns(store, plan)
        encoded = _store_features(store, plan, progress)
        if store.settings.encoded_kind:
            duplicate_notes += near_duplicate_notes(store)
        return NewProject(
            n_items=store.n_items,
            n_labels=n_labels,
            n_features=encoded.n_features,
            classes=store.classes,
            encoder=plan.recipe.name,
            encoding=source.encoding,
            id_column=plan.sniffed.id_column or None,
            n_audit=len(store.settings.audit),
            table_columns=tuple(plan.recipe.table),
            notes=(
                *source.notes,
                *blank_notes,
                *hidden_notes,
                *duplicate_notes,
                *plan.notes,
                *encoded.notes,
            ),
        )


def _store_items(store: Store, plan: Plan, progress: Progress) -> tuple[int, list[str]]:
    """Store items and labels; the number of labels, and notes on cells that mean "no label"."""
    source = plan.sniffed.source
    labels: list[Submission] = []
    blank = Counter[str]()

    def items() -> Iterator[tuple[str, dict[str, Any]]]:
        planned = plan_items(
            source,
            id_column=plan.sniffed.id_column or NUMBERED,
            label_column=plan.sniffed.roles.label,
            form=plan.form,
            blank=blank,
        )
        for position, (name, content, label) in enumerate(planned):
            if label is not None:
                labels.append(Submission(position, label))
            if position % _PROGRESS_ROWS == 0:
                progress("reading", position, source.n_rows)
            yield name, content

    store.add_items(items())
    if labels:
        store.submit(labels, annotator="import", source="import")
    notes = [f"Read as no label: {word} ({count:,})." for word, count in blank.items()]
    return len(labels), notes


def _draw_audit(store: Store, n: int) -> None:
    """Reserve ``n`` random items that have no label and are no duplicates."""
    duplicates = [duplicate for duplicate, _ in store.settings.copies]
    excluded = [*store.votes(), *duplicates]
    drawn = draw_audit(store.n_items, n, store.settings.seed, excluded)
    store.update_settings(audit=drawn.tolist())


def _hide_columns(store: Store, plan: Plan) -> list[str]:
    """Hide columns that may reveal the label; a note for each that the user did not hide."""
    roles = plan.sniffed.roles
    columns = list(store.items([0])[0].content)
    visible_by_request = {*roles.show, *roles.encoded}
    candidates = [name for name in columns if name not in visible_by_request]
    label_like = _label_like_columns(plan.sniffed.source, candidates, plan.form.classes)
    hidden = [name for name in columns if name in label_like or name in roles.hide]
    if columns and len(hidden) == len(columns):
        raise InputError(f"Nothing would be left to see: all of {', '.join(columns)} are hidden.")
    store.update_settings(columns=columns, hidden=hidden)
    features = {*plan.recipe.columns, *plan.recipe.table}
    return [
        _hidden_note(name, reason, is_feature=name in features, has_label=roles.label is not None)
        for name, reason in label_like.items()
    ]


def _hidden_note(name: str, reason: str, *, is_feature: bool, has_label: bool) -> str:
    """A sentence about a hidden column: why, and which options change that."""
    option = shlex.quote(name)
    state = "is not shown" if is_feature else "is neither shown nor used"
    advice = "" if has_label else f"--label {option} reads it, "
    if is_feature:
        advice = "the model learns from it, which gives the answer away if it is one; "
    return f"{name!r} {state}, {reason}: {advice}--show {option} shows it."


def _store_features(store: Store, plan: Plan, progress: Progress) -> EncodedItems:
    """Store the matrix that came with the data, or encode the items."""
    matrix = plan.sniffed.source.features
    if matrix is not None and plan.recipe.name == GIVEN:
        store.update_settings(features=store_features(store.folder, matrix))
        return EncodedItems(matrix)
    return make_features(store, plan.recipe, progress)
