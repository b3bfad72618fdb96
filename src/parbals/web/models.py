"""What the page may send: checked before anything else happens."""

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
)

__all__ = [
    "MOST_POSITION",
    "AnswersIn",
    "Kind",
    "PassIn",
    "PositionsIn",
    "SettingsIn",
    "TakeIn",
    "UndoIn",
]

MOST_POSITION = 2**53 - 1


def _whole(value: Any) -> Any:
    """JSON has one kind of number: 3.0 is 3."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


_LINE = r"^[^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f][^\x00-\x1f\x7f]*$"
Line = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=_LINE)]
Name = Annotated[Line, AfterValidator(str.strip)]
RequestId = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=_LINE)]
Label = Annotated[str, StringConstraints(min_length=1, max_length=1000)]
Comment = Annotated[str, StringConstraints(max_length=5000)]
Whole = Annotated[int, BeforeValidator(_whole)]
Position = Annotated[Whole, Field(ge=0, le=MOST_POSITION)]
Positions = Annotated[list[Position], Field(max_length=100)]
Kind = Literal["skip", "unsure"]


class _In(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class TakeIn(_In):
    """Items for an annotator."""

    annotator: Name
    n: Annotated[Whole, Field(ge=1, le=10)] = 1


class AnswerIn(_In):
    """A label; ``request_id`` makes a retry free, ``revise`` lets it replace the annotator's
    earlier label."""

    position: Position
    label: Label
    request_id: RequestId
    comment: Comment | None = None
    revise: bool = False


class AnswersIn(_In):
    """Labels that are stored all or none."""

    annotator: Name
    answers: Annotated[list[AnswerIn], Field(min_length=1, max_length=100)]


class PassIn(_In):
    """An item the annotator does not label."""

    annotator: Name
    position: Position
    kind: Kind
    request_id: RequestId
    comment: Comment | None = None


class UndoIn(_In):
    """Take back the annotator's latest label or pass of an item."""

    annotator: Name
    position: Position
    request_id: RequestId


class PositionsIn(_In):
    """Items an annotator has on a lease."""

    annotator: Name
    positions: Positions


class SettingsIn(_In):
    """Settings to change; what is left out stays."""

    highlight: Annotated[list[Line], Field(max_length=100)] | None = None
    guidelines: Annotated[str, StringConstraints(max_length=20_000)] | None = None
    answers_wanted: Annotated[Whole, Field(ge=1, le=100)] | None = None
    lease_minutes: Annotated[Whole, Field(ge=1, le=1440)] | None = None
