"""Whose row is this? Ids as they come back from a spreadsheet."""

from collections.abc import Sequence

from parbals.errors import InputError
from parbals.project.answer_files import FilledRow
from parbals.project.store import Store

__all__ = ["positions_of_answers"]


def positions_of_answers(store: Store, answers: Sequence[FilledRow], name: str) -> list[int]:
    """The item of every row. A spreadsheet turns 007 into 7 and 1 into 1.0: that is understood if it is unambiguous."""
    known = store.known_positions([answer.id for answer in answers])
    missing = [answer for answer in answers if answer.id not in known]
    if missing:
        by_number: dict[str, list[int]] = {}
        for item in store.iter_items():
            by_number.setdefault(_as_number(item.id), []).append(item.position)
        for answer in missing:
            found = by_number.get(_as_number(answer.id), [])
            if len(found) != 1:
                what = "no item of this project" if not found else "several items of this project, written differently"
                raise InputError(f"{name}, row {answer.row}: the id {answer.id!r} names {what}; nothing was stored.")
            known[answer.id] = found[0]
    return [known[answer.id] for answer in answers]


def _as_number(text: str) -> str:
    """What a spreadsheet would make of it."""
    stripped = text.strip()
    whole = stripped.removesuffix(".0")
    return whole.lstrip("0") or "0" if whole.isdigit() else stripped
