"""The running page: when the queue must be filled, and when there is nothing left to choose."""

import asyncio
import time

import pytest
from page_server import make_project
from parbals_label.store.records import Submission
from parbals_label.store.store import Store
from parbals_label.web.session import Session


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


@pytest.fixture
def missing():
    """``missing(session, *people)``: what the model is asked for when these are at work."""

    def look(session, *people, ready=None):
        session.supervisor.state = "idle"
        session._active_at = dict.fromkeys(people, time.monotonic())
        session._available = {} if ready is None else {people[0]: ready}
        return asyncio.run(session._missing())[0]

    return look


def answer(session, *positions):
    with Store.open(session.folder) as store:
        store.submit([Submission(p, "ham") for p in positions], annotator="ann")


def test_the_queue_is_filled_when_half_of_three_for_everybody_are_gone(opened, missing):
    session = opened(n_items=100, queued=6)
    assert missing(session) == 0, "half of ten wait"
    assert missing(session, "ann", ready=4) == 0, "nobody has said anything new"
    answer(session, 0, 1)
    assert missing(session, "ann") == 6, "four of ten are left"
    assert missing(session, "ann") == 0, "that was asked for already"
    answer(session, 2)
    assert missing(session, *map(str, range(20))) == 57, "three for each of twenty"


def test_a_slow_model_chooses_ahead_as_far_as_it_can(opened, missing):
    session = opened(n_items=100, queued=6)
    assert missing(session) == 0
    began = time.monotonic()
    session._answer_times.extend(began - n - 0.5 for n in reversed(range(30)))  # one a second
    session.supervisor.seconds_to_choose = 5.0
    session.supervisor.n_chosen = 10
    answer(session, 0)
    assert missing(session, "ann") == 15, "twenty for the five seconds that a batch takes"
    session.supervisor.seconds_to_choose = 60.0
    session.supervisor.n_chosen = 30
    answer(session, 1, 2)
    assert missing(session, "ann") == 27, "thirty take a minute"


def test_quick_people_are_quick_from_their_first_answers_on(opened, missing):
    session = opened(n_items=200, queued=6)
    assert missing(session) == 0
    session.touch("ann", done=25)  # within five seconds: five a second, not one
    session.supervisor.seconds_to_choose = 3.0
    session.supervisor.n_chosen = 30
    answer(session, 0)
    assert missing(session, "ann") == 55, "sixty for the three seconds of a batch"


def test_the_model_is_not_asked_while_it_chooses(opened, missing):
    session = opened(n_items=100, queued=1)
    assert missing(session) == 0
    answer(session, 0)
    session.supervisor.state = "choosing"
    assert asyncio.run(session._missing()) == (0, [])
    assert missing(session) == 10


@pytest.mark.parametrize(("labels", "expected"), [(4, 0), (5, 10)])
def test_the_first_items_are_replaced_after_five_answers(opened, missing, labels, expected):
    session = opened(n_items=100, queued=0)
    with Store.open(session.folder) as store:
        waiting = store.unopened()["k-means"]
    assert len(waiting) == 20
    assert missing(session, "ann") == 0
    answer(session, *waiting[:labels])
    assert missing(session, "ann") == expected


def test_what_was_chosen_in_haste_is_replaced_as_soon_as_something_is_new(opened, missing):
    session = opened(n_items=100, queued=5)
    with Store.open(session.folder) as store:
        rows = [(position, None, None) for position in range(50, 70)]
        store.record_batch("confidence", 0, rows, {}, queued=True)
    assert missing(session, "ann") == 0
    answer(session, 0)
    session.supervisor.state = "idle"
    n_items, replaces = asyncio.run(session._missing())
    assert n_items == 6, "four of ten that the strategy chose are left, and they stay"
    assert set(replaces) == {"confidence", "random"}, (
        "the first items, if there are any, stay as well"
    )


def test_when_everything_is_labelled_or_passed_the_queue_says_so(opened):
    session = opened(n_items=4, queued=4)
    with Store.open(session.folder) as store:
        store.submit([Submission(position, "ham") for position in range(3)], annotator="ann")
        store.pass_over(3, "skip", annotator="ann")
        session.supervisor.state = "idle"
        assert asyncio.run(session._missing()) == (0, [])
        queue = session.queue(store.queue_counts("ann"))
    assert (queue.state, queue.message) == (
        "finished",
        "All items are labelled, skipped or marked unsure.",
    )
