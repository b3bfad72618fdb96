"""Any sequence of calls leaves the store in the state a plain dictionary says."""

import shutil
import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path

import pytest
from dose import full_count
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from message_projects import pass_history
from parbals.errors import InputError, LabelError
from parbals_label.store.records import Submission
from parbals_label.store.schema import schema_rows
from parbals_label.store.store import Store

CLASSES = ("a", "b", "c")
N_ITEMS = 6
positions = st.integers(0, N_ITEMS - 1)
labels = st.sampled_from(CLASSES)
people = st.sampled_from(["ann", "bob"])
comments = st.sampled_from([None, "sure", "not sure"])


def everything(folder):
    """Every row of the project."""
    with closing(sqlite3.connect(folder / "project.sqlite3")) as connection:
        tables = [name for kind, name, *_ in schema_rows(connection) if kind == "table"]
        return {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in tables}


class StoreMachine(RuleBasedStateMachine):
    """Submits, corrects, withdraws, hands out, gives back and reopens, beside a model made of
    dictionaries."""

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.store = Store.create(self.folder, classes=CLASSES, settings={})
        self.store.add_items((str(n), {}) for n in range(N_ITEMS))
        self.answers = {}  # (position, annotator) → labels in order, None where withdrawn
        self.acknowledged = []  # how to repeat every request that was answered
        self.leases = {}  # position → (batch, rank, annotator, has expired, waits on the page)
        self.batches = 0
        self.places = {}  # position → (batch, rank) of the latest batch it was in
        self.passes = {}  # (position, annotator) → kinds in order
        self.comments = {}  # (position, annotator) → comment of the latest answer
        self.pass_comments = {}
        self.wanted = 1

    def held(self, position, annotator):
        return self.answers.get((position, annotator), [None])[-1]

    def accept(self, position, annotator, label, comment=None, again=False):
        if again or self.held(position, annotator) != label:
            self.answers.setdefault((position, annotator), []).append(label)
            self.comments[position, annotator] = comment
        batch, rank, holder, _, queued = self.leases.get(
            position, (0, 0, "someone else", False, False)
        )
        if holder in (None, annotator):
            del self.leases[position]
            if queued and self.n_labels(position) < self.wanted:
                self.leases[position] = (batch, rank, None, False, True)

    def n_labels(self, position):
        return sum(
            given[-1] is not None for (place, _), given in self.answers.items() if place == position
        )

    def passed(self, position, annotator):
        kind = self.passes.get((position, annotator), [None])[-1]
        return None if kind == "taken back" else kind

    @rule(
        position=positions,
        label=labels,
        annotator=people,
        revise=st.booleans(),
        request=st.none() | st.just("id"),
        comment=comments,
    )
    def submit(self, position, label, annotator, revise, request, comment):
        request = request and self.new_id()
        before = self.held(position, annotator)
        answer = Submission(position, label, request, comment)
        if before not in (None, label) and not revise:
            with pytest.raises(LabelError, match="already has the label"):
                self.store.submit([answer], annotator=annotator)
            return
        result = self.store.submit([answer], annotator=annotator, revise=revise)
        same = comment is None or comment == self.comments.get((position, annotator)) or not revise
        expected = (
            "new" if before is None else "repeated" if before == label and same else "revised"
        )
        assert getattr(result, expected) == result.new + result.repeated + result.revised == 1
        if request:
            again = Submission(position, label, request, "said again")
            self.acknowledged.append(
                lambda: self.store.submit([again], annotator=annotator, revise=True).repeated == 1
            )
        self.accept(position, annotator, label, comment, again=expected == "revised")

    @rule(chosen=st.dictionaries(positions, labels, min_size=1), annotator=people)
    def submit_many(self, chosen, annotator):
        answers = [Submission(position, label) for position, label in chosen.items()]
        if all(
            self.held(position, annotator) in (None, label) for position, label in chosen.items()
        ):
            self.store.submit(answers, annotator=annotator)
            for position, label in chosen.items():
                self.accept(position, annotator, label)
        else:
            with pytest.raises(LabelError):
                self.store.submit(answers, annotator=annotator)

    @rule(data=st.data())
    def say_the_same_again(self, data):
        """A label or pass that holds, with an id of its own."""
        given = [(*key, self.held(*key)) for key in self.answers if self.held(*key) is not None]
        passed = [(*key, self.passed(*key)) for key in self.passes if self.passed(*key)]
        passed = [row for row in passed if self.held(*row[:2]) is None]
        if given + passed:
            row = data.draw(st.sampled_from(given + passed))
            position, annotator, said = row
            if row in given:
                self.submit(position, said, annotator, False, "id", None)
            else:
                self.pass_over(position, annotator, said, None)

    def new_id(self):
        return f"id-{len(self.acknowledged)}"

    @rule(data=st.data(), times=st.integers(1, 3))
    def replay(self, data, times):
        """Any request that was ever answered, of any kind, late and again: nothing changes."""
        if self.acknowledged:
            before = everything(self.folder)
            for _ in range(times):
                repeat = data.draw(st.sampled_from(range(len(self.acknowledged))))
                assert self.acknowledged[repeat]()
            assert everything(self.folder) == before

    @rule(position=positions, annotator=people)
    def withdraw(self, position, annotator):
        given = self.answers.get((position, annotator))
        if given is None:
            with pytest.raises(InputError, match="nothing to undo"):
                self.store.undo_labels([position], annotator=annotator)
        else:
            assert self.store.undo_labels([position], annotator=annotator) == (
                given[-1] is not None
            )
            if given[-1] is not None:
                given.append(None)

    @rule(wanted=st.integers(1, 2))
    def change_answers_wanted(self, wanted):
        self.store.update_settings(answers_wanted=wanted)
        self.wanted = wanted

    @rule(
        position=positions,
        annotator=people,
        kind=st.sampled_from(["skip", "unsure"]),
        comment=comments,
    )
    def pass_over(self, position, annotator, kind, comment):
        if self.held(position, annotator) is not None:
            with pytest.raises(LabelError, match="undo it"):
                self.store.pass_over(position, kind, annotator=annotator)
            return
        before = self.passed(position, annotator)
        same = before == kind and comment in (None, self.pass_comments.get((position, annotator)))
        expected = "new" if before is None else "repeated" if same else "revised"
        said = {"annotator": annotator, "request_id": self.new_id()}
        assert self.store.pass_over(position, kind, comment=comment, **said) == expected
        self.acknowledged.append(lambda: self.store.pass_over(position, kind, **said) == "repeated")
        if not same:
            self.passes.setdefault((position, annotator), []).append(kind)
            self.pass_comments[position, annotator] = comment
        self.free(position, annotator)

    def free(self, position, annotator):
        batch, rank, holder, _, queued = self.leases.get(position, (0, 0, None, False, False))
        if queued and holder == annotator:
            self.leases[position] = (batch, rank, None, False, True)
            return True
        return False

    @rule(position=positions, annotator=people)
    def undo(self, position, annotator):
        label = self.held(position, annotator)
        kind = self.passed(position, annotator)
        if label is None and kind is None:
            with pytest.raises(InputError, match="neither labelled nor skipped"):
                self.store.undo(position, annotator, lease_seconds=1000.0)
            return
        said = {"lease_seconds": 1000.0, "request_id": self.new_id()}
        undone, _ = self.store.undo(position, annotator, **said)
        self.acknowledged.append(lambda: self.store.undo(position, annotator, **said)[0] == undone)
        said_before = {"label": label} if label is not None else {"kind": kind}
        assert {name: undone[name] for name in undone if name != "comment"} == said_before
        if label is not None:
            self.answers[position, annotator].append(None)
        else:
            self.passes[position, annotator].append("taken back")
        if position in self.leases:
            batch, rank, holder, expired, queued = self.leases[position]
            if queued and (holder in (None, annotator) or expired):
                self.leases[position] = (batch, rank, annotator, False, True)
        elif position in self.places:
            self.leases[position] = (*self.places[position], annotator, False, True)

    @rule(annotator=people, n=st.integers(1, 3), expired=st.booleans())
    def take(self, annotator, n, expired):
        inline = sorted(
            (lease[:2], position) for position, lease in self.leases.items() if lease[4]
        )
        given = [position for _, position in inline if self.leases[position][2] == annotator][:n]
        for _, position in inline:
            _, _, holder, late, _ = self.leases[position]
            mine = (
                self.held(position, annotator) is not None
                or self.passed(position, annotator) is not None
            )
            if len(given) >= n or position in given or not (holder is None or late):
                continue
            if self.n_labels(position) >= self.wanted:
                del self.leases[position]
            elif not mine:
                given.append(position)
        leases = self.store.take(annotator, n, -1000.0 if expired else 1000.0)
        assert [lease.position for lease in leases] == given
        for position in given:
            self.leases[position] = (*self.leases[position][:2], annotator, expired, True)

    @rule(annotator=people, chosen=st.lists(positions, max_size=3, unique=True))
    def renew(self, annotator, chosen):
        mine = [
            place for place in chosen if self.leases.get(place, (0, 0, None, 0, 0))[2] == annotator
        ]
        mine = [place for place in mine if self.leases[place][4]]
        assert self.store.renew(annotator, chosen, 1000.0) == mine
        for place in mine:
            self.leases[place] = (*self.leases[place][:2], annotator, False, True)

    @rule(annotator=people, chosen=st.lists(positions, max_size=3, unique=True))
    def release(self, annotator, chosen):
        assert self.store.release(annotator, chosen) == sum(
            [self.free(place, annotator) for place in chosen]
        )

    @rule(chosen=st.lists(positions, min_size=1, max_size=3, unique=True))
    def queue(self, chosen):
        free = [place for place in chosen if self.may_go_out(place)]
        items = [(position, 0.5, None) for position in chosen]
        if not free:
            with pytest.raises(InputError, match="leave it out of the batch"):
                self.store.record_batch("random", 0, items, {}, queued=True)
            return
        self.batches += 1
        assert self.store.record_batch("random", 0, items, {}, queued=True) == self.batches
        for rank, place in enumerate(free):
            self.leases[place] = (self.batches, rank, None, False, True)
            self.places[place] = (self.batches, rank)

    def may_go_out(self, position):
        _, _, _, expired, queued = self.leases.get(position, (0, 0, None, True, False))
        return not self.n_labels(position) and expired and not queued

    @rule(
        chosen=st.lists(positions, min_size=1, max_size=3),
        annotator=st.none() | people,
        expired=st.booleans(),
    )
    def lease(self, chosen, annotator, expired):
        free = self.may_go_out

        items = [(position, 0.5, None) for position in chosen]
        expires = time.time() + (-1000 if expired else 1000)
        if len(set(chosen)) == len(chosen) and all(map(free, chosen)):
            self.batches += 1
            batch = self.store.record_batch(
                "random", 0, items, {}, annotator=annotator, expires=expires
            )
            assert batch == self.batches
            for rank, place in enumerate(chosen):
                self.leases[place] = (batch, rank, annotator, expired, False)
                self.places[place] = (batch, rank)
        else:
            with pytest.raises(InputError, match="leave it out of the batch"):
                self.store.record_batch(
                    "random", 0, items, {}, annotator=annotator, expires=expires
                )

    @rule(position=positions)
    def end_leases(self, position):
        assert self.store.end_leases([position]) == (self.leases.pop(position, None) is not None)

    @rule()
    def reopen(self):
        self.store.close()
        self.store = Store.open(self.folder)

    @rule()
    def a_reader_agrees(self):
        with Store.open(self.folder, read_only=True) as reader:
            assert reader.current_labels() == self.store.current_labels()

    @invariant()
    def the_store_says_what_the_dictionary_says(self):
        current = {}
        for (position, annotator), given in self.answers.items():
            if given[-1] is not None:
                current.setdefault(position, {})[annotator] = given[-1]
        assert self.store.current_labels() == current
        assert sorted(self.store.labelled()) == sorted(current)
        assert self.store.n_labelled == len(current)
        out = sorted(
            (lease[:2], position)
            for position, lease in self.leases.items()
            if lease[4] or not lease[3]
        )
        assert self.store.pending() == [position for _, position in out]
        passed = {
            key: kinds[-1]
            for key, kinds in self.passes.items()
            if self.passed(*key) and not self.held(*key)
        }
        assert {
            (p, a): kind for p, by in self.store.passes().items() for a, kind in by.items()
        } == passed
        waiting = [
            place
            for place, lease in self.leases.items()
            if lease[4] and (lease[2] is None or lease[3])
        ]
        assert self.store.queued()[0] == sorted(waiting)

    def teardown(self):
        for (position, annotator), given in self.answers.items():
            stored = [
                answer for answer in self.store.history(position) if answer.annotator == annotator
            ]
            assert [(answer.revision, answer.label) for answer in stored] == list(
                enumerate(given, 1)
            )
        for (position, annotator), kinds in self.passes.items():
            assert [
                p.kind for p in pass_history(self.store, position) if p.annotator == annotator
            ] == kinds
        assert len(self.store.batches()) == self.batches
        assert self.store.check() == []
        self.store.close()
        assert len(list(Store.salvage(self.folder))) == sum(map(len, self.answers.values()))
        shutil.rmtree(self.folder)


_quiet = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

TestSmall = StoreMachine.TestCase
TestSmall.settings = settings(max_examples=15, stateful_step_count=30, **_quiet)


@pytest.mark.faults
class TestFull(StoreMachine.TestCase):
    settings = settings(max_examples=full_count(500, least=15), stateful_step_count=50, **_quiet)
