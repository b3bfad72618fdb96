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
    rng = np.random.default_rng(0)
    lines = ["id,text"]
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
    options = ["--text", "text", "--classes", "ham,spam", "--encoder", "words"]
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
        assert learner.setup.class_descriptions.class_numbers.tolist() == [0, 1]
    assert len(list((tmp_path / "p").glob("described-*.npy"))) == 1
    write_backup(tmp_path / "p", tmp_path / "b.zip")
    restore_backup(tmp_path / "b.zip", tmp_path / "back")
    assert check_project(tmp_path / "back")[1] == []


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        (["--describe", "eggs=breakfast"], "belongs to no class"),
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


@pytest.fixture
def scores(tmp_path):
    """Another model's: right of nine items in ten, in another order than the items."""
    rng = np.random.default_rng(1)
    lines = ["id,spam,ham"]
    for i in rng.permutation(80):
        right = 0.8 if rng.random() < 0.9 else 0.2
        spam = right if i % 2 else 1 - right
        lines.append(f"m{i},{spam:.3f},{1 - spam:.3f}")
    (tmp_path / "scores.csv").write_text("\n".join(lines))
    return tmp_path / "scores.csv"


def right_share(folder, tmp_path):
    run("export", folder, "--renew", "--format", "jsonl", "--out", tmp_path / "s.jsonl", "--force")
    rows = [json.loads(line) for line in (tmp_path / "s.jsonl").read_text().splitlines()]
    return np.mean([r["predicted"] == ["ham", "spam"][int(r["id"][1:]) % 2] for r in rows[:80]])


def test_scores_of_another_model_predict_before_the_first_label(data, scores, tmp_path):
    init(tmp_path / "p", data, "--prior-scores", scores)
    assert right_share(tmp_path / "p", tmp_path) > 0.9
    (tmp_path / "more.csv").write_text("id,text\nn1,free cash\n")
    run("add", tmp_path / "p", tmp_path / "more.csv")
    assert right_share(tmp_path / "p", tmp_path) > 0.9, "of items that came later they say nothing"
    write_backup(tmp_path / "p", tmp_path / "b.zip")
    restore_backup(tmp_path / "b.zip", tmp_path / "back")
    assert check_project(tmp_path / "back")[1] == []
    with Store.open(tmp_path / "back") as store:
        assert learner_of(store).setup.class_descriptions is not None


def test_scores_come_later_or_again_and_go_with_other_classes(data, scores, tmp_path):
    init(tmp_path / "p", data)
    record = json.loads(run("edit", tmp_path / "p", "--prior-scores", scores, "--json"))
    assert record["prior_scores"]
    assert right_share(tmp_path / "p", tmp_path) > 0.9
    logits = scores.read_text().replace("id,spam,ham", "id,p_spam,p_ham").replace(",0.8", ",4.5")
    scores.write_text(logits)  # no probabilities any more, named as our exports name them
    run("edit", tmp_path / "p", "--prior-scores", scores)
    assert len(list((tmp_path / "p").glob("scores-*.npy"))) == 1
    run("edit", tmp_path / "p", "--add-class", "neither")
    assert not list((tmp_path / "p").glob("scores-*.npy"))
    with Store.open(tmp_path / "p") as store:
        assert learner_of(store).setup.class_descriptions is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("id,spam,ham", "id,spam,other"), "has no column 'ham'; scores need an id and"),
        (("id,spam,ham", "name_of_it,spam,ham"), "has no column 'id'"),
        (("m7,", "m8,"), "names 'm8' again; keep one row for each item"),
        (("m7,", "x7,"), "no item with the id 'x7'"),
        (("0.800", "high"), "is 'high', which is not a number"),
    ],
)
def test_wrong_files_of_scores_are_refused_in_a_sentence(change, message, data, scores, tmp_path):
    scores.write_text(scores.read_text().replace(*change))
    assert message in init(tmp_path / "p", data, "--prior-scores", scores, code=1)
    assert not (tmp_path / "p").exists()


def test_scores_for_some_items_or_beside_sentences_are_refused(data, scores, tmp_path):
    options = ["--prior-scores", scores]
    assert "not both" in init(tmp_path / "p", data, *DESCRIBED, *options, code=1)
    lines = [x for x in scores.read_text().splitlines() if not x.startswith(("m3,", "m5,"))]
    scores.write_text("\n".join(lines))
    output = init(tmp_path / "p", data, *options, code=1)
    assert "no scores for 2 of 80 items, the first is 'm3'" in output
