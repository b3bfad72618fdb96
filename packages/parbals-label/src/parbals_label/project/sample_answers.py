"""What people answered about the items of a random sample: the one place that counts it.

Whoever states a measured error, shows its progress, or hides predictions until it is known, asks
:func:`read_answers`.

*Labels.* The answers that count are those of people (:mod:`parbals_label.store.counted`). Where an
item has several, its label is the most frequent one. Where two are equally frequent it is not
known: neither the model nor the order of the answers decides.

*Skips.* A skip leaves the item to the other active people: annotators with a link, everybody who
labelled or skipped something in the thirty days before the draw, and everybody who answers or skips
an item of the sample. An item is *open* until it has the labels that it needs, an owner's final
label, or a skip and nobody else to ask; the sample is complete when no item is open. Who comes
after that is not waited for. Nor is whoever gives labels by a command without a name, who cannot
skip, nor anybody whose link was revoked.

*Changes.* Labels that were given after the sample was complete came from people who may have known
its result, so its labels at that time are told apart.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import attrgetter

from parbals_label.answer_form import AnswerForm
from parbals_label.project.consensus import aggregate_labels, tied_positions
from parbals_label.store.current import PASS_UNDONE
from parbals_label.store.names import UNNAMED, name_key
from parbals_label.store.people import ANNOTATOR
from parbals_label.store.records import Answer, BatchRecord, Pass
from parbals_label.store.store import Store

__all__ = [
    "SampleAnswers",
    "counted_labels",
    "divided_positions",
    "first_labels",
    "read_answers",
    "votes_of",
]

_ACTIVE_DAYS = 30
"""People who did something in so many days before the draw may still answer."""


@dataclass(frozen=True)
class SampleAnswers:
    """The answers of people to the items of a sample.

    Attributes:
        labels: position → consensus label.
        tied: positions whose most frequent labels are equally frequent.
        skips: position without an answer → who skipped it.
        open: positions that people may still answer.
        at_first: position → label when the sample was complete for the first time, None where it
            was not known; empty if the sample never was complete.
    """

    labels: dict[int, str]
    tied: frozenset[int]
    skips: dict[int, tuple[str, ...]]
    open: frozenset[int]
    at_first: dict[int, str | None]

    @property
    def is_complete(self) -> bool:
        """Whether every item is answered, or was skipped by everybody who might answer it."""
        return not self.open


def read_answers(store: Store, sample: BatchRecord, until: str | None = None) -> SampleAnswers:
    """Count what people answered about a sample, now or ``until`` a time (see ``utc_now``)."""
    positions = [item.position for item in sample.items]
    answers = [a for a in store.counted_history(positions) if until is None or a.created <= until]
    passes = [p for p in store.counted_passes(positions) if until is None or p.created <= until]
    # Passes first: of two entries in the same millisecond the label may have come later.
    entries: list[Answer | Pass] = [*passes, *answers]
    entries.sort(key=attrgetter("created"))
    tally = _Tally(positions, sample.settings.get("answers_wanted", 1), sample.created)
    if passes:
        tally.set_people(store)
    at_first: dict[int, str | None] = {}
    for entry in entries:
        tally.add(entry)
        if not tally.open and not tally.is_known:
            tally.is_known = True
            labels = _untied_labels(tally.votes(), store.form)
            at_first = {position: labels.get(position) for position in positions}
    votes = votes_of(answers)
    labels = _untied_labels(votes, store.form)
    return SampleAnswers(
        labels=labels,
        tied=frozenset(votes.keys() - labels.keys()),
        skips={p: names for p, names in tally.skips().items() if p not in votes},
        open=frozenset(tally.open),
        at_first=at_first,
    )


def counted_labels(store: Store, positions: Sequence[int]) -> dict[int, str]:
    """Position → consensus label of the answers that count; ties are left out."""
    return _untied_labels(votes_of(store.counted_history(positions)), store.form)


def divided_positions(store: Store, positions: Sequence[int]) -> set[int]:
    """Positions of these items on which the people whose answers count are divided."""
    votes = votes_of(store.counted_history(positions))
    return votes.keys() - _untied_labels(votes, store.form).keys()


def first_labels(
    form: AnswerForm, positions: Iterable[int], answers: Sequence[Answer], n_wanted: int
) -> dict[int, str | None]:
    """Position → label of each item when it was answered itself; None where people were divided.

    The result of a sample that is kept is known at any time. Items that were never answered by
    ``n_wanted`` people are left out.

    Args:
        form: the task and its classes.
        positions: of the sample's items.
        answers: all answers to them that count, in order.
        n_wanted: the labels that an item needs.
    """
    labels: dict[int, str | None] = {}
    tallies = {position: _Tally([position], n_wanted) for position in positions}
    for answer in answers:
        position = answer.position
        if position in tallies and position not in labels:
            tallies[position].add(answer)
            if not tallies[position].open:
                votes = tallies[position].votes()
                labels[position] = _untied_labels(votes, form).get(position)
    return labels


def votes_of(answers: Iterable[Answer]) -> dict[int, dict[str, str]]:
    """Position → annotator → their latest label; a final label of an owner stands alone.

    Args:
        answers: also earlier ones, in order.
    """
    latest: dict[int, dict[str, Answer]] = {}
    for answer in answers:
        latest.setdefault(answer.position, {})[answer.annotator] = answer
    votes: dict[int, dict[str, str]] = {}
    for position, by_annotator in latest.items():
        labelled = {
            name: answer for name, answer in by_annotator.items() if answer.label_now is not None
        }
        decided = {name: a for name, a in labelled.items() if a.source == "decision"}
        chosen = decided or labelled
        if chosen:
            votes[position] = {name: str(answer.label_now) for name, answer in chosen.items()}
    return votes


def _untied_labels(votes: dict[int, dict[str, str]], form: AnswerForm) -> dict[int, str]:
    """Position → consensus label, without ties."""
    tied = tied_positions(votes, form)
    return aggregate_labels({p: own for p, own in votes.items() if p not in tied}, form)


class _Tally:
    """Counts answers and passes in the order in which they came.

    Attributes:
        open: positions that people may still answer.
        is_known: the sample has been complete, so nobody further is waited for.
    """

    def __init__(self, positions: Iterable[int], n_wanted: int, drawn: str = "") -> None:
        self.open = set(positions)
        self.is_known = False
        self._n_wanted = n_wanted
        self._drawn = drawn
        self._active: set[str] = set()
        self._absent = {UNNAMED}
        self._invited: dict[str, str] = {}
        self._answers: dict[int, dict[str, Answer]] = {position: {} for position in self.open}
        self._skips: dict[int, dict[str, None]] = {position: {} for position in self.open}

    def set_people(self, store: Store) -> None:
        """Read who was active at the draw, who was invited when, and whose link was revoked."""
        since = datetime.fromisoformat(self._drawn) - timedelta(days=_ACTIVE_DAYS)
        people = store.people()
        self._absent |= {name_key(person.name) for person in people if not person.invited}
        annotators = [person for person in people if person.role == ANNOTATOR]
        self._invited = {name_key(person.name): person.created for person in annotators}
        names = store.active_between(since.isoformat(timespec="milliseconds"), self._drawn)
        self._active = {name_key(name) for name in names} - self._absent

    def add(self, entry: Answer | Pass) -> None:
        """Count one entry."""
        is_vote = True
        if isinstance(entry, Answer):
            self._answers[entry.position][entry.annotator] = entry
            is_vote = entry.label is not None
        elif entry.kind == PASS_UNDONE:
            self._skips[entry.position].pop(entry.annotator, None)
        else:
            self._skips[entry.position][entry.annotator] = None
        positions: Iterable[int] = [entry.position]
        if not self.is_known:
            newcomers = {key for key, date in self._invited.items() if date <= entry.created}
            if is_vote and entry.created >= self._drawn:
                newcomers.add(name_key(entry.annotator))
            newcomers -= self._active | self._absent
            if newcomers:
                self._active |= newcomers
                positions = self._answers
        for position in positions:
            if self._is_open(position):
                self.open.add(position)
            else:
                self.open.discard(position)

    def votes(self) -> dict[int, dict[str, str]]:
        """Position → annotator → label."""
        return votes_of(answer for own in self._answers.values() for answer in own.values())

    def skips(self) -> dict[int, tuple[str, ...]]:
        """Position → who skipped it and has not labelled it."""
        skips = {}
        for position, names in self._skips.items():
            labelled = self._labelled(position)
            left = tuple(name for name in names if name not in labelled)
            if left:
                skips[position] = left
        return skips

    def _labelled(self, position: int) -> set[str]:
        answers = self._answers[position].items()
        return {name for name, answer in answers if answer.label is not None}

    def _is_open(self, position: int) -> bool:
        """Whether an item needs another label and somebody is left to ask."""
        labelled = self._labelled(position)
        is_decided = any(self._answers[position][name].source == "decision" for name in labelled)
        if is_decided or len(labelled) >= self._n_wanted:
            return False
        skipped = self._skips[position].keys() - labelled
        return not skipped or not self._active <= set(map(name_key, labelled | skipped))
