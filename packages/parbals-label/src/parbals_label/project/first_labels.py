"""The labels of a sample when it was complete first, and its result known.

Later labels were given by people who may have seen the result, so a statement counts them. An item
is complete with the labels that it needs, with an owner's final label, or skipped; a sample is
complete when all of its items are.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

from parbals_label.answer_form import AnswerForm
from parbals_label.project.consensus import aggregate_labels
from parbals_label.store.current import PASS_UNDONE
from parbals_label.store.records import Answer, Pass

__all__ = ["first_labels", "votes_of"]


def first_labels(
    form: AnswerForm,
    positions: Sequence[int],
    answers: Sequence[Answer],
    passes: Sequence[Pass],
    n_wanted: int = 1,
    *,
    each: bool = False,
) -> dict[int, str | None]:
    """Position → consensus label when the sample was complete first; None where it was skipped.

    Empty if the sample never was complete.

    Args:
        form: the task and its classes.
        positions: of the sample's items.
        answers: all answers to these items that count, in order.
        passes: all passes that complete an item, in order; none where skipped items are not errors.
        n_wanted: the labels that an item needs.
        each: take each item when it was complete itself: the result of a sample that is kept is
            known at any time. Items that never were complete are left out.
    """
    # Passes first: of two entries in the same millisecond the label may have come later.
    entries: list[Answer | Pass] = [*passes, *answers]
    entries.sort(key=attrgetter("created"))
    groups = [[position] for position in positions] if each else [list(positions)]
    entries_of: dict[int, list[Answer | Pass]] = defaultdict(list)
    for entry in entries:
        entries_of[entry.position].append(entry)
    labels: dict[int, str | None] = {}
    for group in groups:
        own_entries = entries_of[group[0]] if each else entries
        known = _until_complete(group, own_entries, n_wanted)
        if known is not None:
            consensus = aggregate_labels(votes_of(known), form)
            labels |= {position: consensus.get(position) for position in group}
    return labels


def _until_complete(
    positions: Iterable[int], entries: Sequence[Answer | Pass], n_wanted: int
) -> list[Answer] | None:
    """The answers up to the entry that completed all items; None if there is none."""
    missing = set(positions)
    answers: list[Answer] = []
    latest: dict[int, dict[str, Answer]] = defaultdict(dict)
    passed: dict[int, set[str]] = defaultdict(set)
    for entry in entries:
        position = entry.position
        if isinstance(entry, Answer):
            answers.append(entry)
            latest[position][entry.annotator] = entry
        elif entry.kind == PASS_UNDONE:
            passed[position].discard(entry.annotator)
        else:
            passed[position].add(entry.annotator)
        if _is_complete(latest[position], passed[position], n_wanted):
            missing.discard(position)
        else:
            missing.add(position)
        if not missing:
            return answers
    return None


def _is_complete(latest: Mapping[str, Answer], passed: set[str], n_wanted: int) -> bool:
    """Whether an item has its labels or was skipped."""
    labelled = {name for name, answer in latest.items() if answer.label is not None}
    is_decided = any(latest[name].source == "decision" for name in labelled)
    return is_decided or len(labelled) >= n_wanted or bool(passed - labelled)


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
