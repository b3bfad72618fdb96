"""No statement is false for the population it names oftener than it says, whatever people do."""

import shutil
import tempfile
from functools import cache
from itertools import combinations
from pathlib import Path

import pytest
from dose import full_count
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from measured_projects import CLASSES, add_predicted, label, make_measured, skip, truth
from parbals.errors import InputError
from parbals.learner.evaluation.certify import hypergeometric_limits, sample_delta
from parbals_label.project.classes import change_classes
from parbals_label.project.export_records import export_records
from parbals_label.project.measured import held_back_positions
from parbals_label.project.measuring import begin_measurement
from parbals_label.project.samples import random_samples
from parbals_label.store.batches import ItemsUnavailableError
from parbals_label.store.store import Store

N_ITEMS = 10
MAX_ITEMS = 13
N_DRAWN = 4
PEOPLE = ("ann", "bob")
positions = st.integers(0, MAX_ITEMS - 1)
people = st.sampled_from(PEOPLE)


@cache
def failure_rates(n, n_wrong, n_population, number):
    """Shares of all samples whose lower, and whose upper limit is false: every one is drawn."""
    is_wrong = [position < n_wrong for position in range(n_population)]
    counts = [sum(drawn) for drawn in combinations(is_wrong, n)]
    true = n_wrong / n_population
    limits = {k: exact_limits(k, n, n_population, number) for k in set(counts)}
    low = sum(limits[k][0] > true + 1e-12 for k in counts) / len(counts)
    high = sum(limits[k][1] < true - 1e-12 for k in counts) / len(counts)
    return low, high


@cache
def exact_limits(n_wrong, n, n_population, number):
    return hypergeometric_limits(n_wrong, n, n_population, sample_delta(number))


class SampleMachine(RuleBasedStateMachine):
    """Two people and a program do anything in any order, beside a model made of dictionaries.

    People tell the truth, unless both answer an item at once and differ. The program lies.
    """

    @initialize(wrong=st.sets(st.integers(0, MAX_ITEMS - 1)), assigned=st.booleans())
    def begin(self, wrong, assigned):
        self.folder = Path(tempfile.mkdtemp())
        self.wrong = wrong  # what the model gets wrong: an active learner would ask for it
        first = [position for position in wrong if position < N_ITEMS]
        make_measured(self.folder / "p", N_ITEMS, first)
        self.store = Store.open(self.folder / "p")
        for name in PEOPLE:
            self.store.invite(name)
        self.n_items = N_ITEMS
        self.active = set(PEOPLE)
        self.labels = {}  # (position, name) → the label
        self.skipped = set()  # (position, name)
        self.divided = set()
        self.drawn = []  # of every sample its positions, population and number
        self.was_complete = False
        if assigned and first:
            self.store.record_batch("margin", 0, [(p, None, None) for p in first], {})

    def teardown(self):
        if hasattr(self, "store"):
            self.store.close()
            shutil.rmtree(self.folder)

    def has_label(self, position, names=(*PEOPLE, "machine:llm")):
        return any((position, name) in self.labels for name in names)

    @rule(position=positions, name=people)
    def tell(self, position, name):
        if position < self.n_items and position not in self.divided:
            label(self.store, [position], name)
            self.labels[position, name] = truth(position)

    @rule(position=positions)
    def differ(self, position):
        if position < self.n_items and not self.has_label(position, PEOPLE):
            label(self.store, [position], "ann")
            label(self.store, [position], "bob", opposite=True)
            self.labels |= {(position, name): "" for name in PEOPLE}
            self.divided.add(position)

    @rule(position=positions)
    def answer_by_a_program(self, position):
        if position < self.n_items:
            lie = {"opposite": True, "source": "machine"}
            label(self.store, [position], "machine:llm", **lie)
            self.labels[position, "machine:llm"] = "a lie"

    @precondition(lambda self: self.drawn)
    @rule(name=st.sampled_from((*PEOPLE, "machine:llm")), n=st.integers(1, N_DRAWN))
    def answer_the_sample(self, name, n):
        for position in self.drawn[-1][0][:n]:
            if name == "machine:llm":
                self.answer_by_a_program(position)
            else:
                self.tell(position, name)

    @rule(position=positions, name=people)
    def pass_over(self, position, name):
        if position < self.n_items and (position, name) not in self.labels:
            skip(self.store, [position], name)
            self.skipped.add((position, name))

    @rule(name=people)
    def skip_all_that_is_held(self, name):
        for lease in self.store.take(name, 20, 600.0):
            if (lease.position, name) not in self.labels:
                skip(self.store, [lease.position], name)
                self.skipped.add((lease.position, name))

    @rule(position=positions, name=people)
    def undo(self, position, name):
        if position in self.divided or position >= self.n_items:
            return
        if (position, name) in self.labels:
            self.store.undo(position, name, lease_seconds=60.0)
            del self.labels[position, name]
        elif (position, name) in self.skipped:
            self.store.undo(position, name, lease_seconds=60.0)
            self.skipped.discard((position, name))

    @rule(chosen=st.sets(positions, min_size=1), queued=st.booleans())
    def assign(self, chosen, queued):
        batch = [(p, None, None) for p in sorted(chosen) if p < self.n_items]
        try:
            self.store.record_batch("margin", 0, batch, {}, queued=queued)
        except (ItemsUnavailableError, InputError):
            return

    @rule(name=people)
    def take(self, name):
        self.store.take(name, 3, 600.0)

    @rule()
    def release(self):
        self.store.release_all()

    @rule()
    def add_items(self):
        if self.n_items < MAX_ITEMS:
            self.n_items += 1
            wrong = [position for position in self.wrong if position < self.n_items]
            add_predicted(self.store, 1, wrong)

    @precondition(lambda self: self.drawn)
    @rule()
    def merge(self):
        """What a class means cannot change under a statement."""
        with pytest.raises(InputError), self.store.transaction():
            change_classes(self.store, merged={CLASSES[0]: CLASSES[1]})

    @rule(seed=st.integers(0, 2**32), queued=st.booleans(), again=st.booleans())
    def measure(self, seed, queued, again):
        population = {
            position
            for position, record in enumerate(export_records(self.store))
            if record["label"] is None
        }
        assert population == {p for p in range(self.n_items) if not self.has_label(p)}
        is_open = bool(self.drawn) and not self.is_complete()
        try:
            number = begin_measurement(self.store, N_DRAWN, queued=queued, again=again, seed=seed)
        except InputError:
            assert len(population) < N_DRAWN or (is_open and not again)
            return
        drawn = self.store.batch_positions(number)
        assert population.issuperset(drawn)
        self.drawn.append((drawn, population))

    def is_complete(self):
        """Whether every item of the latest sample is answered, or skipped by all who are asked."""
        return all(
            self.has_label(position, PEOPLE) or self.active <= self.who_skipped(position)
            for position in self.drawn[-1][0]
        )

    def who_skipped(self, position):
        return {name for p, name in self.skipped if p == position}

    @invariant()
    def the_latest_statement_is_that_of_the_definition(self):
        if not getattr(self, "drawn", None):
            return
        drawn, population = self.drawn[-1]
        sample = random_samples(self.store)[-1]
        assert sample.n_samples == sample.number == len(self.drawn)
        assert (sample.result is not None) == self.is_complete()
        hidden = set() if self.is_complete() else set(drawn)
        assert held_back_positions(self.store) == hidden
        unanswered = [p for p in drawn if not self.has_label(p, PEOPLE)]
        assert sample.n_labelled == len(drawn) - len(unanswered)
        assert sample.sources.n_skipped == sum(bool(self.who_skipped(p)) for p in unanswered)
        if sample.result is None:
            return
        unknown = {p for p in drawn if p in self.divided or p in unanswered}
        result = sample.result
        n_known_wrong = len(self.wrong.intersection(drawn) - unknown)
        assert (result.n_wrong, result.n_unknown) == (n_known_wrong, len(unknown))
        assert result.n_population == len(population)

    @invariant()
    def no_statement_fails_oftener_than_it_says(self):
        for sample in random_samples(self.store) if getattr(self, "drawn", None) else ():
            if sample.result is None:
                continue
            drawn, population = self.drawn[sample.number - 1]
            n_wrong = len(self.wrong & population)
            rates = failure_rates(len(drawn), n_wrong, len(population), sample.number)
            assert max(rates) <= sample_delta(sample.number)
            # Whatever is not known, it says no more than it would if it knew.
            true_count = len(self.wrong.intersection(drawn))
            low, high = exact_limits(true_count, len(drawn), len(population), sample.number)
            assert sample.result.error.low <= low
            assert high <= sample.result.error.high


_quiet = {
    "deadline": None,
    "derandomize": True,
    "suppress_health_check": list(HealthCheck),
}


class TestSmall(SampleMachine.TestCase):
    settings = settings(max_examples=8, stateful_step_count=25, **_quiet)


@pytest.mark.faults
class TestFull(SampleMachine.TestCase):
    settings = settings(max_examples=full_count(300, least=8), stateful_step_count=50, **_quiet)
