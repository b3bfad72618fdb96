"""The project file: which versions are refused, and what SQLite itself does not allow."""

import sqlite3
from contextlib import closing

import pytest
from parbals.errors import ProjectDamagedError, ProjectError
from parbals_label.store import schema
from parbals_label.store.records import Submission
from parbals_label.store.store import Store


@pytest.fixture
def folder(tmp_path):
    with Store.create(tmp_path / "p", classes=["ham", "spam"], settings={}) as store:
        store.add_items([("a", {"text": "hello"}), ("b", {"text": "bye"})])
        store.submit([Submission(0, "ham")], annotator="ann")
    return tmp_path / "p"


def sql(folder, statement):
    """Change the file behind the store's back."""
    with closing(sqlite3.connect(folder / "project.sqlite3", isolation_level=None)) as connection:
        return connection.execute(statement).fetchall()


def test_the_file_says_what_it_is(folder):
    assert sql(folder, "PRAGMA application_id") == [(schema.APPLICATION_ID,)]
    assert sql(folder, "PRAGMA user_version") == [(schema.VERSION,)]
    assert sql(folder, "PRAGMA journal_mode") == [("wal",)]


def test_a_database_of_another_program_is_refused(folder):
    sql(folder, "PRAGMA application_id = 77")
    with pytest.raises(ProjectError, match="another program"):
        Store.open(folder)


@pytest.mark.parametrize(
    ("version", "message"), [(99, "newer parbals .*upgrade"), (0, "no parbals has written")]
)
def test_a_version_this_parbals_does_not_know_is_refused(folder, version, message):
    sql(folder, f"PRAGMA user_version = {version}")
    with pytest.raises(ProjectError, match=message):
        Store.open(folder)


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TRIGGER answers_are_never_changed",
        "DROP TABLE events",
        "ALTER TABLE answers RENAME COLUMN label TO lebal",
        "CREATE TABLE more(x)",
        "CREATE TRIGGER evil AFTER INSERT ON answers BEGIN UPDATE leases SET batch = 0; END",
    ],
)
def test_tables_that_parbals_did_not_make_are_noticed(folder, statement):
    sql(folder, statement)
    with pytest.raises(ProjectDamagedError, match="tables are not those of a project"):
        Store.open(folder)


def test_answers_cannot_be_changed_or_deleted_even_with_sql(folder):
    with pytest.raises(sqlite3.IntegrityError, match="add a revision"):
        sql(folder, "UPDATE answers SET label = 'spam'")
    with pytest.raises(sqlite3.IntegrityError, match="withdraw instead"):
        sql(folder, "DELETE FROM answers")


@pytest.mark.parametrize(
    ("table", "columns", "values"),
    [
        ("answers", "answer, revision", "1, 9"),
        ("answers", "request, revision", "'first', 9"),
        ("answers", "revision", "1"),
        ("passes", "pass", "1"),
        ("passes", "request", "'passed'"),
        ("requests", "repeat, request", "1, 'new'"),
        ("requests", "request", "'again'"),
    ],
)
def test_nothing_that_was_given_can_be_replaced_with_sql(folder, table, columns, values):
    with Store.open(folder) as store:
        store.submit([Submission(1, "ham", request_id="first")], annotator="ann")
        store.submit([Submission(1, "ham", request_id="again")], annotator="ann")
        store.pass_over(0, "skip", annotator="bob", request_id="passed")
    before = sql(folder, f"SELECT * FROM {table}")
    other = {
        "answers": ("position, annotator, label, source", "1, 'ann', 'spam', 'person'"),
        "passes": ("position, annotator, kind", "0, 'eve', 'unsure'"),
        "requests": ("position, annotator, kind, number", "0, 'eve', 'answers', 1"),
    }[table]
    names = f"{columns}, {other[0]}, created"
    given = f"{values}, {other[1]}, ''"
    with pytest.raises(sqlite3.IntegrityError, match="are kept as they were given"):
        sql(folder, f"REPLACE INTO {table} ({names}, checksum) VALUES ({given}, '')")
    assert sql(folder, f"SELECT * FROM {table}") == before
