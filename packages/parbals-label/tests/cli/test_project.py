"""`parbals init` and `embed`."""

import json
from pathlib import Path

import numpy as np
import pytest
from message_data import message
from message_projects import ROLES
from parbals.errors import InputError, LabelError
from parbals_label.project.features import load_features
from parbals_label.store.store import Store


class TestInit:
    def test_a_csv_becomes_items_first_labels_and_features(self, project):
        with Store.open(project, read_only=True) as store:
            assert store.n_items == 60
            assert store.n_labelled == 6
            assert store.items([0])[0].content == {
                "message": message(0),
                "length": str(len(message(0))),
            }
            features = load_features(project, store.settings.features, verify=True)
            assert features.shape[0] == 60
            assert np.isfinite(features).all()
            assert store.check() == []

    def test_the_metric_is_stored(self, run, messages, tmp_path):
        for place, metric in {"a": "accuracy", "b": "balanced-accuracy", "c": "f1:spam"}.items():
            run("init", place, messages, *ROLES, "--metric", metric)
            assert json.loads(run("status", place, "--json"))["metric"] == metric
        run("edit", "c", "--rename-class", "spam=junk")
        assert json.loads(run("status", "c", "--json"))["metric"] == "f1:junk"
        run("edit", "c", "--metric", "f1:spam", fails=True)
        for metric in ("f1", "f1:eggs"):
            run("init", "p", messages, *ROLES, "--metric", metric, fails=True)
            assert not (tmp_path / "p").exists()

    def test_a_project_without_unlabelled_items_is_sent_to_its_model(self, run, tmp_path):
        rows = [f"{message(i)},{'ham' if i % 2 else 'spam'}" for i in range(20)]
        (tmp_path / "done.csv").write_text("\n".join(["text,label", *rows]) + "\n")
        output = run("init", "done", "done.csv", "--text", "text", "--label", "label")
        assert "parbals serve" not in output
        run("export", "done", "--renew")
        assert "expected error" in run("status", "done")

    def test_numbers_are_features_too(self, run, messages):
        record = json.loads(
            run("init", "p", messages, "--features", "length", "--classes", "ham,spam", "--json")
        )
        assert record["features"] == 1
        assert record["encoder"] == "columns"

    def test_a_matrix_is_used_unchanged(self, run, tmp_path):
        X = np.random.default_rng(0).standard_normal((20, 5)).astype(np.float32)
        np.save(tmp_path / "X.npy", X)
        run("init", "p", "X.npy", "--classes", "no,yes")
        with Store.open(tmp_path / "p", read_only=True) as store:
            np.testing.assert_array_equal(load_features(tmp_path / "p", store.settings.features), X)

    def test_a_folder_of_images(self, run, tmp_path):
        from PIL import Image

        (tmp_path / "photos").mkdir()
        for i in range(8):
            Image.new("RGB", (20, 10), (30 * i, 0, 255 - 30 * i)).save(
                tmp_path / "photos" / f"{i}.png"
            )
        arguments = ("--classes", "red,blue", "--strategy", "random")
        assert "8 items" in run("init", "p", "photos", *arguments)
        run("next", "p", "-n", "3")

    def test_a_bad_cell_is_named_and_no_folder_is_left_behind(self, run, messages, tmp_path):
        text = messages.read_text().replace(",ham", ",eggs", 1)
        messages.write_text(text)
        result = run("init", "p", messages, *ROLES, fails=True)
        assert isinstance(result.exception, LabelError)
        assert "row 3" in str(result.exception)
        assert "'label'" in str(result.exception)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["messages.csv"]

    @pytest.mark.parametrize(
        ("arguments", "complaint"),
        [
            (["--classes", "ham,spam"], "to use all of them: --text message --features length."),
            (
                ["--text", "body", "--classes", "ham,spam"],
                "no column 'body'; its columns are: 'id', 'message', 'length', 'label'",
            ),
            (["--text", "message"], "Which classes are there"),
            (["--text", "message", "--classes", "ham"], "The classes are ham; name at least two"),
            (["--text", "message", "--classes", "ham spam"], "by commas, such as ham,spam"),
            (["--features", "message", "--classes", "ham,spam"], "say --text message"),
            (
                ["--text", "message", "--classes", "ham,spam", "--encoder", "gpt"],
                "no encoder 'gpt'",
            ),
            (
                ["--text", "message", "--classes", "ham,spam", "--strategy", "magic"],
                "no strategy 'magic'",
            ),
        ],
    )
    def test_missing_options_are_named(self, run, messages, tmp_path, arguments, complaint):
        result = run("init", "p", messages, *arguments, fails=True)
        assert complaint in str(result.exception)
        assert not (tmp_path / "p").exists()

    @pytest.mark.parametrize(
        ("name", "text", "complaint"),
        [
            (
                "d.csv",
                "id,text\n5,a\n6,b\n5,c\n",
                "d.csv, row 4, column 'id': the id '5' is also that of row 2",
            ),
            ("d.csv", "id,text\n5,a\n,b\n", "d.csv, row 3, column 'id' is empty"),
            (
                "d.jsonl",
                '{"id": 1, "text": "a"}\n{"id": "1", "text": "b"}\n',
                "the id '1' is also that of row 1",
            ),
        ],
    )
    def test_ids_that_cannot_be_used_are_never_silently_replaced(
        self, run, tmp_path, name, text, complaint
    ):
        (tmp_path / name).write_text(text)
        arguments = ("init", "p", name, "--text", "text", "--classes", "x,y")
        said = str(run(*arguments, fails=True).exception)
        assert complaint in said
        assert 'number the rows instead (--id "")' in said
        assert not (tmp_path / "p").exists()
        assert "named by their numbers, 1 to" in run(*arguments, "--id", "")
        with Store.open(tmp_path / "p", read_only=True) as store:
            assert store.items([1])[0].id == "2"
            assert "id" in store.items([1])[0].content

    def test_the_source_of_item_names_is_printed(self, run, messages, tmp_path):
        arguments = ("--text", "message", "--classes", "ham,spam")
        assert "named by the column 'id'" in run("init", "p", messages, *arguments)
        (tmp_path / "d.csv").write_text("message\na\nb\n")
        assert "named by their numbers, 1 to 2, in the order of d.csv" in run(
            "init", "q", "d.csv", *arguments
        )
        assert json.loads(run("init", "r", "d.csv", *arguments, "--json"))["id_column"] is None

    def test_an_empty_number_is_named_by_file_row_and_column(self, run, tmp_path):
        (tmp_path / "d.csv").write_text("a,b\n1,2\n,3\n")
        arguments = ("--features", "a,b", "--classes", "x,y", "--encoder", "columns")
        said = str(run("init", "p", "d.csv", *arguments, fails=True).exception)
        assert said.startswith(
            "d.csv, row 3, column 'a' is empty; every row needs a number, so fill it in"
        )

    def test_known_labels_are_parsed_like_those_of_tell(self, run, messages, tmp_path):
        messages.write_text(messages.read_text().replace(",ham", ",HAM ", 1))
        arguments = ("init", "p", messages, "--text", "message", "--label", "label")
        assert "only in capitals" in str(run(*arguments, fails=True).exception)
        assert "6 of them labelled" in run(*arguments, "--classes", "ham,spam")

    def test_a_folder_that_is_not_empty_is_left_alone(self, run, messages, project):
        result = run("init", project, messages, "--text", "message", "--classes", "a,b", fails=True)
        assert isinstance(result.exception, InputError)
        assert "is a project already: `parbals serve" in str(result.exception)
        Path("notes").mkdir()
        Path("notes", "a.txt").touch()
        result = run("init", "notes", messages, "--text", "message", "--classes", "a,b", fails=True)
        assert "notes exists and is not an empty folder" in str(result.exception)

    def test_arguments_in_the_wrong_order_are_named(self, run, messages):
        result = run("init", messages, "p", "--text", "message", "--classes", "a,b", fails=True)
        assert "the folder of the new project comes first" in str(result.exception)

    def test_a_missing_file_is_named_with_the_one_that_is_probably_meant(self, run, messages):
        wrong = str(messages).replace("messages", "mesages")
        result = run("init", "p", wrong, "--text", "message", "--classes", "a,b", fails=True)
        assert str(result.exception) == f"{wrong} does not exist; did you mean {messages}?"
        result = run("init", "p", "42", "--text", "message", "--classes", "a,b", fails=True)
        assert str(result.exception) == "42 does not exist."

    def test_the_column_that_names_items_is_no_feature(self, run, messages):
        features = ("--features", "id,length", "--classes", "ham,spam")
        result = run("init", "p", messages, *features, fails=True)
        assert "'id' names the items, so that it cannot be a feature" in str(result.exception)

    def test_nothing_is_left_where_every_item_is_labelled(self, run, tmp_path):
        rows = [f"{message(i)},{'ham' if i % 2 else 'spam'}" for i in range(20)]
        (tmp_path / "done.csv").write_text("\n".join(["text,label", *rows]) + "\n")
        run("init", "done", "done.csv", "--text", "text", "--label", "label")
        result = run("next", "done", fails=True)
        assert "Every item is labelled" in str(result.exception)

    def test_an_audit_larger_than_half_of_what_is_left_is_refused(self, run, messages, tmp_path):
        result = run("init", "p", messages, *ROLES, "--audit", "28", fails=True)
        assert "A sample of 28 items to keep is more than half of the 52" in str(result.exception)
        assert not (tmp_path / "p").exists()


def test_embed_again_keeps_labels(run, project):
    assert "1 features by columns" in run(
        "embed", project, "--encoder", "columns", "--columns", "length"
    )
    with Store.open(project) as store:
        assert store.n_labelled == 6
        assert store.settings.encoded_columns == ("length",)
        store.update_settings(strategy="random")
    run("next", project, "-n", "2")


def test_a_settings_file_holds_rare_options(run, messages, tmp_path):
    (tmp_path / "settings.toml").write_text('goal-labels = 40\nseed = 7\nhide = ["length"]\n')
    run("init", "p", messages, *ROLES, "--settings", "settings.toml", "--seed", "8")
    with Store.open(tmp_path / "p", read_only=True) as store:
        assert store.settings.goal_labels == 40
        assert store.settings.seed == 8
        assert "length" in store.settings.hidden
    (tmp_path / "settings.toml").write_text("goal_label = 40\n")
    refused = run("init", "q", messages, *ROLES, "--settings", "settings.toml", fails=True)
    assert "Did you mean 'goal-labels'?" in str(refused.exception)
