"""What the page is told: the shapes in the API's description."""

from typing import Any, Literal

from pydantic import BaseModel

from parbals.web.models import Kind

__all__ = [
    "ErrorOut",
    "ItemOut",
    "ItemsOut",
    "LeasesOut",
    "LiveOut",
    "MapOut",
    "PassOut",
    "ProjectOut",
    "QueueOut",
    "ReleasedOut",
    "StoredOut",
    "TaskOut",
    "TasksOut",
    "UndoneOut",
]

State = Literal["idle", "choosing", "reporting", "starting", "failed", "finished"]


class ErrorDetail(BaseModel):
    """One sentence for people, a word for programs; ``held`` is the label a conflict is about."""

    code: str
    message: str
    held: str | None = None


class ErrorOut(BaseModel):
    """Why a request was refused."""

    error: ErrorDetail


class ProjectOut(BaseModel):
    """What the page needs to know once."""

    name: str
    identity: str
    n_items: int
    classes: list[str]
    kind: Literal["text", "image", "table"]
    text_columns: list[str]
    image_column: str | None
    columns: list[str]
    highlight: list[str]
    guidelines: str
    answers_wanted: int
    lease_minutes: int
    strategy: str
    version: str


class QueueOut(BaseModel):
    """``ready`` items wait for this annotator, ``out`` are with somebody."""

    ready: int
    out: int
    state: State
    message: str | None


class WhyOut(BaseModel):
    """What chose the item; ``batch`` is null where nobody did."""

    batch: int | None
    rank: int | None
    of: int | None
    score: float | None
    initial_score: float | None
    strategy: str | None
    sentence: str
    predicted: dict[str, float] | None


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
    outcome: Literal["new", "repeated", "revised"]


class StoredOut(BaseModel):
    """All answers of a request, in its order."""

    stored: list[StoredAnswer]


class PassOut(BaseModel):
    """A pass that is on disk."""

    position: int
    outcome: Literal["new", "repeated", "revised"]


class Was(BaseModel):
    """What was taken back: a label or a pass."""

    label: str | None = None
    kind: Kind | None = None
    comment: str | None = None


class UndoneOut(BaseModel):
    """The item is the annotator's again."""

    item: TaskOut
    was: Was


class LeasesOut(BaseModel):
    """Which of the items are still the annotator's, and until when."""

    mine: list[int]
    expires: float


class ReleasedOut(BaseModel):
    """How many items went back into the queue."""

    released: int


class AnnotatorOut(BaseModel):
    """Somebody with answers."""

    name: str
    answers: int
    source: Literal["person", "import", "machine"]
    last: str


class CurvePoint(BaseModel):
    """A stored report's expected error."""

    n_labels: int
    created: str
    mean: float
    low: float
    high: float


class PairOut(BaseModel):
    """Cohen's kappa of two annotators over the n items both have labelled."""

    a: str
    b: str
    kappa: float | None
    n: int


class AgreementOut(BaseModel):
    """Fleiss' kappa over the items with two or more labels."""

    fleiss: float | None
    n_items: int
    pairs: list[PairOut]


class ServerOut(BaseModel):
    """The server itself."""

    started: float
    version: str


class LiveOut(BaseModel):
    """Progress; with ``?since`` of the current revision only ``unchanged``, ``revision`` and
    ``queue``."""

    revision: str
    queue: QueueOut
    unchanged: bool = False
    labelled: int | None = None
    n_items: int | None = None
    answers: int | None = None
    out: int | None = None
    queued: int | None = None
    passed: int | None = None
    class_balance: dict[str, int] | None = None
    annotators: list[AnnotatorOut] | None = None
    report: dict[str, Any] | None = None
    history: list[CurvePoint] | None = None
    agreement: AgreementOut | None = None
    server: ServerOut | None = None


class Points(BaseModel):
    """Columns of equal length; state 0 unlabelled, 1 queued, 2 out, 3 labelled; class -1 is none."""

    position: list[int]
    x: list[float]
    y: list[float]
    state: list[int]
    label: list[int]
    predicted: list[int]


class MapOut(BaseModel):
    """Items in two dimensions; ``explained`` are the axes' shares of the variance."""

    n_total: int
    points: Points
    explained: list[float]
    message: str | None = None


class ItemRow(BaseModel):
    """An item in a list."""

    position: int
    id: str
    snippet: str
    image: str | None
    label: str | None
    answers: dict[str, str]
    passes: dict[str, str]
    predicted: dict[str, float] | None


class ItemsOut(BaseModel):
    """A part of the list; ask for what comes after ``next`` until it is null."""

    items: list[ItemRow]
    next: int | None
    total: int | None = None


class HistoryRow(BaseModel):
    """An answer as it was given; ``label`` is null where one was withdrawn."""

    answer: int
    annotator: str
    label: str | None
    source: str
    comment: str | None
    created: str
    revision: int


class ItemOut(ItemRow):
    """Everything about an item."""

    content: dict[str, Any]
    history: list[HistoryRow]
