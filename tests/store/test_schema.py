"""Versions of the project file: what is refused, and how an older project becomes a newer one."""

import sqlite3
from contextlib import closing

import pytest

from parbals.errors import ProjectDamagedError, ProjectError
from parbals.store import schema
from parbals.store.records import Submission
from parbals.store.store import Store


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


def add_colours(connection):
    """A later version, as it might come."""
    connection.execute("CREATE TABLE colours(item INTEGER PRIMARY KEY, colour TEXT)")
    connection.execute("INSERT INTO colours SELECT position, 'red' FROM items")


def test_the_file_says_what_it_is(folder):
    assert sql(folder, "PRAGMA application_id") == [(schema.APPLICATION_ID,)]
    assert sql(folder, "PRAGMA user_version") == [(len(schema.MIGRATIONS),)]
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


def test_an_older_project_is_upgraded_on_opening_and_keeps_its_labels(folder, monkeypatch):
    monkeypatch.setattr(schema, "MIGRATIONS", [*schema.MIGRATIONS, add_colours])
    monkeypatch.setattr("parbals.store.database.MIGRATIONS", schema.MIGRATIONS)
    with pytest.raises(ProjectError, match="older parbals; open it once for writing"):
        Store.open(folder, read_only=True)
    with Store.open(folder) as store:
        assert store.current_labels() == {0: {"ann": "ham"}}
        assert store.check() == []
    assert sql(folder, "PRAGMA user_version") == [(len(schema.MIGRATIONS),)]
    assert sql(folder, "SELECT * FROM colours") == [(0, "red"), (1, "red")]
    with Store.open(folder, read_only=True) as store:
        assert store.n_labelled == 1


def test_an_upgrade_that_fails_half_way_leaves_the_old_version(folder, monkeypatch):
    def broken(connection):
        add_colours(connection)
        raise RuntimeError("power cut")

    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", [*schema.MIGRATIONS, broken])
        patch.setattr("parbals.store.database.MIGRATIONS", schema.MIGRATIONS)
        with pytest.raises(RuntimeError, match="power cut"):
            Store.open(folder)
    assert sql(folder, "PRAGMA user_version") == [(len(schema.MIGRATIONS),)]
    with Store.open(folder) as store:
        assert store.current_labels() == {0: {"ann": "ham"}}
