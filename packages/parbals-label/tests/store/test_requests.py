"""Retries are free: a request that was answered changes nothing when it comes again."""

import random
import shutil

import pytest
from message_projects import pass_history
from parbals.errors import ProjectDamagedError
from parbals_label.store.answers import RequestIdReusedError
from parbals_label.store.journal import verified_start
from parbals_label.store.records import Submission
from parbals_label.store.store import Store

CLASSES = ("ham", "spam", "eggs")
N_ITEMS = 30


@pytest.fixture
def store(tmp_path):
    with Store.create(tmp_path / "p", classes=CLASSES, settings={}) as made:
        made.add_items((f"m{n}", {}) for n in range(N_ITEMS))
        rows = [(position, None, None) for position in range(N_ITEMS)]
        made.record_batch("random", 0, rows, {}, queued=True)
        yield made


def state(store):
    """What a retry must not change: every answer, pass and lease, and the journal."""
    stored = [store.history(p) + pass_history(store, p) for p in range(N_ITEMS)]
    with store._db.reading() as connection:
        leases = connection.execute("SELECT * FROM leases").fetchall()
        known = connection.execute("SELECT * FROM requests").fetchall()
    return stored, leases, known, store._db.journal.size()


def say(store, label, request, *, revise=False, comment=None):
    answer = Submission(0, label, request, comment, revise)
    return store.submit([answer], annotator="ann").outcomes[0]


def test_a_label_given_twice_is_not_brought_back_over_a_correction(store):
    say(store, "ham", "first")
    assert say(store, "ham", "again") == "repeated"
    say(store, "spam", "correction", revise=True)
    before = state(store)
    for _ in range(2):
        assert say(store, "ham", "again", revise=True) == "repeated"
        assert say(store, "ham", "first", revise=True) == "repeated"
    assert state(store) == before
    assert store.current_labels() == {0: {"ann": "spam"}}


def test_a_label_given_twice_is_not_brought_back_after_it_was_taken_back(store):
    say(store, "ham", "first")
    say(store, "ham", "again")
    store.undo(0, "ann", lease_seconds=60.0, request_id="undo")
    before = state(store)
    assert say(store, "ham", "again") == "repeated"
    assert state(store) == before
    assert store.current_labels() == {}


def test_a_pass_given_twice_is_not_brought_back(store):
    for request in ("first", "again"):
        store.pass_over(0, "skip", annotator="ann", request_id=request)
    store.undo(0, "ann", lease_seconds=60.0, request_id="undo")
    before = state(store)
    for request in ("again", "first"):
        assert store.pass_over(0, "skip", annotator="ann", request_id=request) == "repeated"
    assert state(store) == before
    assert store.passes() == {}


def test_a_late_undo_neither_takes_back_nor_leases_the_item_again(store):
    say(store, "ham", "first")
    undone, lease = store.undo(0, "ann", lease_seconds=60.0, request_id="undo")
    again, kept = store.undo(0, "ann", lease_seconds=60.0, request_id="undo")
    assert (again, kept.expires) == (undone, lease.expires), "a retry at once finds its lease"
    say(store, "spam", "second")
    before = state(store)
    again, gone = store.undo(0, "ann", lease_seconds=60.0, request_id="undo")
    assert again == undone
    assert gone.expires < lease.expires
    assert state(store) == before


@pytest.mark.parametrize("renamed", [False, True])
def test_an_id_belongs_to_one_request_whatever_its_kind(store, renamed):
    say(store, "ham", "first")
    say(store, "ham", "again")
    store.pass_over(1, "skip", annotator="ann", request_id="pass")
    store.pass_over(1, "skip", annotator="ann", request_id="pass again")
    if renamed:
        store.rename_class("ham", "jam")
        assert say(store, "jam", "again") == say(store, "ham", "again") == "repeated"
    before = state(store)
    for request in ("again", "pass", "pass again"):
        with pytest.raises(RequestIdReusedError, match="own id"):
            say(store, "spam", request, revise=True)
        with pytest.raises(RequestIdReusedError, match="own id"):
            store.pass_over(2, "unsure", annotator="ann", request_id=request)
        with pytest.raises(RequestIdReusedError, match="own id"):
            store.undo(0, "ann", lease_seconds=60.0, request_id=request)
        with pytest.raises(RequestIdReusedError, match="own id"):
            store.submit([Submission(0, "spam", request)], annotator="bob")
    assert state(store) == before


def test_three_thousand_late_replays_of_every_kind_change_nothing(store):
    chance = random.Random(16)
    calls = []
    outcomes = []
    with store.transaction():
        while len(calls) < 600:
            who = chance.choice(["ann", "bob"])
            position = chance.randrange(N_ITEMS)
            request = f"r{len(calls)}"
            comment = chance.choice([None, "sure", "no"])
            kind = chance.choice(["label", "label", "revise", "skip", "unsure", "undo"])
            label = chance.choice(CLASSES)

            def call(
                kind=kind, who=who, place=position, request=request, comment=comment, label=label
            ):
                if kind == "undo":
                    return store.undo(place, who, lease_seconds=60.0, request_id=request)[0]
                if kind in ("skip", "unsure"):
                    said = {"annotator": who, "request_id": request, "comment": comment}
                    return store.pass_over(place, kind, **said)
                answer = Submission(place, label, request, comment, kind == "revise")
                return store.submit([answer], annotator=who).outcomes[0]

            try:
                outcomes.append(call())
            except ValueError:  # refused, so nothing was acknowledged
                continue
            calls.append(call)
    assert outcomes.count("repeated") > 50, "the kind that used to be forgotten is among them"
    before = state(store)
    changed = 0
    for number in chance.choices(range(len(calls)), k=3_000):
        again = calls[number]()
        first = outcomes[number]
        changed += again != (first if not isinstance(first, str) else "repeated")
    assert changed == 0
    assert state(store) == before
    assert store.check() == []


def test_a_known_request_is_in_the_journal_and_its_loss_is_noticed(store, tmp_path):
    say(store, "ham", "first")
    store._db.checkpoint()
    shutil.copytree(store.folder, tmp_path / "earlier")
    say(store, "ham", "again")
    starts = [verified_start(line) for line in store._db.journal.lines()]
    assert [start.table for start in starts] == ["answers", "requests"]
    assert [answer.label for answer in Store.salvage(store.folder)] == ["ham"]
    shutil.copy(store.folder / "project.journal", tmp_path / "earlier")
    with pytest.raises(ProjectDamagedError, match="1 requests were confirmed but only 0"):
        Store.open(tmp_path / "earlier")
