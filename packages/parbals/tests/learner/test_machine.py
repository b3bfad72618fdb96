"""A state machine: ask, tell, forget, correct, save, load and crash against a plain dictionary."""

import tempfile
from pathlib import Path

import numpy as np
import parbals
import pytest
from dose import full_count
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from parbals.errors import LabelError

N = 12
X = np.random.default_rng(0).standard_normal((N, 2))
CLASSES = ["a", "b", "c"]
items = st.integers(0, N - 1)


class LearnerMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "run.parbals"
        self.active = parbals.ActiveLearner(X, CLASSES, strategy="random", random_state=5)
        self.labels = {}
        self.pending = []
        self.history = {i: [] for i in range(N)}
        self.saved = None

    def teardown(self):
        self.folder.cleanup()

    @precondition(lambda self: len(self.labels) + len(self.pending) < N)
    @rule(data=st.data())
    def ask(self, data):
        n = data.draw(st.integers(1, N - len(self.labels) - len(self.pending)))
        new_items = self.active.ask(n).tolist()
        assert len(set(new_items)) == n
        assert not set(new_items) & (set(self.labels) | set(self.pending))
        self.pending += new_items
        for i in new_items:
            self.history[i].append(("ask", None))

    @rule(item=items, label=st.sampled_from(CLASSES))
    def tell(self, item, label):
        if self.labels.get(item, label) != label:
            with pytest.raises(LabelError):
                self.active.tell(item, label)
            return
        n_new = self.active.tell([item], [label])
        assert n_new == (item not in self.labels)
        if n_new:
            self.history[item].append(("tell", label))
            self.labels[item] = label
            self.pending = [i for i in self.pending if i != item]

    @precondition(lambda self: self.labels)
    @rule(data=st.data(), label=st.sampled_from(CLASSES))
    def correct(self, data, label):
        item = data.draw(st.sampled_from(sorted(self.labels)))
        if self.active.correct(item, label):
            self.history[item].append(("correct", label))
        self.labels[item] = label

    @precondition(lambda self: self.labels or self.pending)
    @rule(data=st.data())
    def forget(self, data):
        item = data.draw(st.sampled_from(sorted({*self.labels, *self.pending})))
        self.active.forget(item)
        self.labels.pop(item, None)
        self.pending = [i for i in self.pending if i != item]
        self.history[item].append(("forget", None))

    @rule()
    def save(self):
        self.active.save(self.path)
        self.saved = (
            dict(self.labels),
            list(self.pending),
            {i: list(h) for i, h in self.history.items()},
        )

    @precondition(lambda self: self.saved is not None)
    @rule()
    def crash(self):
        """Restart from the file that was saved last."""
        self.active = parbals.ActiveLearner.load(self.path)
        labels, pending, history = self.saved
        self.labels = dict(labels)
        self.pending = list(pending)
        self.history = {i: list(h) for i, h in history.items()}

    @invariant()
    def everything_agrees(self):
        assert self.active.labels == self.labels
        assert self.active.pending == self.pending
        assert all(self.active.history(i) == self.history[i] for i in range(N))


def run(examples, steps):
    suppressed = [HealthCheck.too_slow, HealthCheck.data_too_large]
    run_settings = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=suppressed,
        derandomize=True,
    )
    run_state_machine_as_test(LearnerMachine, settings=run_settings)


def test_a_small_dose():
    run(10, 25)


@pytest.mark.faults
def test_500_runs_of_50_steps():
    run(full_count(500, least=10), 50)
