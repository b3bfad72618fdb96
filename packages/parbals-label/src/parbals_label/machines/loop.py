"""Choose, ask, check, store, repeat: a machine labels a project until there is a reason to stop.

What is stored: every good answer in its own right, as soon as it arrives, with source 'machine' and
the annotator's name. What is remembered as events: the start and end of every run, and what the
machine abstained on. Its items are leased to it by name, so the next run finds what one that was
killed had out.
"""

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import asdict, dataclass
from threading import Event
from typing import Any

from parbals.errors import InputError, ParbalsError

from parbals_label.files import sole_run
from parbals_label.machines.asking import Asked, Asking, Rules
from parbals_label.machines.json_lines import Reply
from parbals_label.machines.programs import Program
from parbals_label.machines.rate import RateLimit
from parbals_label.store.records import Item, Submission
from parbals_label.store.rows import lease_clock
from parbals_label.store.store import Store

__all__ = ["ENDINGS", "Result", "Rules", "label_items"]

ENDINGS = {
    "done": "every item is labelled, out, or abstained on",
    "budget": "the budget is used up",
    "interrupted": "it was interrupted",
    "failed": "the annotator does not work",
    "worth": "what is to be asked next is worth more of others, for what they cost",
}
_ABSTAINED = "machine abstained"
_FRUITLESS = 2
"""Batches in a row without a single answer after which the annotator counts as broken."""
_NAMED = 3
"""Items that a sentence names; the rest are counted."""


@dataclass
class Result:
    """What a run did; ``ended`` is a key of ``ENDINGS``, ``fault`` says what does not work."""

    stored: int = 0
    abstained: int = 0
    failed: int = 0
    batches: int = 0
    ended: str = "done"
    fault: str | None = None


def label_items(
    store: Store,
    name: str,
    program: Program,
    rules: Rules,
    stop: Event,
    *,
    say: Callable[[str], None],
    progress: Callable[[str, int], None] = lambda stage, stored: None,
) -> Result:
    """Let ``program`` label as ``name`` until ``stop`` is set; nothing stays out afterwards.

    ``say`` is given sentences worth reading, ``progress`` what is being done and how many labels
    are stored.
    """
    busy = (
        f"{name!r} is already labelling this project in another process; wait for it, stop it, or "
        "choose another --name."
    )
    with sole_run(store.folder, "machine", name, busy):
        run = _Run(store, name, program, rules, stop, say, progress)
        store.log("machine run", annotator=name, rules=asdict(rules), program=program.name)
        try:
            run.work()
        except BaseException:
            # The first error tells what happened; leases expire by themselves.
            with suppress(ParbalsError):
                run.end_leases(store.pending(annotator=name))
            raise
        run.end_leases(store.pending(annotator=name))
        store.log("machine run ended", annotator=name, **asdict(run.result))
        return run.result


@dataclass
class _Run:
    store: Store
    name: str
    program: Program
    rules: Rules
    stop: Event
    say: Callable[[str], None]
    progress: Callable[[str, int], None]

    def __post_init__(self) -> None:
        self.result, rules = Result(), self.rules
        self._asking = Asking(
            self.program, self.store.form, rules, self.stop, self.say, RateLimit(rules.rate)
        )
        # Not asked again: a machine that abstained would only abstain once more, and cost the same.
        self._passed = _abstentions(self.store, self.name)

    def work(self) -> None:
        """Until there is a reason to stop; ``result`` is kept up to date."""
        answered = self.store.current_labels()
        earlier = self.store.pending(annotator=self.name)
        left_out = self._left_out()
        queue = [p for p in earlier if p not in left_out and p not in answered]
        self.end_leases(set(earlier).difference(queue))
        if queue:
            self.say(f"{len(queue)} items that an earlier run had out are asked first.")
        fruitless, fault = 0, ""
        nothing = "worth" if self.rules.costs else "done"
        while True:
            ended = self._enough()
            if ended is None and not queue:
                self._show("choosing")
                queue = self._choose()
                # Somebody may have asked to stop while the model was thinking.
                ended = self._enough() if self.stop.is_set() else (None if queue else nothing)
            is_silent = not self.result.stored and not self.result.abstained
            if ended == nothing and fruitless and is_silent:
                ended = "failed"  # a small pool is used up before the second fruitless batch
            if ended is not None:
                break
            positions, queue = queue[: self._size()], queue[self._size() :]
            self._show("asking")
            asked = self._asking.batch(self.store.visible_items(positions), self._keep)
            self._count(asked)
            fruitless = 0 if asked.n_answered else fruitless + 1
            fault = asked.final or (asked.failed[0][1] if asked.failed else "")
            if not self.stop.is_set() and (asked.final or fruitless == _FRUITLESS):
                ended = "failed"
                break
        self.result.ended = ended
        self.result.fault = fault if ended == "failed" else None

    def _show(self, stage: str) -> None:
        self.progress(stage, self.result.stored)

    def end_leases(self, positions: Collection[int]) -> None:
        """End the leases of these items, as far as they are still this annotator's."""
        if positions:
            self.store.end_leases(positions, annotator=self.name)

    def _choose(self) -> list[int]:
        """Items for the next batch, best first; none where every item is done, out or passed."""
        from parbals_label.project.engine import NothingAvailableError, choose_batch, choose_by_cost

        how: dict[str, Any] = {
            "expires": lease_clock() + self.rules.lease_seconds,
            "leave_out": self._left_out(),
        }
        size, costs = self._size(), self.rules.costs
        try:
            if costs:
                asked = choose_by_cost(self.store, size, costs, only=self.name, **how)[1]
                return [position for position, _ in asked]
            _, batch = choose_batch(self.store, size, fewer=True, annotator=self.name, **how)
        except NothingAvailableError:
            return []
        return [int(position) for position in batch.indices]

    def _left_out(self) -> set[int]:
        """What this annotator is not asked: what it passed, and the audit, which is for people."""
        settings = self.store.settings
        is_open = settings.audit_by == "anyone"
        return self._passed | (
            self.store.audit_labelled_by_programs() if is_open else set(settings.audit)
        )

    def _size(self) -> int:
        size, budget = self.rules.batch_size, self.rules.budget
        return size if budget is None else min(size, budget - self.result.stored)

    def _enough(self) -> str | None:
        if self.stop.is_set():
            return "interrupted"
        return "budget" if self._size() <= 0 else None

    def _keep(self, replies: list[tuple[Item, Reply]]) -> None:
        given = [(item, reply) for item, reply in replies if reply.label is not None]
        silent = [item.position for item, reply in replies if reply.label is None]
        if given:
            self.result.stored += self._submit(given)
            self._show("asking")
        if silent:
            self.store.log(_ABSTAINED, annotator=self.name, positions=silent)
            self._passed.update(silent)
            self.end_leases(silent)
            self.result.abstained += len(silent)

    def _submit(self, given: list[tuple[Item, Reply]]) -> int:
        rows = [
            Submission(item.position, reply.label or "", comment=reply.remark())
            for item, reply in given
        ]
        try:
            return self.store.submit(rows, annotator=self.name, source="machine").new
        except InputError as error:
            # One of them cannot be stored, such as a label given under this name meanwhile.
            if len(given) > 1:
                return sum(self._submit([pair]) for pair in given)
            self.say(f"Not stored: {error}")
            self._passed.add(rows[0].position)
            self.end_leases([rows[0].position])
            return 0

    def _count(self, asked: Asked) -> None:
        reasons: dict[str, list[str]] = {}
        for item, reason in asked.failed:
            reasons.setdefault(reason, []).append(repr(item.id))
        for reason, names in reasons.items():
            self.say(_given_back(names, reason))
        gone = [item.position for item, _ in asked.failed]
        self._passed.update(gone)
        self.end_leases([*gone, *(item.position for item in asked.unasked)])
        self.result.failed += len(gone)
        self.result.batches += 1


def _given_back(names: list[str], reason: str) -> str:
    """Items that failed for one reason, in one sentence."""
    if len(names) == 1:
        return f"No label for item {names[0]}: {reason}; it is back in the pool."
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    shown = ", ".join(names[:_NAMED])
    return f"No label for items {shown}{more}: {reason}; they are back in the pool."


def _abstentions(store: Store, name: str) -> set[int]:
    return {
        position
        for event in store.events(_ABSTAINED)
        if event.detail["annotator"] == name
        for position in event.detail["positions"]
    }
