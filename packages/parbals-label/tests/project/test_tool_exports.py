"""What is exported for another labelling tool is read by it, and by us, as it was."""

import json
import shutil

import numpy as np
import pytest
from parbals.errors import InputError
from parbals_label.project.features import store_features
from parbals_label.project.tool_exports import write_tool_export
from parbals_label.readers.items import plan_items
from parbals_label.readers.open import open_source
from parbals_label.store.records import Submission
from parbals_label.store.settings import PredictionsFile
from parbals_label.store.store import Store


@pytest.fixture
def labelled(project):
    """60 messages with predictions, six labels by import and three by each of two people."""
    rng = np.random.default_rng(0)
    probs = rng.dirichlet([1, 1], 60).astype(np.float32)
    with Store.open(project) as store:
        made = store_features(store.folder, probs, name="predictions")
        store.update_settings(
            predictions=PredictionsFile(made.file, made.digest, made.shape, answers=6)
        )
        for who, label in (("kim@example.com", "ham"), ("lee@example.com", "spam")):
            store.submit([Submission(p, label) for p in (10, 11, 12)], annotator=who)
    return project


def items_of(store):
    """Position, id and content, with what each person said."""
    answers = store.current_labels()
    return {
        item.id: (item.content, sorted(answers.get(item.position, {}).values()))
        for item in store.iter_items()
    }


def test_a_round_trip(run, labelled, tmp_path):
    file = tmp_path / "tasks.json"
    run("export", labelled, "--format", "label-studio", "--out", file)
    with Store.open(labelled) as store:
        items = items_of(store)
        classes = store.classes
    planned = plan_items(open_source(file), id_column="id", label_column="label", classes=classes)
    rows = {name: (content, label) for name, content, label in planned}
    assert list(rows) == list(items)
    for name, (content, label) in rows.items():
        assert content == items[name][0]
        given = items[name][1]
        assert label == (given[0] if given else None)
    # And its labels come back: into the same project nothing new, into an empty one all of them.
    empty = shutil.copytree(labelled, tmp_path / "again")
    with Store.open(empty) as store:
        for who in [annotator.name for annotator in store.annotators()]:
            mine = [p for p, by in store.current_labels().items() if who in by]
            store.withdraw(mine, annotator=who)
        assert store.n_labelled == 0
    told = json.loads(run("tell", empty, file, "--no-report", "--json"))
    assert told["new"] == 12
    with Store.open(empty) as store:
        assert items_of(store) == items
        names = {annotator.name for annotator in store.annotators() if annotator.answers}
        assert names >= {"kim@example.com", "lee@example.com"}


def test_a_project_is_made_from_an_export(run, labelled, tmp_path):
    run("export", labelled, "--format", "label-studio", "--out", "tasks.json")
    text = run("init", "again", "tasks.json", "--text", "message", "--label", "label")
    assert "read as tasks of Label Studio" in text
    with Store.open(labelled) as old, Store.open(tmp_path / "again") as new:
        assert [item.id for item in new.iter_items()] == [item.id for item in old.iter_items()]
        assert new.n_labelled == old.n_labelled == 9
        assert new.classes == old.classes


def test_hugging_face(run, labelled, tmp_path):
    datasets = pytest.importorskip("datasets")
    run("export", labelled, "--format", "huggingface", "--out", "all")
    everything = datasets.load_from_disk(str(tmp_path / "all"))
    assert everything.num_rows == 60
    assert everything["label"][20] is None
    run("export", labelled, "--format", "huggingface", "--out", "out", "--labelled-only")
    loaded = datasets.load_from_disk(str(tmp_path / "out"))
    assert loaded.num_rows == 9
    assert loaded.features["label"].names == ["ham", "spam"]
    with Store.open(labelled) as store:
        first = next(store.iter_items())
    assert (loaded[0]["id"], loaded[0]["message"]) == (first.id, first.content["message"])
    assert loaded[0]["p_ham"] == pytest.approx(1 - loaded[0]["p_spam"], abs=1e-5)
    # theirs: as a folder, and as Parquet
    loaded.save_to_disk(str(tmp_path / "theirs"))
    loaded.to_parquet(str(tmp_path / "theirs.parquet"))
    rows = [row.values for row in open_source(tmp_path / "theirs").rows()]
    assert [row["label"] for row in rows[:3]] == ["spam", "ham", "ham"]
    assert json.loads(run("tell", labelled, "theirs", "--no-report", "--json"))["new"] == 9
    with pytest.raises(InputError, match="there already"), Store.open(labelled) as store:
        write_tool_export(tmp_path / "out", store, "huggingface")
    assert not list(tmp_path.glob(".out.*"))


@pytest.mark.parametrize("fmt", ["csv", "parquet", "jsonl"])
def test_tables_come_back(run, labelled, tmp_path, fmt):
    file = tmp_path / f"labels.{fmt}"
    run("export", labelled, "--format", fmt, "--out", file)
    told = json.loads(run("tell", labelled, file, "--no-report", "--json", "--annotator", "me"))
    assert told["new"] == 9
    with Store.open(labelled) as store:
        mine = {p: by["me"] for p, by in store.current_labels().items() if "me" in by}
        assert mine[0] == "spam"
        assert mine[10] == "ham"  # of two opinions the first


def test_predictions_go_with_them(labelled, tmp_path):
    with Store.open(labelled) as store:
        probs = np.load(store.folder / store.settings.predictions.file)
        write_tool_export(tmp_path / "tasks.json", store, "label-studio")
    best, score = ["ham", "spam"][int(probs[0].argmax())], round(float(probs[0].max()), 6)
    task = json.loads((tmp_path / "tasks.json").read_text("utf-8"))[0]
    assert task["predictions"][0]["score"] == score
    assert task["predictions"][0]["result"][0]["value"]["choices"] == [best]
