"""Keeps a Label Studio project supplied with the items worth labelling, and takes its labels.

Where everything is kept. An item that is out in Label Studio is leased, in the parbals project, to
the Label Studio project's name; the number of its task is remembered as an event once it is there;
and the task's data hold the item's id. So whichever side is stopped in the middle, the next run
knows: it looks at all tasks first, and creates those of leased items that have none. An item whose
open task somebody deleted is passed under that name, so that it is not chosen again. Labels are
described in :mod:`~parbals_label.label_studio.annotations`.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from threading import Event
from typing import Any

from parbals.errors import InputError
from parbals.wording import counted

from parbals_label.files import sole_run
from parbals_label.label_studio.annotations import Heard, record_annotations
from parbals_label.label_studio.client import (
    ITEM,
    PROJECT,
    Client,
    GoneError,
    ServerError,
    changed_or_open,
)
from parbals_label.label_studio.interface import Interface, is_empty, read_interface
from parbals_label.label_studio.tasks import (
    TASKS,
    data_of,
    first_interface,
    known_tasks,
    project_uid,
)
from parbals_label.store.store import Store

__all__ = ["Result", "Rules", "keep_supplied"]

_LONGEST = 60.0
_BUSY = (
    "Another process already supplies this Label Studio project from this folder; stop it first."
)


@dataclass(frozen=True)
class Rules:
    """How many tasks a batch has, and how often to look.

    The next batch is chosen when at most half of ``batch_size`` tasks are open.
    """

    batch_size: int = 20
    every: float = 5.0
    once: bool = False


@dataclass
class Result(Heard):
    """What a run did; ``ended`` is 'once', 'interrupted' or 'done'."""

    created: int = 0
    batches: int = 0
    ended: str = "once"


def keep_supplied(
    store: Store,
    client: Client,
    number: int,
    rules: Rules,
    stop: Event,
    *,
    say: Callable[[str], None],
) -> Result:
    """Supply project ``number`` until ``stop`` is set, every item is labelled, or once.

    A server that does not answer is tried again, for ever; everything else that is wrong ends it.
    """
    connection, waits, result = None, 0, Result()
    with ExitStack() as held:
        while True:
            try:
                if connection is None:
                    connection = _Connection(store, client, number, rules, result, say)
                    held.enter_context(
                        sole_run(store.folder, "label-studio", connection.uid, _BUSY)
                    )
                done = connection.round()
                if waits:
                    say(f"{client.url} answers again.")
                waits = 0
            except ServerError as error:
                if rules.once:
                    raise
                if not waits:
                    say(f"{error} Trying again until it does; nothing is lost.")
                waits += 1
                done = False
                if connection is not None:
                    connection.sweep = True  # what was asked for last may have been done or not
            if rules.once or done:
                result.ended = "once" if rules.once else "done"
                return result
            pause = rules.every if not waits else min(_LONGEST, rules.every * 2.0 ** min(waits, 10))
            if stop.wait(pause):
                result.ended = "interrupted"
                return result


@dataclass
class _Connection:
    """One parbals project and one Label Studio project.

    Making it gives a Label Studio project that has none a labelling interface, and asks for as many
    annotations a task as are wanted here. ``uid`` tells it from all others, ``owner`` is the name
    that items in Label Studio are leased to, ``tasks`` are those that are there, by position; with
    ``sweep`` the next round looks at all of them.
    """

    store: Store
    client: Client
    number: int
    rules: Rules
    result: Result
    say: Callable[[str], None]

    def __post_init__(self) -> None:
        self._said: set[str] = set()
        self._seen: tuple[object, ...] = ()
        self.uid = self._make_ready()
        self.owner = f"label-studio project {self.uid}"
        self.tasks = known_tasks(self.store, self.uid)
        self._since, self.sweep = "", True

    def round(self) -> bool:
        """Take what was annotated, and hand out the next batch where few tasks are left.

        Whether every item is labelled or left out.
        """
        interface = self._interface()
        self._pull(interface)
        open_items = self._open()
        missing = [p for p in open_items if p not in self.tasks]
        if missing:
            self._hand_out(interface, missing)
        if len(open_items) > self.rules.batch_size // 2 or self._choose(interface) or open_items:
            return False
        return self.store.n_completed() >= self.store.n_items

    def _project(self) -> dict[str, Any]:
        try:
            return self.client.project(self.number)
        except GoneError:
            raise InputError(
                f"{self.client.url} has no project {self.number} that this key may see; its "
                "number is in the address of its page."
            ) from None

    def _make_ready(self) -> str:
        """Set the project up, once; its ``uid``."""
        project = self._project()
        uid = project_uid(project)
        if is_empty(str(project.get("label_config") or "")):
            self.client.change_project(self.number, label_config=first_interface(self.store))
            self._once(
                "The project had no labelling interface; it shows the items and the classes now."
            )
        wanted = self.store.settings.answers_wanted
        if wanted > int(project.get("maximum_annotations") or 1):
            self.client.change_project(self.number, maximum_annotations=wanted)
            self._once(
                f"The project asks for {wanted} annotations a task now, as many as are wanted here."
            )
        if project.get("sampling") not in (None, "Sequential sampling"):
            self._once(
                f"Its tasks are given out by {str(project['sampling']).lower()}; set Sequential "
                "sampling in the project's settings to give out the most useful first."
            )
        return uid

    def _interface(self) -> Interface:
        """The labelling interface as it is now."""
        config, classes = str(self._project().get("label_config") or ""), self.store.classes
        interface = read_interface(config, self.store.form, self.store.former_classes)
        if self._seen == (config, classes):
            return interface
        self._seen, self.sweep = (config, classes), True  # labels left aside may count now
        lacking = [name for name in classes if name not in interface.choices]
        if lacking:
            names = ", ".join(map(repr, lacking))
            self._once(f"Nobody can choose {names}: the labelling interface lacks it; add it.")
        return interface

    def _pull(self, interface: Interface) -> None:
        """Store what was annotated since the last round; notice tasks that are gone."""
        heard, latest, met = Heard(), self._since, set()
        open_tasks = {self.tasks[p]: p for p in self._open() if p in self.tasks}
        filters = [] if self.sweep else changed_or_open(self._since, open_tasks)
        tasks = list(self.client.tasks(self.number, filters))
        with self.store.transaction():
            for position, task in self._ours(tasks):
                met.add(task["id"])
                latest = max(latest, str(task.get("updated_at") or ""))
                said = task.get("annotations")
                found = said if isinstance(said, list) else []
                record_annotations(self.store, interface, self.uid, position, found, heard)
        # Asked again one by one: where tasks are deleted while pages are read, others are missed.
        gone = [
            position
            for task, position in open_tasks.items()
            if task not in met and not self.client.has_task(task)
        ]
        self._since, self.sweep = latest, False
        self._count(heard)
        for position in gone:
            self.store.pass_over(position, "skip", annotator=self.owner)
        if gone:
            self.say(
                f"{counted(len(gone), 'open task was', 'open tasks were')} deleted in Label "
                "Studio; not created again."
            )
        wanted = self.store.settings.answers_wanted
        votes, passes = self.store.current_labels(), self.store.passes()
        counts = {p: len(votes.get(p, ())) + len(passes.get(p, ())) for p in self._open()}
        done = [p for p, count in counts.items() if count >= wanted or p in gone]
        if done:
            self.store.end_leases(done, annotator=self.owner)

    def _ours(self, tasks: Sequence[dict[str, Any]]) -> list[tuple[int, dict[str, Any]]]:
        """The tasks that are about an item of the project, each with its position."""
        found: list[tuple[int, dict[str, Any]]] = []
        before = dict(self.tasks)
        for task in tasks:
            number, data = task.get("id"), task.get("data")
            if not isinstance(number, int) or not isinstance(data, dict):
                continue
            name = str(data.get(ITEM))
            position = self.store.known_positions([name]).get(name)
            if position is None or data.get(PROJECT) != self.store.identity:
                continue
            if self.tasks.setdefault(position, number) == number:
                found.append((position, task))
            else:
                self._once(
                    f"Task {number} is about an item that has a task already; its labels are "
                    "taken from the first."
                )
        self._note({p: task for p, task in self.tasks.items() if p not in before})
        return found

    def _note(self, new: dict[int, int]) -> None:
        """Remember tasks that are there, by position."""
        self.tasks |= new
        if new:
            self.store.log(TASKS, project=self.uid, what=list(new.items()))

    def _count(self, heard: Heard) -> None:
        for note in heard.notes:
            self._once(note)
        words = {"labels": "new", "revised": "changed", "withdrawn": "taken back"}
        said = []
        for name, word in {**words, "passed": "skipped"}.items():
            if count := getattr(heard, name):
                setattr(self.result, name, getattr(self.result, name) + count)
                said.append(f"{count} {word}")
        if said:
            self.say(f"Labels: {', '.join(said)}.")

    def _open(self) -> list[int]:
        """Items that are out in Label Studio and still wait for labels."""
        return self.store.pending(annotator=self.owner)

    def _choose(self, interface: Interface) -> bool:
        """Hand out the next batch; False if no item is left for one."""
        from parbals_label.project.engine import NothingAvailableError, choose_batch, refresh
        from parbals_label.project.summary import newer_answers

        if self.store.n_labelled and (
            self.store.settings.predictions is None or newer_answers(self.store)
        ):
            refresh(self.store)
        taken = {*self.store.votes(), *self.store.pending(), *self.store.passes()}
        if len(taken) == self.store.n_items:  # seen without a model: this is asked every round
            return False
        try:
            _, batch = choose_batch(
                self.store, self.rules.batch_size, fewer=True, annotator=self.owner
            )
        except NothingAvailableError:
            return False
        self.result.batches += 1
        self._hand_out(interface, [int(position) for position in batch.indices])
        return True

    def _hand_out(self, interface: Interface, positions: list[int]) -> None:
        """Create the tasks of leased items, best first.

        Without a prediction: Label Studio would fill it in, and a guess that is seen sways.
        """
        items, upload = (
            self.store.visible_items(positions),
            partial(self.client.upload, self.number),
        )
        new = [
            {"data": data_of(self.store, interface, item, why, upload)}
            for item, why in ((item, self.store.why(item.position)) for item in items)
        ]
        numbers = self.client.create_tasks(self.number, new)
        self._note(dict(zip(positions, numbers, strict=True)))
        self.result.created += len(items)
        self.say(f"{counted(len(items), 'task')} created.")

    def _once(self, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            self.say(sentence)
