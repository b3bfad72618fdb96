"""Opening somebody else's project changes nothing outside its folder, and runs nothing."""

import os
import socket
import sqlite3
import subprocess
from contextlib import closing, suppress
from itertools import product

import pytest
from click.testing import CliRunner
from parbals.cli.main import parbals
from parbals.errors import ParbalsError, ProjectDamagedError, ProjectError
from parbals_label.store.folder import check_folder, is_project_file
from parbals_label.store.journal import _proof
from parbals_label.store.rows import checksum
from parbals_label.store.settings import write_meta
from parbals_label.store.store import Store
from parbals_label.web.items import Tasks
from parbals_label.web.progress import Curve, live
from parbals_label.web.schemas import QueueOut, ServerOut
from parbals_label.web.supervisor import Supervisor

FILES = (
    *("project.sqlite3", "project.sqlite3-wal", "project.sqlite3-shm", "project.journal"),
    *("page-token", "page-address", "page-open.html"),
    *("page.lock", "machine-0a.lock", "features"),
)
SHAPES = ("link", "dangling link", "hard link", "pipe", "folder", "socket", "device")
COMMANDS = (
    ("status",),
    ("next", "-n", "2"),
    ("tell", "labels.csv"),
    ("export",),
    ("export", "--renew"),
    ("salvage", "--out", "answers.csv"),
    ("embed", "--encoder", "words"),
    ("serve", "--no-browser"),
    ("backup", "backup.zip"),
    ("check",),
    ("invite", "ada"),
)


@pytest.fixture
def mine(tmp_path):
    """Things of the user's own, which must stay as they are."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "profile").write_text("export ONE=1\n", encoding="utf-8")
    (tmp_path / "labels.csv").write_text("id,label\n007,ham\n", encoding="utf-8")
    return folder


def seen(folder):
    """Everything about the files of a folder that opening a project could change."""
    states = {path: path.stat() for path in sorted(folder.iterdir())}
    return {p.name: (p.read_bytes(), s.st_mode, s.st_nlink) for p, s in states.items()}


def put(path, shape, mine):
    """In the place of one file of the project, something else."""
    path.unlink(missing_ok=True)
    if shape == "link":
        path.symlink_to(mine / "profile")
    elif shape == "dangling link":
        path.symlink_to(mine / "new")
    elif shape == "hard link":
        os.link(mine / "profile", path)
    elif shape == "pipe":
        os.mkfifo(path)
    elif shape == "folder":
        path.mkdir()
    elif shape == "device":
        path.symlink_to("/dev/zero")  # making a device takes rights that a sender's archive lacks
    else:
        with socket.socket(socket.AF_UNIX) as end:
            end.bind(os.path.relpath(path))  # the name of a socket must be short


@pytest.mark.parametrize(
    ("file", "shape"),
    [pair for pair in product(FILES, SHAPES) if pair != ("features", "hard link")],
)
def test_links_in_place_of_files_are_refused_by_every_command(file, shape, run, project, mine):
    path = next(project.glob("features-*.npy")) if file == "features" else project / file
    put(path, shape, mine)
    before = seen(mine)
    for name, *arguments in COMMANDS:
        refused = run(name, project, *arguments, fails=True)
        assert isinstance(refused.exception, ProjectError), (name, refused.output)
        assert str(path) in str(refused.exception)
    assert seen(mine) == before


def test_a_project_that_was_being_made_opens(project):
    os.link(project / "project.sqlite3", project / ".project.sqlite3-1-2")
    with Store.open(project) as store:
        assert store.n_labelled == 6


def test_other_files_of_the_folder_are_the_users_own(project):
    (project / "notes").symlink_to(project.parent)
    (project / ".git").mkdir()
    check_folder(project)
    assert not is_project_file("texts.csv")
    assert is_project_file("Project.SQLITE3")  # the same file where a disk ignores capitals


@pytest.mark.parametrize(
    "name", ["../mine/profile", "/etc/passwd", "map-1/../a.npy", ".npy", "", 3]
)
@pytest.mark.parametrize("setting", ["features", "predictions", "map"])
def test_a_setting_cannot_name_a_file_elsewhere(setting, name, run, project, mine):
    with Store.open(project) as store, store._db.transaction() as connection:
        record = {"file": name, "digest": "0", "shape": [60, 2]}
        write_meta(connection, store.identity, {setting: record})
    before = seen(mine)
    for command, *arguments in COMMANDS:
        if command not in ("salvage", "invite"):  # which read no settings
            refused = run(command, project, *arguments, fails=True)
            assert isinstance(refused.exception, ProjectError), (command, refused.output)
            assert setting in str(refused.exception)
    assert seen(mine) == before


@pytest.mark.parametrize(
    ("setting", "value"),
    [("copies", [[60, 0]]), ("audit", [3, 10**12]), ("unreadable", [99]), ("again", [[60, 2]])],
)
def test_a_setting_about_an_item_that_is_not_there_is_refused(setting, value, run, project):
    with Store.open(project) as store, store._db.transaction() as connection:
        write_meta(connection, store.identity, {setting: value})
    for command, *arguments in (("status",), ("next", "-n", "2"), ("export", "--renew")):
        refused = run(command, project, *arguments, fails=True)
        assert isinstance(refused.exception, ProjectDamagedError), (command, refused.output)
        assert f"The setting {setting!r}" in str(refused.exception)


@pytest.mark.parametrize("name", ["export", "next"])
def test_results_never_follow_a_link_out_of_the_folder(name, run, project, mine):
    for file in ("export.csv", "batch-1.csv"):
        (project / file).symlink_to(mine / "profile")
    before = seen(mine)
    assert "is a link" in str(run(name, project, fails=True).exception)
    assert seen(mine) == before


def test_modules_that_lie_beside_the_data_are_not_imported(project):
    (project / "numpy.py").write_text("open('ran', 'w')\n", encoding="utf-8")
    command = Supervisor(project, lambda: None).command
    subprocess.run(command, cwd=project, input="", text=True, timeout=120, check=False)
    assert not (project / "ran").exists()


VALUES = {
    "deeper than any stack": "[" * 100_000 + "]" * 100_000,
    "deeper than JSON writers go": '{"message": ' * 300 + "1" + "}" * 300,
    "half a character": '{"message": "\\ud800"}',
    "NaN": '{"message": NaN}',
    "a list": "[1, 2]",
    "a text": '"x"',
    "not JSON": "{",
    "nothing of what is expected": '{"expected_error": 5, "classes": 3}',
}
PLACES = ("items", "batches", "events", "reports", "classes", "renames", "guidelines")
READING = (
    *(("status",), ("status", "--json"), ("export",), ("history",), ("log",)),
    *(("check",), ("backup", "backup.zip"), ("salvage", "--out", "answers.csv")),
)


def write(folder, place, value):
    """Put a value where JSON is kept, as somebody who knows our checksums would."""
    with Store.open(folder) as store:
        store.record_batch("random", 0, [(20, None, None)], {}, queued=True)
        store.save_report({}, 6)
        store.update_settings(guidelines="be kind")
        project = store.identity
    with closing(sqlite3.connect(folder / "project.sqlite3", isolation_level=None)) as connection:
        if place == "items":
            key = connection.execute("SELECT position, id FROM items WHERE position = 20")
            proof = checksum(project, "items", (*key.fetchone(), value))
            row = "UPDATE items SET content = ?, checksum = ? WHERE position = 20"
            connection.execute(row, (value, proof))
        elif place in ("classes", "renames", "guidelines"):
            proof = checksum(project, "meta", (place, value))
            connection.execute(
                "INSERT OR REPLACE INTO meta VALUES (?, ?, ?)", (place, value, proof)
            )
        else:
            column = {"batches": "settings", "events": "detail", "reports": "body"}[place]
            kept = connection.execute(
                "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ?",
                (place,),
            ).fetchall()
            for name, _ in kept:
                connection.execute(f"DROP TRIGGER {name}")
            connection.execute(f"UPDATE {place} SET {column} = ?", (value,))
            for _, sql in kept:
                connection.execute(sql)


@pytest.mark.parametrize(("place", "value"), list(product(PLACES, VALUES)))
def test_an_absurd_value_is_refused_in_a_sentence(place, value, run, project):
    write(project, place, VALUES[value])
    for name, *arguments in READING:
        result = CliRunner().invoke(parbals, [name, str(project), *arguments])
        assert result.exit_code == 0 or isinstance(result.exception, (ParbalsError, SystemExit)), (
            name,
            result.exception,
        )
    with suppress(ParbalsError), Store.open(project) as store:
        (lease,) = store.take("ann", 1, 60.0)
        live(
            store,
            Curve(),
            QueueOut(ready=1, out=0, state="idle", message=None),
            ServerOut(started=0.0, version="1"),
        )
        Tasks(store).tasks(store, [lease])[0].model_dump_json()


@pytest.mark.parametrize("rest", [b'"deep":' + b"[" * 100_000, b'"label":"\xff",', b'"label":3,'])
def test_a_proved_line_of_the_journal_that_cannot_be_read_stops_no_salvage(rest, run, project):
    with Store.open(project) as store:
        identity = store.identity
    head = b'{"answer":99,"checksum":"0123456789abcdef","project":"%b",' % identity.encode() + rest
    with (project / "project.journal").open("ab") as file:
        file.write(head + _proof(identity, head) + b"\n")
    run("backup", "salvage", project, "--out", "answers.csv")
    assert len((project.parent / "answers.csv").read_text(encoding="utf-8").splitlines()) == 7
