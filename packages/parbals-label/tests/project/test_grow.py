"""Add items to a project: all or nothing, with nothing lost."""

import numpy as np
import pytest
from parbals.errors import InputError, LabelError, ProjectError, ShapeError
from parbals_label.encoders.base import Options
from parbals_label.project.create import Roles, create_project
from parbals_label.project.engine import refresh
from parbals_label.project.export_records import export_columns, export_records
from parbals_label.project.features import features_of
from parbals_label.project.grow import add_items
from parbals_label.store.records import Submission
from parbals_label.store.settings import PredictionsFile
from parbals_label.store.store import Store

HEADER = "id,note,age,label\n"
FIRST = [
    "a,the invoice is missing again,30,late",
    "b,please cancel the contract now,,",
    "c,thanks for the quick help,51,",
    "d,the invoice came twice,44,",
]
MORE = ["e,invoice and contract are wrong,60,late", "f,thanks and goodbye to you,,"]


def write(path, lines):
    path.write_text(HEADER + "\n".join(lines) + "\n")
    return path


@pytest.fixture
def folder(tmp_path):
    data = write(tmp_path / "a.csv", FIRST)
    roles = Roles(text=("note",), features=("age",), label="label")
    create_project(tmp_path / "p", data, roles, ["late", "other"], {}, audit=1)
    return tmp_path / "p"


def test_features_are_those_of_a_project_made_of_all(folder, tmp_path):
    whole = write(tmp_path / "whole.csv", [*FIRST, *MORE])
    roles = Roles(text=("note",), features=("age",), label="label")
    create_project(tmp_path / "q", whole, roles, ["late", "other"], {})
    with Store.open(folder) as store, Store.open(tmp_path / "q") as other:
        added = add_items(store, write(tmp_path / "b.csv", MORE))
        assert (added.n_items, added.n_labels) == (2, 1)
        assert "first 4 items" in added.notes[0]
        np.testing.assert_array_equal(features_of(store), features_of(other))
        assert [item.id for item in store.iter_items()] == list("abcdef")
        assert store.votes() == {0: {"import": "late"}, 4: {"import": "late"}}
        assert store.events()[-1].detail["count"] == 2
        assert store.check() == []


def test_predictions_of_before_are_not_taken_for_those_of_now(folder, tmp_path):
    with Store.open(folder) as store:
        stale = PredictionsFile("predictions-0123456789ab.npy", "1", (4, 2))
        store.update_settings(predictions=stale)
        add_items(store, write(tmp_path / "b.csv", MORE))
        assert store.settings.predictions is None
        store.update_settings(predictions=stale)  # of a page's worker that began before
        assert store.settings.predictions is None
        assert len(list(export_records(store))) == 6
        assert "p_late" not in export_columns(store)


@pytest.mark.parametrize("when", ["during", "after"])
def test_adding_while_predictions_are_made_leaves_no_file_behind(folder, tmp_path, when):
    """The page's worker predicts for the items there were; both ways round nothing is orphaned."""
    more = write(tmp_path / "b.csv", MORE)

    def renew(stage, done, total):
        if stage == "predicting" and when == "after":
            with Store.open(folder) as other:
                add_items(other, more)

    with Store.open(folder) as store:
        store.submit([Submission(1, "other"), Submission(2, "other")], annotator="ada")
        refresh(store)
        if when == "after":  # the worker began before the items came, and ends after
            refresh(store, renew)
        else:  # predictions are renewed between the beginning and the end of adding
            store.submit([Submission(3, "late")], annotator="ada")
            add_items(store, more, progress=_once(lambda: refresh(store)))
        assert store.n_items == 6
        assert store.settings.predictions is None
    assert sorted(path.name for path in folder.glob("predictions-*")) == []


def _once(act):
    stages = []

    def progress(*stage):
        if not stages:
            stages.append(stage)
            act()

    return progress


def test_items_that_are_there_are_refused_or_left_out(folder, tmp_path):
    data = write(tmp_path / "b.csv", [*FIRST, *MORE])
    with Store.open(folder) as store:
        with pytest.raises(InputError, match=r"'a' .* --new-only"):
            add_items(store, data)
        assert store.n_items == 4
        added = add_items(store, data, new_only=True)
        assert (added.n_items, added.n_known) == (2, 4)
        assert add_items(store, data, new_only=True).n_items == 0


@pytest.mark.parametrize(
    ("text", "error", "complaint"),
    [
        ("id,text\ng,hello\n", InputError, "no column 'note'"),
        (HEADER + "g,hello there,3,eggs\n", LabelError, "row 2.*'eggs'"),
        (HEADER + ",hello there,3,\n", InputError, "row 2, column 'id' is empty"),
        (HEADER + "g,one,1,\ng,two,2,\n", InputError, "also that of row 2"),
    ],
)
def test_what_cannot_be_added_changes_nothing(folder, tmp_path, text, error, complaint):
    (tmp_path / "b.csv").write_text(text)
    with Store.open(folder) as store:
        before = store.settings, sorted(path.name for path in folder.glob("features*"))
        with pytest.raises(error, match=complaint):
            add_items(store, tmp_path / "b.csv")
        assert store.n_items == 4
        assert (store.settings, sorted(path.name for path in folder.glob("features*"))) == before


def test_two_who_add_at_once_are_told(folder, tmp_path):
    with Store.open(folder) as store, Store.open(folder) as other:

        def meanwhile(stage, done, total):
            if other.n_items == 4:
                other.add_items([("x", {"note": "hello", "age": "1"})])

        with pytest.raises(ProjectError, match="changed by another program"):
            add_items(store, write(tmp_path / "b.csv", MORE), progress=meanwhile)
        assert [item.id for item in store.iter_items()] == [*"abcd", "x"]


def test_a_former_name_of_a_class_is_understood(folder, tmp_path):
    with Store.open(folder) as store:
        store.rename_class("late", "overdue")
        add_items(store, write(tmp_path / "b.csv", MORE))
        assert store.votes() == {0: {"import": "overdue"}, 4: {"import": "overdue"}}


def test_rows_of_a_matrix_go_below(tmp_path):
    X = np.random.default_rng(0).standard_normal((9, 3)).astype(np.float32)
    np.save(tmp_path / "a.npy", X[:5])
    np.save(tmp_path / "b.npy", X[5:])
    np.save(tmp_path / "c.npy", X[:, :2])
    create_project(tmp_path / "p", tmp_path / "a.npy", Roles(), ["a", "b"], {})
    with Store.open(tmp_path / "p") as store:
        add_items(store, tmp_path / "b.npy")
        np.testing.assert_array_equal(features_of(store), X)
        assert [item.id for item in store.iter_items()] == list("123456789")
        with pytest.raises(ShapeError, match="2 columns"):
            add_items(store, tmp_path / "c.npy")


def test_images_that_came_into_the_folder(tmp_path):
    image = pytest.importorskip("PIL.Image")
    photos = tmp_path / "photos"
    (photos / "new").mkdir(parents=True)
    for i in range(4):
        image.new("RGB", (8, 8), (60 * i, 0, 90)).save(photos / f"{i}.png")
    create_project(tmp_path / "p", photos, Roles(), ["a", "b"], {})
    image.new("RGB", (8, 8), (0, 200, 0)).save(photos / "0b.png")
    image.new("RGB", (8, 8), (0, 250, 0)).save(photos / "new" / "z.png")
    (photos / "broken.png").write_bytes(b"not an image")
    with Store.open(tmp_path / "p") as store:
        with pytest.raises(InputError, match="cannot be read"):
            add_items(store, photos)
        added = add_items(store, photos, encode_with=Options(skip_bad=True))
        assert (added.n_items, added.n_known) == (3, 4)
        assert "1 of 7 items could not be read" in added.notes[-1]
        paths = [item.content["image"] for item in store.iter_items()]
        assert sorted(paths[4:]) == ["0b.png", "broken.png", "new/z.png"]
        assert [item.id for item in store.iter_items()] == paths
        image.new("RGB", (8, 8), (0, 99, 0)).save(photos / "new" / "0.png")
        # named from the project's folder, not from this one
        add_items(store, photos / "new", encode_with=Options(skip_bad=True))
        assert [item.id for item in store.iter_items()][7:] == ["new/0.png"]
        (tmp_path / "others").mkdir()
        image.new("RGB", (8, 8)).save(tmp_path / "others" / "x.png")
        with pytest.raises(InputError, match="outside of"):
            add_items(store, tmp_path / "others")
