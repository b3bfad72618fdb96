"""What the page may send, checked before anything else happens, and what it is told."""

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
)

from parbals_label.project.consensus import Agreement
from parbals_label.project.goal import Advice, GoalPart
from parbals_label.project.summary import AnnotatorErrorRate
from parbals_label.store.records import Annotator

MOST_POSITION = 2**53 - 1


def _whole(value: Any) -> Any:
    """JSON has one kind of number: 3.0 is 3."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


_LINE = r"^[^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f][^\x00-\x1f\x7f]*$"
Line = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=_LINE)]
Name = Annotated[Line, AfterValidator(str.strip)]
RequestId = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=_LINE)]
Label = Annotated[str, StringConstraints(min_length=1, max_length=10_000)]
Comment = Annotated[str, StringConstraints(max_length=5000)]
Whole = Annotated[int, BeforeValidator(_whole)]
Position = Annotated[Whole, Field(ge=0, le=MOST_POSITION)]
Positions = Annotated[list[Position], Field(max_length=100)]
Kind = Literal["skip", "unsure"]
Outcome = Annotated[str, Field(json_schema_extra={"enum": ["new", "repeated", "revised"]})]
State = Literal["idle", "choosing", "starting", "failed", "finished"]
Probabilities = dict[str, float] | None
Role = Literal["owner", "annotator"]
Counts = dict[str, int]
"""How many items were changed, by what happened to them."""


class InModel(BaseModel):
    """What a request may hold: nothing but the fields, and of no other type."""

    model_config = ConfigDict(extra="forbid", strict=True)


class AnnotatorIn(InModel):
    """What is done under a name."""

    annotator: Name


class TakeIn(AnnotatorIn):
    """Items for an annotator."""

    n: Annotated[Whole, Field(ge=1, le=10)] = 1


class AnswerIn(InModel):
    """A label as the store keeps it: a name, a JSON list of names, or a decimal.

    ``request_id`` makes a retry free, ``revise`` lets it replace an earlier label."""

    position: Position
    label: Label
    request_id: RequestId
    comment: Comment | None = None
    revise: bool = False


class AnswersIn(AnnotatorIn):
    """Labels that are stored all or none."""

    answers: Annotated[list[AnswerIn], Field(min_length=1, max_length=100)]


class PassIn(AnnotatorIn):
    """An item the annotator does not label."""

    position: Position
    kind: Kind
    request_id: RequestId
    comment: Comment | None = None


class UndoIn(AnnotatorIn):
    """Take back the annotator's latest label or pass of an item.

    ``as_owner``: somebody else's, which only an owner may, and which the log keeps.
    """

    position: Position
    request_id: RequestId
    as_owner: bool = False


class PositionsIn(AnnotatorIn):
    """Items an annotator has on a lease."""

    positions: Positions


class AgainIn(InModel):
    """An item that somebody else is to label as well."""

    position: Position


class CertifyIn(InModel):
    """How many random items are to measure the error."""

    labels: Annotated[int, Field(ge=1, le=10_000)]


class BulkIn(AnnotatorIn):
    """A label for several items, or null: the annotator's labels of them are taken back.

    ``decides``: whatever others said of them, whose answers stay.
    """

    positions: Annotated[list[Position], Field(min_length=1, max_length=300)]
    label: Label | None
    request_id: Annotated[RequestId, Field(max_length=150)]
    decides: bool = False


class ReleaseAllIn(InModel):
    """Whose items are given back; null: everybody's."""

    of: Name | None = None


class ClassesIn(InModel):
    """Changes of the classes; ``order`` names all of them, or the first ones."""

    renamed: dict[Name, Name] = {}
    merged: dict[Name, Name] = {}
    added: Annotated[list[Name], Field(max_length=1000)] = []
    removed: list[Name] = []
    order: list[Name] = []


class SettingsIn(InModel):
    """Settings to change, all or none; what is left out stays."""

    classes: ClassesIn | None = None
    highlight: Annotated[list[Line], Field(max_length=100)] | None = None
    guidelines: Annotated[str, StringConstraints(max_length=20_000)] | None = None
    answers_wanted: Annotated[Whole, Field(ge=1, le=100)] | None = None
    lease_minutes: Annotated[Whole, Field(ge=1, le=1440)] | None = None
    goal_labels: Annotated[Whole, Field(ge=0, le=1_000_000_000)] | None = None
    goal_error: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] | None = None
    adapt: bool | None = None


class NameIn(InModel):
    """A person."""

    name: Name


class InviteIn(NameIn):
    """A person to give a link of their own, or a new one."""

    role: Role = "annotator"


class RoleIn(NameIn):
    """What an invited person may do from now on."""

    role: Role


class ProjectOut(BaseModel):
    """What the page needs to know once."""

    name: str
    identity: str
    n_items: int
    task: str
    classes: list[str]
    kind: Literal["text", "image", "table"]
    text_columns: list[str]
    image_column: str | None
    columns: list[str]
    highlight: list[str]
    guidelines: str
    answers_wanted: int
    lease_minutes: int
    goal_labels: int
    goal_error: float
    adapt: bool
    strategy: str
    audit: int


class QueueOut(BaseModel):
    """``ready`` items wait for this annotator, ``out`` are with somebody."""

    ready: int
    out: int
    state: State
    message: str | None


class WhyOut(BaseModel):
    """What chose the item; ``strategy`` is null where nobody did.

    It is "audit" for a random item that measures the error. ``sentence`` is for people,
    ``details`` names batch, strategy and score.
    """

    strategy: str | None = None
    sentence: str
    details: str | None = None
    predicted: Probabilities


class TaskOut(BaseModel):
    """An item to label; ``expires`` is in seconds since 1970."""

    position: int
    id: str
    content: dict[str, Any]
    image: str | None
    expires: float
    why: WhyOut


class TasksOut(BaseModel):
    """Items that are the annotator's now."""

    items: list[TaskOut]
    queue: QueueOut


class StoredAnswer(BaseModel):
    """One answer that is on disk."""

    request_id: str
    position: int
    answer: int
    outcome: Outcome


class UndoneOut(BaseModel):
    """The item is the annotator's again; ``was`` has the label or kind taken back, and comment."""

    item: TaskOut
    was: dict[str, str]


class CurvePoint(BaseModel):
    """A stored report's expected error."""

    n_labels: int
    created: str
    mean: float
    low: float
    high: float


class ServerOut(BaseModel):
    """The server itself."""

    started: float


class LiveOut(BaseModel):
    """Progress; with ``?since`` of the current revision only the first five.

    ``trouble`` is what an owner should see to, in a sentence; ``features`` says which are in use
    and what adapting them gained, or how far that is.

    ``audit`` counts the random items that measure the error; ``certificate`` is a sentence on it;
    ``judged`` says what the model is judged by, where that is not accuracy; ``chosen`` says who
    chose what is labelled; ``partly`` are items with fewer answers than are wanted. ``confusion``
    counts the audit's labels, a row a class, by what the model decides, a column a class.
    """

    revision: str
    queue: QueueOut
    unchanged: bool = False
    trouble: str | None = None
    features: str | None = None
    labelled: int | None = None
    partly: int | None = None
    n_items: int | None = None
    answers: int | None = None
    out: int | None = None
    queued: int | None = None
    passed: int | None = None
    class_balance: dict[str, int] | None = None
    numbers: dict[str, float] | None = None
    annotators: list[Annotator] | None = None
    audit: int | None = None
    audit_labelled: int | None = None
    certificate: str | None = None
    judged: list[str] | None = None
    goal: list[GoalPart] | None = None
    advice: Advice | None = None
    chosen_by: dict[str, int] | None = None
    chosen: str | None = None
    confusion: list[list[int]] | None = None
    report: dict[str, Any] | None = None
    history: list[CurvePoint] | None = None
    agreement: Agreement | None = None
    heard: list[AnnotatorErrorRate] | None = None
    server: ServerOut | None = None


class ItemRow(BaseModel):
    """An item in a list."""

    position: int
    id: str
    snippet: str
    image: str | None
    label: str | None
    answers: dict[str, str]
    passes: dict[str, str]
    predicted: Probabilities
    doubt: str | None = None
    tied: bool = False


class ItemsOut(BaseModel):
    """A part of the list; ask for what comes after ``next`` until it is null."""

    items: list[ItemRow]
    next: int | None
    total: int | None


class ItemOut(ItemRow):
    """Everything about an item; the label of an answer is null where one was withdrawn."""

    content: dict[str, Any]
    history: list[dict[str, Any]]


class Points(BaseModel):
    """Equally long columns; state 0 unlabelled, 1 queued, 2 out, 3 labelled; class -1 is none."""

    position: list[int] = []
    x: list[float] = []
    y: list[float] = []
    state: list[int] = []
    label: list[int] = []
    predicted: list[int] = []


class MapOut(BaseModel):
    """Items in two dimensions; ``explained`` are the axes' shares of the variance.

    ``by_model``: drawn to the classes that the model believes in.
    """

    n_total: int
    points: Points = Points()
    explained: list[float] = []
    by_model: bool = False
    message: str | None = None


class MeOut(BaseModel):
    """Who makes the request; ``name`` is null with the page's own link, where one says a name.

    ``spelt`` is the name that was asked about, as the project spells it.
    """

    name: str | None
    role: Role
    spelt: str | None = None
