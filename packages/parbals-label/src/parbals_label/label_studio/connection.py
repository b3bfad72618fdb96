"""One parbals project and one Label Studio project: a round of taking labels and handing out tasks.

Where everything is kept. An item that is out in Label Studio is leased, in the parbals project, to
the Label Studio project's name; the number of its task is remembered as an event once it is there;
and the task's data hold the item's id. So whichever side is stopped in the middle, the next round
knows: a lease without a task is looked up before it is created, and what has a task is never
created again. Labels are described in :mod:`~parbals_label.label_studio.annotations`.
"""

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from parbals_label.label_studio.annotations import Heard, record_annotations
from parbals_label.label_studio.client import Client
from parbals_label.label_studio.filters import about_item, changed_or_open
from parbals_label.label_studio.interface import Interface
from parbals_label.label_studio.project import Project
from parbals_label.label_studio.server import GoneError
from parbals_label.label_studio.state import State
from parbals_label.label_studio.tasks import Matcher, Predictions, data_of, place_of
from parbals_label.readers.label_studio import PROJECT
from parbals_label.store.store import Store

__all__ = ["Connection", "Result", "Rules"]

_AT_ONCE = 20
"""Items looked up in one request: servers refuse addresses of more than some thousand letters."""


@dataclass(frozen=True)
class Rules:
    """How many tasks a batch has, how often to look, whether deleted tasks may be made again.

    The next batch is chosen when at most half of ``batch_size`` tasks are open.
    """

    batch_size: int = 20
    every: float = 5.0
    once: bool = False
    ask_again: bool = False


@dataclass
class Result:
    """What a run did; ``ended`` is 'once', 'interrupted', 'time' or 'done'."""

    created: int = 0
    labels: int = 0
    revised: int = 0
    withdrawn: int = 0
    passed: int = 0
    batches: int = 0
    ended: str = "once"


class Connection:
    """One parbals project and one Label Studio project."""

    def __init__(
        self,
        store: Store,
        client: Client,
        number: int,
        rules: Rules,
        result: Result,
        say: Callable[[str], None],
    ) -> None:
        self.store, self.client, self.number = store, client, number
        self.rules, self.result, self.say = rules, result, say
        self._said: set[str] = set()
        self._project = Project(store, client, number, self._once)
        self.uid = self._project.uid
        self.state = State(store, self.uid)
        self._matcher = Matcher(store)
        self._since = ""
        self._sweep = True
        self._foreign: dict[int, dict[str, Any]] = {}
        """Tasks that people imported themselves → their data."""

    def doubt(self) -> None:
        """After a failure: look at all tasks in the next round."""
        self._sweep = True

    def round(self) -> bool:
        """Take what was annotated, and hand out the next batch where few tasks are left.

        Whether every item is labelled or left out.
        """
        interface, is_new = self._project.interface()
        self._sweep |= is_new  # labels left aside may count now
        self._pull(interface)
        open_items = self._open()
        missing = [p for p in open_items if p not in self.state.tasks]
        if missing:
            self._hand_out(interface, missing)
        if len(open_items) > self.rules.batch_size // 2 or self._choose(interface) or open_items:
            return False
        return self.store.n_done() + len(self.state.lost) >= self.store.n_items

    def _pull(self, interface: Interface) -> None:
        """Store what was annotated since the last round; notice tasks that are gone."""
        heard, is_sweep = Heard(), self._sweep
        open_tasks = {self.state.tasks[p]: p for p in self._open() if p in self.state.tasks}
        filters = [] if is_sweep else changed_or_open(self._since, open_tasks)
        latest, met = self._since, set()
        tasks = list(self.client.tasks(self.number, filters))
        self._adopt(tasks)
        with self.store.together():
            for task in tasks:
                met.add(task.get("id"))
                latest = max(latest, str(task.get("updated_at") or ""))
                self._hear(interface, task, heard)
        # Asked again one by one: where tasks are deleted while pages are read, others are missed.
        gone = [
            position
            for task, position in open_tasks.items()
            if task not in met and not self.client.has_task(task)
        ]
        self._since, self._sweep = latest, False
        self._count(heard)
        if gone:
            self.state.lose(gone)
            self.store.give_back(gone, annotator=self.state.owner)
            self.say(
                f"{_n(len(gone), 'open task was', 'open tasks were')} deleted in Label Studio; "
                "not created again."
            )
        self._give_back_done()

    def _hear(self, interface: Interface, task: dict[str, Any], heard: Heard) -> None:
        """Store what was annotated in a task, if it is one of ours."""
        number, annotations = task.get("id"), task.get("annotations")
        position = self.state.positions.get(number) if isinstance(number, int) else None
        if position is None:
            return
        found = annotations if isinstance(annotations, list) else []
        self.state.remember_people(found)
        record_annotations(
            self.store, interface, self.uid, position, found, heard, people=self.state.people
        )

    def _adopt(self, tasks: Collection[dict[str, Any]]) -> None:
        """Remember tasks that are there already: created when nobody could note it, or imported."""
        new: dict[int, int] = {}
        for task in tasks:
            number, data = task.get("id"), task.get("data")
            if not isinstance(number, int) or not isinstance(data, dict):
                continue
            if number not in self.state.positions:
                position = self._matcher.position(task)
                if position is None:
                    continue
                if position in new or position in self.state.tasks:
                    self._once(
                        f"Task {number} is about an item that has a task already; its labels are "
                        "taken from the first."
                    )
                    continue
                new[position] = number
            if PROJECT not in data:
                self._foreign[number] = data
        if new:
            self.state.remember(new)

    def _count(self, heard: Heard) -> None:
        for note in heard.notes:
            self._once(note)
        result = self.result
        result.labels, result.revised = result.labels + heard.labels, result.revised + heard.revised
        result.withdrawn += heard.withdrawn
        result.passed += heard.passed
        counts = {
            "new": heard.labels,
            "changed": heard.revised,
            "taken back": heard.withdrawn,
            "skipped": heard.passed,
        }
        if any(counts.values()):
            said = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
            self.say(f"Labels: {said}.")

    def _open(self) -> list[int]:
        """Items that are out in Label Studio and still wait for labels."""
        return self.store.pending(annotator=self.state.owner)

    def _give_back_done(self) -> None:
        wanted = self.store.settings.answers_wanted
        votes, passes = self.store.current_labels(), self.store.passes()
        done = [p for p in self._open() if len(votes.get(p, ())) + len(passes.get(p, ())) >= wanted]
        if done:
            self.store.give_back(done, annotator=self.state.owner)

    def _choose(self, interface: Interface) -> list[int]:
        from parbals_label.project.engine import NothingFreeError, choose_batch, refresh
        from parbals_label.project.summary import newer_answers

        if self.store.n_labelled and (
            self.store.settings.predictions is None or newer_answers(self.store)
        ):
            refresh(self.store)
        left_out = set() if self.rules.ask_again else self.state.lost
        taken = {*self.store.votes(), *self.store.pending(), *self.store.passes(), *left_out}
        if len(taken) == self.store.n_items:  # seen without a model: this is asked every round
            return []
        try:
            _, batch = choose_batch(
                self.store,
                self.rules.batch_size,
                fewer=True,
                annotator=self.state.owner,
                leave_out=left_out,
            )
        except NothingFreeError:
            return []
        self.result.batches += 1
        chosen = [int(position) for position in batch.indices]
        self._hand_out(interface, chosen)
        return chosen

    def _hand_out(self, interface: Interface, positions: list[int]) -> None:
        """See to it that leased items have a task, best first, with the model's prediction."""
        if self.state.importing is not None:  # begun by a run that did not see its end
            with suppress(GoneError):
                self.client.wait_for_import(self.number, self.state.importing)
            self.state.note_import(None)
        items = self.store.items(positions)
        for start in range(0, len(items), _AT_ONCE):
            filters = [about_item(item.id) for item in items[start : start + _AT_ONCE]]
            self._adopt(list(self.client.tasks(self.number, filters)))
        predictions, new = Predictions(self.store), []
        for item in items:
            known = self.state.tasks.get(item.position)
            if known is not None and known not in self._foreign:
                continue
            why = self.store.why(item.position)
            predicted = predictions.of(item.position, interface)
            if known is None:
                data = data_of(self.store, interface, item, why, self._upload)
                new.append({"data": data, "predictions": [predicted] if predicted else []})
                continue
            data = self._foreign.pop(known) | place_of(self.store, item, why)
            with suppress(GoneError):  # deleted just now, which the next round notices
                self.client.change_task(known, data=data)
                if predicted:
                    self.client.predict(known, predicted)
        wanted = [item.position for item in items if item.position not in self.state.tasks]
        if wanted:
            numbers = self.client.create_tasks(self.number, new, note=self.state.note_import)
            self.state.remember(dict(zip(wanted, numbers, strict=True)))
            self.state.note_import(None)
            self.result.created += len(wanted)
            self.say(f"{_n(len(wanted), 'task', 'tasks')} created.")

    def _upload(self, name: str, content: bytes, kind: str) -> str:
        return self.client.upload(self.number, name, content, kind)

    def _once(self, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            self.say(sentence)


def _n(count: int, one: str, more: str) -> str:
    return f"{count} {one if count == 1 else more}"
