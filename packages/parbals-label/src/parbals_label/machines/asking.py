"""One batch, asked until everything is answered or the tries are used up; what comes is kept."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Event

from parbals_label.answer_form import AnswerForm
from parbals_label.machines.json_lines import Reply, Tally
from parbals_label.machines.programs import Conversation, Ending, Program
from parbals_label.machines.rate import MINUTE, RateLimit
from parbals_label.store.records import Item

__all__ = ["Asked", "Asking", "Rules"]

_TICK = 0.1
"""Seconds between looks at the clock and at the wish to stop, while a program is silent."""
_NOTES = 5
"""Lines that could not be used and are told one by one; the rest are counted."""
_LEAVE = 5.0
"""Seconds that a program may go on after everything was answered."""
_LONGEST = 60.0
"""Seconds between two tries, at most: services that limit a rate count by the minute."""

Keep = Callable[[list[tuple[Item, Reply]]], None]


@dataclass(frozen=True)
class Rules:
    """How a run goes on and when it ends.

    ``timeout`` is the longest silence after the last usable answer. ``costs`` of an answer, by
    annotator, let the program be asked only what is worth more for its cost than others' answers.
    At most ``rate`` items are sent in any minute, retries included.
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
        """What a batch takes whose every try is slow, and at least half an hour."""
        waiting = 0.0 if self.rate is None else MINUTE * (1.0 + self.batch_size / self.rate)
        return max(1800.0, (self.retries + 1) * (self.timeout + waiting + _LONGEST))


@dataclass
class Asked:
    """What became of a batch.

    Attributes:
        n_answered: items that were labelled or abstained on.
        failed: item and why, for those given up.
        unasked: items left over because the run was stopped.
        final: why no further batch can succeed, if that is known.
    """

    n_answered: int = 0
    failed: list[tuple[Item, str]] = field(default_factory=list)
    unasked: list[Item] = field(default_factory=list)
    final: str | None = None


@dataclass(frozen=True)
class Asking:
    """How batches are asked, until ``stop`` is set."""

    program: Program
    form: AnswerForm
    rules: Rules
    stop: Event
    say: Callable[[str], None]
    rate_limit: RateLimit = field(default_factory=lambda: RateLimit(None))

    def batch(self, items: Sequence[Item], keep: Keep) -> Asked:
        """Ask about these items; ``keep`` is called with the good replies as they arrive."""
        tally, asked, faults = Tally(items, self.form), Asked(), dict[str, str]()
        waiting = list(items)
        for attempt in range(self.rules.retries + 1):
            pause = min(_LONGEST, self.rules.first_wait * 2.0 ** (attempt - 1))
            if attempt and self.stop.wait(pause):
                break
            self._try(waiting, tally, keep, asked, faults)
            waiting = [item for item in waiting if item.id in tally.missing]
            # A program that dies of one item dies at the first unanswered one: now it goes last.
            waiting = waiting[1:] + waiting[:1]
            if not waiting or asked.final or self.stop.is_set():
                break
        asked.n_answered = len(items) - len(waiting)
        self._say_notes(tally)
        if self.stop.is_set():
            asked.unasked = waiting
        else:
            order = {item.id: rank for rank, item in enumerate(items)}
            reasons = faults | tally.reasons
            asked.failed = [
                (item, reasons.get(item.id, "no line about it came back"))
                for item in sorted(waiting, key=lambda item: order[item.id])
            ]
        return asked

    def _try(
        self, waiting: list[Item], tally: Tally, keep: Keep, asked: Asked, faults: dict[str, str]
    ) -> None:
        """Ask about all of them once, in parts where a rate limit demands it."""
        size = len(waiting)
        if self.rate_limit.rate is not None:
            size = min(size, self.rate_limit.rate)
        for start in range(0, len(waiting), size):
            items = waiting[start : start + size]
            if self.stop.wait(self.rate_limit.delay(len(items))):
                break
            self.rate_limit.record(len(items))
            self._ask_once(items, tally, keep, asked, faults)
            if asked.final or self.stop.is_set():
                break

    def _ask_once(
        self, items: list[Item], tally: Tally, keep: Keep, asked: Asked, faults: dict[str, str]
    ) -> None:
        """Start the program with these items, and take its answers until it ends."""
        conversation = self.program.ask(items, self.form)
        try:
            ending = self._listen(conversation, items, tally, keep)
        finally:
            conversation.close()
        if ending.fault is not None:
            left = [item for item in items if item.id in tally.missing]
            faults.update({item.id: ending.fault for item in left})
            if not left:
                self.say(f"All {len(items)} items were answered, but {ending.fault}.")
        if ending.final:
            asked.final = ending.fault

    def _listen(
        self, conversation: Conversation, part: list[Item], tally: Tally, keep: Keep
    ) -> Ending:
        open_ids = {item.id for item in part}
        heard = time.monotonic()
        while True:
            got = conversation.receive(_TICK)
            if isinstance(got, Ending):
                return got
            if got is not None and (new := tally.accept_all(got)):
                keep(new)
                open_ids -= {item.id for item, _ in new}
                heard = time.monotonic()
            silent = time.monotonic() - heard
            if self.stop.is_set():
                ending = Ending("the run was stopped")
            elif open_ids and silent > self.rules.timeout:
                ending = Ending(f"nothing that could be used came for {self.rules.timeout:g} s")
            elif not open_ids and silent > min(self.rules.timeout, _LEAVE):
                ending = Ending("it went on although everything was answered")
            else:
                continue
            conversation.abort()
            while isinstance(got := conversation.receive(0), list):
                if new := tally.accept_all(got):
                    keep(new)
            return ending

    def _say_notes(self, tally: Tally) -> None:
        for note in tally.notes[:_NOTES]:
            self.say(f"Ignored: {note}.")
        if len(tally.notes) > _NOTES:
            self.say(f"Ignored: {len(tally.notes) - _NOTES:,} more lines that could not be used.")
