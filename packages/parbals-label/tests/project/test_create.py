"""A project from a file: what is guessed about it comes from one look."""

import csv
import json
import os
import sys
from pathlib import Path

import pytest
from message_data import message
from parbals_label.project.create import Roles, create_project

N = 1_500  # more than the first rows, by which columns are guessed
ROWS = [
    {
        "id": str(i),
        "message": message(i),
        "length": len(message(i)),
        "city": "abc"[i % 3],
        "label": "ham" if i % 3 else "spam",
    }
    for i in range(N)
]
_watched: dict[str, int] = {}


def _count(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, os.PathLike)):
        name = os.fspath(arguments[0])
        if name in _watched:
            _watched[name] += 1


sys.addaudithook(_count)


@pytest.fixture
def opened():
    """How often a file was opened since it was written by :func:`table` or :func:`lines`."""
    yield lambda path: _watched[str(path)]
    _watched.clear()


def table(path: Path, delimiter=",", encoding="utf-8"):
    with path.open("w", newline="", encoding=encoding) as file:
        writer = csv.DictWriter(file, list(ROWS[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(ROWS)
    _watched[str(path)] = 0
    return path


def lines(path: Path):
    path.write_text("\n".join(map(json.dumps, ROWS)), "utf-8")
    _watched[str(path)] = 0
    return path


def create(folder, data, classes, **roles):
    made = create_project(folder, data, Roles(**roles), classes, {"strategy": "margin"})
    assert made.n_items == N
    return made


@pytest.mark.parametrize(
    ("make", "name"),
    [(table, "x.csv"), (lambda path: table(path, "\t"), "x.tsv"), (lines, "x.jsonl")],
)
def test_a_file_is_opened_once_to_be_known_and_once_to_be_read(tmp_path, opened, make, name):
    path = make(tmp_path / name)
    create(tmp_path / "p", path, ["ham", "spam"], text=("message",), label="label")
    assert opened(path) == 2


def test_everything_guessed_needs_a_walk_for_the_classes_at_most(tmp_path, opened):
    path = table(tmp_path / "x.csv")
    made = create(tmp_path / "p", path, None, features=("all",), label="label")
    assert made.encoder == "table"
    assert made.classes == ("ham", "spam")
    assert made.id_column == "id"
    assert opened(path) == 3


def test_columns_of_plain_numbers_need_one_more_to_be_sure(tmp_path, opened):
    path = table(tmp_path / "x.csv")
    made = create(tmp_path / "p", path, ["ham", "spam"], features=("length",))
    assert made.encoder == "columns"
    assert opened(path) == 3


def test_a_file_that_is_not_utf_8_is_looked_at_again(tmp_path, opened):
    ROWS[-1]["message"] = "Grüße"  # long after the first rows
    path = table(tmp_path / "x.csv", encoding="cp1252")
    made = create(tmp_path / "p", path, ["ham", "spam"], text=("message",))
    assert made.encoding == "cp1252"
    assert opened(path) <= 5
