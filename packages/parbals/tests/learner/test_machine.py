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
        self.labels, self.out = {}, []
        self.history = {i: [] for i in range(N)}
        self.saved = None

    def teardown(self):
        self.folder.cleanup()

    @precondition(lambda self: len(self.labels) + len(self.out) < N)
    @rule(data=st.data())
    def ask(self, data):
        n = data.draw(st.integers(1, N - len(self.labels) - len(self.out)))
        out = self.active.ask(n).tolist()
        assert len(set(out)) == n
        assert not set(out) & (set(self.labels) | set(self.out))
        self.out += out
        for i in out:
            self.history[i].append(("ask", None))

    @rule(item=items, label=st.sampled_from(CLASSES))
    def tell(self, item, label):
        if self.labels.get(item, label) != label:
            with pytest.raises(LabelError):
                self.active.tell(item, label)
            return
        new = self.active.tell([item], [label])
        assert new == (item not in self.labels)
        if new:
            self.history[item].append(("tell", label))
            self.labels[item] = label
            self.out = [i for i in self.out if i != item]

    @precondition(lambda self: self.labels)
    @rule(data=st.data(), label=st.sampled_from(CLASSES))
    def correct(self, data, label):
        item = data.draw(st.sampled_from(sorted(self.labels)))
        if self.active.correct(item, label):
            self.history[item].append(("correct", label))
        self.labels[item] = label

    @precondition(lambda self: self.labels or self.out)
    @rule(data=st.data())
    def forget(self, data):
        item = data.draw(st.sampled_from(sorted({*self.labels, *self.out})))
        self.active.forget(item)
        self.labels.pop(item, None)
        self.out = [i for i in self.out if i != item]
        self.history[item].append(("forget", None))

    @rule()
    def save(self):
        self.active.save(self.path)
        self.saved = (
            dict(self.labels),
            list(self.out),
            {i: list(h) for i, h in self.history.items()},
        )

    @precondition(lambda self: self.saved is not None)
    @rule()
    def crash(self):
        """The process is gone; what was saved last comes back."""
        self.active = parbals.ActiveLearner.load(self.path)
        labels, out, history = self.saved
        self.labels, self.out, self.history = (
            dict(labels),
            list(out),
            {i: list(h) for i, h in history.items()},
        )

    @invariant()
    def everything_agrees(self):
        assert self.active.labels == self.labels
        assert self.active.pending == self.out
        assert all(self.active.history(i) == self.history[i] for i in range(N))


def run(examples, steps):
    quiet = [HealthCheck.too_slow, HealthCheck.data_too_large]
    chosen = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=quiet,
        derandomize=True,
    )
    run_state_machine_as_test(LearnerMachine, settings=chosen)


def test_a_small_dose():
    run(20, 25)


@pytest.mark.faults
def test_500_runs_of_50_steps():
    run(full_count(500, least=20), 50)
