"""The settings and classes of a project, and the log of changes."""

import getpass
import os
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal
from unicodedata import normalize
from zlib import crc32

from parbals.errors import InputError, LabelError, ProjectDamagedError, ProjectError
from parbals.strategies.table import DEFAULT_STRATEGY

from parbals_label.answer_form import NUMBERS, AnswerForm
from parbals_label.store.current import RENAMES, Renames
from parbals_label.store.database import Database
from parbals_label.store.fields import (
    FieldError,
    at_least,
    field_names,
    plain,
    read_fields,
    real_number,
)
from parbals_label.store.integrity import read_meta
from parbals_label.store.items import count_items
from parbals_label.store.records import CHANGED, RENAMED_CLASS, Event
from parbals_label.store.rows import check_text, checksum, from_json, to_json, utc_now

__all__ = [
    "MapFile",
    "MatrixFile",
    "PredictionsFile",
    "ProjectSettings",
    "Settings",
    "TargetMap",
    "TargetSet",
    "check_classes",
    "checked_settings",
    "write_meta",
]

_LOGGED_SETTINGS = (
    "strategy",
    "loss",
    "guidelines",
    "highlight",
    "find",
    "answers_wanted",
    "classes",
    "lease_minutes",
    "goal_labels",
    "goal_error",
    "audit_by",
    "hidden",
    "adapt",
    "paused",
)
"""Settings that people decide, whose changes are logged."""
_NO_DESCRIPTIONS: dict[str, Any] = {"descriptions": {}, "described": None}
"""Applied when a described class is removed: the remaining rows would no longer match."""
_LOSSES = (
    "log",
    "error",
    "balanced-accuracy",
    "rank-error",
    "rmse",
    "hamming",
    "subset",
    "micro-f1",
    "macro-f1",
)
_COMMAND_ORIGIN = "this machine"
"""The origin of events that commands cause."""


def _checked_file(name: str) -> str:
    # The file is read and deleted by this name, so it must not lead out of the project's folder.
    if not re.fullmatch(r"(features|predictions|map|described|scores|target)-[0-9a-f]+\.npy", name):
        raise ValueError("name a file such as features-0123456789ab.npy")
    return name


def _checked_rows_file(name: str) -> str:
    if not re.fullmatch(r"target-[0-9a-f]+\.jsonl", name):
        raise ValueError("name a file such as target-0123456789ab.jsonl")
    return name


def _checked_loss(value: str) -> str:
    if value not in _LOSSES and not value.startswith("f1:"):
        raise ValueError(f"be one of: {', '.join(_LOSSES)}, f1:CLASS")
    return value


_Count = Annotated[int, at_least(0)]
_AnnotatorError = tuple[str, _Count, float | None, float, float]
_AnnotatorErrorWithChecks = tuple[str, _Count, float | None, float, float, _Count, tuple[str, ...]]
_MAX_SAMPLES = 1_000_000
"""Posterior samples; arrays of so many are made before anything is computed."""
_AtLeastOne = Annotated[int, at_least(1)]
_Number = Annotated[float, real_number("be greater than 0", lambda value: value > 0.0)]
_Share = Annotated[float, real_number("be 0 or more and below 1", lambda value: 0.0 <= value < 1.0)]


@dataclass(frozen=True, slots=True)
class MatrixFile:
    """A float32 matrix in a file beside the database, named by the hash of its content."""

    file: Annotated[str, _checked_file]
    digest: str
    shape: tuple[_Count, ...]


@dataclass(frozen=True, slots=True)
class PredictionsFile(MatrixFile):
    """Predicted probabilities (N, C).

    Attributes:
        answers: the number of the last answer included.
        metric, class_weights: with a target set, the weights of its classes under this metric, as
            (values, positive class or None) of each label; otherwise they follow from the pool.
    """

    answers: _Count = 0
    metric: str = ""
    class_weights: tuple[tuple[tuple[float, ...], tuple[float, ...] | None], ...] = ()


@dataclass(frozen=True, slots=True)
class MapFile(MatrixFile):
    """Principal components (N, 2) of the features with this digest, and the explained variance."""

    explained: tuple[float, ...] = ()
    features: str = ""


@dataclass(frozen=True, slots=True)
class TargetSet:
    """The target set: rows like those that the model will be used on.

    Attributes:
        name: the name of the file, or the filter that selects rows of the pool.
        file, digest: the stored rows, as JSON lines, in a file beside the database.
        n_rows: number of rows that were given.
        n_kept: number of rows that are stored: all, or a random sample of many.
        created: when it was added, in UTC.
        where: the filter, None where the rows are not the pool's own.
        weights: the column of weights, None where all rows count the same.
        parts: name and share of each file, the latest first, if there are several; rows then have
            weights.
        columns: the columns of the stored rows.
        features: (n_kept, D) of the stored rows; None with a filter, where they are the pool's.
        pool: digest of the pool's features that rows or features were made for.
    """

    name: str
    file: Annotated[str, _checked_rows_file]
    digest: str
    n_rows: _AtLeastOne
    n_kept: _AtLeastOne
    created: str
    where: str | None = None
    weights: str | None = None
    columns: tuple[str, ...] = ()
    features: MatrixFile | None = None
    pool: str = ""
    parts: tuple[tuple[str, float], ...] = ()

    @property
    def is_weighted(self) -> bool:
        """Whether rows count differently."""
        return self.weights is not None or bool(self.parts)


@dataclass(frozen=True, slots=True)
class TargetMap(MatrixFile):
    """Rows of the target set on the map (n, 3): their numbers and coordinates.

    Attributes:
        key: the target set and the features that were compared.
        far: groups of numbers of rows that are far from everything in the pool.
        n_searched: number of rows that were searched for far ones.
        auc: how well a classifier tells the target set from the pool; None with too few rows.
        n_compared: number of rows of the smaller one of the two.
    """

    key: str = ""
    far: tuple[tuple[_Count, ...], ...] = ()
    n_searched: _AtLeastOne = 1
    auc: float | None = None
    n_compared: _Count = 0


@dataclass(frozen=True)
class ProjectSettings:
    """The settings of a project, each stored as one JSON value.

    Attributes:
        task: the kind of label (:mod:`parbals_label.answer_form`).
        strategy, seed, n_samples, prior_scale: settings of the learner.
        loss: "log" or "error", or the name of another metric.
        data, media: the source of the items, and the folder of relative image paths.
        columns: the columns of an item.
        hidden: columns that annotators do not see, because they may reveal the label.
        encoder, encoded_columns, encoded_kind: how features are computed, from which columns.
        table_columns: further columns, used beside encoded texts or images.
        id_column, label_column: columns of the items' ids and first labels; "" numbers the items.
        unreadable: positions of items that the encoder could not read; their features are zero.
        unfitted: positions of items that the encoder, or the table's, was not fitted to: rows of
            target sets that were drawn later.
        features, predictions, map: files beside the database.
        descriptions: class → a sentence about it.
        described: features of the descriptions, in this order.
        scores: scores of another model for each item and class, instead of descriptions.
        target: the target set; None where the model is for items like the pool's.
        target_items: positions of items that were drawn from target sets to measure the error;
            they are never chosen and never train.
        target_sample: size of a sample of the target set that an owner has asked for on the page,
            and that the worker has not drawn yet; 0 for none.
        target_map: the target set on the map of the pool, and how the two differ.
        highlight, guidelines: words to mark in texts, and instructions for annotators.
        find: the rare class to find; None to optimise the whole model.
        audit: positions of the random items that measure the error of every model, in their order.
        audit_excluded: positions that they were not drawn from: with a label, or assigned, then.
        audit_by: who labels audit items. With "anyone" programs do, too, but only labels of people
            measure the error.
        answers_wanted: how many people label every item.
        lease_minutes: how long an item on the page is reserved for one person.
        goal_labels, goal_error: goals; 0 is no goal.
        doubts: likely label errors: position, label, its probability, likelier label.
        copies: duplicate texts: position, position of the first item with the same text, whose
            label they share.
        paused: names of programs that label nothing until they are resumed.
        adapt: whether the page's worker fine-tunes the encoder on the labels.
        heard: error rates of annotators: name, answers, error rate (None if it is not known), its
            90 % interval, checked answers, and annotators who make the same mistakes.
        judged: consensus labels of items with different answers: position, answers, label.
        again: items that need further answers: position, number of answers wanted.
    """

    task: Literal["classes", "many-labels", "ordinal", "regression"] = "classes"
    strategy: str = DEFAULT_STRATEGY
    seed: _Count = 0
    n_samples: Annotated[int, at_least(2, _MAX_SAMPLES)] = 400
    prior_scale: _Number | Literal["auto"] = 1.0
    loss: Annotated[str, _checked_loss] = "log"
    data: str | None = None
    media: str | None = None
    columns: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    encoder: str | None = None
    encoded_columns: tuple[str, ...] = ()
    encoded_kind: Literal["text", "image"] | None = None
    table_columns: tuple[str, ...] = ()
    id_column: str | None = None
    label_column: str | None = None
    unreadable: tuple[_Count, ...] = ()
    unfitted: tuple[_Count, ...] = ()
    features: MatrixFile | None = None
    predictions: PredictionsFile | None = None
    map: MapFile | None = None
    descriptions: dict[str, str] = field(default_factory=dict)
    described: MatrixFile | None = None
    scores: MatrixFile | None = None
    target: TargetSet | None = None
    target_items: tuple[_Count, ...] = ()
    target_sample: _Count = 0
    target_map: TargetMap | None = None
    highlight: tuple[str, ...] = ()
    guidelines: str = ""
    find: str | None = None
    audit: tuple[_Count, ...] = ()
    audit_excluded: tuple[_Count, ...] = ()
    audit_by: Literal["people", "anyone"] = "people"
    answers_wanted: _AtLeastOne = 1
    lease_minutes: _AtLeastOne = 30
    goal_labels: _Count = 0
    goal_error: _Share = 0.0
    doubts: tuple[tuple[_Count, str, float, str], ...] = ()
    heard: tuple[_AnnotatorError | _AnnotatorErrorWithChecks, ...] = ()
    judged: tuple[tuple[_Count, _AtLeastOne, str], ...] = ()
    copies: tuple[tuple[_Count, _Count], ...] = ()
    paused: tuple[str, ...] = ()
    adapt: bool = False
    again: tuple[tuple[_Count, _AtLeastOne], ...] = ()

    @property
    def visible_columns(self) -> tuple[str, ...]:
        """The columns that annotators see."""
        return tuple(name for name in self.columns if name not in self.hidden)

    @property
    def positions(self) -> dict[str, list[int]]:
        """Setting → positions of the items that it is about."""
        return {
            "audit": [*self.audit],
            "audit_excluded": [*self.audit_excluded],
            "unreadable": [*self.unreadable],
            "unfitted": [*self.unfitted],
            "target_items": [*self.target_items],
            "copies": [position for pair in self.copies for position in pair],
            "again": [position for position, _ in self.again],
            "doubts": [position for position, *_ in self.doubts],
            "judged": [position for position, *_ in self.judged],
        }

    def wanted_of(self, position: int) -> int:
        """Return how many people label this item."""
        return dict(self.again).get(position, self.answers_wanted)

    @staticmethod
    def of(values: Mapping[str, Any]) -> "ProjectSettings":
        """Parse stored settings; names that this parbals does not know are ignored."""
        try:
            return _validated(values)
        except InputError as error:
            raise ProjectError(f"{error} A newer parbals may have written it: upgrade.") from None


def checked_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings in JSON form; an unknown or invalid one is refused."""
    known = field_names(ProjectSettings)
    for name in values:
        if name not in known:
            listed = ", ".join(sorted(known))
            raise InputError(f"There is no setting {name!r}; the settings are: {listed}.")
    settings = _validated(values)
    checked = {name: plain(getattr(settings, name)) for name in values}
    for name, value in checked.items():
        to_json(value, f"The setting {name!r}")
    return checked


def _validated(values: Mapping[str, Any]) -> ProjectSettings:
    try:
        return read_fields(ProjectSettings, values)
    except FieldError as error:
        raise InputError(
            f"The setting {error.name!r} is {values[error.name]!r}; it must {error.requirement}."
        ) from None


class Settings:
    """The part of the store that holds settings, classes and events."""

    _db: Database
    _actor: tuple[str, str] | None = None
    _latest_settings: tuple[dict[str, Any], ProjectSettings] | None = None

    @property
    def settings(self) -> ProjectSettings:
        """The current settings; change them with ``update_settings``."""
        meta = self._meta()
        if self._latest_settings is None or self._latest_settings[0] != meta:
            settings = ProjectSettings.of(meta)
            self._check_positions(settings)
            self._latest_settings = (meta, settings)
        return self._latest_settings[1]

    def _check_positions(self, settings: ProjectSettings) -> None:
        """Refuse settings about items that the project does not have: somebody made them up."""
        highest = {name: max(at, default=-1) for name, at in settings.positions.items()}
        if max(highest.values()) < 0:
            return
        with self._db.reading() as connection:
            n_items = count_items(connection)
        for name, position in highest.items():
            if position >= n_items:
                raise ProjectDamagedError(
                    f"The setting {name!r} of the project in {self._db.file.parent} is about item "
                    f"{position}, and there are {n_items} items; put back a copy of the project."
                )

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes, in their order."""
        return tuple(self._meta()["classes"])

    @property
    def form(self) -> AnswerForm:
        """The form of the project's labels."""
        return AnswerForm.of(self._meta())

    @property
    def former_classes(self) -> dict[str, str]:
        """Former names that no class has any more → present names."""
        meta = self._meta()
        return Renames.of(meta).former(meta["classes"])

    def update_settings(self, **changes: Any) -> None:
        """Change settings; a class may be removed only if no answer ever named it.

        Changes that people decide are logged with the previous values. Predictions for another
        number of items are ignored, because items were added while they were computed.
        """
        new_classes = changes.pop("classes", None)
        changes = checked_settings(changes)
        with self._db.transaction() as connection:
            before = read_meta(connection)[0]
            classes = None
            if new_classes is not None:
                classes = check_classes(new_classes, before.get("task"))
            if classes is not None:
                _check_removed_classes(connection, before, classes)
                changes |= {"classes": classes, "scores": None}  # its columns are the classes
                if not set(before.get("descriptions", {})) <= set(classes):
                    changes |= _NO_DESCRIPTIONS
                if classes[: len(before["classes"])] != before["classes"]:
                    changes["predictions"] = None  # their columns are the classes
            predictions = changes.get("predictions")
            if predictions and predictions["shape"][0] != count_items(connection):
                del changes["predictions"]
            if changes.get("goal_error") and before.get("task") == NUMBERS:
                raise InputError(
                    "An error goal is a share of wrong labels, but the labels are numbers."
                )
            if logged := _logged_changes(before, changes):
                self._log(connection, CHANGED, logged)
            write_meta(connection, self._db.project, changes)

    def rename_class(self, old: str, new: str, *, merge: bool = False) -> None:
        """Rename a class; its answers belong to the new name, and the history keeps the old one.

        With ``merge``, ``new`` is another class, to which its answers belong from now on.
        """
        new = normalize("NFC", check_text(new, "The new name of a class"))
        with self._db.transaction() as connection:
            meta = read_meta(connection)[0]
            classes = meta["classes"]
            if old not in classes:
                raise LabelError(f"There is no class {old!r}; the classes are {classes}.")
            if new in classes and not merge:
                raise LabelError(
                    f"{new!r} is a class already; choose another name, or merge them with "
                    f"--merge-class {old}={new}."
                )
            if merge and (new not in classes or new == old or len(classes) < 3):
                raise LabelError(
                    f"{old!r} cannot be merged into {new!r}: both must be classes, and two classes "
                    f"must remain; the classes are {classes}."
                )
            (last,) = connection.execute("SELECT coalesce(max(answer), 0) FROM answers").fetchone()
            changes: dict[str, Any] = {
                "classes": [new if name == old else name for name in classes],
                RENAMES: [*meta.get(RENAMES, []), [old, new, last]],
            }
            if merge:
                changes["classes"] = [name for name in classes if name != old]
                changes |= {"predictions": None, "scores": None}  # their columns are the classes
            if old in meta.get("descriptions", {}) and merge:
                changes |= _NO_DESCRIPTIONS
            elif old in meta.get("descriptions", {}):
                changes["descriptions"] = {
                    new if name == old else name: text
                    for name, text in meta["descriptions"].items()
                }
            if meta.get("find") == old:
                changes["find"] = new
            if meta.get("loss") == f"f1:{old}":
                changes["loss"] = f"f1:{new}"
            write_meta(connection, self._db.project, changes)
            self._log(connection, RENAMED_CLASS, {"old": old, "new": new})

    def settings_mark(self) -> int:
        """Return a number that changes whenever the settings do; cheaper than reading them."""
        checksums = self._db.rows("SELECT checksum FROM meta ORDER BY key")
        return crc32("".join(row_checksum for (row_checksum,) in checksums).encode())

    def log(self, kind: str, **detail: Any) -> int:
        """Store an event in the log; returns its number."""
        check_text(kind, "kind")
        with self._db.transaction() as connection:
            return self._log(connection, kind, detail)

    def events(self, kind: str | None = None) -> list[Event]:
        """Return all events, or those of a kind, oldest first."""
        return [
            Event(event, created, kind, from_json(detail, dict), who, origin)
            for event, created, kind, detail, who, origin in self._db.rows(
                "SELECT event, created, kind, detail, who, origin FROM events "
                "WHERE kind = coalesce(?, kind) ORDER BY event",
                (kind,),
            )
        ]

    @contextmanager
    def acting_as(self, who: str, origin: str) -> Iterator[None]:
        """Log events inside the block under another name and origin, for visitors of the page."""
        previous = self._actor
        self._actor = (who, origin)
        try:
            yield
        finally:
            self._actor = previous

    def _meta(self) -> dict[str, Any]:
        with self._db.reading() as connection:
            return read_meta(connection)[0]

    def _log(self, connection: sqlite3.Connection, kind: str, detail: dict[str, Any]) -> int:
        who, origin = self._actor or (_user(), _COMMAND_ORIGIN)
        cursor = connection.execute(
            "INSERT INTO events (created, kind, detail, who, origin) VALUES (?, ?, ?, ?, ?)",
            (utc_now(), kind, to_json(detail, "detail"), who, origin),
        )
        return int(cursor.lastrowid or 0)


def _user() -> str:
    """Return the name of the system user; in a container there may be none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return f"user {getattr(os, 'getuid', int)()}"


def _check_removed_classes(
    connection: sqlite3.Connection, before: dict[str, Any], classes: list[str]
) -> None:
    """Refuse to remove a class that answers name, now or in the history, or that settings need."""
    removed = set(before["classes"]) - set(classes)
    if not removed:
        return
    renames = Renames.of(before)
    form = AnswerForm.of(before)
    answers = connection.execute("SELECT label, answer FROM answers WHERE label IS NOT NULL")
    for label, number in answers.fetchall():
        for name in removed.intersection(form.names(str(renames.current_name(label, number)))):
            raise LabelError(
                f"{name!r} cannot be removed: answers name it, and history keeps them; merge it "
                f"into another class instead (--merge-class {name}=OTHER)."
            )
    for name in removed:
        if before.get("find") == name or before.get("loss") == f"f1:{name}":
            raise LabelError(f"{name!r} is used by --find or --metric; change that first.")


def _logged_changes(before: dict[str, Any], changes: dict[str, Any]) -> dict[str, list[Any]]:
    """Return name → [old value, new value] of changed settings that are logged."""
    old_values = plain(ProjectSettings()) | before
    logged = {}
    for name in _LOGGED_SETTINGS:
        if name in changes and to_json(old_values[name], name) != to_json(changes[name], name):
            logged[name] = [old_values[name], changes[name]]
    return logged


def write_meta(connection: sqlite3.Connection, project: str, values: dict[str, Any]) -> None:
    """Store settings, each with its checksum."""
    for key, value in values.items():
        text = to_json(value, f"The setting {key!r}")
        connection.execute(
            "INSERT OR REPLACE INTO meta VALUES (?, ?, ?)",
            (key, text, checksum(project, "meta", (key, text))),
        )


def check_classes(classes: Sequence[str], task: str | None = None) -> list[str]:
    """Return the names of classes: at least two, each once; none for regression."""
    if task == NUMBERS:
        if classes:
            raise LabelError("The labels of this project are numbers; there are no classes.")
        return []
    if isinstance(classes, str) or len(classes) < 2:
        listed = classes if isinstance(classes, str) else ", ".join(map(str, classes))
        advice = "name at least two, separated by commas"
        words = listed.split()
        if len(words) > 1:
            advice += f", such as {','.join(words)}"
        raise LabelError(f"The classes are {listed or 'none'}; {advice}.")
    names = [normalize("NFC", check_text(name, "The name of a class")) for name in classes]
    for row, name in enumerate(names):
        if name in names[:row]:
            raise LabelError(f"The classes name {name!r} again; name every class once.")
    return names
