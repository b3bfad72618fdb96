"""Choose, ask, check, store, repeat: a machine labels a project until there is a reason to stop.

Every valid answer is stored as soon as it arrives, with source 'machine' and the annotator's name.
The start and end of every run, and the items that the machine abstained on, are logged as events.
Items are leased to the machine by name, so that the next run finds those that a killed one left.
"""

import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import asdict, dataclass
from threading import Event
from typing import Any

from parbals.errors import InputError, ParbalsError
from parbals.wording import PROGRAM_PREFIX

from parbals_label.files import sole_run
from parbals_label.machines.asking import Asking, BatchOutcome, MachineAnnotator, Rules
from parbals_label.machines.json_lines import Reply
from parbals_label.machines.rate import RateLimit
from parbals_label.store.records import Item, Submission
from parbals_label.store.rows import lease_clock
from parbals_label.store.store import Store

__all__ = ["ENDINGS", "Result", "Rules", "label_items"]

ENDINGS = {
    "done": "every item is labelled, assigned, or abstained on",
    "budget": "as many labels as --budget says are stored",
    "cost": "another request might cost more than --max-cost allows in all",
    "interrupted": "it was interrupted",
    "paused": "it was paused",
    "failed": "the annotator does not work",
    "worth": "others' answers have more information per cost now",
}
_ABSTAINED = "machine abstained"
_MAX_FAILED_BATCHES = 2
"""Batches in a row with failures and without a label after which the annotator counts as broken.

A batch on which it only abstains is none of them: a rule may know few items."""
_PAUSE_CHECK_SECONDS = 0.5
"""How often a run looks whether it has been paused."""
_MAX_NAMED = 3
"""Items that a message names; further ones are counted."""


@dataclass
class Result:
    """Summary of a run.

    Attributes:
        stored: labels that were stored.
        abstained: items on which the machine abstained.
        failed: items without an answer after all attempts.
        batches: batches that the machine was asked about.
        ended: a key of ``ENDINGS``.
        fault: what does not work, if ``ended`` is "failed".
    """

    stored: int = 0
    abstained: int = 0
    failed: int = 0
    batches: int = 0
    ended: str = "done"
    fault: str | None = None


def label_items(
    store: Store,
    name: str,
    program: MachineAnnotator,
    rules: Rules,
    stop: Event,
    *,
    say: Callable[[str], None],
    progress: Callable[[str, int], None] = lambda stage, stored: None,
) -> Result:
    """Let ``program`` label under ``name`` until ``stop`` is set or there is another reason to end.

    Items that it has not answered are released at the end.
    ``say`` is called with sentences for people, ``progress`` with the stage and the number of
    stored labels.
    """
    busy = (
        f"{name!r} is already labelling this project in another process; wait for it, stop it, or "
        "choose another --name."
    )
    if name in store.settings.paused:
        short_name = name.removeprefix(PROGRAM_PREFIX)
        raise InputError(
            f"{name} is paused; resume it on the labelling page, or with `parbals label "
            f"{store.folder} --name {short_name} --resume`."
        )
    with sole_run(store.folder, "machine", name, busy):
        run = _Run(store, name, program, rules, stop, say, progress)
        store.log("machine run", annotator=name, rules=asdict(rules), program=program.name)
        try:
            run.work()
        except BaseException:
            # Raise this error, not one of the cleanup: leases also expire by themselves.
            with suppress(ParbalsError):
                run.end_leases(store.pending(annotator=name))
            raise
        run.end_leases(store.pending(annotator=name))
        store.log("machine run ended", annotator=name, **asdict(run.result))
        return run.result


@dataclass
class _Run:
    """One run of a program, with its result so far."""

    store: Store
    name: str
    program: MachineAnnotator
    rules: Rules
    stop: Event
    say: Callable[[str], None]
    progress: Callable[[str, int], None]

    def __post_init__(self) -> None:
        self.result = Result()
        self._asking = Asking(
            self.program,
            self.store.form,
            self.rules,
            self.stop,
            self.say,
            RateLimit(self.rules.rate),
            self.store.former_classes,
            self._notice_pause,
        )
        self._is_paused = False
        self._pause_checked_at = time.monotonic()
        # Not asked again: items on which it abstained in any run, because it would probably do so
        # again at the same cost; and, later, items that failed in this run.
        self._excluded = _abstentions(self.store, self.name)

    def work(self) -> None:
        """Ask batches until there is a reason to stop; ``result`` is kept up to date."""
        queue = self._resumed_items()
        n_failed_batches = 0
        fault = ""
        while True:
            ended = self._reason_to_stop()
            if ended is None and not queue:
                self._show("choosing")
                queue = self._choose()
                ended = self._reason_without_items(n_failed_batches) if not queue else None
                if self.stop.is_set():  # while the model was choosing
                    ended = self._reason_to_stop()
            if ended is not None:
                break
            size = self._next_size()
            positions = queue[:size]
            queue = queue[size:]
            self._show("asking")
            outcome = self._asking.batch(self.store.visible_items(positions), self._store_replies)
            self._handle_unanswered(outcome)
            if outcome.n_labelled:
                n_failed_batches = 0
            elif outcome.failed:
                n_failed_batches += 1
            if outcome.failed or outcome.final:
                fault = outcome.final or outcome.failed[0][1]
            is_broken = outcome.final or n_failed_batches == _MAX_FAILED_BATCHES
            if is_broken and not self.stop.is_set():
                ended = "failed"
                break
            if outcome.is_too_costly:
                ended = "cost"
                break
        self.result.ended = ended
        self.result.fault = fault if ended == "failed" else None

    def _resumed_items(self) -> list[int]:
        """Items that an earlier run left unanswered; the leases of its other items are ended."""
        answered = self.store.current_labels()
        leased = self.store.pending(annotator=self.name)
        excluded = self._not_to_ask()
        queue = [
            position for position in leased if position not in excluded and position not in answered
        ]
        self.end_leases(set(leased).difference(queue))
        if queue:
            self.say(f"{len(queue)} items that were assigned to an earlier run are asked first.")
        return queue

    def _reason_without_items(self, n_failed_batches: int) -> str:
        """Why the run ends when no item is left to ask about."""
        if n_failed_batches and not self.result.stored:
            return "failed"  # a small pool is used up before the second failed batch
        return "worth" if self.rules.costs else "done"

    def _show(self, stage: str) -> None:
        self.progress(stage, self.result.stored)

    def end_leases(self, positions: Collection[int]) -> None:
        """End the leases of these items, as far as they are still this annotator's."""
        if positions:
            self.store.end_leases(positions, annotator=self.name)

    def _choose(self) -> list[int]:
        """Items for the next batch, best first; none if none is available."""
        from parbals_label.project.choose import NothingAvailableError, choose_batch, choose_by_cost

        size = self._next_size()
        costs = self.rules.costs
        options: dict[str, Any] = {
            "expires": lease_clock() + self.rules.lease_seconds,
            "leave_out": self._not_to_ask(),
        }
        try:
            if costs:
                _, questions = choose_by_cost(self.store, size, costs, only=self.name, **options)
                return [position for position, _ in questions]
            _, batch = choose_batch(self.store, size, fewer=True, annotator=self.name, **options)
        except NothingAvailableError:
            return []
        return [int(position) for position in batch.indices]

    def _not_to_ask(self) -> set[int]:
        """Positions that the machine is not asked about: also the audit, which is for people.

        If anyone may label the audit, only what programs have labelled of it.
        """
        settings = self.store.settings
        if settings.audit_by == "anyone":
            return self._excluded | self.store.audit_labelled_by_programs()
        return self._excluded | set(settings.audit)

    def _next_size(self) -> int:
        """Number of items of the next batch, limited by the budget."""
        batch_size = self.rules.batch_size
        if self.rules.budget is None:
            return batch_size
        return min(batch_size, self.rules.budget - self.result.stored)

    def _reason_to_stop(self) -> str | None:
        """Why the run ends now; None if it goes on."""
        self._notice_pause()
        if self.stop.is_set():
            return "paused" if self._is_paused else "interrupted"
        return "budget" if self._next_size() <= 0 else None

    def _notice_pause(self) -> None:
        """Set ``stop`` if somebody has paused the program on the page or by a command."""
        now = time.monotonic()
        if self.stop.is_set() or now < self._pause_checked_at + _PAUSE_CHECK_SECONDS:
            return
        self._pause_checked_at = now
        if self.name in self.store.settings.paused:
            self._is_paused = True
            self.stop.set()

    def _store_replies(self, replies: list[tuple[Item, Reply]]) -> None:
        """Store labels, and log abstentions."""
        labelled = [(item, reply) for item, reply in replies if reply.label is not None]
        abstained = [item.position for item, reply in replies if reply.label is None]
        if labelled:
            self.result.stored += self._submit(labelled)
            self._show("asking")
        if abstained:
            self.store.log(_ABSTAINED, annotator=self.name, positions=abstained)
            self._excluded.update(abstained)
            self.end_leases(abstained)
            self.result.abstained += len(abstained)

    def _submit(self, labelled: list[tuple[Item, Reply]]) -> int:
        """Store labels, one by one if together they are refused; returns the number of new ones."""
        rows = [
            Submission(item.position, reply.label or "", comment=reply.remark())
            for item, reply in labelled
        ]
        try:
            return self.store.submit(rows, annotator=self.name, source="machine").new
        except InputError as error:
            # One of them cannot be stored, such as for an item labelled under this name meanwhile.
            if len(labelled) > 1:
                return sum(self._submit([pair]) for pair in labelled)
            self.say(f"Not stored: {error}")
            self._excluded.add(rows[0].position)
            self.end_leases([rows[0].position])
            return 0

    def _handle_unanswered(self, outcome: BatchOutcome) -> None:
        """Count the batch, report and exclude failed items, and end leases without an answer."""
        names_by_reason: dict[str, list[str]] = {}
        for item, reason in outcome.failed:
            names_by_reason.setdefault(reason, []).append(repr(item.id))
        for reason, names in names_by_reason.items():
            self.say(_failure_sentence(names, reason))
        failed = [item.position for item, _ in outcome.failed]
        self._excluded.update(failed)
        self.end_leases([*failed, *(item.position for item in outcome.unasked)])
        self.result.failed += len(failed)
        self.result.batches += 1


def _failure_sentence(names: list[str], reason: str) -> str:
    """A sentence about the items that failed for the same reason."""
    if len(names) == 1:
        return f"No label for item {names[0]}: {reason}; it can be labelled later."
    listed = ", ".join(names[:_MAX_NAMED])
    if len(names) > _MAX_NAMED:
        listed += f" and {len(names) - _MAX_NAMED} more"
    return f"No label for items {listed}: {reason}; they can be labelled later."


def _abstentions(store: Store, name: str) -> set[int]:
    """Positions on which the annotator abstained in any run."""
    return {
        position
        for event in store.events(_ABSTAINED)
        if event.detail["annotator"] == name
        for position in event.detail["positions"]
    }
