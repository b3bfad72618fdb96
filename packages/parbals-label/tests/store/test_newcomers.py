"""Invented names, greedy people and clocks that jump: nobody can take a project's items away."""

import sqlite3
import time
from contextlib import closing

import pytest
from dose import small_and_full
from parbals_label.project.quick import quick_batch
from parbals_label.store.current import Answered
from parbals_label.store.queue import MAX_LEASES, newcomer_limit
from parbals_label.store.records import QueueCounts, Submission
from parbals_label.store.rows import lease_clock
from parbals_label.store.store import Store

N_ITEMS = 600


@pytest.fixture
def store(tmp_path):
    with Store.create(tmp_path / "project", classes=["spam", "ham"], settings={}) as store:
        store.add_items((f"m{n}", {}) for n in range(N_ITEMS))
        yield store


def queue(store, n=N_ITEMS):
    store.record_batch("random", 0, [(p, None, None) for p in range(n)], {}, queued=True)


def taken(store, annotator, n=10, seconds=1000.0):
    return [lease.position for lease in store.take(annotator, n, seconds)]


def as_on_the_page(store, annotator, n=10):
    """Take, and where too few wait, choose more at once."""
    items = taken(store, annotator, n)
    return taken(store, annotator, n) if len(items) < n and quick_batch(store) else items


@pytest.mark.parametrize("n_names", small_and_full(500, 1_500))
def test_invented_names_get_neither_the_pool_nor_the_queue(store, n_names):
    with store.transaction():
        for number in range(n_names):
            assert len(as_on_the_page(store, f"name {number}")) == 10, "nobody is locked out"
    counts = store.queue_counts()
    assert counts.assigned <= newcomer_limit(N_ITEMS) == 200
    assert counts.waiting + counts.assigned <= 200, "nor do more wait than can be labelled"
    store.submit([Submission(0, "ham")], annotator="ann")
    known = taken(store, "ann")
    assert len(known) == 10
    with store.transaction():
        for number in range(50):
            as_on_the_page(store, f"more {number}")
    assert taken(store, "ann") == known, "what somebody has who labels is not taken over"


def test_a_newcomer_beside_a_few_others_gets_items_of_their_own(store):
    queue(store, 10)
    assert taken(store, "ann", 4) == [0, 1, 2, 3]
    assert taken(store, "bob", 4) == [4, 5, 6, 7]
    assert taken(store, "cyd", 4) == [8, 9]
    assert taken(store, "dan", 4) == [], "and waits where everything is out"


def test_an_item_that_was_taken_over_may_be_answered_by_both(store):
    store.update_settings(answers_wanted=2)
    queue(store)
    for number in range(20):
        first = taken(store, f"name {number}")
    newest = taken(store, "ann", 1)
    assert newest == [0], "the one whose time ends first"
    assert store.renew("name 0", [0], 60.0) == []
    for name in ("name 0", "ann"):
        assert store.submit([Submission(0, "ham")], annotator=name).new == 1
    assert 0 not in first


def test_one_person_has_at_most_twenty_items(store):
    queue(store)
    assert len(taken(store, "ann", 100)) == MAX_LEASES
    store.submit([Submission(p, "ham") for p in range(100)], annotator="ann")
    with store.transaction():
        for position in range(100):
            _, lease = store.undo(position, "ann", lease_seconds=60.0)
            assert (lease.expires > lease_clock() + 30) == (position < MAX_LEASES)
    assert store.queue_counts() == QueueCounts(N_ITEMS - MAX_LEASES, N_ITEMS - MAX_LEASES, 20)


def test_who_passes_everything_does_not_make_the_whole_pool_wait(store):
    passed = set()
    with store.transaction():
        while items := as_on_the_page(store, "ann", 20):
            for position in items:
                store.pass_over(position, "skip", annotator="ann")
            passed.update(items)
    assert len(passed) == 200
    store.submit([Submission(p, "ham") for p in sorted(passed)[:5]], annotator="bob")
    assert store.queue_capacity() == 10 + 10 + 5, "more with every person and label"


def test_names_are_those_who_labelled_and_are_read_once(store):
    answered = Answered()
    store.submit([Submission(0, "ham"), Submission(1, "ham")], annotator="ann")
    store.pass_over(2, "skip", annotator="bob")
    with store._db.reading() as connection:
        assert answered.read(connection, is_committed=True).names == {"ann"}
        statements = []
        connection.set_trace_callback(statements.append)
        answered.read(connection, is_committed=True)
        connection.set_trace_callback(None)
    assert len(statements) == 1, "only the number of the last answer"


@pytest.mark.parametrize("jump", [-40_000_000.0, 40_000_000.0])
def test_leases_do_not_notice_that_the_clock_was_set(store, monkeypatch, jump):
    queue(store, 4)
    assert taken(store, "ann", 2) == [0, 1]
    assert taken(store, "bob", 1, seconds=-1.0) == [2]
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + jump)
    assert store.queue_counts() == QueueCounts(available=2, waiting=2, assigned=2)
    assert taken(store, "cyd", 4) == [2, 3]
    assert store.queued() == ([], [0, 1, 2, 3])


def test_a_restarted_page_starts_leases_again_whatever_the_clock_said(store):
    queue(store, 4)
    taken(store, "ann", 2)
    with closing(sqlite3.connect(store.folder / "project.sqlite3")) as connection, connection:
        # Given by a process whose clock was a year ahead, and a year behind.
        connection.execute("UPDATE leases SET expires = expires + 4e7 WHERE position = 0")
        connection.execute("UPDATE leases SET expires = expires - 4e7 WHERE position = 1")
    store.restart_leases(60.0)
    assert store.queued() == ([2, 3], [0, 1])
    with closing(sqlite3.connect(store.folder / "project.sqlite3")) as connection:
        (longest,) = connection.execute("SELECT max(expires) FROM leases").fetchone()
    assert longest <= lease_clock() + 60.0


def test_everything_that_is_out_can_be_given_back(store):
    queue(store, 4)
    taken(store, "ann", 2)
    taken(store, "bob", 1)
    store.record_batch("random", 0, [(7, None, None)], {}, annotator="ann")
    store.record_batch("random", 0, [(8, None, None)], {})
    assert store.release_all("ann") == 3
    assert store.pending() == [0, 1, 2, 3, 8]
    assert taken(store, "cyd", 4) == [0, 1, 3]
    assert store.release_all() == 5
    assert store.queue_counts() == QueueCounts(available=4, waiting=4, assigned=0)
    assert store.pending() == [0, 1, 2, 3]
    assert store.submit([Submission(0, "ham")], annotator="ann").new == 1
