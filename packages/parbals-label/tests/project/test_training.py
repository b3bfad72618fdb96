"""Export as training data: every item once, a clean split, readable by other tools."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from parbals.cli.main import parbals
from parbals.errors import InputError
from parbals_label.project.create import Roles, create_project
from parbals_label.project.engine import learner_of
from parbals_label.project.training import write_training_data
from parbals_label.store.records import Submission
from parbals_label.store.store import Store

N_ITEMS, N_LABELS, AUDIT = 120, 40, 12


@pytest.fixture
def project(tmp_path):
    rng = np.random.default_rng(0)
    words = {"ham": "dinner home friend", "spam": "prize cash winner"}
    lines = ["id,text,label"]  # a column of the items may be called as one of ours is
    for i in range(N_ITEMS):
        some = rng.choice(words[["ham", "spam"][i % 2]].split(), 4)
        lines.append(f"m{i},{' '.join(some)} {rng.integers(50)},x{i}")
    (tmp_path / "d.csv").write_text("\n".join(lines))
    folder = tmp_path / "p"
    create_project(
        folder,
        tmp_path / "d.csv",
        Roles(text=("text",)),
        ["ham", "spam"],
        {},
        audit=AUDIT,
        encoder="words",
    )
    with Store.open(folder) as store:
        answers = [Submission(i, ["ham", "spam"][i % 2]) for i in range(N_LABELS)]
        store.submit(answers[: N_LABELS // 2], annotator="me")
        store.submit(answers[N_LABELS // 2 :], annotator="bot", source="machine")
    return folder


def rows_of(file):
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def test_every_item_is_in_one_split_and_the_audit_in_no_training(project, tmp_path):
    with Store.open(project) as store:
        counts = write_training_data(store, tmp_path / "out")
        learner = learner_of(store)
        ids = [item.id for item in store.iter_items()]
    train, test = (rows_of(tmp_path / "out" / f"{name}.jsonl") for name in ("train", "test"))
    assert counts == {"train": len(train), "test": len(test)}
    audit = {ids[p] for p in learner.audit.tolist()}
    assert {row["id"] for row in test} == {ids[p] for p in learner.state.audited.tolist()}
    kept_out = audit | {ids[p] for p in learner.setup.audit_duplicates.tolist()}
    assert {row["id"] for row in train} == set(ids) - kept_out


def test_labels_count_whole_and_predictions_by_what_they_say(project, tmp_path):
    with Store.open(project) as store:
        write_training_data(store, tmp_path / "out")
    train = rows_of(tmp_path / "out" / "train.jsonl")
    for row in train:
        probs = np.array([row["p_ham"], row["p_spam"]])
        assert probs.sum() == pytest.approx(1.0, abs=1e-5)
        if int(row["id"][1:]) < N_LABELS:
            assert (row["weight"], probs.max()) == (1.0, 1.0)
            assert row["labelled_by"] in ("me", "bot")
        else:
            entropy = -(probs * np.log(np.maximum(probs, 1e-300))).sum()
            assert row["weight"] == pytest.approx(1 - entropy / np.log(2), abs=1e-4)
            assert row["labelled_by"] == "model"
            assert row["label"] == ("ham", "spam")[probs.argmax()]
        assert row["item.label"] == f"x{row['id'][1:]}"


def test_datasets_reads_the_folder(project, tmp_path):
    datasets = pytest.importorskip("datasets", reason="optional")
    with Store.open(project) as store:
        counts = write_training_data(store, tmp_path / "out")
    read = datasets.load_dataset(str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"))
    assert {name: len(split) for name, split in read.items()} == counts


def test_a_folder_with_something_in_it_is_left_alone(project, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    with Store.open(project) as store, pytest.raises(InputError, match="not an empty folder"):
        write_training_data(store, tmp_path / "out")


def test_the_command(project, tmp_path):
    command = ["export", str(project), "--for-training", str(tmp_path / "out"), "--json"]
    result = CliRunner().invoke(parbals, command)
    assert result.exit_code == 0, (result.output, result.exception)
    assert json.loads(result.output)["train"] > 0
