"""What goes to a machine annotator and what comes back: JSON lines, checked one by one.

To it, one line an item:
    {"id": "017", "position": 16, "classes": ["ham", "spam"], "content": {"message": "..."}}
Where labels are several or numbers, "task" says so, and a label is a list or a number. From it, in
any order; a label of null abstains, comment and confidence may be left out:
    {"id": "017", "label": "spam", "comment": "mentions a prize", "confidence": 0.93}
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from parbals.errors import LabelError

from parbals_label.answer_form import AnswerForm
from parbals_label.readers.cells import plain_text
from parbals_label.readers.json_files import without_repeats
from parbals_label.readers.source import short
from parbals_label.store.records import Item

__all__ = ["MAX_COMMENT", "BadLine", "Reply", "Tally", "parse_line", "request_lines"]

MAX_COMMENT = 4_000
"""Characters of a comment that are kept."""


class BadLine(ValueError):
    """A line that cannot be used: why, and the item it is about if that much can be read."""

    def __init__(self, reason: str, item: str | None = None) -> None:
        super().__init__(reason)
        self.item = item


@dataclass(frozen=True, slots=True)
class Reply:
    """One good line; ``label`` is None where the annotator abstains."""

    id: str
    label: str | None
    comment: str | None = None
    confidence: float | None = None

    def remark(self) -> str | None:
        """What is stored as the answer's comment: compact JSON of what was said, if it was."""
        parts = {"confidence": self.confidence, "comment": self.comment}
        said = {name: part for name, part in parts.items() if part is not None}
        return json.dumps(said, ensure_ascii=False, separators=(",", ":")) if said else None


def request_lines(items: Sequence[Item], form: AnswerForm) -> bytes:
    """The lines to send, in UTF-8."""
    kind: dict[str, Any] = {} if form.task == "classes" else {"task": form.task}
    kind["classes"] = list(form.classes)
    records = [{"id": i.id, "position": i.position, **kind, "content": i.content} for i in items]
    lines = (json.dumps(record, ensure_ascii=False, allow_nan=False) for record in records)
    return "".join(f"{line}\n" for line in lines).encode()


def parse_line(line: bytes, form: AnswerForm) -> Reply:
    """The reply in a line; ``BadLine`` where there is none that could be stored."""
    try:
        text = line.decode()
    except UnicodeDecodeError:
        raise BadLine(f"a line is not UTF-8: {short(line.decode(errors='replace'))}") from None
    try:
        said = json.loads(text, object_pairs_hook=without_repeats)
    except (ValueError, RecursionError):
        raise BadLine(f"a line is not JSON: {short(text)}") from None
    if not isinstance(said, dict) or not isinstance(said.get("id"), str):
        raise BadLine(f"a line is not an object with the text `id`: {short(text)}")
    item = said["id"]
    if "label" not in said:
        raise BadLine("its line has no `label` (null would abstain)", item)
    label = said["label"]
    if label is not None:
        try:
            label = form.read(label, form.known, "its line")
        except LabelError:
            listed = ", ".join(form.classes[:10]) + (", …" if len(form.classes) > 10 else "")
            wanted = f"one of the classes {listed}" if listed else "a number"
            raise BadLine(f"its label {short(label)} is not {wanted}", item) from None
    return Reply(
        item, label, _comment(said.get("comment"), item), _confidence(said.get("confidence"), item)
    )


class Tally:
    """Which items of a batch were answered, over all its tries."""

    def __init__(self, items: Sequence[Item], form: AnswerForm) -> None:
        self.missing = {item.id: item for item in items}
        self.reasons: dict[str, str] = {}
        """For items still missing: what was wrong with the last line about them."""
        self.notes: list[str] = []
        """One phrase for every line that could not be used and names no missing item."""
        self._form = form
        self._heard: dict[str, Reply] = {}

    def accept_all(self, lines: Sequence[bytes]) -> list[tuple[Item, Reply]]:
        return [pair for line in lines if (pair := self.accept(line)) is not None]

    def accept(self, line: bytes) -> tuple[Item, Reply] | None:
        """The item and its reply, if that is new and good."""
        if not line.strip():
            return None
        try:
            reply = parse_line(line, self._form)
        except BadLine as error:
            if error.item in self.missing:
                self.reasons[error.item] = str(error)
            else:
                about = "" if error.item is None else f" (item {short(error.item)})"
                self.notes.append(f"{error}{about}")
            return None
        first = self._heard.get(reply.id)
        if first is not None:
            if first.label != reply.label:
                labels = f"{short(first.label)} and then {short(reply.label)}"
                self.notes.append(
                    f"item {short(reply.id)} was answered twice, {labels}; the first counts"
                )
            return None
        item = self.missing.pop(reply.id, None)
        if item is None:
            self.notes.append(f"the id {short(reply.id)} was not asked about")
            return None
        self._heard[reply.id] = reply
        self.reasons.pop(reply.id, None)
        return item, reply


def _comment(value: Any, item: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise BadLine(f"its comment {short(value)} is not text", item)
    try:
        value = plain_text(value).strip()
    except ValueError as error:
        raise BadLine(f"its comment {error}", item) from None
    return (value if len(value) <= MAX_COMMENT else value[: MAX_COMMENT - 1] + "…") or None


def _confidence(value: Any, item: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise BadLine(f"its confidence {short(value)} is not a number from 0 to 1", item)
    return float(value)
