"""Request and response bodies of the page's API; requests are validated strictly."""

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
from parbals_label.project.known_error import KnownError
from parbals_label.project.summary import AnnotatorErrorRate
from parbals_label.store.records import Annotator

MAX_POSITION = 2**53 - 1


def _whole(value: Any) -> Any:
    """Accept 3.0 as 3, because JSON has only one kind of number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


_LINE = r"^[^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f][^\x00-\x1f\x7f]*$"
Line = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=_LINE)]
Name = Annotated[Line, AfterValidator(str.strip)]
RequestId = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=_LINE)]
Label = Annotated[str, StringConstraints(min_length=1, max_length=10_000)]
Comment = Annotated[str, StringConstraints(max_length=5000)]
Whole = Annotated[int, BeforeValidator(_whole)]
Position = Annotated[Whole, Field(ge=0, le=MAX_POSITION)]
Positions = Annotated[list[Position], Field(max_length=100)]
Kind = Literal["skip", "unsure"]
Outcome = Annotated[str, Field(json_schema_extra={"enum": ["new", "repeated", "revised"]})]
State = Literal["idle", "choosing", "starting", "failed", "finished"]
Probabilities = dict[str, float] | None
Role = Literal["owner", "annotator"]
Counts = dict[str, int]
"""Numbers of items, by what happened to them."""


class InModel(BaseModel):
    """A request body; unknown fields and other types are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class AnnotatorIn(InModel):
    """A request of an annotator."""

    annotator: Name


class TakeIn(AnnotatorIn):
    """Take items to label."""

    n: Annotated[Whole, Field(ge=1, le=10)] = 1


class AnswerIn(InModel):
    """A label as it is stored: a class, a JSON list of classes, or a decimal number.

    Repeating a ``request_id`` changes nothing; ``revise`` replaces an earlier label.
    """

    position: Position
    label: Label
    request_id: RequestId
    comment: Comment | None = None
    revise: bool = False


class AnswersIn(AnnotatorIn):
    """Labels to store, all or none."""

    answers: Annotated[list[AnswerIn], Field(min_length=1, max_length=100)]


class PassIn(AnnotatorIn):
    """Skip an item, or mark it unsure."""

    position: Position
    kind: Kind
    request_id: RequestId
    comment: Comment | None = None


class UndoIn(AnnotatorIn):
    """Undo the annotator's latest label or skip of an item.

    ``as_owner``: an owner undoes somebody else's, which is logged.
    """

    position: Position
    request_id: RequestId
    as_owner: bool = False


class PositionsIn(AnnotatorIn):
    """Items assigned to an annotator."""

    positions: Positions


class AgainIn(InModel):
    """An item that needs one more answer."""

    position: Position


class MeasureIn(InModel):
    """The size of the random sample that measures the error.

    ``keep`` it for later models, too; draw it ``from_target``, the target set.
    """

    n: Annotated[int, Field(ge=1, le=10_000)]
    keep: bool = False
    from_target: bool = False


class BulkIn(AnnotatorIn):
    """A label for several items; null undoes the annotator's labels of them.

    ``decides``: it is the final label where annotators disagree; their answers are kept.
    """

    positions: Annotated[list[Position], Field(min_length=1, max_length=300)]
    label: Label | None
    request_id: Annotated[RequestId, Field(max_length=150)]
    decides: bool = False


class CheckIn(InModel):
    """How many answers of which program people are to check, at random or the least sure ones."""

    program: Name
    unsure: bool = False
    n: Annotated[int, Field(ge=1, le=10_000)] = 10


class PauseIn(InModel):
    """Whether a program is paused."""

    program: Name
    paused: bool


class ReleaseAllIn(InModel):
    """The annotator whose items are released; null releases all."""

    of: Name | None = None


class ClassesIn(InModel):
    """Changes of the classes; ``order`` names all of them, or the first ones."""

    renamed: dict[Name, Name] = {}
    merged: dict[Name, Name] = {}
    added: Annotated[list[Name], Field(max_length=1000)] = []
    removed: list[Name] = []
    order: list[Name] = []


class SettingsIn(InModel):
    """Settings to change, all or none; omitted ones stay."""

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
    """A person who gets a personal link, or a new one."""

    role: Role = "annotator"


class RoleIn(NameIn):
    """The new role of an invited person."""

    role: Role


class ProjectOut(BaseModel):
    """What the page loads once."""

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
    """The queue: ``ready`` items are available to this annotator, ``out`` ones are assigned."""

    ready: int
    out: int
    state: State
    message: str | None


class WhyOut(BaseModel):
    """Why an item was chosen.

    ``strategy`` is null if no strategy chose it, and "audit" for a test item. ``sentence`` is for
    people, ``details`` names batch, strategy and score.
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
    """Items assigned to the annotator."""

    items: list[TaskOut]
    queue: QueueOut


class StoredAnswer(BaseModel):
    """A stored answer."""

    request_id: str
    position: int
    answer: int
    outcome: Outcome


class UndoneOut(BaseModel):
    """The item, assigned again; ``was`` is the undone label or kind, and its comment."""

    item: TaskOut
    was: dict[str, str]


class CurvePoint(BaseModel):
    """A stored report's expected error."""

    n_labels: int
    created: str
    mean: float
    low: float
    high: float


class ChecksOut(BaseModel):
    """How many random answers of a program wait to be checked, and a sentence that says so."""

    n_queued: int
    sentence: str


class PausedOut(BaseModel):
    """Whether a program is paused, and a sentence that says so."""

    paused: bool
    sentence: str


class ServerOut(BaseModel):
    """The server itself."""

    started: float


class ProgramOut(BaseModel):
    """A program or an LLM that has labelled.

    Attributes:
        name: under which its labels are stored.
        n_labels: their number.
        lines: sentences of its report.
        paused: whether it labels nothing until it is resumed.
        usage: requests, tokens and cost of an LLM.
        drift: a sentence where its answers seem to have become worse.
        n_unsure: how many of the answers that it is least sure of people should label; 0 for none.
    """

    name: str
    n_labels: int
    lines: list[str]
    paused: bool = False
    usage: str | None = None
    drift: str | None = None
    n_unsure: int = 0


class LiveOut(BaseModel):
    """Progress; if nothing has changed ``since`` a revision, only the first five fields.

    Attributes:
        trouble: a problem that an owner should fix.
        features: the features in use, and the gain or progress of fine-tuning.
        partly: items that need more answers.
        out: assigned items.
        passed: items that were skipped or marked unsure.
        numbers: summary statistics of the labels of a regression project.
        audit, audit_labelled: test items, and how many of them are labelled.
        known_error: the measured error, else the one that the model expects.
        certificate: a sentence on the measured error.
        judged: sentences on the metric, unless it is accuracy.
        chosen_by, chosen: labelled items by strategy, also as a sentence.
        measurable: items without a label that a new sample can be drawn from.
        is_measuring: a random sample is being drawn, or not all of it is labelled.
        undoable: items of a sample that nobody has answered, so that its draw can be undone.
        confusion: confusion matrix of test items: true classes (rows), predicted ones (columns).
        heard: estimated error rates of the annotators.
        programs: reports on the programs and LLMs that have labelled.
        target: the name of the target set; null without one.
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
    known_error: KnownError | None = None
    certificate: str | None = None
    measurable: int | None = None
    is_measuring: bool | None = None
    undoable: int | None = None
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
    programs: list[ProgramOut] | None = None
    target: str | None = None
    server: ServerOut | None = None


class ItemRow(BaseModel):
    """A row of the list of items."""

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
    """A page of the list; request the items after ``next`` until it is null."""

    items: list[ItemRow]
    next: int | None
    total: int | None


class ItemOut(ItemRow):
    """An item with its history; the label of an answer is null if it undoes an earlier one."""

    content: dict[str, Any]
    history: list[dict[str, Any]]


class Points(BaseModel):
    """Columns of equal length; class -1 is none.

    ``state`` is 0 unlabelled, 1 queued, 2 assigned, 3 labelled.
    """

    position: list[int] = []
    x: list[float] = []
    y: list[float] = []
    state: list[int] = []
    label: list[int] = []
    predicted: list[int] = []


class TargetPoints(BaseModel):
    """Columns of equal length: rows of the target set; ``far`` from everything in the pool."""

    row: list[int]
    x: list[float]
    y: list[float]
    far: list[bool]


class MapOut(BaseModel):
    """Items in two dimensions; ``explained`` is the explained variance of each axis.

    ``by_model``: items are placed near their predicted classes. ``target``: rows of the target set,
    on request; all points are then placed by their features alone.
    """

    n_total: int
    points: Points = Points()
    explained: list[float] = []
    by_model: bool = False
    message: str | None = None
    target: TargetPoints | None = None


class TargetItem(BaseModel):
    """An item of the target set; ``position`` is null if it is not an item of the project."""

    row: int
    id: str
    snippet: str
    position: int | None


class FarGroup(BaseModel):
    """Similar items of the target set that are far from everything in the pool."""

    n_items: int
    examples: list[TargetItem]


class TargetOut(BaseModel):
    """The target set; ``name`` is null if there is none.

    Attributes:
        name: its file, or the filter that selects it.
        n_rows: number of rows that were given.
        n_measurable: rows that a sample can be drawn from to measure the error.
        sentence: how different it is from the pool.
        far_sentence: how many of its items are far from everything in the pool.
        far: groups of these, the largest first.
        message: why there is no sentence yet.
    """

    name: str | None = None
    n_rows: int = 0
    n_measurable: int = 0
    sentence: str | None = None
    far_sentence: str | None = None
    far: list[FarGroup] = []
    message: str | None = None


class MeOut(BaseModel):
    """The visitor; ``name`` is null with the page's own link.

    ``spelt`` is the project's spelling of the requested name.
    """

    name: str | None
    role: Role
    spelt: str | None = None
