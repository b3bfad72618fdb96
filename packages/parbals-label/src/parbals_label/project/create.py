"""Create a project from a user's data: items, first labels and features, all or nothing.

Three steps, each of which hands one record to the next:

1. :func:`parbals_label.project.sniff.sniff` opens the file and looks at its first rows:
   :class:`Sniffed`.
2. :func:`parbals_label.project.plan.make_plan` decides what becomes features, what a label is, and
   checks all settings: :class:`Plan`. Nothing has been written so far.
3. :func:`_write_project` writes items, labels and features into a folder that appears when it is
   complete: :class:`NewProject`.
"""

import shlex
import stat
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from parbals.errors import InputError
from parbals.learner.evaluation.audit import draw_audit
from parbals.randomness import seed_from

from parbals_label.encoders.base import Options
from parbals_label.encoders.embedding import Progress
from parbals_label.files import check_new_folder, new_folder
from parbals_label.project.duplicates import find_duplicates, near_duplicate_notes
from parbals_label.project.embedding import EncodedItems, make_features
from parbals_label.project.features import GIVEN, store_features
from parbals_label.project.language import language_note
from parbals_label.project.plan import Plan, make_plan
from parbals_label.project.row_filter import RowFilter
from parbals_label.project.scores import store_scores
from parbals_label.project.sniff import Roles, label_like_columns, sniff
from parbals_label.project.target import add_target, open_target
from parbals_label.readers.items import NUMBERED, plan_items
from parbals_label.readers.source import check_column
from parbals_label.store.folder import FILE_NAME, FOLDER_MODE
from parbals_label.store.records import Submission
from parbals_label.store.store import Store

__all__ = ["NewProject", "Roles", "create_project"]

_PROGRESS_ROWS = 1_000
_N_TEXTS_READ = 300
"""Texts by which their language is recognised."""
"""Progress is reported once for so many rows."""


@dataclass(frozen=True)
class NewProject:
    """Summary of the project that was created.

    Attributes:
        encoding: the character encoding of a text file.
        id_column: None where the items are named by the numbers of their rows.
        n_target: rows of the target set.
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
    n_target: int = 0
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
    target: str | Path | None = None,
    target_weights: str | None = None,
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
        target: the target set, see :func:`parbals_label.project.target.add_target`.
        target_weights: the column with the weights of its rows.
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
    _check_destination(folder)
    sniffed = sniff(data, roles, classes, reading or {})
    plan = make_plan(sniffed, settings, encoder, encode_with or Options())
    extras = _Extras(audit, scores, target, target_weights, reading)
    if target is not None:
        _check_target(plan, extras)
    return _write_project(folder, plan, extras, progress)


def _check_destination(folder: Path) -> None:
    """Refuse a folder that exists already, and say what was probably meant."""
    if (folder / FILE_NAME).exists():
        raise InputError(
            f"{folder} is a project already: `parbals serve {folder}` goes on with it, `parbals "
            f"add {folder} FILE` adds items; name another folder for a new one."
        )
    if folder.is_file():
        raise InputError(
            f"{folder} is a file; the folder of the new project comes first: parbals init DIR DATA."
        )
    check_new_folder(folder)


class _Extras(NamedTuple):
    """What a project may begin with besides items: test items, scores and a target set."""

    audit: int
    scores: Path | None
    target: str | Path | None
    target_weights: str | None
    reading: Mapping[str, Any] | None


def _check_target(plan: Plan, extras: _Extras) -> None:
    """Refuse a target set that cannot be read, before the items are encoded."""
    source = open_target(str(extras.target), extras.reading)
    pool = plan.sniffed.source
    if source is None:
        columns = [name for name in pool.columns if name != plan.sniffed.roles.label]
        RowFilter.parse(str(extras.target), columns)
        return
    for column in (*plan.recipe.columns, *plan.recipe.table):
        check_column(source, column)
    if extras.target_weights is not None:
        check_column(source, extras.target_weights)


def _write_project(folder: Path, plan: Plan, extras: _Extras, progress: Progress) -> NewProject:
    """Write items, labels and features into a draft that becomes ``folder`` when it is complete."""
    source = plan.sniffed.source
    # An empty folder that exists already keeps the permissions that its owner gave it.
    mode = stat.S_IMODE(folder.stat().st_mode) if folder.exists() else FOLDER_MODE
    classes = list(plan.form.classes)
    with (
        new_folder(folder, mode=mode) as draft,
        Store.create(draft, classes=classes, settings=plan.settings) as store,
    ):
        n_labels, blank_notes = _store_items(store, plan, progress)
        if extras.scores is not None:
            store.update_settings(scores=store_scores(store, extras.scores))
        duplicate_notes = find_duplicates(store, plan.recipe.columns) if plan.reads_texts else []
        hidden_notes = _hide_columns(store, plan)
        encoded = _store_features(store, plan, progress)
        if extras.audit:  # after encoding, which finds out what cannot be read
            _draw_audit(store, extras.audit)
        if store.settings.encoded_kind:
            duplicate_notes += near_duplicate_notes(store)
        n_target = 0
        target_notes: tuple[str, ...] = ()
        if extras.target is not None:
            added = add_target(
                store,
                extras.target,
                weights=extras.target_weights,
                reading=extras.reading,
                encode_with=plan.recipe.options,
                progress=progress,
            )
            n_target = added.n_rows
            target_notes = added.notes
        language_notes = _language_notes(store, plan, folder) if plan.reads_texts else []
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
                *target_notes,
                *language_notes,
            ),
            n_target=n_target,
        )


def _language_notes(store: Store, plan: Plan, folder: Path) -> list[str]:
    """A note if the encoder does not know the language of the texts, by the first ones."""
    items = store.items(range(min(store.n_items, _N_TEXTS_READ)))
    texts = [str(item.content.get(name) or "") for item in items for name in plan.recipe.columns]
    note = language_note(plan.recipe.name, texts, folder)
    return [note] if note else []


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
    """Reserve ``n`` random items that can be read, have no label and are no duplicates."""
    settings = store.settings
    duplicates = [duplicate for duplicate, _ in settings.copies]
    excluded = sorted({*store.votes(), *settings.unreadable})
    drawn = draw_audit(store.n_items, n, seed_from(None), [*excluded, *duplicates])
    store.update_settings(audit=drawn.tolist(), audit_excluded=excluded)


def _hide_columns(store: Store, plan: Plan) -> list[str]:
    """Hide columns that may reveal the label; a note for each that the user did not hide."""
    roles = plan.sniffed.roles
    columns = list(store.items([0])[0].content)
    visible_by_request = {*roles.show, *roles.encoded}
    candidates = [name for name in columns if name not in visible_by_request]
    label_like = label_like_columns(plan.sniffed.source, candidates, plan.form.classes)
    hidden = [name for name in columns if name in label_like or name in roles.hide]
    if columns and len(hidden) == len(columns):
        raise InputError(f"All columns would be hidden: {', '.join(columns)}; leave one to show.")
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
    use = "" if is_feature else ", and --features can name it as a column to learn from"
    return f"{name!r} {state}, {reason}: {advice}--show {option} shows it{use}."


def _store_features(store: Store, plan: Plan, progress: Progress) -> EncodedItems:
    """Store the matrix that came with the data, or encode the items."""
    matrix = plan.sniffed.source.features
    if matrix is not None and plan.recipe.name == GIVEN:
        store.update_settings(features=store_features(store.folder, matrix))
        return EncodedItems(matrix)
    return make_features(store, plan.recipe, progress)
