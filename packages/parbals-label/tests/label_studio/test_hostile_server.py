"""Rounds against a server that answers whatever it likes: bounded, stored whole, told in one line.

The answers look like Label Studio's, and any of their parts may be something else.
"""

import re
import shutil
from threading import Event

import pytest
from dose import small_and_full
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)
from parbals.errors import InputError
from parbals_label.label_studio.client import Client, ServerError
from parbals_label.label_studio.sync import Rules, keep_supplied
from parbals_label.store.store import Store
from test_small_server import CONFIG

MAX_REQUESTS = 200
"""Of one round with six items: tasks are read by the hundred, and each open one is looked up."""
LIKELY_TEXTS = ("", "spam", "ham", "2026-01-02T00:00:00Z")
TEXTS = st.sampled_from(
    (
        *LIKELY_TEXTS,
        *("eggs", "a\r\n\x1b[2Jb", "\ud800", "x" * 5000, "machine:gpt", "me", "import"),
        *("0001-01-01T00:00:00", "9999-12-31T23:59:59+00:00"),
    )
)
NUMBERS = st.sampled_from([-1, 0, 1, 7, 100, 2**31, 2**63, 10**30, 1.5, float("inf"), True])
ANYTHING = st.recursive(
    st.none() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)


def mostly(usual):
    """The usual value, one time in eight anything else."""
    return st.integers(0, 7).flatmap(lambda n: ANYTHING if n == 0 else usual)


def annotations():
    region = st.fixed_dictionaries(
        {
            "type": mostly(st.just("choices")),
            "from_name": mostly(st.just("label")),
            "value": mostly(
                st.fixed_dictionaries({"choices": mostly(st.lists(TEXTS, max_size=2))})
            ),
        }
    )
    fields = {
        "id": mostly(st.integers(1, 5)),
        "result": mostly(st.lists(mostly(region), max_size=2)),
        "updated_at": mostly(TEXTS),
        "completed_by": mostly(st.integers(1, 3) | st.fixed_dictionaries({"email": TEXTS})),
        "was_cancelled": mostly(st.booleans()),
    }
    return mostly(st.lists(mostly(st.fixed_dictionaries(fields)), max_size=3))


class HostileClient(Client):
    """The client, with answers that are drawn instead of sent."""

    def __init__(self, draw, tasks):
        super().__init__("http://localhost:8080", "0123456789abcdef")
        self.draw = draw
        self.their_tasks = tasks
        self.n_requests = 0

    def _send(self, method, path, body=None, authorization=None, **how):
        self.n_requests += 1
        assert self.n_requests <= MAX_REQUESTS, "it asks again and again"
        status = self.draw(st.sampled_from([200] * 30 + [404, 500, 401, 429, 302, 204]))
        return status, self.draw(mostly(self._usual_answer(method, path, body)))

    def _usual_answer(self, method, path, body):
        if method == "POST" and "import" in path:
            first = 100 + len(self.their_tasks)
            created = [{**task, "id": first + n} for n, task in enumerate(body)]
            self.their_tasks += created
            return st.just({"task_ids": [task["id"] for task in created]})
        if path.startswith("/api/tasks/?"):
            tasks = [
                {**task, "annotations": self.draw(annotations())}
                if self.draw(st.integers(0, 9))
                else self.draw(ANYTHING)
                for task in self.their_tasks
            ]
            total = st.integers(0, 3) | st.just(len(tasks)) | st.sampled_from([10**7, 10**15])
            return st.fixed_dictionaries({"tasks": st.just(tasks), "total": mostly(total)})
        if path.startswith("/api/tasks/"):
            return st.just({})
        project = {
            "id": mostly(st.just(1)),
            "created_at": st.just("2026-01-01T00:00:00Z"),
            "label_config": st.sampled_from([CONFIG] * 12 + ["", "<View", "<a>" * 2000, None]),
        }
        return st.fixed_dictionaries(project)


class HostileServer(RuleBasedStateMachine):
    """Rounds one after the other, with the same project on both sides."""

    source = None

    @initialize()
    def begin(self):
        self.folder = self.source.with_name(f"{self.source.name}-hostile")
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.source, self.folder)
        self.tasks = []

    @rule(data=st.data())
    def synchronise(self, data):
        client = HostileClient(data.draw, self.tasks)
        messages = []
        with Store.open(self.folder) as store:
            try:
                result = keep_supplied(
                    store,
                    client,
                    1,
                    Rules(batch_size=6, once=True),
                    Event(),
                    say=messages.append,
                )
                messages += result.notes
            except (InputError, ServerError) as error:
                messages.append(str(error))
            assert store.check() == []
            for position, votes in store.current_labels().items():
                assert set(votes.values()) <= {"ham", "spam"}, position
        for message in messages:
            assert re.fullmatch(r"[^\x00-\x1f\x7f-\x9f]*", message), message
            message.encode("utf-8")

    def teardown(self):
        shutil.rmtree(self.folder, ignore_errors=True)


_quiet = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None}


@pytest.mark.parametrize("n_examples", small_and_full(15, 500))
def test_rounds_against_a_hostile_server(folder, n_examples):
    HostileServer.source = folder
    limits = settings(max_examples=n_examples, stateful_step_count=4, **_quiet)
    run_state_machine_as_test(HostileServer, settings=limits)
