"""Versions of the project file: what is refused, and how an older project becomes a newer one."""

import resource
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
    names, given = f"{columns}, {other[0]}, created", f"{values}, {other[1]}, ''"
    with pytest.raises(sqlite3.IntegrityError, match="are kept as they were given"):
        sql(folder, f"REPLACE INTO {table} ({names}, checksum) VALUES ({given}, '')")
    assert sql(folder, f"SELECT * FROM {table}") == before


def make_older(folder, version):
    """The project as an earlier parbals would have written it."""
    newer = (folder / "project.sqlite3").rename(folder.parent / "newer.sqlite3")
    with closing(sqlite3.connect(folder / "project.sqlite3", isolation_level=None)) as older:
        for migration in schema.MIGRATIONS[:version]:
            migration(older)
        tables = [name for kind, name, *_ in schema.schema_rows(older) if kind == "table"]
        older.execute("ATTACH ? AS newer", (str(newer),))
        for table in set(tables) - {"sqlite_sequence"}:
            columns = ", ".join(row[1] for row in older.execute(f"PRAGMA table_info({table})"))
            older.execute(f"INSERT INTO {table} ({columns}) SELECT {columns} FROM newer.{table}")
        older.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        older.execute(f"PRAGMA user_version = {version}")


@pytest.mark.parametrize("version", [2, 3, 4])
def test_a_project_of_today_is_read_as_it_is_and_copied_before_it_is_upgraded(folder, version):
    make_older(folder, version)
    (folder / "project.sqlite3").chmod(0o600)
    before = schema_and_answers(folder / "project.sqlite3")
    with Store.open(folder, read_only=True) as store:
        assert store.n_labelled == 1
    assert schema_and_answers(folder / "project.sqlite3") == before, "reading changes nothing"
    with Store.open(folder) as store:
        again = Submission(0, "ham", request_id="again")
        assert store.submit([again], annotator="ann").repeated == 1
        assert store.check() == []
    assert sql(folder, "PRAGMA user_version") == [(len(schema.MIGRATIONS),)]
    copy = folder / f"project.schema-{version}.sqlite3"
    assert schema_and_answers(copy) == before
    assert copy.stat().st_mode & 0o777 == 0o600, "nobody else may read it"
    (folder.parent / "restored").mkdir()
    copy.rename(folder.parent / "restored" / "project.sqlite3")
    with Store.open(folder.parent / "restored") as store:
        assert store.current_labels() == {0: {"ann": "ham"}}
        assert store.submit([Submission(1, "ham")], annotator="ann").new == 1


def schema_and_answers(file):
    with closing(sqlite3.connect(file)) as connection:
        version = connection.execute("PRAGMA user_version").fetchone()
        return (
            version,
            schema.schema_rows(connection),
            connection.execute("SELECT * FROM answers").fetchall(),
        )


def test_without_room_for_a_copy_nothing_is_upgraded(folder):
    make_older(folder, 2)
    least, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, most))  # as on a full disk
    try:
        with pytest.raises(ProjectError, match="copied before it is changed"):
            Store.open(folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (least, most))
    assert sql(folder, "PRAGMA user_version") == [(2,)]
    assert list(folder.glob(".project*")) == []
    with Store.open(folder) as store:
        assert store.n_labelled == 1


def test_an_older_project_is_upgraded_on_opening_and_keeps_its_labels(folder, monkeypatch):
    monkeypatch.setattr(schema, "MIGRATIONS", [*schema.MIGRATIONS, add_colours])
    monkeypatch.setattr("parbals_label.store.database.MIGRATIONS", schema.MIGRATIONS)
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
        patch.setattr("parbals_label.store.database.MIGRATIONS", schema.MIGRATIONS)
        with pytest.raises(RuntimeError, match="power cut"):
            Store.open(folder)
    assert sql(folder, "PRAGMA user_version") == [(len(schema.MIGRATIONS),)]
    with Store.open(folder) as store:
        assert store.current_labels() == {0: {"ann": "ham"}}
