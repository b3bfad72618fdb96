"""Whose row is this? Ids as they come back from a spreadsheet."""

from collections.abc import Sequence

from parbals.errors import InputError
from parbals.readers.answers import FilledRow
from parbals.store.store import Store

__all__ = ["positions_of_answers", "positions_of_ids"]


def positions_of_answers(store: Store, answers: Sequence[FilledRow], name: str) -> list[int]:
    """The item of every row.

    A spreadsheet turns 007 into 7 and 1 into 1.0: that is understood if it is unambiguous.
    """
    places = positions_of_ids(store, [answer.id for answer in answers])
    for answer in answers:
        if len(found := places[answer.id]) != 1:
            what = (
                "no item of this project"
                if not found
                else "several items of this project, written differently"
            )
            raise InputError(
                f"{name}, row {answer.row}: the id {answer.id!r} names {what}; nothing was stored."
            )
    return [places[answer.id][0] for answer in answers]


def positions_of_ids(store: Store, ids: Sequence[str]) -> dict[str, list[int]]:
    """Every item that an id may mean: one if it is written exactly, else those that a spreadsheet
    would write so."""
    places = {name: [position] for name, position in store.known_positions(ids).items()}
    missing = [name for name in ids if name not in places]
    if missing:
        by_number: dict[str, list[int]] = {}
        for item in store.iter_items():
            by_number.setdefault(_as_number(item.id), []).append(item.position)
        places |= {name: by_number.get(_as_number(name), []) for name in missing}
    return places


def _as_number(text: str) -> str:
    """What a spreadsheet would make of it."""
    stripped = text.strip()
    whole = stripped.removesuffix(".0")
    return whole.lstrip("0") or "0" if whole.isdigit() else stripped
