"""The protocol of machine annotators: JSON lines, checked one by one.

To the program, one line for each item:
    {"id": "017", "position": 16, "classes": ["ham", "spam"], "content": {"message": "..."}}
For other tasks than one class, "task" names it, and a label is a list or a number. From the
program, in any order; the label null abstains, comment and confidence are optional:
    {"id": "017", "label": "spam", "comment": "mentions a prize", "confidence": 0.93}
or, where there is no answer, {"id": "017", "error": "the service is busy"}.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from parbals.errors import LabelError
from parbals.wording import without_controls

from parbals_label.answer_form import AnswerForm
from parbals_label.readers.answers import Classes
from parbals_label.readers.cells import plain_text
from parbals_label.readers.json_files import without_repeats
from parbals_label.readers.source import short
from parbals_label.store.records import Item

__all__ = ["MAX_COMMENT", "BadLine", "Reply", "Tally", "parse_line", "request_lines"]

MAX_COMMENT = 4_000
"""Characters of a comment that are stored."""
_MAX_ERROR = 400
"""Characters of an error message that are shown."""


class BadLine(ValueError):
    """A line that cannot be used: the reason, and the id of its item if that can be read."""

    def __init__(self, reason: str, item: str | None = None) -> None:
        super().__init__(reason)
        self.item = item


@dataclass(frozen=True, slots=True)
class Reply:
    """One valid line; ``label`` is None where the annotator abstains."""

    id: str
    label: str | None
    comment: str | None = None
    confidence: float | None = None

    def remark(self) -> str | None:
        """Confidence and comment as compact JSON, stored as the answer's comment; None without.

        >>> Reply("017", "spam", confidence=0.93).remark()
        '{"confidence":0.93}'
        """
        fields: dict[str, Any] = {}
        if self.confidence is not None:
            fields["confidence"] = self.confidence
        if self.comment is not None:
            fields["comment"] = self.comment
        if not fields:
            return None
        return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))


def request_lines(items: Sequence[Item], form: AnswerForm) -> bytes:
    """The lines to send, in UTF-8."""
    task_fields: dict[str, Any] = {} if form.task == "classes" else {"task": form.task}
    task_fields["classes"] = list(form.classes)
    lines = []
    for item in items:
        record = {
            "id": item.id,
            "position": item.position,
            **task_fields,
            "content": item.content,
        }
        lines.append(json.dumps(record, ensure_ascii=False, allow_nan=False))
    return "".join(f"{line}\n" for line in lines).encode()


def parse_line(line: bytes, form: AnswerForm, classes: Classes) -> Reply:
    """Parse and check a line; :class:`BadLine` if it cannot be stored.

    ``classes`` matches names as `parbals tell` does: surrounding blanks and capitals are ignored.
    """
    try:
        text = line.decode()
    except UnicodeDecodeError:
        raise BadLine(f"a line is not UTF-8: {short(line.decode(errors='replace'))}") from None
    try:
        record = json.loads(text, object_pairs_hook=without_repeats)
    except (ValueError, RecursionError):
        raise BadLine(f"a line is not JSON: {short(text)}") from None
    if not isinstance(record, dict) or not isinstance(record.get("id"), str):
        raise BadLine(f"a line is not an object with the text `id`: {short(text)}")
    item = record["id"]
    if "label" not in record and isinstance(record.get("error"), str):
        raise BadLine(_one_line(record["error"]) or "an error without a message", item)
    if "label" not in record:
        raise BadLine("its line has no `label` (null would abstain)", item)
    label = record["label"]
    if label is not None:
        try:
            label = classes.read(form, label, "its line")
        except LabelError:
            names = ", ".join(form.classes[:10]) + (", …" if len(form.classes) > 10 else "")
            expected = f"one of the classes {names}" if names else "a number"
            raise BadLine(f"its label {short(label)} is not {expected}", item) from None
    return Reply(
        id=item,
        label=label,
        comment=_comment(record.get("comment"), item),
        confidence=_confidence(record.get("confidence"), item),
    )


class Tally:
    """The answers to a batch so far, over all attempts.

    Attributes:
        missing: id → item that has no answer yet.
        reasons: id of a missing item → what was wrong with the last line about it.
        notes: one phrase for every unusable line that names no missing item.
    """

    def __init__(
        self,
        items: Sequence[Item],
        form: AnswerForm,
        former_classes: Mapping[str, str] | None = None,
    ) -> None:
        """``former_classes``: former names of classes → present names."""
        self.missing = {item.id: item for item in items}
        self.reasons: dict[str, str] = {}
        self.notes: list[str] = []
        self._form = form
        self._classes = Classes(form.classes, former_classes)
        self._replies: dict[str, Reply] = {}

    @property
    def n_labelled(self) -> int:
        """Number of items with a label; abstentions do not count."""
        return sum(reply.label is not None for reply in self._replies.values())

    def accept_all(self, lines: Sequence[bytes]) -> list[tuple[Item, Reply]]:
        """The items and replies of new, valid lines."""
        pairs = (self.accept(line) for line in lines)
        return [pair for pair in pairs if pair is not None]

    def accept(self, line: bytes) -> tuple[Item, Reply] | None:
        """The item and its reply, if the line is valid and new."""
        if not line.strip():
            return None
        try:
            reply = parse_line(line, self._form, self._classes)
        except BadLine as error:
            if error.item in self.missing:
                self.reasons[error.item] = str(error)
            else:
                about = "" if error.item is None else f" (item {short(error.item)})"
                self.notes.append(f"{error}{about}")
            return None
        first = self._replies.get(reply.id)
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
        self._replies[reply.id] = reply
        self.reasons.pop(reply.id, None)
        return item, reply


def _one_line(text: str) -> str:
    """A message in one line."""
    return without_controls(text).strip()[:_MAX_ERROR]


def _comment(value: Any, item: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise BadLine(f"its comment {short(value)} is not text", item)
    try:
        value = plain_text(value).strip()
    except ValueError as error:
        raise BadLine(f"its comment {error}", item) from None
    if len(value) > MAX_COMMENT:
        value = value[: MAX_COMMENT - 1] + "…"
    return value or None


def _confidence(value: Any, item: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise BadLine(f"its confidence {short(value)} is not a number from 0 to 1", item)
    return float(value)
