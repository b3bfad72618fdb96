"""Synchronise a Label Studio project: create tasks for the next items, and store its labels.

An item with a task in Label Studio is leased, in the parbals project, to the name of the Label
Studio project; the number of its task is logged as an event once it exists; and the task's data
hold the item's id. So whichever side is interrupted, the next run reads all tasks first, and
creates those of leased items that have none. An item whose open task somebody deleted is skipped
under that name, so that it is not chosen again. Labels are described in
:mod:`~parbals_label.label_studio.annotations`.
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
from parbals_label.label_studio.annotations import AnnotationCounts, record_annotations
from parbals_label.label_studio.client import (
    ITEM,
    PROJECT,
    Client,
    GoneError,
    ServerError,
    changed_or_open,
)
from parbals_label.label_studio.interface import Interface, is_empty, read_interface
from parbals_label.label_studio.responses import Project, one_line
from parbals_label.label_studio.tasks import (
    TASKS,
    data_of,
    first_interface,
    known_tasks,
    project_uid,
)
from parbals_label.project.measured import open_sample
from parbals_label.project.sample_answers import read_answers
from parbals_label.store.store import Store

__all__ = ["Result", "Rules", "keep_supplied"]

_MAX_PAUSE_SECONDS = 60.0
_MAX_DOUBLINGS = 10
_BUSY = (
    "Another process already supplies this Label Studio project from this folder; stop it first."
)


@dataclass(frozen=True)
class Rules:
    """How to synchronise.

    Attributes:
        batch_size: tasks of a batch; the next one is chosen when at most half of them are open.
        every: seconds between two rounds.
        once: stop after one round.
    """

    batch_size: int = 20
    every: float = 5.0
    once: bool = False


@dataclass
class Result(AnnotationCounts):
    """Summary of a run; ``ended`` is 'once', 'interrupted' or 'done'."""

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
    """Synchronise project ``number`` until ``stop`` is set, every item is labelled, or once.

    A server that does not answer is tried again for ever; any other error ends the run.
    """
    connection: _Connection | None = None
    n_failures = 0
    result = Result()
    with ExitStack() as locks:
        while True:
            try:
                if connection is None:
                    connection = _Connection(store, client, number, rules, result, say)
                    locks.enter_context(
                        sole_run(store.folder, "label-studio", connection.uid, _BUSY)
                    )
                is_done = connection.round()
                if n_failures:
                    say(f"{client.url} answers again.")
                n_failures = 0
            except ServerError as error:
                if rules.once:
                    raise
                if not n_failures:
                    say(f"{error} Trying again until it does; nothing is lost.")
                n_failures += 1
                is_done = False
                if connection is not None:
                    connection.sweep = True  # the last request may have been carried out or not
            if rules.once or is_done:
                result.ended = "once" if rules.once else "done"
                return result
            pause = rules.every
            if n_failures:
                doublings = min(n_failures, _MAX_DOUBLINGS)
                pause = min(_MAX_PAUSE_SECONDS, rules.every * 2.0**doublings)
            if stop.wait(pause):
                result.ended = "interrupted"
                return result


@dataclass
class _Connection:
    """One parbals project and one Label Studio project.

    Creating it gives a Label Studio project without a labelling interface one, and sets the number
    of annotations of each task.

    Attributes:
        uid: identifies the Label Studio project.
        owner: the name to which items in Label Studio are leased.
        tasks: position → number of the task.
        sweep: the next round reads all tasks, not only changed and open ones.
    """

    store: Store
    client: Client
    number: int
    rules: Rules
    result: Result
    say: Callable[[str], None]

    def __post_init__(self) -> None:
        self._messages: set[str] = set()
        self._last_interface: tuple[object, ...] = ()
        self.uid = self._set_up()
        self.owner = f"label-studio project {self.uid}"
        self.tasks = known_tasks(self.store, self.uid)
        self._since = ""
        self.sweep = True

    def round(self) -> bool:
        """Store new annotations, and create the next batch of tasks where few are open.

        Returns whether every item is labelled or skipped.
        """
        interface = self._interface()
        self._store_annotations(interface)
        open_items = self._open_items()
        without_task = [position for position in open_items if position not in self.tasks]
        if without_task:
            self._create_tasks(interface, without_task)
        has_enough = len(open_items) > self.rules.batch_size // 2
        if has_enough or self._choose_batch(interface) or open_items:
            return False
        return self.store.n_completed() >= self.store.n_items

    def _project(self) -> Project:
        """The Label Studio project as it is now."""
        try:
            return self.client.project(self.number)
        except GoneError:
            raise InputError(
                f"{self.client.url} has no project {self.number} that this key may see; its "
                "number is in the address of its page."
            ) from None

    def _set_up(self) -> str:
        """Set up the Label Studio project where necessary; its ``uid``."""
        project = self._project()
        uid = project_uid(project)
        if is_empty(project.label_config or ""):
            self.client.change_project(self.number, label_config=first_interface(self.store))
            self._say_once(
                "The project had no labelling interface; it shows the items and the classes now."
            )
        n_answers = self.store.settings.answers_wanted
        if n_answers > (project.maximum_annotations or 1):
            self.client.change_project(self.number, maximum_annotations=n_answers)
            self._say_once(
                f"The project asks for {n_answers} annotations of each task now, as many as "
                "parbals requires."
            )
        if project.sampling not in (None, "Sequential sampling"):
            self._say_once(
                f"Its tasks are given out by {one_line(project.sampling).lower()}; set Sequential "
                "sampling in the project's settings to give out the most useful first."
            )
        return uid

    def _interface(self) -> Interface:
        """The labelling interface as it is now."""
        config = self._project().label_config or ""
        classes = self.store.classes
        interface = read_interface(config, self.store.form, self.store.former_classes)
        if self._last_interface == (config, classes):
            return interface
        self._last_interface = (config, classes)
        self.sweep = True  # labels that were ignored may be valid now
        missing = [name for name in classes if name not in interface.choices]
        if missing:
            names = ", ".join(map(repr, missing))
            self._say_once(f"Nobody can choose {names}: the labelling interface lacks it; add it.")
        return interface

    def _store_annotations(self, interface: Interface) -> None:
        """Store annotations since the last round, and end leases of finished and deleted tasks."""
        open_tasks = {
            self.tasks[position]: position
            for position in self._open_items()
            if position in self.tasks
        }
        filters = [] if self.sweep else changed_or_open(self._since, open_tasks)
        tasks = list(self.client.tasks(self.number, filters))
        counts = AnnotationCounts()
        latest_change = self._since
        existing: set[int] = set()
        with self.store.transaction():
            for position, task in self._project_tasks(tasks):
                existing.add(task["id"])
                latest_change = max(latest_change, str(task.get("updated_at") or ""))
                annotations = task.get("annotations")
                if not isinstance(annotations, list):
                    annotations = []
                record_annotations(self.store, interface, self.uid, position, annotations, counts)
        # Checked one by one: if tasks are deleted while pages are read, others may be missed.
        deleted = [
            position
            for task_number, position in open_tasks.items()
            if task_number not in existing and not self.client.has_task(task_number)
        ]
        self._since = latest_change
        self.sweep = False
        self._report_counts(counts)
        self._skip_deleted(deleted)
        self._end_finished(deleted)

    def _skip_deleted(self, positions: list[int]) -> None:
        """Skip items whose open tasks were deleted."""
        for position in positions:
            self.store.pass_over(position, "skip", annotator=self.owner)
        if positions:
            self.say(
                f"{counted(len(positions), 'open task was', 'open tasks were')} deleted in Label "
                "Studio; not created again."
            )

    def _end_finished(self, deleted: list[int]) -> None:
        """End the leases of items that have all answers, or whose tasks were deleted."""
        n_required = self.store.settings.answers_wanted
        votes = self.store.current_labels()
        passes = self.store.passes()
        # A skip leaves an item of a random sample to the others.
        sample = open_sample(self.store)
        sampled = frozenset() if sample is None else read_answers(self.store, sample).open
        finished = [
            position
            for position in self._open_items()
            if position in deleted
            or (
                position not in sampled
                and len(votes.get(position, ())) + len(passes.get(position, ())) >= n_required
            )
        ]
        if finished:
            self.store.end_leases(finished, annotator=self.owner)

    def _project_tasks(self, tasks: Sequence[dict[str, Any]]) -> list[tuple[int, dict[str, Any]]]:
        """The tasks of this parbals project, each with the position of its item."""
        matched: list[tuple[int, dict[str, Any]]] = []
        before = dict(self.tasks)
        for task in tasks:
            number = task.get("id")
            data = task.get("data")
            if not isinstance(number, int) or not isinstance(data, dict):
                continue
            name = str(data.get(ITEM))
            position = self.store.known_positions([name]).get(name)
            if position is None or data.get(PROJECT) != self.store.identity:
                continue
            if self.tasks.setdefault(position, number) == number:
                matched.append((position, task))
            else:
                self._say_once(
                    f"Task {number} is about an item that has a task already; its labels are "
                    "taken from the first."
                )
        self._log_tasks({p: task for p, task in self.tasks.items() if p not in before})
        return matched

    def _log_tasks(self, new: dict[int, int]) -> None:
        """Log new tasks: position → number."""
        self.tasks |= new
        if new:
            self.store.log(TASKS, project=self.uid, what=list(new.items()))

    def _report_counts(self, counts: AnnotationCounts) -> None:
        """Add counts to the result, and say them."""
        for note in counts.notes:
            self._say_once(note)
        words = {
            "labels": "new",
            "revised": "changed",
            "withdrawn": "undone",
            "passed": "skipped",
        }
        phrases = []
        for name, word in words.items():
            count = getattr(counts, name)
            if count:
                setattr(self.result, name, getattr(self.result, name) + count)
                phrases.append(f"{count} {word}")
        if phrases:
            self.say(f"Labels: {', '.join(phrases)}.")

    def _open_items(self) -> list[int]:
        """Positions of items that have a task, or are to get one, and wait for labels."""
        return self.store.pending(annotator=self.owner)

    def _choose_batch(self, interface: Interface) -> bool:
        """Choose the next batch and create its tasks; False if no item is left."""
        from parbals_label.project.choose import NothingAvailableError, choose_batch
        from parbals_label.project.engine import refresh
        from parbals_label.project.stored_predictions import newer_answers

        if self.store.n_labelled and (
            self.store.settings.predictions is None or newer_answers(self.store)
        ):
            refresh(self.store)
        unavailable = {*self.store.votes(), *self.store.pending(), *self.store.passes()}
        unavailable.update(self.store.settings.target_items)
        if len(unavailable) == self.store.n_items:  # checked every round, so without a model
            return False
        try:
            _, batch = choose_batch(
                self.store, self.rules.batch_size, fewer=True, annotator=self.owner
            )
        except NothingAvailableError:
            return False
        self.result.batches += 1
        self._create_tasks(interface, [int(position) for position in batch.indices])
        return True

    def _create_tasks(self, interface: Interface, positions: list[int]) -> None:
        """Create the tasks of leased items, best first.

        Predictions are not uploaded: Label Studio would pre-fill them and bias annotators.
        """
        upload = partial(self.client.upload, self.number)
        tasks = []
        for item in self.store.visible_items(positions):
            why = self.store.why(item.position)
            tasks.append({"data": data_of(self.store, interface, item, why, upload)})
        numbers = self.client.create_tasks(self.number, tasks)
        self._log_tasks(dict(zip(positions, numbers, strict=True)))
        self.result.created += len(tasks)
        self.say(f"{counted(len(tasks), 'task')} created.")

    def _say_once(self, sentence: str) -> None:
        """Say a sentence unless it was said before."""
        if sentence not in self._messages:
            self._messages.add(sentence)
            self.say(sentence)
