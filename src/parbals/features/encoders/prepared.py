"""Items made ready for an encoder, and those that cannot be: found, named, and told."""

import os
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from parbals.errors import InputError
from parbals.features.encoders.base import BadItem, Encoder, Items

__all__ = [
    "SHOWN",
    "Prepared",
    "UnreadableError",
    "as_now",
    "bad_of",
    "clause",
    "prepared",
    "without_pillow_warnings",
]

SHOWN = 5
_THREADS = 8


class UnreadableError(InputError):
    """Items that cannot be read, in clauses such as "2 of 30 images cannot be read: ..."."""

    def __init__(self, *clauses: str) -> None:
        self.clauses = clauses
        super().__init__(
            f"{'; '.join(clauses)}; replace them and run it again (what is done is kept), or leave "
            "them out with --skip-bad."
        )

    def joined(self, clause: str | None) -> "UnreadableError":
        """The same with those of another part."""
        return self if clause is None else UnreadableError(*self.clauses, clause)


@dataclass(frozen=True)
class Prepared:
    """One item after ``prepare``, or why it cannot be used."""

    name: str
    value: Any = None
    why: str | None = None


def prepared(
    encoder: Encoder, items: Iterable[tuple[str, Any]], block_rows: int
) -> Iterator[list[Prepared]]:
    """Blocks of prepared items; the next one is being prepared while the last is used."""

    def one(pair: tuple[str, Any]) -> Prepared:
        try:
            return Prepared(pair[0], encoder.prepare(pair[1]))
        except BadItem as error:
            return Prepared(pair[0], why=str(error))

    walk = iter(items)
    if encoder.kind == "text":  # cut into words where it is encoded; there is nothing to wait for
        while block := [one(pair) for pair in islice(walk, block_rows)]:
            yield block
        return
    with ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1)) as pool:

        def begin() -> list[Future[Prepared]]:
            return [pool.submit(one, pair) for pair in islice(walk, block_rows)]

        try:
            coming = begin()
            while coming:
                ready, coming = coming, begin()
                yield [future.result() for future in ready]
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def bad_of(block: list[Prepared], start: int) -> list[dict[str, Any]]:
    return [
        {"row": start + place, "name": one.name, "why": one.why}
        for place, one in enumerate(block)
        if one.why is not None
    ]


def as_now(skipped: list[dict[str, Any]], items: Items) -> list[dict[str, Any]]:
    """Skipped rows under the names their items have today: a file may have been moved since."""
    if not skipped:
        return []
    last = max(bad["row"] for bad in skipped)
    names = [name for name, _ in islice(items(), last + 1)]
    return [{**bad, "name": names[bad["row"]]} for bad in skipped]


def clause(bad: list[dict[str, Any]], n_items: int, kind: str, listed: Path | None) -> str:
    """``listed`` is the file with the names that are not shown; without it more of them are."""
    shown = SHOWN if listed else 2 * SHOWN
    named = ", ".join(f"{one['name']} ({one['why']})" for one in bad[:shown])
    more = (
        f" and {len(bad) - shown} more" + (f", listed in {listed}" if listed else "")
        if len(bad) > shown
        else ""
    )
    return f"{len(bad)} of {n_items} {kind}s cannot be read: {named}{more}"


class without_pillow_warnings(warnings.catch_warnings):
    """Pillow warns about what is then refused, or is harmless; its threads share the filters set
    here."""

    def __enter__(self) -> None:
        super().__enter__()
        warnings.filterwarnings("ignore", module=r"PIL\b.*")
