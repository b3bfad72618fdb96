"""Fixtures: the commands in a folder of their own, and a small project that they made."""

import csv
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from message_data import message, truth
from parbals.cli.main import parbals
from parbals_label.store.store import Store

ROLES = ("--text", "message", "--label", "label", "--classes", "ham,spam")


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a command in ``tmp_path``; its output, or the whole result where it is to fail."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PARBALS_CACHE_DIR", str(tmp_path / "cache"))

    def call(*arguments, fails=False):
        result = CliRunner().invoke(parbals, [str(a) for a in arguments])
        assert (result.exit_code != 0) == fails, (result.output, result.exception)
        return result if fails else result.output

    return call


def write_messages(path):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "message", "length", "label"])
        writer.writerows(
            [f"{i:03d}", message(i), len(message(i)), truth(i) if i < 6 else ""] for i in range(60)
        )
    return path


@pytest.fixture
def messages(tmp_path):
    """messages.csv: 60 messages, the first six labelled, ids with leading zeros."""
    return write_messages(tmp_path / "messages.csv")


def copy_project(made, folder):
    """A copy of a project that was made once for many tests."""
    return Path(shutil.copytree(made, folder))


@pytest.fixture(scope="session")
def made_once(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    messages = write_messages(folder / "messages.csv")
    arguments = ["init", str(folder / "spam"), str(messages), *ROLES, "--strategy", "margin"]
    result = CliRunner().invoke(parbals, arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return folder / "spam"


@pytest.fixture
def project(run, messages, tmp_path, made_once):
    """The project ``spam``, made of messages.csv; its strategy is the quick ``margin``."""
    with Store.open(copy_project(made_once, tmp_path / "spam")) as store:
        store.update_settings(data=str(messages.resolve()), media=str(tmp_path.resolve()))
    return tmp_path / "spam"


def fill(path, **changes):
    """Fill in a batch file as a person would; returns the ids."""
    with open(path, newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["label"] = changes.get(row["id"], truth(int(row["id"])))
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return [row["id"] for row in rows]


def pass_history(store, position):
    """Every pass of an item, also those taken back, in the order given."""
    names = "annotator, kind, request, comment"
    query = f"SELECT {names} FROM passes WHERE position = ? ORDER BY pass"
    rows = store._db.rows(query, (position,))
    return [SimpleNamespace(**dict(zip(names.split(", "), row, strict=True))) for row in rows]
