"""A new project from a user's data: items, first labels and features, all or nothing."""

import re
import shlex
import stat
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from parbals.errors import InputError
from parbals.features.reading import guess_reading
from parbals.features.table import is_text, tells_apart
from parbals.learner.evaluation.audit import draw_audit
from parbals.learner.tasks.table import task_named
from parbals.strategies.table import DEFAULT

from parbals_label.answer_form import NUMBERS, AnswerForm
from parbals_label.encoders.base import Kind, Options
from parbals_label.encoders.embedding import Progress
from parbals_label.encoders.table import AUTO, default_encoder
from parbals_label.files import check_new_folder, new_folder
from parbals_label.project.copies import look_through, near_copies
from parbals_label.project.embedding import (
    Encoded,
    Recipe,
    check_descriptions,
    columns_of,
    make_features,
    open_encoder,
)
from parbals_label.project.features import COLUMNS, GIVEN, TABLE, store_features
from parbals_label.project.goal import metric_of, setting_of
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

__all__ = ["Created", "Roles", "create_project", "media_folder"]


_NAMED = re.compile(
    r"((true|gold|final|actual|correct)[ _-]?)?"
    r"(labels?|targets?|class|classes|y|y_true|gold|(ground[ _-]?)?truth|answers?|votes|predicted)"
    r"([ _-]?(id|idx|name|text|str))?"
)
"""Names that data sets give to the answer."""
_EVERYWHERE = frozenset({"0", "1", "yes", "no", "true", "false", "y", "n", "t", "f"})
"""Classes that other columns of a table may hold as well."""


@dataclass(frozen=True)
class Roles:
    """Which columns are what; empty where the data tell. The ``id`` "" numbers the rows.

    ``features`` may be ("all",): every column that is nothing else. Columns that may be the answer
    are not shown to annotators, unless they are in ``show``; nor are those in ``hide``.
    """

    text: tuple[str, ...] = ()
    image: str | None = None
    features: tuple[str, ...] = ()
    label: str | None = None
    id: str | None = None
    show: tuple[str, ...] = ()
    hide: tuple[str, ...] = ()


@dataclass(frozen=True)
class Created:
    """What a new project holds."""

    n_items: int
    n_labels: int
    n_features: int
    classes: tuple[str, ...]
    encoder: str
    encoding: str | None
    id_column: str | None
    """None where the items are named by the numbers of their rows."""
    n_audit: int = 0
    table_columns: tuple[str, ...] = ()
    """Columns whose features stand beside those of the encoder."""
    notes: tuple[str, ...] = ()
    """What there is to say about how the data were read."""


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
) -> Created:
    """Read ``data`` into a new project; the folder appears only when everything is in it.

    An ``audit`` of so many items is drawn from those without a label. ``reading`` are
    arguments of ``open_source``. ``encode_with`` says how the encoder is run. ``scores``: a file
    with what another model says of the items, see :func:`store_scores`. If it is interrupted while
    it encodes, the same call goes on with the rows that were done.
    """
    check_new_folder(folder)
    how = encode_with or Options()
    source = open_source(data, **(reading or {}))
    classes = None if classes is None else check_classes(classes)
    plan = _plan(source, roles, None if encoder == AUTO else encoder, classes or [])
    known, columns = plan.encoder, plan.columns
    # Before a million rows are read: is the encoder there, and does it read what it will be given?
    loaded = open_encoder(known, how, _kind(source, roles))
    task = settings.get("task", "classes")
    if classes is None and task != NUMBERS:
        if roles.label is None:
            raise InputError(
                "Which classes are there? Name them: --classes spam,ham (or --label with a label "
                "column)."
            )
        classes = classes_in(source, roles.label, task)
    kind = task_named(task, classes)
    wanted = settings.get("loss")
    settings = {**settings, "loss": setting_of(kind.check_metric(wanted and metric_of(wanted)))}
    kind.check_strategy(settings.get("strategy", DEFAULT))
    about = {"find": settings.get("find"), "describe": settings.get("descriptions") or None}
    about["goal_error"] = settings.get("goal_error") if task == NUMBERS else None
    kind.check_settings("auto", "auto", **about)
    form, classes = AnswerForm(task, tuple(classes or ())), classes or []
    check_descriptions(settings.get("descriptions") or {}, classes, loaded)
    if settings.get("find") not in (None, *classes):
        raise InputError(
            f"{settings['find']!r}, which is to be found, is not one of the classes: "
            f"{', '.join(classes)}."
        )
    if encoder == COLUMNS:
        check_numbers(source, columns)  # here a bad cell still has a row and a file
    # Never numbers in silence where there are ids: labels told by id would go to the wrong items.
    roles = replace(roles, id=id_column_of(source, roles.label) if roles.id is None else roles.id)
    folder.parent.mkdir(parents=True, exist_ok=True)
    # A folder that was there, and empty, stays as open as its owner made it.
    mode = stat.S_IMODE(folder.stat().st_mode) if folder.exists() else FOLDER_MODE
    with new_folder(folder, mode=mode) as building:
        remembered = {"prior_scale": "auto", **settings}
        remembered |= {"data": str(data.resolve()), "encoder": known}
        remembered |= {"encoded_columns": columns, "table_columns": plan.table}
        remembered |= {"media": str(media_folder(data)), "id_column": roles.id}
        remembered |= {"label_column": roles.label}
        with Store.create(building, classes=classes, settings=remembered) as store:
            labels, blank = _fill(store, source, roles, form, progress)
            if scores is not None:
                store.update_settings(scores=store_scores(store, scores))
            repeats: list[str] = []
            if known not in (GIVEN, COLUMNS, TABLE) and _kind(source, roles) != "image":
                repeats = look_through(store, columns)
            if audit:
                taken = [*store.votes(), *(copy for copy, _ in store.settings.copies)]
                drawn = draw_audit(store.n_items, audit, store.settings.seed, taken)
                store.update_settings(audit=drawn.tolist())
            named = list(store.items([0])[0].content)
            hidden, hints = _hidden(source, roles, named, classes, {*columns, *plan.table})
            store.update_settings(columns=named, hidden=hidden)
            if source.features is not None and known == GIVEN:
                store.update_settings(features=store_features(store.folder, source.features))
                made = Encoded(source.features)
            else:
                base = media_folder(data)
                recipe = Recipe(known, loaded, columns, plan.table, base, how)
                made = make_features(store, recipe, progress)
                repeats += near_copies(store) if store.settings.encoded_kind else []
            created = Created(
                store.n_items,
                labels,
                made.n_features,
                store.classes,
                known,
                source.encoding,
                roles.id or None,
                len(store.settings.audit),
                tuple(plan.table),
                (*source.notes, *blank, *hints, *repeats, *plan.notes, *made.notes),
            )
    return created


def _kind(source: Source, roles: Roles) -> Kind | None:
    """What the encoded columns hold, where that is known already."""
    if roles.text:
        return "text"
    return "image" if roles.image or (source.kind == "images" and not roles.features) else None


@dataclass(frozen=True)
class _Plan:
    """How items become features, from which columns, and which further ones are a table."""

    encoder: str
    columns: list[str]
    table: list[str] = field(default_factory=list)
    notes: tuple[str, ...] = ()


def _plan(source: Source, roles: Roles, encoder: str | None, classes: Sequence[str]) -> _Plan:
    image = [roles.image] if roles.image else []
    for column in (*roles.text, *image, *roles.show, *roles.hide):
        check_column(source, column)
    used = {*roles.text, roles.image, roles.label, roles.id or id_column_of(source, roles.label)}
    others = [name for name in source.columns if name not in used]
    answers = _answers(source, others, classes)
    others = [name for name in others if name not in answers]
    features, notes = list(roles.features), tuple[str, ...]()
    if features == ["all"] and "all" not in source.columns:
        features, texts, names = _sort_columns(source, others)
        reasons = {"it only tells the rows apart": names, "it is a text; --text reads it": texts}
        notes = tuple(f"{n!r} is left out: {why}." for why, some in reasons.items() for n in some)
    for column in features:
        check_column(source, column)
    for column in _sort_columns(source, features)[1]:
        raise InputError(
            f"The column {column!r} of {source.name} holds sentences; say --text {column} to read "
            "them."
        )
    if roles.text:
        return _Plan(encoder or default_encoder("text"), list(roles.text), features, notes)
    if roles.image:
        return _Plan(encoder or default_encoder("image"), [roles.image], features, notes)
    if features:
        plain = encoder is None and _all_numbers(source, features)
        return _Plan(encoder or (COLUMNS if plain else TABLE), features, notes=notes)
    if source.features is not None:
        return _Plan(GIVEN, [])
    if source.kind == "images":
        return _Plan(encoder or default_encoder("image"), ["image"])
    table, texts, _ = _sort_columns(source, others)
    if len(others) == 1:
        cells = [row.values[others[0]] for row in source.head]
        if encoder or guess_reading(cells) is None:  # neither numbers nor dates
            return _Plan(encoder or default_encoder("text"), others)
    if table and not texts and encoder is None:
        return _plan(source, replace(roles, features=("all",)), None, classes)
    raise InputError(_which_columns(source, others, table, texts))


def _all_numbers(source: Source, columns: Sequence[str]) -> bool:
    """Whether every cell of the columns is a plain number, so that they need no pipeline."""
    try:
        check_numbers(replace(source, rows=lambda: iter(source.head)), columns)
        check_numbers(source, columns)  # the file itself only where its first rows are numbers
    except InputError:
        return False
    return True


def _answers(source: Source, columns: Sequence[str], classes: Sequence[str]) -> dict[str, str]:
    """Columns that are or may be the answer → why: as features or beside an item they tell it."""
    known = {label_key(name) for name in classes}
    holders = [name for name in columns if _holds(source, name, known)]
    if len(holders) > 1 and known <= _EVERYWHERE:
        holders = []
    found = {name: "named like an answer" for name in columns if _NAMED.fullmatch(label_key(name))}
    return found | dict.fromkeys(holders, "holding the classes")


def _holds(source: Source, column: str, known: set[str]) -> bool:
    """Whether the first rows of a column hold classes, or lists of them, and nothing else."""
    cells = (row.values[column] for row in source.head)
    entries = {label_key(str(cell)) for cell in cells if isinstance(cell, str | int | float)}
    entries -= NO_LABEL | {"", "[]"}
    lists = ({part.strip(" '\"[]") for part in re.split("[|;,]", cell)} for cell in entries)
    return bool(entries) and (entries <= known or all(some <= known for some in lists))


def _hidden(
    source: Source, roles: Roles, columns: list[str], classes: list[str], used: set[str]
) -> tuple[list[str], list[str]]:
    """Columns that annotators do not see, and a hint for each that was not asked for."""
    asked = {*roles.show, *roles.text, roles.image}
    found = _answers(source, [name for name in columns if name not in asked], classes)
    hints = []
    for name, why in found.items():
        is_used = name in used
        kept = "is not shown" if is_used else "is neither shown nor used"
        label = f"--label {shlex.quote(name)} reads it, " if roles.label is None else ""
        if is_used:
            label = "the model learns from it, which gives the answer away if it is one; "
        hints.append(f"{name!r} {kept}, {why}: {label}--show {shlex.quote(name)} shows it.")
    hidden = [name for name in columns if name in found or name in roles.hide]
    if columns and len(hidden) == len(columns):
        raise InputError(f"Nothing would be left to see: all of {', '.join(columns)} are hidden.")
    return hidden, hints


def _sort_columns(source: Source, columns: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    """Columns nobody asked for: those of a table, sentences, and those that only name the rows."""
    seen = columns_of((row.values for row in source.head), columns)
    texts = [name for name in columns if is_text(seen[name])]
    names = [name for name in columns if name not in texts and tells_apart(name, seen[name])]
    return [name for name in columns if name not in {*texts, *names}], texts, names


def _which_columns(source: Source, others: list[str], table: list[str], texts: list[str]) -> str:
    """The question, with an answer to copy where there is one."""
    asked = (
        f"Which column of {source.name} tells the items apart? Say --text, --image or --features"
    )
    if not texts:
        return f"{asked} with some of: {', '.join(others or source.columns)}."
    options = f"--text {shlex.quote(','.join(texts))}"
    if table:
        options += f" --features {shlex.quote(','.join(table))}"
    return f"{asked}; to use all of them: {options}."


def _fill(
    store: Store, source: Source, roles: Roles, form: AnswerForm, progress: Progress
) -> tuple[int, list[str]]:
    """How many labels there are, and what was read as none."""
    labels: list[Submission] = []
    blank = Counter[str]()

    def rows() -> Iterator[tuple[str, dict[str, Any]]]:
        ids = roles.id or NUMBERED
        planned = plan_items(
            source, id_column=ids, label_column=roles.label, form=form, blank=blank
        )
        for position, (name, content, label) in enumerate(planned):
            if label is not None:
                labels.append(Submission(position, label))
            if position % 1000 == 0:
                progress("reading", position, source.n_rows)
            yield name, content

    store.add_items(rows())
    if labels:
        store.submit(labels, annotator="import", source="import")
    notes = [f"Read as no label: {word} ({n:,})." for word, n in blank.items()]
    return len(labels), notes


def media_folder(data: Path) -> Path:
    """The folder that image paths are relative to."""
    return (data if data.is_dir() else data.parent).resolve()
