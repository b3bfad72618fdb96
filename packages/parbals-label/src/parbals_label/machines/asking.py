"""Ask a program about a batch, again where answers are missing; answers are stored at once."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import Protocol

from parbals_label.answer_form import AnswerForm
from parbals_label.machines.json_lines import Reply, Tally
from parbals_label.machines.programs import Ending
from parbals_label.machines.rate import MINUTE, RateLimit
from parbals_label.store.records import Item

__all__ = ["Asking", "BatchOutcome", "MachineAnnotator", "Rules"]

_POLL_SECONDS = 0.1
"""How often time and the request to stop are checked while a program is silent."""
_MAX_NOTES = 5
"""Unusable lines that are reported one by one; further ones are counted."""
_EXIT_SECONDS = 5.0
"""Time that a program may run on after everything was answered."""
_MAX_PAUSE_SECONDS = 60.0
"""Longest pause between two attempts: services limit their rate by the minute."""
_MIN_LEASE_SECONDS = 1800.0
_NO_LINE = "no line about it came back"


class Conversation(Protocol):
    """A batch that an annotator works on; its answers are JSON lines."""

    def receive(self, seconds: float) -> list[bytes] | Ending | None:
        """The next lines, or how it ended; None if nothing came in that time."""

    def abort(self) -> None:
        """End it; what has arrived can still be received."""

    def close(self) -> None:
        """End it, and remove what belongs to it."""

    def last_error(self) -> str:
        """The last line of its error output; "" if none."""


class MachineAnnotator(Protocol):
    """A program or a model that can be asked about items."""

    @property
    def name(self) -> str:
        """Its name, for the log."""

    def ask(self, items: Sequence[Item], form: AnswerForm) -> Conversation:
        """Start to ask about these items."""


StoreReplies = Callable[[list[tuple[Item, Reply]]], None]


@dataclass(frozen=True)
class Rules:
    """How a run proceeds, and when it ends.

    Attributes:
        batch_size: items of a batch.
        budget: labels after which the run ends.
        rate: items sent in any minute at most, retries included.
        retries: further attempts for items without an answer.
        timeout: longest silence in seconds after the last usable answer.
        first_wait: seconds before the first retry; doubled for each further one.
        costs: annotator → cost of an answer; the program is then asked only where its answer has
            more information per cost than others' answers.
    """

    batch_size: int = 20
    budget: int | None = None
    rate: int | None = None
    retries: int = 3
    timeout: float = 120.0
    first_wait: float = 1.0
    costs: dict[str, float] | None = None

    @property
    def lease_seconds(self) -> float:
        """The time that a batch takes if every attempt is slow; at least half an hour."""
        waiting = 0.0 if self.rate is None else MINUTE * (1.0 + self.batch_size / self.rate)
        return max(
            _MIN_LEASE_SECONDS, (self.retries + 1) * (self.timeout + waiting + _MAX_PAUSE_SECONDS)
        )


@dataclass
class BatchOutcome:
    """The outcome of a batch.

    Attributes:
        n_labelled: items that were labelled; abstentions do not count.
        failed: items without an answer after all attempts, each with the reason.
        unasked: items without an answer because the run was stopped.
        final: the reason why no further batch can succeed, if that is known.
        is_too_costly: nothing more may be spent.
    """

    n_labelled: int = 0
    failed: list[tuple[Item, str]] = field(default_factory=list)
    unasked: list[Item] = field(default_factory=list)
    final: str | None = None
    is_too_costly: bool = False


@dataclass(frozen=True)
class Asking:
    """Asks a program about batches, until ``stop`` is set.

    ``before_request`` is called before anything is sent, and again and again while answers are
    awaited; it may set ``stop``.
    """

    program: MachineAnnotator
    form: AnswerForm
    rules: Rules
    stop: Event
    say: Callable[[str], None]
    rate_limit: RateLimit = field(default_factory=lambda: RateLimit(None))
    former_classes: Mapping[str, str] = field(default_factory=dict)
    before_request: Callable[[], None] = lambda: None

    def batch(self, items: Sequence[Item], store_replies: StoreReplies) -> BatchOutcome:
        """Ask about these items; ``store_replies`` is called with valid replies as they arrive."""
        tally = Tally(items, self.form, self.former_classes)
        outcome = BatchOutcome()
        faults: dict[str, str] = {}
        waiting = list(items)
        for attempt in range(self.rules.retries + 1):
            pause = min(_MAX_PAUSE_SECONDS, self.rules.first_wait * 2.0 ** (attempt - 1))
            if attempt and self.stop.wait(pause):
                break
            self._try(waiting, tally, store_replies, outcome, faults)
            waiting = [item for item in waiting if item.id in tally.missing]
            # An item that crashes the program is the first unanswered one: ask it last now.
            waiting = waiting[1:] + waiting[:1]
            if not waiting or self._is_over(outcome):
                break
        outcome.n_labelled = tally.n_labelled
        self._say_notes(tally)
        if self.stop.is_set():
            outcome.unasked = waiting
            return outcome
        if outcome.is_too_costly:
            outcome.unasked = [item for item in waiting if item.id not in tally.reasons]
            waiting = [item for item in waiting if item.id in tally.reasons]
        order = {item.id: rank for rank, item in enumerate(items)}
        reasons = faults | tally.reasons
        outcome.failed = [
            (item, reasons.get(item.id, _NO_LINE))
            for item in sorted(waiting, key=lambda item: order[item.id])
        ]
        return outcome

    def _try(
        self,
        waiting: list[Item],
        tally: Tally,
        store_replies: StoreReplies,
        outcome: BatchOutcome,
        faults: dict[str, str],
    ) -> None:
        """Ask about all items once, in smaller groups where a rate limit requires it."""
        size = len(waiting)
        if self.rate_limit.rate is not None:
            size = min(size, self.rate_limit.rate)
        for start in range(0, len(waiting), size):
            items = waiting[start : start + size]
            if self.stop.wait(self.rate_limit.delay(len(items))):
                break
            self.rate_limit.record(len(items))
            self._ask_once(items, tally, store_replies, outcome, faults)
            if self._is_over(outcome):
                break

    def _ask_once(
        self,
        items: list[Item],
        tally: Tally,
        store_replies: StoreReplies,
        outcome: BatchOutcome,
        faults: dict[str, str],
    ) -> None:
        """Run the program on these items, and store its answers until it ends."""
        self.before_request()
        if self.stop.is_set():
            return
        conversation = self.program.ask(items, self.form)
        try:
            ending = self._listen(conversation, items, tally, store_replies)
            error_line = conversation.last_error()
        finally:
            conversation.close()
        unanswered = [item for item in items if item.id in tally.missing]
        fault = ending.fault or _NO_LINE
        if error_line and error_line not in fault:
            fault += f" (standard error ends with: {error_line})"
        faults.update({item.id: fault for item in unanswered})
        if ending.fault is not None and not unanswered:
            self.say(f"All {len(items)} items were answered, but {ending.fault}.")
        if ending.final:
            outcome.final = ending.fault
        outcome.is_too_costly = ending.is_too_costly

    def _is_over(self, outcome: BatchOutcome) -> bool:
        """Whether nothing more is asked about this batch."""
        return bool(outcome.final or outcome.is_too_costly or self.stop.is_set())

    def _listen(
        self,
        conversation: Conversation,
        items: list[Item],
        tally: Tally,
        store_replies: StoreReplies,
    ) -> Ending:
        """Store replies until the program ends, is silent for too long, or the run is stopped."""
        open_ids = {item.id for item in items}
        last_answer_at = time.monotonic()
        while True:
            self.before_request()
            received = None if self.stop.is_set() else conversation.receive(_POLL_SECONDS)
            if isinstance(received, Ending):
                return received
            replies = tally.accept_all(received or [])
            if replies:
                store_replies(replies)
                open_ids -= {item.id for item, _ in replies}
                last_answer_at = time.monotonic()
            reason = self._reason_to_abort(bool(open_ids), time.monotonic() - last_answer_at)
            if reason is None:
                continue
            conversation.abort()
            while isinstance(received := conversation.receive(0), list):
                replies = tally.accept_all(received)
                if replies:
                    store_replies(replies)
            return Ending(reason)

    def _reason_to_abort(self, has_open_items: bool, silent_seconds: float) -> str | None:
        """Why the program must be ended now; None if it may go on."""
        timeout = self.rules.timeout
        if self.stop.is_set():
            return "the run was stopped"
        if has_open_items and silent_seconds > timeout:
            return f"no usable answer came for {timeout:g} s"
        if not has_open_items and silent_seconds > min(timeout, _EXIT_SECONDS):
            return "it did not exit although everything was answered"
        return None

    def _say_notes(self, tally: Tally) -> None:
        """Report lines that could not be used."""
        for note in tally.notes[:_MAX_NOTES]:
            self.say(f"Ignored: {note}.")
        if len(tally.notes) > _MAX_NOTES:
            self.say(
                f"Ignored: {len(tally.notes) - _MAX_NOTES:,} more lines that could not be used."
            )
