"""Create a project from a file: everything is guessed from one look at its first rows."""

import csv
import json
import os
import sys
import unicodedata
from pathlib import Path

import pytest
from message_data import message
from parbals.errors import InputError, LabelError
from parbals_label.project.create import Roles, create_project
from parbals_label.store.store import Store

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
    project = create_project(folder, data, Roles(**roles), classes, {"strategy": "margin"})
    assert project.n_items == N
    return project


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
    project = create(tmp_path / "p", path, None, features=("all",), label="label")
    assert project.encoder == "table"
    assert project.classes == ("ham", "spam")
    assert project.id_column == "id"
    assert opened(path) == 3


def test_columns_of_plain_numbers_need_one_more_to_be_sure(tmp_path, opened):
    path = table(tmp_path / "x.csv")
    project = create(tmp_path / "p", path, ["ham", "spam"], features=("length",))
    assert project.encoder == "columns"
    assert opened(path) == 3


def test_a_file_that_is_not_utf_8_is_looked_at_again(tmp_path, opened):
    ROWS[-1]["message"] = "Grüße"  # long after the first rows
    path = table(tmp_path / "x.csv", encoding="cp1252")
    project = create(tmp_path / "p", path, ["ham", "spam"], text=("message",))
    assert project.encoding == "cp1252"
    assert opened(path) <= 5


def hidden(tmp_path, data, classes, **roles):
    (tmp_path / "t.csv").write_text(data, "utf-8")
    folder = tmp_path / "p"
    project = create_project(folder, tmp_path / "t.csv", Roles(**roles), classes, {})
    with Store.open(folder, read_only=True) as store:
        return store.settings, project.notes, store.visible_items([0])[0].content


SENTENCES = [f"this is the story number {i} of many others" for i in range(40)]


def test_a_column_that_may_be_the_answer_is_not_shown_beside_a_text(tmp_path):
    rows = "\n".join(f"{text},{'ab'[i % 2]},{i % 3},x{i % 2}" for i, text in enumerate(SENTENCES))
    settings, notes, content = hidden(
        tmp_path, f"text,verdict,label,city\n{rows}", ["A", "b"], text=("text",)
    )
    assert settings.hidden == ("verdict", "label")  # by its values, and by its name
    assert list(content) == ["text", "city"]
    assert "--label label reads it" in " ".join(notes)
    assert "--label verdict reads it" in " ".join(notes)


def test_what_is_shown_and_hidden_can_be_said(tmp_path):
    rows = "\n".join(f"{text},a,x{i % 2}" for i, text in enumerate(SENTENCES))
    settings, notes, _ = hidden(
        *(tmp_path, f"text,label,city\n{rows}", ["a", "b"]),
        **{"text": ("text",), "show": ("label",), "hide": ("city",)},
    )
    assert (settings.hidden, notes) == (("city",), ())
    with pytest.raises(InputError, match="no column 'town'"):
        create_project(tmp_path / "q", tmp_path / "t.csv", Roles(hide=("town",)), ["a", "b"], {})


def test_a_leak_is_never_proposed_as_a_feature(tmp_path):
    rows = "\n".join(f"{text},t{i % 2},{i % 5},{text}" for i, text in enumerate(SENTENCES))
    (tmp_path / "t.csv").write_text(f"text,label,age,title\n{rows}", "utf-8")
    with pytest.raises(InputError) as error:
        create_project(tmp_path / "p", tmp_path / "t.csv", Roles(), ["a", "b"], {})
    assert "--features age;" in f"{error.value};".replace(".", ";")


def test_yes_and_no_in_many_columns_are_no_answer(tmp_path):
    rows = "\n".join(f"{i % 2},{i // 2 % 2},{i % 7}" for i in range(40))
    settings, _, _ = hidden(tmp_path, f"wet,cold,size\n{rows}", ["0", "1"])
    assert settings.hidden == ()
    assert set(settings.encoded_columns) == {"wet", "cold", "size"}


def test_labels_as_files_have_them(tmp_path):
    """0.0 meets the class 0, N/A is counted as no label, and a copy of the answer stays hidden."""
    rows = [f"text number {n},{n % 2}.0,{n % 2}.0" for n in range(8)]
    (tmp_path / "x.csv").write_text("\n".join(["text,y,again", *rows, "one more,N/A,"]))
    roles = Roles(text=("text",), label="y")
    project = create_project(tmp_path / "p", tmp_path / "x.csv", roles, ["0", "1"], {})
    assert (project.n_labels, project.classes) == (8, ("0", "1"))
    assert "Read as no label: N/A (1)." in project.notes
    with Store.open(tmp_path / "p", read_only=True) as store:
        assert list(store.settings.hidden) == ["again"]


def test_class_names_have_one_unicode_form(tmp_path):
    two = unicodedata.normalize("NFD", "café")
    (tmp_path / "x.csv").write_text(f"text,y\none text,{two}\nanother,tea\nthird,café\n")
    roles = Roles(text=("text",), label="y")
    project = create_project(tmp_path / "p", tmp_path / "x.csv", roles, [two, "tea"], {})
    assert (project.n_labels, project.classes) == (3, ("café", "tea"))
    with Store.open(tmp_path / "p") as store, pytest.raises(LabelError, match="'café' again"):
        store.update_settings(classes=["café", "tea", two])
