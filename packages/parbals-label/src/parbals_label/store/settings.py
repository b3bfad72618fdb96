"""The settings of a project: a typed record, stored as one JSON value a name."""

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from math import isfinite
from typing import Any, Literal, Self

from parbals.errors import InputError, ProjectError
from parbals.strategies.table import DEFAULT

__all__ = ["MapFile", "MatrixFile", "PredictionsFile", "ProjectSettings", "checked_settings"]

_FILE_NAME = re.compile(r"(features|predictions|map)-[0-9a-f]+\.npy")


@dataclass(frozen=True, slots=True)
class MatrixFile:
    """A float32 matrix beside the database, named by its content (blake2b of its bytes)."""

    file: str
    digest: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PredictionsFile(MatrixFile):
    """Predicted probabilities (N, C); ``answers`` is the number of the last answer they know."""

    answers: int = 0


@dataclass(frozen=True, slots=True)
class MapFile(MatrixFile):
    """Two dimensions of the features with this digest, and the share of variance each explains."""

    explained: tuple[float, ...] = ()
    features: str = ""


@dataclass(frozen=True, slots=True)
class ProjectSettings:
    """What a project remembers besides items and answers.

    Attributes:
        strategy, seed, n_samples, prior_scale, loss: of the learner; the loss is "log" or "error",
            or the name of a metric that needs more than one of them.
        data, media: what the project was made from, and the folder that image paths start from.
        columns: what people see of an item.
        encoder, encoded_columns, encoded_kind: how features are made, and from which columns;
            table_columns: further columns, beside encoded texts or images.
        id_column, label_column: where items had their names and first labels; "" numbered them.
        unreadable: positions of items that the encoder could not read; their features are blank.
        features, predictions, map: files beside the database.
        highlight, guidelines: words marked in texts, and what annotators should know.
        find: the rare class whose items are looked for; None where the whole model counts.
        audit: positions of the random items that measure the error, in the order they are asked
            for; drawn when the project was made.
        answers_wanted: how many people label every item.
        lease_minutes: how long an item on the page is one person's.
        goal_labels, goal_error: what people set out for; 0 is no goal.
    """

    strategy: str = DEFAULT
    seed: int = 0
    n_samples: int = 400
    prior_scale: float | Literal["auto"] = 1.0  # projects that name none were made with this
    loss: str = "log"  # likewise
    data: str | None = None
    media: str | None = None
    columns: tuple[str, ...] = ()
    encoder: str | None = None
    encoded_columns: tuple[str, ...] = ()
    encoded_kind: Literal["text", "image"] | None = None
    table_columns: tuple[str, ...] = ()
    id_column: str | None = None
    label_column: str | None = None
    unreadable: tuple[int, ...] = ()
    features: MatrixFile | None = None
    predictions: PredictionsFile | None = None
    map: MapFile | None = None
    highlight: tuple[str, ...] = ()
    guidelines: str = ""
    find: str | None = None
    audit: tuple[int, ...] = ()
    answers_wanted: int = 1
    lease_minutes: int = 30
    goal_labels: int = 0
    goal_error: float = 0.0

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """From a project's file; names that this parbals does not know are left out."""
        try:
            return cls(**_checked({k: v for k, v in values.items() if k in _CHECKS}))
        except InputError as error:
            raise ProjectError(f"{error} A newer parbals may have written it: upgrade.") from None


def checked_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """The settings as JSON, or an error that names the one which is unknown or of a wrong kind."""
    for name in values:
        if name not in _CHECKS:
            known = ", ".join(sorted(_CHECKS))
            raise InputError(f"There is no setting {name!r}; the settings are: {known}.")
    return {
        name: asdict(value) if isinstance(value, MatrixFile) else value
        for name, value in _checked(values).items()
    }


def _checked(values: Mapping[str, Any]) -> dict[str, Any]:
    checked: dict[str, Any] = {}
    for name, value in values.items():
        try:
            optional = value is None and name in _OPTIONAL
            checked[name] = None if optional else _CHECKS[name](value)
        except ValueError as error:
            raise InputError(f"The setting {name!r} is {value!r}; it must be {error}.") from None
    return checked


def _text(value: Any) -> str:
    try:
        value.encode()
    except (AttributeError, UnicodeEncodeError):
        raise ValueError("text in valid Unicode") from None
    return str(value)


def _number(value: Any) -> float:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not isfinite(value) or value <= 0:
        raise ValueError("a finite number above 0")
    return float(value)


def _share(value: Any) -> float:
    if value == 0:
        return 0.0
    if _number(value) >= 1:
        raise ValueError("a share below 1, or 0 for none")
    return float(value)


def _scale(value: Any) -> float | str:
    return value if value == "auto" else _number(value)


def _whole(least: int) -> Callable[[Any], int]:
    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"a whole number, {least} or more")
        return value

    return check


def _one_of(*choices: str) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if value not in choices:
            raise ValueError(f"one of: {', '.join(choices)}")
        return str(value)

    return check


def _loss(value: Any) -> str:
    if value not in ("log", "error", "balanced-accuracy") and not str(value).startswith("f1:"):
        raise ValueError("one of: log, error, balanced-accuracy, f1:CLASS")
    return _text(value)


def _list_of(check_one: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    def check(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, (list, tuple)):
            raise ValueError("a list")
        return tuple(map(check_one, value))

    return check


def _file(kind: type[MatrixFile]) -> Callable[[Any], MatrixFile]:
    known = {field.name for field in fields(kind)}

    def check(value: Any) -> MatrixFile:
        parts = asdict(value) if isinstance(value, MatrixFile) else value
        try:
            given: dict[str, Any] = {name: parts[name] for name in known.intersection(parts)}
            lists = {k: tuple(v) for k, v in given.items() if isinstance(v, list)}
            made = kind(**given | lists)
        except TypeError:
            raise ValueError("a record with the file's name, digest and shape") from None
        # It is read and removed under this name: it must not lead out of the project's folder.
        if not isinstance(made.file, str) or not _FILE_NAME.fullmatch(made.file):
            raise ValueError("a record whose file has a name such as features-0123456789ab.npy")
        return made

    return check


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "strategy": _text,
    "seed": _whole(0),
    "n_samples": _whole(2),
    "prior_scale": _scale,
    "loss": _loss,
    "data": _text,
    "media": _text,
    "columns": _list_of(_text),
    "encoder": _text,
    "encoded_columns": _list_of(_text),
    "encoded_kind": _one_of("text", "image"),
    "table_columns": _list_of(_text),
    "id_column": _text,
    "label_column": _text,
    "unreadable": _list_of(_whole(0)),
    "features": _file(MatrixFile),
    "predictions": _file(PredictionsFile),
    "map": _file(MapFile),
    "highlight": _list_of(_text),
    "guidelines": _text,
    "find": _text,
    "audit": _list_of(_whole(0)),
    "answers_wanted": _whole(1),
    "lease_minutes": _whole(1),
    "goal_labels": _whole(0),
    "goal_error": _share,
}
_OPTIONAL = {field.name for field in fields(ProjectSettings) if field.default is None}
