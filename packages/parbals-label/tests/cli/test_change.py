"""`parbals edit`, `add`, `labels undo` and `queue release`: no label is lost."""

import csv
import json
from dataclasses import asdict

import numpy as np
import pytest
from message_data import message
from parbals.errors import InputError, LabelError
from parbals_label.project.features import store_features
from parbals_label.store.records import Submission
from parbals_label.store.settings import PredictionsFile
from parbals_label.store.store import Store


def test_columns_are_hidden_and_shown_again_wherever_items_are_seen(run, tmp_path):
    rows = "\n".join(f"{message(i)!r},{'ab'[i % 2]},z{i}" for i in range(40))
    (tmp_path / "t.csv").write_text(f"text,label,note\n{rows}", "utf-8")
    run("init", "p", "t.csv", "--text", "text", "--classes", "a,b")
    run("next", "p", "-n", "2", "--out", "one.csv")
    assert (tmp_path / "one.csv").read_text("utf-8-sig").splitlines()[0] == "id,text,note,label"
    assert "hidden          note" in run("edit", "p", "--show", "label", "--hide", "note")
    run("next", "p", "-n", "2", "--out", "two.csv")
    assert (tmp_path / "two.csv").read_text("utf-8-sig").startswith("id,text,item.label,label")
    refused = run("edit", "p", "--hide", "nothing", fails=True)
    assert "no column 'nothing'" in str(refused.exception)
    with Store.open(tmp_path / "p") as store:
        assert store.visible_items([0])[0].content.keys() == {"text", "label"}
        from parbals_label.web.items import list_items, project, show_item

        assert project(store).columns == ["text", "label"]
        assert show_item(store, 0).content.keys() == {"text", "label"}
        found = {"state": "all", "label": None, "annotator": None, "after": -1, "limit": 9}
        assert list_items(store, query="z17", **found).items == []


def test_classes_are_merged_removed_and_put_in_order(run, project):
    run("tell", project, _labels(project, {"010": "spam", "011": "ham"}), "--no-report")
    run("edit", project, "--add-class", "advert", "--add-class", "oops")
    run("tell", project, _labels(project, {"012": "advert"}))
    with Store.open(project, read_only=True) as store:
        assert store.settings.predictions.shape[1] == 4
    output = run(
        *("edit", project, "--merge-class", "advert=spam", "--remove-class", "oops"),
        *("--class-order", "spam", "--goal-labels", "50", "--goal-error", "5%"),
    )
    assert "classes         spam, ham" in output
    with Store.open(project) as store:
        assert store.classes == ("spam", "ham")
        twelve = store.position_of(["012"])[0]
        assert store.votes()[twelve] == {"me": "spam"}
        assert store.settings.predictions.shape[1] == 2, "they are made again"
        assert (store.settings.goal_labels, store.settings.goal_error) == (50, 0.05)
        assert store.check() == []
        store.submit([Submission(20, "advert")], annotator="ann")  # a file of before
        assert store.votes()[20] == {"ann": "spam"}
    assert "advert (now spam)" in run("labels", "history", project)


@pytest.mark.parametrize("n_classes", [3, 77])
def test_a_change_is_stored_and_said_before_the_report(run, tmp_path, monkeypatch, n_classes):
    """With many classes the report takes minutes, and whoever stops it must know what is done."""
    names = [f"intent {n}" for n in range(n_classes)]
    rows = "".join(f"{message(i)!r},{names[i % n_classes]}\n" for i in range(n_classes))
    (tmp_path / "t.csv").write_text(f"text,label\n{rows}", "utf-8")
    run("init", "p", "t.csv", "--text", "text", "--label", "label")
    with Store.open(tmp_path / "p") as store:
        written = store_features(
            store.folder, np.full((n_classes,) * 2, 1 / n_classes), "predictions"
        )
        store.update_settings(predictions=PredictionsFile(**asdict(written), answers=1))

    def stop(store):
        raise InputError("stopped")

    monkeypatch.setattr("parbals_label.cli.change.update_report", stop)
    result = run("edit", "p", "--merge-class", "intent 1=intent 0", fails=True)
    assert str(result.exception) == "stopped"
    assert "classes         intent 0, intent " in result.output
    assert "intent 1," not in result.output
    with Store.open(tmp_path / "p", read_only=True) as store:
        assert len(store.classes) == n_classes - 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--add-class", "x", "--remove-class", "spam"], "answers name it"),
        (["--remove-class", "eggs"], "no class 'eggs'"),
        (["--remove-class", "spam"], "'spam' cannot be removed: two classes must remain"),
        (["--merge-class", "ham=spam"], "two classes must remain"),
        (["--merge-class", "ham=eggs"], "two classes must remain"),
    ],
)
def test_no_class_that_is_needed_is_removed(run, project, options, words):
    refused = run("edit", project, *options, fails=True)
    assert words in str(refused.exception)
    with Store.open(project, read_only=True) as store:
        assert store.classes == ("ham", "spam")


def test_labels_are_undone_by_a_command_and_not_by_empty_cells(run, project):
    run("tell", project, _labels(project, {"010": "spam", "011": "ham"}), "--no-report")
    again = _labels(project, {"010": "ham", "011": ""})
    assert "1 empty cell changed nothing" in run("tell", project, again, "--revise")
    output = run("labels", "undo", project, "010", "011", "--no-report")
    assert output == "2 labels by me were undone.\n"
    assert "no item '999'" in str(run("labels", "undo", project, "999", fails=True).exception)
    with Store.open(project, read_only=True) as store:
        assert not {10, 11} & store.votes().keys()


def _labels(project, labels):
    file = project.parent / "some-labels.csv"
    file.write_text("id,label\n" + "".join(f"{i},{label}\n" for i, label in labels.items()))
    return file


def test_edits_are_atomic_and_listed_in_the_history(run, project, tmp_path):
    (tmp_path / "guide.md").write_text("Prizes are spam.\nRead twice.")
    output = run(
        *("edit", project, "--rename-class", "spam=junk", "--add-class", "none of these"),
        *("--strategy", "margin", "--guidelines", tmp_path / "guide.md"),
        *("--metric", "log-loss", "--answers-wanted", "2", "--highlight", "prize,win"),
        *("--find", "junk"),
    )
    assert "ham, junk, none of these" in output
    with Store.open(project, read_only=True) as store:
        settings = store.settings
        assert settings.guidelines == "Prizes are spam.\nRead twice."
        assert (settings.strategy, settings.loss, settings.answers_wanted) == ("margin", "log", 2)
        assert (settings.highlight, settings.find) == (("prize", "win"), "junk")
        assert any("junk" in votes.values() for votes in store.votes().values())
        assert store.n_labelled == 6
        assert store.check() == []
    lines = run("labels", "history", project).splitlines()
    assert any("spam (now junk)" in line for line in lines)
    assert any("spam is now junk" in line for line in lines)
    assert any("metric: accuracy → log-loss" in line for line in lines)
    assert any("new: none of these" in line for line in lines)
    rows = json.loads(run("labels", "history", project, "--json"))
    assert {(row["label"], row["label_now"]) for row in rows if row["who"]} == {
        ("spam", "junk"),
        ("ham", "ham"),
    }
    shown = json.loads(run("edit", project, "--json"))
    assert shown["classes"] == ["ham", "junk", "none of these"]


def test_a_batch_file_may_use_the_old_name_of_a_class(run, project, tmp_path):
    run("edit", project, "--rename-class", "spam=junk")
    (tmp_path / "b.csv").write_text("id,label\n50,Spam\n51,ham\n")
    run("tell", project, tmp_path / "b.csv", "--no-report")
    assert [
        line.split(": ")[1] for line in run("labels", "history", project).splitlines()[-2:]
    ] == [
        "050 → junk",
        "051 → ham",
    ]
    run("export", project, "--labelled-only", "--out", tmp_path / "e.csv")
    assert "junk" in (tmp_path / "e.csv").read_text()
    assert "spam" not in (tmp_path / "e.csv").read_text()


@pytest.mark.parametrize(
    ("arguments", "error", "complaint"),
    [
        (["--rename-class", "spam"], InputError, "write OLD=NEW"),
        (["--rename-class", "eggs=x"], LabelError, "no class 'eggs'"),
        (["--add-class", "x", "--rename-class", "spam=ham"], LabelError, "--merge-class"),
        (["--rename-class", "spam=x", "--add-class", "ham"], LabelError, "'ham' again"),
        (["--strategy", "magic"], InputError, "no strategy 'magic'"),
        (
            ["--add-class", "x", "--find", "eggs"],
            InputError,
            "--find names 'eggs', which is not a class",
        ),
    ],
)
def test_a_wrong_option_changes_nothing(run, project, arguments, error, complaint):
    result = run("edit", project, *arguments, fails=True)
    assert isinstance(result.exception, error)
    assert complaint in str(result.exception)
    with Store.open(project, read_only=True) as store:
        assert store.classes == ("ham", "spam")
        assert store.events() == []


def test_items_are_added_and_predicted(run, project, tmp_path):
    rows = [f"{i},{message(i)},{len(message(i))}," for i in range(60, 70)]
    (tmp_path / "more.csv").write_text("id,message,length,label\n" + "\n".join(rows))
    output = run("add", project, tmp_path / "more.csv")
    assert output.startswith("10 items added, 0 of them labelled. The project has 70 items.")
    run("export", project, "--out", tmp_path / "e.csv")
    with open(tmp_path / "e.csv", newline="", encoding="utf-8") as file:
        exported = list(csv.DictReader(file))
    assert len(exported) == 70
    assert 0.0 < float(exported[-1]["p_spam"]) < 1.0
    assert "items added: 10 from more.csv" in run("labels", "history", project)


class TestTables:
    """What `init` makes of tables as people have them."""

    MESSY = (
        "id;age;joined;income;active;city;zip;note\n"
        "1;34;03.04.2021;1.234,56;ja;Köln;01067;The customer called twice about an invoice\n"
        "2;;17.12.2020;2.500,00;nein;köln ;50667;Wants to cancel the contract at once\n"
        "3;abc;;999,5;Ja;Bonn;53111;\n"
        "4;51;01.01.2019;;;;53111;Asked for a new router because it is slow\n"
        "5;22;30.06.2022;12,5;nein;Bonn;01067;No answer on the phone since last week\n"
        "6;43;30.06.2022;-;ja;Aachen;52062;Praised the friendly staff in the shop\n"
    )

    def made(self, run, tmp_path, *arguments):
        (tmp_path / "t.csv").write_text(self.MESSY)
        return json.loads(run("init", "p", "t.csv", "--classes", "a,b", *arguments, "--json"))

    def test_missing_values_dates_decimal_commas_and_yes_no(self, run, tmp_path):
        record = self.made(run, tmp_path, "--features", "all")
        assert record["encoder"] == "table"
        assert "'note' is left out: it is a text; --text reads it." in record["notes"]
        assert "1 cell of 'age' is not a number ('abc') and counts as empty." in record["notes"]
        with Store.open(tmp_path / "p") as store:
            columns = store.settings.encoded_columns
        assert columns == ("age", "joined", "income", "active", "city", "zip")
        run("next", "p", "-n", "2")

    def test_text_and_numbers_are_used_together(self, run, tmp_path):
        both = self.made(run, tmp_path, "--text", "note", "--features", "age,joined")
        assert (both["encoder"], both["table_columns"]) == ("words", ["age", "joined"])
        alone = json.loads(run("embed", "p", "--encoder", "table", "--columns", "age", "--json"))
        assert 0 < alone["features"] < both["features"]
        again = json.loads(
            run(
                *("embed", "p", "--encoder", "words", "--columns", "note"),
                *("--features", "age,joined", "--json"),
            )
        )
        assert again["features"] == both["features"]

    def test_a_table_alone_needs_no_roles_and_its_classes_are_no_feature(self, run, tmp_path):
        rows = [f"{i},{'mf'[i % 2]},{i % 7},{'ab'[i % 2] if i < 9 else ''}" for i in range(30)]
        (tmp_path / "t.csv").write_text(",sex,size,answer\n" + "\n".join(rows))
        record = json.loads(run("init", "p", "t.csv", "--classes", "a,b", "--json"))
        assert record["encoder"] == "table"
        hint = "it only identifies rows; --id 'column 1' names the items by it."
        assert f"'column 1' is left out: {hint}" in record["notes"]
        hint = "'answer' is neither shown nor used, holding the classes: --label answer reads it, "
        assert any(note.startswith(hint) for note in record["notes"])

    def test_a_column_of_lists_of_classes_is_not_shown(self, run, tmp_path):
        tags = ["a;b", "b", "", "[a, b]", "a|b"]
        rows = [f"word {i}\t{tags[i % 5]}" for i in range(20)]
        (tmp_path / "t.tsv").write_text("text\ttags\n" + "\n".join(rows))
        arguments = ("init", "p", "t.tsv", "--text", "text", "--task", "many-labels")
        record = json.loads(run(*arguments, "--classes", "a,b", "--json"))
        assert any(note.startswith("'tags' is neither shown nor used") for note in record["notes"])

    def test_unreadable_images_are_left_blank(self, run, tmp_path):
        from PIL import Image

        (tmp_path / "photos").mkdir()
        for i in range(5):
            Image.new("RGB", (8, 8), (50 * i, 0, 9)).save(tmp_path / "photos" / f"{i}.png")
        (tmp_path / "photos" / "bad.png").write_bytes(b"no image")
        arguments = ("init", "p", "photos", "--classes", "a,b")
        assert "bad.png" in str(run(*arguments, fails=True).exception)
        assert "1 of 6 items could not be read" in run(*arguments, "--skip-bad")
        (tmp_path / "photos" / "worse.png").write_bytes(b"no image either")
        assert "worse.png" in str(run("add", "p", "photos", fails=True).exception)
        assert "2 of 7 items could not be read" in run("add", "p", "photos", "--skip-bad")
        run("next", "p", "-n", "5", "--out", "batch.csv")  # nobody is asked about those
        asked = (tmp_path / "batch.csv").read_text()
        assert [asked.count(f"{name}.png") > 0 for name in (0, 4, "bad", "worse")] == [
            True,
            True,
            False,
            False,
        ]


def test_assigned_items_are_released(run, project):
    run("next", project, "-n", "3", "--out", "a.csv")
    with Store.open(project) as store:
        free = sorted(set(range(store.n_items)) - {*store.pending(), *store.votes()})[:2]
        store.record_batch("random", 0, [(p, None, None) for p in free], {}, queued=True)
        store.take("ann", 2, 1000.0)
    assert (
        run("queue", "release", project, "--annotator", "ann") == "2 items of ann are free again.\n"
    )
    assert json.loads(run("queue", "release", project, "--json")) == {"released": 3}
    with Store.open(project) as store:
        assert store.pending() == free
