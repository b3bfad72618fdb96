"""The running page: when the queue must be filled, and when there is nothing left to choose."""

import asyncio
import time

import pytest
from page_server import make_project

from parbals.store.records import Submission
from parbals.store.store import Store
from parbals.web.session import Session


@pytest.fixture
def opened(tmp_path):
    """``opened(n_items, queued)``: a session without a server."""
    sessions = []

    def open_session(**project):
        session = Session(make_project(tmp_path / "p", **project))
        session.open()
        sessions.append(session)
        return session

    yield open_session
    for session in sessions:
        session.close()


def test_the_queue_is_filled_when_half_of_three_for_everybody_are_gone(opened):
    session = opened(n_items=100, queued=5)

    def missing(*people, ready=None):
        session._seen = dict.fromkeys(people, time.monotonic())
        session._ready = {} if ready is None else {people[0]: ready}
        return asyncio.run(session._missing())

    assert missing() == (0, 0.0), "half of ten wait"
    assert missing("ann", ready=4) == (6, 30.0), "nobody is in a hurry"
    session.touch("ann", done=60)
    assert missing("ann", ready=4) == (6, 2.0), "two a second"
    assert missing("ann", ready=0) == (10, 0.0), "ann waits"
    assert missing(*map(str, range(20))) == (55, 0.0), "three for each of twenty"


def test_when_everything_is_labelled_or_passed_the_queue_says_so(opened):
    session = opened(n_items=4, queued=4)
    with Store.open(session.folder) as store:
        store.submit([Submission(position, "ham") for position in range(3)], annotator="ann")
        store.pass_over(3, "skip", annotator="ann")
        assert asyncio.run(session._missing())[0] == 0
        queue = session.queue(store.queue_counts("ann"))
    assert (queue.state, queue.message) == ("finished", "Every item is labelled or passed.")
