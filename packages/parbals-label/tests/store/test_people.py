"""People with links of their own, their sessions, and the log that nobody can change."""

import os
import sqlite3
import stat
from contextlib import closing

import numpy as np
import pytest
from parbals.errors import InputError
from parbals_label.project.features import store_features
from parbals_label.store.names import name_key
from parbals_label.store.people import NotAssignedError, hashed
from parbals_label.store.records import Submission
from parbals_label.store.store import Store


@pytest.fixture
def store(tmp_path):
    with Store.create(tmp_path / "p", classes=["ham", "spam"], settings={}) as store:
        store.add_items([("a", {"text": "hello"}), ("b", {"text": "bye"})])
        yield store


def sql(store, statement):
    """Change the file behind the store's back."""
    with closing(sqlite3.connect(store.folder / "project.sqlite3", isolation_level=None)) as db:
        return db.execute(statement).fetchall()


def kinds(store):
    return [(event.kind, event.detail.get("name")) for event in store.events()]


def test_a_link_is_a_name_until_it_is_revoked(store):
    assert store.people() == []
    link = store.invite("Ada")
    (ada,) = store.people()
    assert (ada.name, ada.role, ada.invited) == ("Ada", "annotator", True)
    assert store.person_of(link) == store.person_named("ada") == ada
    assert store.person_of(link[:-1]) is None
    assert store.revoke("ADA") == "Ada"
    assert store.person_of(link) is store.person_named("Ada") is None
    assert [person.invited for person in store.people()] == [False]
    with pytest.raises(InputError, match="'Ada' has no link"):
        store.revoke("Ada")
    with pytest.raises(InputError, match="'Bob' has no link"):
        store.set_role("Bob", "owner")
    assert store.person_of(store.invite("ada")).name == "Ada"  # the name as it was first spelt


def test_inviting_again_replaces_the_link_and_may_change_the_role(store):
    first = store.invite("Ada")
    second = store.invite("Ada", "owner")
    assert store.person_of(first) is None
    assert store.person_of(second).role == "owner"
    store.set_role("Ada", "annotator")
    store.set_role("Ada", "annotator")  # nothing changes, and nothing is logged
    assert store.person_of(second).role == "annotator"
    assert kinds(store) == [
        ("invited", "Ada"), ("new link", "Ada"), ("role changed", "Ada"), ("role changed", "Ada"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "other",
    ["ADA LOVELACE", "ada  lovelace ", "Ａda Lovelace", "Ada\u200b Lovelace", "ada\u00a0lovelace"],
)
def test_names_are_compared_as_people_read_them(store, other):
    store.invite("Ada Lovelace")
    store.invite(other, "owner")
    (person,) = store.people()
    assert (person.name, person.role) == ("Ada Lovelace", "owner")


def test_letters_that_differ_make_two_people(store):
    for name in ("Straße", "STRASSE", "Strabe", "José", "Jose\u0301", "Jose"):
        store.invite(name)
    assert {person.name for person in store.people()} == {"Straße", "Strabe", "José", "Jose"}
    assert name_key("ﬀ") == name_key("FF")


@pytest.mark.parametrize(
    "name",
    [
        "machine:gpt", "Machine:gpt", "ｍachine:x", "machine\u200b:x", "import", "IMPORT",
        "Label-Studio project 3", "", "  ", "\u200b", "a\x00b",
        "a\nb\x1b[31m", "abc\u202ecba", "x" * 101, 7,
    ],
)  # fmt: skip
def test_names_that_programs_use_or_nobody_can_read_are_refused(store, name):
    with pytest.raises(InputError):
        store.invite(name)
    assert store.people() == []
    assert store.events() == []


def test_nothing_in_the_files_opens_the_page(store):
    link = store.invite("Ada")
    session, key = store.start_session(link, "127.0.0.1:1", 60)
    files = b"".join(path.read_bytes() for path in store.folder.iterdir())
    for secret in (link, session, key):
        assert secret.encode() not in files
    assert hashed(link).encode() in files


def test_a_session_ends_and_belongs_to_its_place_and_link(store):
    link = store.invite("Ada")
    session, key = store.start_session(link, "127.0.0.1:8573", 60)
    entry = store.session(session, "127.0.0.1:8573")
    assert entry.person.name == "Ada"
    assert (entry.link, entry.key) == (hashed(link), hashed(key))
    assert store.session(session, "127.0.0.1:8574") is None
    assert store.session(session, "localhost:8573") is None
    assert store.session(key, "127.0.0.1:8573") is None
    late, _ = store.start_session(link, "127.0.0.1:8573", -1)
    assert store.session(late, "127.0.0.1:8573") is None
    other, _ = store.start_session(link, "127.0.0.1:8573", 60)
    assert sql(store, "SELECT count(*) FROM sessions") == [(2,)]  # those that ended are gone
    store.end_session(other)
    assert store.session(other, "127.0.0.1:8573") is None
    store.revoke("Ada")
    assert store.session(session, "127.0.0.1:8573") is None
    assert sql(store, "SELECT count(*) FROM sessions") == [(0,)]


def test_a_link_has_so_many_sessions_and_the_oldest_ends_first(store, monkeypatch):
    monkeypatch.setattr("parbals_label.store.people._MAX_SESSIONS", 3)
    sessions = [store.start_session("link", "here:1", 60)[0] for _ in range(5)]
    assert [store.session(s, "here:1") is not None for s in sessions] == [False] * 2 + [True] * 3
    other, _ = store.start_session("another", "here:1", 60)
    assert store.session(sessions[2], "here:1") is not None
    assert store.session(other, "here:1") is not None


def test_the_log_says_who_and_from_where_and_is_never_changed(store):
    store.update_settings(guidelines="read all", lease_minutes=5)
    with store.acting_as("Ada", "10.0.0.7"):
        store.update_settings(goal_labels=100)
        store.rename_class("ham", "good")
    store.invite("Bob")
    here, ada, renamed, invited = store.events()
    assert here.origin == invited.origin == "this machine"
    assert here.who == invited.who != "Ada"
    assert here.who
    assert here.detail == {"guidelines": ["", "read all"], "lease_minutes": [30, 5]}
    assert (ada.who, ada.origin, renamed.who) == ("Ada", "10.0.0.7", "Ada")
    for statement in (
        "UPDATE events SET who = 'nobody'", "DELETE FROM events",
        "INSERT OR REPLACE INTO events VALUES (1, '', '', '{}', '', '')",
    ):  # fmt: skip
        with pytest.raises(sqlite3.IntegrityError, match="kept as it was written"):
            sql(store, statement)
    assert len(store.events()) == 4
    assert store.check() == []


def test_a_user_without_a_name_is_a_number(store, monkeypatch):
    def nameless():
        raise KeyError("uid not found")

    monkeypatch.setattr("getpass.getuser", nameless)
    store.log("exported")
    assert store.events()[-1].who == f"user {os.getuid()}"


def test_who_has_had_an_item(store):
    store.submit([Submission(0, "ham")], annotator="Ada")
    store.check_assigned([0], "Ada")
    for position, name in ((0, "Bob"), (1, "Ada")):
        with pytest.raises(NotAssignedError):
            store.check_assigned([position], name)
    store.pass_over(1, "skip", annotator="Bob")
    store.check_assigned([1], "Bob")
    assert store.annotator_names() == ["Ada", "Bob"]


def test_a_new_project_is_nobody_elses(tmp_path):
    before = os.umask(0)
    try:
        with Store.create(tmp_path / "new" / "p", classes=["a", "b"], settings={}) as store:
            store.add_items([("x", {"text": "hello"})])
            store_features(store.folder, np.zeros((1, 2), np.float32))
            store.submit([Submission(0, "a")], annotator="ann")
            modes = {
                path.name: stat.S_IMODE(path.stat().st_mode) for path in store.folder.iterdir()
            }
            assert {"project.sqlite3", "project.sqlite3-wal", "project.journal"} <= set(modes)
            assert set(modes.values()) == {0o600}, modes
            assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700
        # A folder, and a project, that its owner has opened for others stays open.
        shared = tmp_path / "shared"
        shared.mkdir(mode=0o770)
        with Store.create(shared, classes=["a", "b"], settings={}) as store:
            store.add_items([("x", {"text": "hello"})])
        assert stat.S_IMODE(shared.stat().st_mode) == 0o770
        (shared / "project.sqlite3").chmod(0o660)
        with Store.open(shared) as store:
            store.submit([Submission(0, "a")], annotator="ann")
        assert stat.S_IMODE((shared / "project.journal").stat().st_mode) == 0o660
    finally:
        os.umask(before)
