"""Projects whose classes are described: predictions before the first label."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from parbals.cli.main import parbals
from parbals_label.project.backup import check_project, restore_backup, write_backup
from parbals_label.project.engine import learner_of
from parbals_label.store.store import Store

WORDS = {"ham": "dinner home friend tonight", "spam": "prize cash winner free"}


@pytest.fixture
def data(tmp_path):
    rng, lines = np.random.default_rng(0), ["id,text"]
    for i in range(80):
        some = list(WORDS.values())[i % 2].split()
        lines.append(f"m{i},{' '.join(rng.choice(some, 3))} {rng.integers(9)}")
    (tmp_path / "data.csv").write_text("\n".join(lines))
    return tmp_path / "data.csv"


def run(*arguments, code=0):
    result = CliRunner().invoke(parbals, [str(a) for a in arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return f"{result.output}{result.exception or ''}"


def init(folder, data, *more, code=0):
    options = ["--text", "text", "--classes", "ham,spam", "--encoder", "tfidf"]
    return run("init", folder, data, *options, *more, code=code)


DESCRIBED = [x for label, text in WORDS.items() for x in ("--describe", f"{label}={text}")]


def test_it_predicts_before_the_first_label(data, tmp_path):
    init(tmp_path / "p", data, *DESCRIBED)
    run("export", tmp_path / "p", "--renew", "--format", "jsonl", "--out", tmp_path / "out.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    right = [row["predicted"] == ["ham", "spam"][int(row["id"][1:]) % 2] for row in rows]
    assert len(rows) == 80
    assert np.mean(right) > 0.9
    (tmp_path / "new.csv").write_text("text\nfree cash\ndinner friend\n")
    run("predict", tmp_path / "p", tmp_path / "new.csv", "--out", tmp_path / "new-out.csv")
    assert "spam" in (tmp_path / "new-out.csv").read_text().splitlines()[1]


def test_the_same_items_have_nearly_the_same_features_with_and_without(data, tmp_path):
    """Descriptions are encoded as items are, and are none of them."""
    init(tmp_path / "p", data, *DESCRIBED)
    with Store.open(tmp_path / "p") as store:
        assert store.n_items == 80
        assert store.settings.features.shape[0] == 80
        assert store.settings.described.shape[0] == 2


def test_renamed_classes_and_more_items_keep_them(data, tmp_path):
    init(tmp_path / "p", data, *DESCRIBED)
    (tmp_path / "more.csv").write_text("id,text\nn1,free cash\n")
    run("add", tmp_path / "p", tmp_path / "more.csv")
    with Store.open(tmp_path / "p") as store:
        store.rename_class("spam", "junk")
        assert list(store.settings.descriptions) == ["ham", "junk"]
        learner = learner_of(store)
        assert learner.setup.described.numbers.tolist() == [0, 1]
    assert len(list((tmp_path / "p").glob("described-*.npy"))) == 1
    write_backup(tmp_path / "p", tmp_path / "b.zip")
    restore_backup(tmp_path / "b.zip", tmp_path / "back")
    assert check_project(tmp_path / "back")[1] == []


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        (["--describe", "eggs=breakfast"], "of no class"),
        (["--describe", "spam"], "write --describe CLASS="),
    ],
)
def test_bad_descriptions_are_one_sentence(data, tmp_path, more, fault):
    assert fault in init(tmp_path / "p", data, *more, code=1)
    assert not (tmp_path / "p").exists()


def test_items_that_are_no_texts_cannot_be_described(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(30, 3)))
    command = ["init", tmp_path / "p", tmp_path / "x.npy", "--classes", "ham,spam", *DESCRIBED]
    assert "where items are texts" in run(*command, code=1)
