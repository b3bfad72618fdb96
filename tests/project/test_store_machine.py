"""Any sequence of calls leaves the store in the state a plain dictionary says."""

import shutil
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from parbals.errors import InputError, LabelError
from parbals.project.records import Submission
from parbals.project.store import Store

CLASSES = ("a", "b", "c")
N_ITEMS = 6
positions = st.integers(0, N_ITEMS - 1)
labels = st.sampled_from(CLASSES)
people = st.sampled_from(["ann", "bob"])


class StoreMachine(RuleBasedStateMachine):
    """Submits, corrects, withdraws, hands out, gives back and reopens, beside a model made of dictionaries."""

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.store = Store.create(self.folder, classes=CLASSES, settings={})
        self.store.add_items((str(n), {}) for n in range(N_ITEMS))
        self.answers = {}  # (position, annotator) → labels in order, None where withdrawn
        self.requests = {}  # request → (position, annotator, label)
        self.leases = {}  # position → (batch, rank, annotator, has expired)
        self.batches = 0

    def held(self, position, annotator):
        return self.answers.get((position, annotator), [None])[-1]

    def accept(self, position, annotator, label):
        if self.held(position, annotator) != label:
            self.answers.setdefault((position, annotator), []).append(label)
        if self.leases.get(position, (0, 0, "someone else"))[2] in (None, annotator):
            del self.leases[position]

    @rule(position=positions, label=labels, annotator=people, revise=st.booleans(), request=st.none() | st.just("id"))
    def submit(self, position, label, annotator, revise, request):
        request = request and f"id-{len(self.requests)}"
        before = self.held(position, annotator)
        answer = Submission(position, label, request)
        if before not in (None, label) and not revise:
            with pytest.raises(LabelError, match="already has the label"):
                self.store.submit([answer], annotator=annotator)
            return
        result = self.store.submit([answer], annotator=annotator, revise=revise)
        expected = "new" if before is None else "repeated" if before == label else "revised"
        assert getattr(result, expected) == result.new + result.repeated + result.revised == 1
        if request and before != label:
            self.requests[request] = (position, annotator, label)
        self.accept(position, annotator, label)

    @rule(chosen=st.dictionaries(positions, labels, min_size=1), annotator=people)
    def submit_many(self, chosen, annotator):
        answers = [Submission(position, label) for position, label in chosen.items()]
        if all(self.held(position, annotator) in (None, label) for position, label in chosen.items()):
            self.store.submit(answers, annotator=annotator)
            for position, label in chosen.items():
                self.accept(position, annotator, label)
        else:
            with pytest.raises(LabelError):
                self.store.submit(answers, annotator=annotator)

    @rule(data=st.data())
    def repeat_a_request(self, data):
        if self.requests:
            request = data.draw(st.sampled_from(sorted(self.requests)))
            position, annotator, label = self.requests[request]
            answer = Submission(position, label, request)
            assert self.store.submit([answer], annotator=annotator, revise=True).repeated == 1

    @rule(position=positions, annotator=people)
    def withdraw(self, position, annotator):
        given = self.answers.get((position, annotator))
        if given is None:
            with pytest.raises(InputError, match="nothing to withdraw"):
                self.store.withdraw([position], annotator=annotator)
        else:
            assert self.store.withdraw([position], annotator=annotator) == (given[-1] is not None)
            if given[-1] is not None:
                given.append(None)

    @rule(chosen=st.lists(positions, min_size=1, max_size=3), annotator=st.none() | people, expired=st.booleans())
    def lease(self, chosen, annotator, expired):
        def free(position):
            answered = any(given[-1] is not None for (place, _), given in self.answers.items() if place == position)
            return not answered and (position not in self.leases or self.leases[position][3])

        items = [(position, 0.5, None) for position in chosen]
        expires = time.time() + (-1000 if expired else 1000)
        if len(set(chosen)) == len(chosen) and all(map(free, chosen)):
            self.batches += 1
            batch = self.store.record_batch("random", 0, items, {}, annotator=annotator, expires=expires)
            assert batch == self.batches
            self.leases.update({place: (batch, rank, annotator, expired) for rank, place in enumerate(chosen)})
        else:
            with pytest.raises(InputError, match="leave it out of the batch"):
                self.store.record_batch("random", 0, items, {}, annotator=annotator, expires=expires)

    @rule(position=positions)
    def give_back(self, position):
        assert self.store.give_back([position]) == (self.leases.pop(position, None) is not None)

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
        assert self.store.n_labelled == len(current)
        out = sorted((lease[:2], position) for position, lease in self.leases.items() if not lease[3])
        assert self.store.pending() == [position for _, position in out]

    def teardown(self):
        for (position, annotator), given in self.answers.items():
            kept = [answer for answer in self.store.history(position) if answer.annotator == annotator]
            assert [(answer.revision, answer.label) for answer in kept] == list(enumerate(given, 1))
        assert len(self.store.batches()) == self.batches
        assert self.store.check() == []
        self.store.close()
        assert len(list(Store.salvage(self.folder))) == sum(map(len, self.answers.values()))
        shutil.rmtree(self.folder)


_quiet = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

TestSmall = StoreMachine.TestCase
TestSmall.settings = settings(max_examples=30, stateful_step_count=30, **_quiet)


@pytest.mark.faults
class TestFull(StoreMachine.TestCase):
    settings = settings(max_examples=500, stateful_step_count=50, **_quiet)
