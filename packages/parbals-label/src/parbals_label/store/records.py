"""What goes into a project and comes out of it: small frozen records."""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

__all__ = ["ADDED", "CHANGED", "EXPORTED", "INVITED", "NEW_LINK", "RELEASED", "RENAMED_CLASS"]
__all__ += ["ADAPTED", "BACKED_UP", "LOGGED", "REVOKED", "ROLE", "TAKEN_BACK", "WITHDRAWN"]
__all__ += ["DECIDED", "ENDED", "FORGOTTEN", "IN_BULK", "SIGNED_IN", "Annotator", "SessionRow"]
__all__ += ["Answer", "BatchItem", "BatchRecord", "Event", "Item", "Lease", "Person", "QueueCounts"]
__all__ += ["Report", "Submission", "SubmitResult", "Why"]

CHANGED, RENAMED_CLASS, ADDED = "settings changed", "class renamed", "items added"
EXPORTED, TAKEN_BACK, RELEASED = "exported", "label taken back", "items given back"
INVITED, NEW_LINK, ROLE, REVOKED = "invited", "new link", "role changed", "link revoked"
WITHDRAWN, BACKED_UP, SIGNED_IN = "work taken back", "backed up", "signed in"
ENDED, FORGOTTEN = "session ended", "person removed"
ADAPTED, IN_BULK, DECIDED = "encoder adapted", "labelled in bulk", "decided"
"""Kinds of events."""
LOGGED = (
    *(CHANGED, RENAMED_CLASS, ADDED, EXPORTED, TAKEN_BACK, RELEASED),
    *(INVITED, NEW_LINK, ROLE, REVOKED, WITHDRAWN, BACKED_UP),
    *(SIGNED_IN, ENDED, FORGOTTEN, ADAPTED, IN_BULK, DECIDED),
)
"""The events that are somebody's decision; programs write others for themselves."""


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to label; ``content`` holds its columns."""

    position: int
    id: str
    content: dict[str, Any]

    def without(self, hidden: Collection[str]) -> "Item":
        """The same without these columns."""
        kept = {name: value for name, value in self.content.items() if name not in hidden}
        return replace(self, content=kept) if hidden else self


@dataclass(frozen=True, slots=True)
class Submission:
    """A label on its way in; a retry with its ``request_id`` is free, ``revise`` a correction."""

    position: int
    label: str
    request_id: str | None = None
    comment: str | None = None
    revise: bool = False


@dataclass(frozen=True, slots=True)
class SubmitResult:
    """How many answers were new, already there, or corrections; ``answers`` are their numbers.

    ``outcomes`` says for each of them 'new', 'repeated' or 'revised'.
    """

    new: int = 0
    repeated: int = 0
    revised: int = 0
    answers: tuple[int, ...] = ()
    outcomes: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """One stored answer; ``label`` is None where the annotator withdrew an earlier one.

    ``label`` is the name that the class had then, ``label_now`` the one it has now (not known of
    salvaged answers). ``item_id`` is None only for those whose item could not be read.
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
class Annotator:
    """Somebody who answered: how many labels they hold now, and the time of their latest answer."""

    name: str
    answers: int
    source: str
    last: str


@dataclass(frozen=True, slots=True)
class Lease:
    """An item that is an annotator's until ``expires`` (``moment()``), and why it was chosen."""

    position: int
    expires: float
    why: "Why | None"


@dataclass(frozen=True, slots=True)
class Why:
    """An item's place in its batch: ``rank`` counts from 0, ``size`` items are in the batch."""

    batch: int
    rank: int
    size: int
    score: float | None
    initial_score: float | None
    strategy: str


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """Items on the page: ``ready`` for who asks, ``free`` with nobody, ``out`` with somebody."""

    ready: int
    free: int
    out: int


@dataclass(frozen=True, slots=True)
class BatchItem:
    """One item of a batch; a score is None where the strategy gave none."""

    position: int
    rank: int
    score: float | None
    initial_score: float | None


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """A batch that was handed out, with what chose it."""

    batch: int
    created: str
    strategy: str
    seed: int | None
    settings: dict[str, Any]
    items: tuple[BatchItem, ...]


@dataclass(frozen=True, slots=True)
class Event:
    """Something worth remembering that happened to the project: what, who did it, from where."""

    event: int
    created: str
    kind: str
    detail: dict[str, Any]
    who: str
    origin: str


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody with a link of their own; ``invited`` is False once it was revoked or has run out.

    ``expires`` is when it does, in seconds since 1970; None: never.
    """

    name: str
    role: str
    invited: bool
    created: str
    expires: float | None = None


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A browser that is signed in; ``id`` tells it from others and opens nothing.

    ``name`` is None where the page's own link was used; times are in seconds since 1970.
    """

    id: str
    name: str | None
    place: str
    created: float
    expires: float


@dataclass(frozen=True, slots=True)
class Report:
    """A stored report, and how many labels there were when it was written."""

    report: int
    created: str
    n_labels: int
    body: dict[str, Any]
