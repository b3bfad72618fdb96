"""Frozen records that the store takes and returns, and the kinds of events."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

__all__ = [
    "ADAPTED",
    "ADDED",
    "ANSWER_UNDONE",
    "BACKED_UP",
    "CHANGED",
    "DECIDED",
    "ENDED",
    "EXPORTED",
    "INVITED",
    "IN_BULK",
    "LOGGED",
    "MEASURED",
    "MEASUREMENT_UNDONE",
    "NEW_LINK",
    "PERSON_REMOVED",
    "RELEASED",
    "RENAMED_CLASS",
    "REVOKED",
    "ROLE",
    "SIGNED_IN",
    "TARGET_ADDED",
    "TARGET_REMOVED",
    "WORK_REMOVED",
    "Annotator",
    "Answer",
    "BatchItem",
    "BatchRecord",
    "Event",
    "Item",
    "Lease",
    "Pass",
    "Person",
    "QueueCounts",
    "Report",
    "SessionRow",
    "Submission",
    "SubmitResult",
    "Why",
]

# Kinds of events. The texts are stored in the log of the project, so they must not change.
CHANGED = "settings changed"
RENAMED_CLASS = "class renamed"
ADDED = "items added"
TARGET_ADDED = "target set added"
TARGET_REMOVED = "target set removed"
EXPORTED = "exported"
ANSWER_UNDONE = "label taken back"
"""An owner undid an answer of somebody else."""
RELEASED = "items given back"
INVITED = "invited"
NEW_LINK = "new link"
ROLE = "role changed"
REVOKED = "link revoked"
WORK_REMOVED = "work taken back"
"""All labels and skips of a person were removed."""
BACKED_UP = "backed up"
SIGNED_IN = "signed in"
ENDED = "session ended"
PERSON_REMOVED = "person removed"
ADAPTED = "encoder adapted"
IN_BULK = "labelled in bulk"
MEASURED = "measurement begun"
MEASUREMENT_UNDONE = "measurement undone"
DECIDED = "decided"
"""An owner set the final label of items with different answers."""

LOGGED = (
    CHANGED,
    RENAMED_CLASS,
    ADDED,
    TARGET_ADDED,
    TARGET_REMOVED,
    EXPORTED,
    ANSWER_UNDONE,
    RELEASED,
    INVITED,
    NEW_LINK,
    ROLE,
    REVOKED,
    WORK_REMOVED,
    BACKED_UP,
    SIGNED_IN,
    ENDED,
    PERSON_REMOVED,
    ADAPTED,
    IN_BULK,
    DECIDED,
    MEASURED,
    MEASUREMENT_UNDONE,
)
"""Events that somebody decided, which the log shows; programs store others for themselves."""


@dataclass(frozen=True, slots=True)
class Item:
    """An item to label; ``content`` maps its columns to their values."""

    position: int
    id: str
    content: dict[str, Any]

    def without(self, hidden: Collection[str]) -> "Item":
        """Return the item without the hidden columns."""
        if not hidden:
            return self
        visible = {name: value for name, value in self.content.items() if name not in hidden}
        return replace(self, content=visible)


@dataclass(frozen=True, slots=True)
class Submission:
    """A label to store.

    A retry with the same ``request_id`` changes nothing. ``revise`` lets the label replace an
    earlier one of the annotator.
    """

    position: int
    label: str
    request_id: str | None = None
    comment: str | None = None
    revise: bool = False


@dataclass(frozen=True, slots=True)
class SubmitResult:
    """The numbers of new, repeated and revised answers of one call.

    ``answers`` are the numbers of the stored answers, and ``outcomes`` is 'new', 'repeated' or
    'revised' for each of them.
    """

    new: int = 0
    repeated: int = 0
    revised: int = 0
    answers: tuple[int, ...] = ()
    outcomes: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """A stored answer; ``label`` is None where the annotator undid an earlier one.

    ``label`` is the name that the class had then, ``label_now`` its present name (None in salvaged
    answers). ``item_id`` is None only if the item could not be read.
    """

    answer: int
    position: int
    annotator: str
    revision: int
    label: str | None
    source: str
    request: str | None
    comment: str | None
    created: str
    item_id: str | None = None
    label_now: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Pass:
    """A stored pass: an annotator skipped an item, was unsure, or took that back."""

    position: int
    annotator: str
    kind: str
    created: str


@dataclass(frozen=True, slots=True)
class Annotator:
    """An annotator, the number of their current labels, and the time of their latest answer."""

    name: str
    answers: int
    source: str
    last: str


@dataclass(frozen=True, slots=True)
class Lease:
    """An item assigned to an annotator until ``expires`` (see ``lease_clock``)."""

    position: int
    expires: float
    why: "Why | None"


@dataclass(frozen=True, slots=True)
class Why:
    """Why an item was chosen: its rank, from 0, in a batch of ``size`` items, and its scores."""

    batch: int
    rank: int
    size: int
    score: float | None
    initial_score: float | None
    strategy: str


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """Items in the queue of the page.

    Attributes:
        available: waiting items that the annotator has neither labelled nor skipped.
        waiting: items that are assigned to nobody.
        assigned: items that are assigned to an annotator.
    """

    available: int
    waiting: int
    assigned: int


@dataclass(frozen=True, slots=True)
class BatchItem:
    """An item of a batch; a score is None where the strategy computes none."""

    position: int
    rank: int
    score: float | None
    initial_score: float | None


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """A stored batch, with the strategy, seed and settings that chose it."""

    batch: int
    created: str
    strategy: str
    seed: int | None
    settings: dict[str, Any]
    items: tuple[BatchItem, ...]


@dataclass(frozen=True, slots=True)
class Event:
    """An entry of the project's log: what happened, who did it, and from which address."""

    event: int
    created: str
    kind: str
    detail: dict[str, Any]
    who: str
    origin: str


@dataclass(frozen=True, slots=True)
class Person:
    """A person with a personal link; ``invited`` is False once it was revoked or has expired.

    ``expires`` is the time when it expires, in seconds since 1970; None if never.
    """

    name: str
    role: str
    invited: bool
    created: str
    expires: float | None = None


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A browser that is signed in; ``id`` identifies the session and grants no access.

    ``name`` is None if the page's own link was used; times are in seconds since 1970.
    """

    id: str
    name: str | None
    place: str
    created: float
    expires: float


@dataclass(frozen=True, slots=True)
class Report:
    """A stored report, and the number of labels when it was written."""

    report: int
    created: str
    n_labels: int
    body: dict[str, Any]
