"""What goes into a project and comes out of it: small frozen records."""

from dataclasses import dataclass
from typing import Any

__all__ = ["Answer", "BatchItem", "BatchRecord", "Event", "Item", "Report", "Submission", "SubmitResult"]


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to label; ``content`` holds its columns."""

    position: int
    id: str
    content: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Submission:
    """A label on its way in; a retry with the same ``request_id`` is free."""

    position: int
    label: str
    request_id: str | None = None
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class SubmitResult:
    """How many answers were new, already there, or corrections; ``answers`` are their numbers, in the order given."""

    new: int = 0
    repeated: int = 0
    revised: int = 0
    answers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """One stored answer; ``label`` is None where the annotator withdrew an earlier one.

    ``item_id`` is None only for salvaged answers whose item could not be read.
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
    """Something worth remembering that happened to the project."""

    event: int
    created: str
    kind: str
    detail: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Report:
    """A stored report, and how many labels there were when it was written."""

    report: int
    created: str
    n_labels: int
    body: dict[str, Any]
