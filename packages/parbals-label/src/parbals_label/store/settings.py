"""The settings and classes of a project, and the log of what was decided when, and by whom."""

import getpass
import os
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Literal
from unicodedata import normalize
from zlib import crc32

from parbals.errors import InputError, LabelError, ProjectError
from parbals.strategies.table import DEFAULT
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from parbals_label.answer_form import NUMBERS, AnswerForm
from parbals_label.store.current import RENAMES, Renames
from parbals_label.store.database import Database
from parbals_label.store.integrity import read_meta
from parbals_label.store.items import count_items
from parbals_label.store.records import CHANGED, RENAMED_CLASS, Event
from parbals_label.store.rows import check_text, checksum, from_json, to_json, utc_now

__all__ = ["MapFile", "MatrixFile", "PredictionsFile", "ProjectSettings", "Settings"]
__all__ += ["check_classes", "checked_settings", "write_meta"]

_TOLD = (
    *("strategy", "loss", "guidelines", "highlight", "find", "answers_wanted", "classes"),
    *("lease_minutes", "goal_labels", "goal_error", "audit_by", "hidden", "adapt"),
)
"""What people decide: a change of it is remembered."""
_UNDESCRIBED: dict[str, Any] = {"descriptions": {}, "described": None}
"""Where a class that was described goes: the rows of the others' descriptions are told by place."""
_LOSSES = (
    *("log", "error", "balanced-accuracy", "rank-error", "rmse"),
    *("hamming", "subset", "micro-f1", "macro-f1"),
)
_HERE = "this machine"
"""Where commands come from."""


def _checked_file(name: str) -> str:
    # It is read and removed under this name: it must not lead out of the project's folder.
    if not re.fullmatch(r"(features|predictions|map|described|scores)-[0-9a-f]+\.npy", name):
        raise ValueError("name a file such as features-0123456789ab.npy")
    return name


def _checked_loss(value: str) -> str:
    if value not in _LOSSES and not value.startswith("f1:"):
        raise ValueError(f"be one of: {', '.join(_LOSSES)}, f1:CLASS")
    return value


_Count = Annotated[int, Field(strict=True, ge=0)]
_AtLeastOne = Annotated[int, Field(strict=True, ge=1)]
_Number = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
_Share = Annotated[float, Field(strict=True, ge=0, lt=1, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class MatrixFile:
    """A float32 matrix beside the database, named by its content (blake2b of its bytes)."""

    file: Annotated[str, AfterValidator(_checked_file)]
    digest: str
    shape: tuple[_Count, ...]


@dataclass(frozen=True, slots=True)
class PredictionsFile(MatrixFile):
    """Predicted probabilities (N, C); ``answers`` is the number of the last answer they know."""

    answers: _Count = 0


@dataclass(frozen=True, slots=True)
class MapFile(MatrixFile):
    """Two dimensions of the features with this digest, and the share of variance each explains."""

    explained: tuple[float, ...] = ()
    features: str = ""


class ProjectSettings(BaseModel):
    """What a project remembers besides items and answers, stored as one JSON value a name.

    Attributes:
        task: what a label is (:mod:`parbals_label.answer_form`).
        strategy, seed, n_samples, prior_scale, loss: of the learner; the loss is "log" or "error",
            or the name of a metric that needs more than one of them.
        data, media: what the project was made from, and the folder that image paths start from.
        columns: what an item has; hidden: those of them that no annotator sees, because they are
            or may be the answer.
        encoder, encoded_columns, encoded_kind: how features are made, and from which columns;
            table_columns: further columns, beside encoded texts or images.
        id_column, label_column: where items had their names and first labels; "" numbered them.
        unreadable: positions of items that the encoder could not read; their features are blank.
        features, predictions, map: files beside the database.
        descriptions: class → a sentence about it; described: their features, in this order.
        scores: instead of sentences, how well another model finds each class to fit each item.
        highlight, guidelines: words marked in texts, and what annotators should know.
        find: the rare class whose items are looked for; None where the whole model counts.
        audit: positions of the random items that measure the error, in the order they are asked
            for; drawn when the project was made. audit_by: who is asked for their labels; programs
            may be ("anyone"), but it is people's labels alone that measure.
        answers_wanted: how many people label every item.
        lease_minutes: how long an item on the page is one person's.
        goal_labels, goal_error: what people set out for; 0 is no goal.
        doubts: labels that surprise the model: position, label, its probability, what instead.
        copies: texts that repeat an earlier item's word for word, each with that item: its label is
            theirs, and they are not asked for.
        adapt: the page's worker teaches the encoder what people label.
        heard: annotators: name, answers, how often they are wrong, and its 90 % interval.
        judged: of different answers what they come to: position, how many they were, label.
        again: items that somebody else is to label as well: position, how many answers then.
    """

    model_config = ConfigDict(frozen=True)

    task: Literal["classes", "many-labels", "ordinal", "regression"] = "classes"
    strategy: str = DEFAULT
    seed: _Count = 0
    n_samples: Annotated[int, Field(strict=True, ge=2)] = 400
    prior_scale: _Number | Literal["auto"] = 1.0
    loss: Annotated[str, AfterValidator(_checked_loss)] = "log"
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
    features: MatrixFile | None = None
    predictions: PredictionsFile | None = None
    map: MapFile | None = None
    descriptions: dict[str, str] = Field(default_factory=dict)
    described: MatrixFile | None = None
    scores: MatrixFile | None = None
    highlight: tuple[str, ...] = ()
    guidelines: str = ""
    find: str | None = None
    audit: tuple[_Count, ...] = ()
    audit_by: Literal["people", "anyone"] = "people"
    answers_wanted: _AtLeastOne = 1
    lease_minutes: _AtLeastOne = 30
    goal_labels: _Count = 0
    goal_error: _Share = 0.0
    doubts: tuple[tuple[_Count, str, float, str], ...] = ()
    heard: tuple[tuple[str, _Count, float, float, float], ...] = ()
    judged: tuple[tuple[_Count, _AtLeastOne, str], ...] = ()
    copies: tuple[tuple[_Count, _Count], ...] = ()
    adapt: bool = False
    again: tuple[tuple[_Count, _AtLeastOne], ...] = ()

    @property
    def visible_columns(self) -> tuple[str, ...]:
        """The columns that annotators see."""
        return tuple(name for name in self.columns if name not in self.hidden)

    def wanted_of(self, position: int) -> int:
        """How many people label this item."""
        return dict(self.again).get(position, self.answers_wanted)

    @staticmethod
    def of(values: Mapping[str, Any]) -> "ProjectSettings":
        """From a project's file; names that this parbals does not know are left out."""
        try:
            return _validated(values)
        except InputError as error:
            raise ProjectError(f"{error} A newer parbals may have written it: upgrade.") from None


def checked_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings as JSON, or an error that names the one which is unknown or of a wrong kind."""
    known = ProjectSettings.model_fields
    for name in values:
        if name not in known:
            listed = ", ".join(sorted(known))
            raise InputError(f"There is no setting {name!r}; the settings are: {listed}.")
    checked = _validated(values).model_dump(include=set(values))
    for name, value in checked.items():
        to_json(value, f"The setting {name!r}")
    return checked


def _validated(values: Mapping[str, Any]) -> ProjectSettings:
    try:
        return ProjectSettings.model_validate(values)
    except ValidationError as error:
        first, *rest = error.errors()
        faults = [first, *(fault for fault in rest if fault["input"] is first["input"])]
        wrong = [
            "have a file, a digest and a shape"
            if fault["type"] == "missing"
            else re.sub("^(Value error, |[A-Z][a-z]+ should )", "", fault["msg"])
            for fault in faults
        ]
        name, advice = str(first["loc"][0]), " or ".join(dict.fromkeys(wrong))
        raise InputError(f"The setting {name!r} is {values[name]!r}; it must {advice}.") from None


class Settings:
    """The part of the store that holds settings, classes and events."""

    _db: Database
    _actor: tuple[str, str] | None = None

    @property
    def settings(self) -> ProjectSettings:
        """The settings as they are now; change them with ``update_settings``."""
        return ProjectSettings.of(self._meta())

    @property
    def classes(self) -> tuple[str, ...]:
        """The labels an answer may have, in the order they were declared."""
        return tuple(self._meta()["classes"])

    @property
    def form(self) -> AnswerForm:
        """What a label of the project is."""
        return AnswerForm.of(self._meta())

    @property
    def former_classes(self) -> dict[str, str]:
        """Names that classes had once and no class has now → the names of today."""
        meta = self._meta()
        return Renames.of(meta).former(meta["classes"])

    def update_settings(self, **changes: Any) -> None:
        """Change settings; of ``classes`` only those may be left out that no answer ever named.

        What people decide (``_TOLD``) is remembered as an event, with what it was before.
        Predictions for another number of items than there are now are left out: items were added
        while they were made.
        """
        named = changes.pop("classes", None)
        changes = checked_settings(changes)
        with self._db.transaction() as connection:
            before = read_meta(connection)[0]
            classes = None if named is None else check_classes(named, before.get("task"))
            if classes is not None:
                _check_left_out(connection, before, classes)
                changes |= {"classes": classes, "scores": None}  # whose columns are the classes
                if not set(before.get("descriptions", {})) <= set(classes):
                    changes |= _UNDESCRIBED
                if classes[: len(before["classes"])] != before["classes"]:
                    changes["predictions"] = None  # their columns are the classes
            predictions = changes.get("predictions")
            if predictions and predictions["shape"][0] != count_items(connection):
                del changes["predictions"]
            if changes.get("goal_error") and before.get("task") == NUMBERS:
                raise InputError("A goal is a share of wrong labels, and the labels are numbers.")
            if told := _told(before, changes):
                self._log(connection, CHANGED, told)
            write_meta(connection, self._db.project, changes)

    def rename_class(self, old: str, new: str, *, merge: bool = False) -> None:
        """Give a class another name; its answers mean it still, and history keeps the old name.

        With ``merge`` the name is that of another class, which the answers mean from now on.
        """
        new = normalize("NFC", check_text(new, "The new name of a class"))
        with self._db.transaction() as connection:
            meta = read_meta(connection)[0]
            classes = meta["classes"]
            if old not in classes:
                raise LabelError(f"There is no class {old!r}; the classes are {classes}.")
            if new in classes and not merge:
                raise LabelError(
                    f"{new!r} is a class already; choose another name, or make them one with "
                    f"--merge-class {old}={new}."
                )
            if merge and (new not in classes or new == old or len(classes) < 3):
                raise LabelError(
                    f"{old!r} can be merged into another class of the project, if two are left; "
                    f"the classes are {classes}."
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
                changes |= _UNDESCRIBED
            elif old in meta.get("descriptions", {}):
                told = meta["descriptions"].items()
                changes["descriptions"] = {new if c == old else c: text for c, text in told}
            if meta.get("find") == old:
                changes["find"] = new
            if meta.get("loss") == f"f1:{old}":
                changes["loss"] = f"f1:{new}"
            write_meta(connection, self._db.project, changes)
            self._log(connection, RENAMED_CLASS, {"old": old, "new": new})

    def settings_mark(self) -> int:
        """A number that changes whenever the settings do; it costs less than reading them."""
        proofs = self._db.rows("SELECT checksum FROM meta ORDER BY key")
        return crc32("".join(proof for (proof,) in proofs).encode())

    def log(self, kind: str, **detail: Any) -> int:
        """Remember an event; returns its number."""
        check_text(kind, "kind")
        with self._db.transaction() as connection:
            return self._log(connection, kind, detail)

    def events(self, kind: str | None = None) -> list[Event]:
        """Every event, or those of a kind, oldest first."""
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
        """Inside the block events are somebody else's, from elsewhere: the page's visitors."""
        before, self._actor = self._actor, (who, origin)
        try:
            yield
        finally:
            self._actor = before

    def _meta(self) -> dict[str, Any]:
        with self._db.reading() as connection:
            return read_meta(connection)[0]

    def _log(self, connection: sqlite3.Connection, kind: str, detail: dict[str, Any]) -> int:
        who, origin = self._actor or (_user(), _HERE)
        cursor = connection.execute(
            "INSERT INTO events (created, kind, detail, who, origin) VALUES (?, ?, ?, ?, ?)",
            (utc_now(), kind, to_json(detail, "detail"), who, origin),
        )
        return int(cursor.lastrowid or 0)


def _user() -> str:
    """The user of this machine who runs the command; a container's may have no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return f"user {getattr(os, 'getuid', int)()}"


def _check_left_out(
    connection: sqlite3.Connection, before: dict[str, Any], classes: list[str]
) -> None:
    """Refuse to leave out a class that answers name, now or in history, or that settings need."""
    renames, form = Renames.of(before), AnswerForm.of(before)
    answers = connection.execute("SELECT label, answer FROM answers WHERE label IS NOT NULL")
    missing = set(before["classes"]) - set(classes)
    for label, number in answers.fetchall() if missing else ():
        for name in missing.intersection(form.names(str(renames.current_name(label, number)))):
            raise LabelError(
                f"{name!r} cannot be removed: answers name it, and history keeps them; merge it "
                f"into another class instead (--merge-class {name}=OTHER)."
            )
    for name in missing:
        if before.get("find") == name or before.get("loss") == f"f1:{name}":
            raise LabelError(f"{name!r} is what --find or --metric is about; change that first.")


def _told(before: dict[str, Any], changes: dict[str, Any]) -> dict[str, list[Any]]:
    """Name → [before, now] of what people would notice."""
    values = ProjectSettings().model_dump() | before
    told = {name: [values[name], changes[name]] for name in _TOLD if name in changes}
    return {name: pair for name, pair in told.items() if len({to_json(v, name) for v in pair}) > 1}


def write_meta(connection: sqlite3.Connection, project: str, values: dict[str, Any]) -> None:
    """Store settings, each with its proof."""
    for key, value in values.items():
        text = to_json(value, f"The setting {key!r}")
        connection.execute(
            "INSERT OR REPLACE INTO meta VALUES (?, ?, ?)",
            (key, text, checksum(project, "meta", (key, text))),
        )


def check_classes(classes: Sequence[str], task: str | None = None) -> list[str]:
    """At least two names, each once; where labels are numbers, none."""
    if task == NUMBERS:
        if classes:
            raise LabelError("The labels of this project are numbers; there are no classes.")
        return []
    if isinstance(classes, str) or len(classes) < 2:
        named = classes if isinstance(classes, str) else ", ".join(map(str, classes))
        raise LabelError(f"The classes are {named or 'none'}; name at least two.")
    names = [normalize("NFC", check_text(name, "The name of a class")) for name in classes]
    for row, name in enumerate(names):
        if name in names[:row]:
            raise LabelError(f"The classes name {name!r} again; name every class once.")
    return names
