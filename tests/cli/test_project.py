"""The commands, run as a person runs them."""

import csv
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from message_data import message, truth
from message_projects import ROLES

from parbals.cli.main import main
from parbals.errors import InputError, LabelError, ProjectDamagedError, ProjectError
from parbals.project.features import load_features
from parbals.store.answers import Pen
from parbals.store.records import Submission
from parbals.store.store import Store
from parbals.strategies.table import DEFAULT


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

    def test_what_counts_is_named_once_and_remembered(self, run, messages, tmp_path):
        for place, metric in {"a": "accuracy", "b": "balanced-accuracy", "c": "f1:spam"}.items():
            run("init", place, messages, *ROLES, "--metric", metric)
            assert f", judged by {metric}\n" in run("status", place, "--verbose")
            assert json.loads(run("status", place, "--json"))["metric"] == metric
        run("edit", "c", "--rename-class", "spam=junk")
        assert json.loads(run("status", "c", "--json"))["metric"] == "f1:junk"
        run("edit", "c", "--metric", "f1:spam", fails=True)
        for metric in ("f1", "f1:eggs"):
            run("init", "p", messages, *ROLES, "--metric", metric, fails=True)
            assert not (tmp_path / "p").exists()

    def test_numbers_are_features_too(self, run, messages):
        record = json.loads(
            run("init", "p", messages, "--features", "length", "--classes", "ham,spam", "--json")
        )
        assert record["features"] == 1
        assert record["encoder"] == "columns"

    def test_a_matrix_is_taken_as_it_is(self, run, tmp_path):
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
            (["--text", "message", "--classes", "ham"], "at least two"),
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
    def test_what_is_missing_is_asked_for(self, run, messages, tmp_path, arguments, complaint):
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

    def test_it_says_what_names_the_items(self, run, messages, tmp_path):
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

    def test_first_labels_are_read_as_told_ones_are(self, run, messages, tmp_path):
        messages.write_text(messages.read_text().replace(",ham", ",HAM ", 1))
        arguments = ("init", "p", messages, "--text", "message", "--label", "label")
        assert "only in capitals" in str(run(*arguments, fails=True).exception)
        assert "6 of them labelled" in run(*arguments, "--classes", "ham,spam")

    def test_a_folder_that_is_not_empty_is_left_alone(self, run, messages, project):
        result = run("init", project, messages, "--text", "message", "--classes", "a,b", fails=True)
        assert isinstance(result.exception, ProjectError)
        assert "not empty" in str(result.exception)


class TestRound:
    def test_next_fill_in_tell_status_export(self, run, project, tmp_path):
        with Store.open(project) as store:
            store.update_settings(strategy="parbals-epig")
        run("next", project, "-n", "6", "--out", "batch.csv")
        chosen = fill(tmp_path / "batch.csv")
        output = run("tell", project, "batch.csv")
        assert output.startswith("6 new labels")
        assert "expected error" in output
        status = run("status", project)
        assert "12 of 60 items labelled (20.0%), 0 out\n" in status
        assert "90 % interval" in status
        for words in ("nats", "parbals-epig", "ou can stop"):
            assert words not in output + status
        more = run("status", project, "--verbose")
        assert "1 batches, strategy parbals-epig, judged by accuracy" in more
        assert "labelled items were chosen by: nobody 6, parbals-epig 6" in more
        assert " nats\n" in more
        run("export", project, "--out", "out.csv")
        with open(tmp_path / "out.csv", newline="", encoding="utf-8-sig") as file:
            rows = {row["id"]: row for row in csv.DictReader(file)}
        assert len(rows) == 60
        assert {i for i, row in rows.items() if row["label"]} == {
            f"{i:03d}" for i in range(6)
        } | set(chosen)
        for row in rows.values():
            assert float(row["p_ham"]) + float(row["p_spam"]) == pytest.approx(1.0, abs=1e-4)
        right = [
            (float(row["p_spam"]) > 0.5) == (truth(int(i)) == "spam") for i, row in rows.items()
        ]
        assert np.mean(right) > 0.85

    def test_a_long_wait_is_announced_and_a_quick_batch_offered(self, run, project):
        run("next", project, "-n", "4")
        with Store.open(project) as store:
            (record,) = store.batches()
            assert record.settings["seconds"] > 0
            slow = {**record.settings, "seconds": 300.0}
            store.record_batch(record.strategy, 0, [(59, None, None)], slow)
            store.submit([Submission(59, "ham")], annotator="me")
        done = subprocess.run(
            [sys.executable, "-m", "parbals", "next", str(project), "-n", "2"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert "Choosing takes about 10 minutes, as last time; --quick" in done.stderr
        quick = json.loads(run("next", project, "-n", "3", "--quick", "--json"))
        assert (quick["batch"], len(quick["ids"])) == (4, 3)
        with Store.open(project) as store:
            assert store.batches()[-1].strategy in ("confidence", "random")
            assert not store.queue_counts().free, "they are out as a file"

    def test_two_batches_at_once_share_nothing(self, run, project, tmp_path):
        first = json.loads(run("next", project, "-n", "5", "--json"))["ids"]
        second = json.loads(run("next", project, "-n", "5", "--json"))["ids"]
        assert not set(first) & set(second)
        assert json.loads(run("status", project, "--json"))["pending"] == 10

    def test_the_same_project_gives_the_same_batch(self, run, project, messages, tmp_path):
        run("init", "twin", messages, *ROLES, "--strategy", "margin")
        batches = [
            json.loads(run("next", name, "-n", "5", "--json"))["ids"] for name in ("spam", "twin")
        ]
        assert batches[0] == batches[1]

    def test_a_lost_batch_file_is_written_again(self, run, project, tmp_path):
        ids = json.loads(run("next", project, "-n", "4", "--out", "a.csv", "--json"))["ids"]
        (tmp_path / "a.csv").unlink()
        assert json.loads(run("next", project, "--again", "1", "--json"))["ids"] == ids
        assert "no batch 9" in str(run("next", project, "--again", "9", fails=True).exception)

    def test_partly_filled_reordered_with_extra_columns_and_ids_a_spreadsheet_shortened(
        self, run, project, tmp_path
    ):
        (tmp_path / "b.csv").write_text("note;label;id\nsure;HAM;7\n?;;8\nok;spam ;009\n")
        assert run("tell", project, "b.csv", "--no-report").startswith("2 new labels")
        with Store.open(project, read_only=True) as store:
            assert store.current_labels()[7] == {"me": "ham"}
            assert store.current_labels()[9] == {"me": "spam"}

    def test_one_wrong_row_stores_nothing(self, run, project, tmp_path):
        (tmp_path / "b.csv").write_text("id,label\n007,ham\n008,eggs\n")
        result = run("tell", project, "b.csv", fails=True)
        assert "row 3" in str(result.exception)
        (tmp_path / "b.csv").write_text("id,label\n007,ham\n777,ham\n")
        result = run("tell", project, "b.csv", fails=True)
        assert isinstance(result.exception, InputError)
        assert "row 3: the id '777' names no item" in str(result.exception)
        with Store.open(project, read_only=True) as store:
            assert store.n_labelled == 6

    def test_a_changed_mind_must_be_said(self, run, project, tmp_path):
        (tmp_path / "b.csv").write_text("id,label\n010,ham\n")
        run("tell", project, "b.csv", "--no-report")
        assert "1 known already" in run("tell", project, "b.csv", "--no-report")
        (tmp_path / "b.csv").write_text("id,label\n010,spam\n")
        assert isinstance(run("tell", project, "b.csv", fails=True).exception, LabelError)
        assert "1 revised" in run("tell", project, "b.csv", "--revise", "--no-report")
        with Store.open(project, read_only=True) as store:
            assert [answer.label for answer in store.history(10)] == ["ham", "spam"]

    def test_every_remedy_in_a_message_can_be_typed(self, run, project, tmp_path):
        (tmp_path / "b.csv").write_text("id,label\n010,ham\n")
        run("tell", project, "b.csv", "--no-report")
        (tmp_path / "b.csv").write_text("id,label\n010,spam\n")
        assert "--revise" in str(run("tell", project, "b.csv", fails=True).exception)
        said = str(run("next", project, "-n", "1000", fails=True).exception)
        assert "1000 items were asked for and 53 are free" in said
        assert "ask for fewer (-n), or first tell the labels of what is out (parbals tell)" in said
        next(project.glob("features-*.npy")).unlink()
        said = str(run("next", project, fails=True).exception)
        assert f"run `parbals embed {project} --encoder words`" in said
        run("embed", project, "--encoder", "tfidf")
        run("next", project, "-n", "2")

    def test_answers_of_a_damaged_project_are_salvaged_by_a_command(self, run, project, tmp_path):
        file = project / "project.sqlite3"
        content = bytearray(file.read_bytes())
        content[:16] = bytes(16)
        file.write_bytes(content)
        damage = run("status", project, fails=True).exception
        assert isinstance(damage, ProjectDamagedError)
        assert f"`parbals salvage {project} --out answers.csv`" in str(damage)
        assert "6 answers in answers.csv" in run("salvage", project, "--out", "answers.csv")
        with open(tmp_path / "answers.csv", newline="", encoding="utf-8") as table:
            rows = list(csv.DictReader(table))
        assert [(row["id"], row["label"]) for row in rows] == [
            (f"{i:03d}", truth(i)) for i in range(6)
        ]
        assert "the project itself" in str(
            run("salvage", project, "--out", file, fails=True).exception
        )

    def test_a_nul_that_an_earlier_parbals_let_in_stops_neither_salvage_nor_history(
        self, run, project, tmp_path
    ):
        with Store.open(project) as store, store._db.transaction() as connection:
            Pen(store._db, connection, "ann").append(9, 1, "ham", None, "so\0so")
        assert "7 answers" in run("salvage", project, "--out", "answers.csv")
        assert "rows in history.csv" in run("history", project, "--out", "history.csv")
        for name in ("answers.csv", "history.csv"):
            assert "so\ufffdso" in (tmp_path / name).read_text("utf-8")

    def test_an_export_says_that_its_probabilities_are_older_than_its_labels(
        self, run, project, tmp_path
    ):
        run("next", project, "-n", "2", "--out", "a.csv")
        fill(tmp_path / "a.csv")
        run("tell", project, "a.csv")
        assert json.loads(run("export", project, "--json"))["newer_answers"] == 0
        (tmp_path / "b.csv").write_text("id,label\n010,ham\n")
        run("tell", project, "b.csv", "--no-report")
        said = f"from 8 labels, and 1 answer is newer: `parbals export {project} --renew`"
        assert said in run("export", project)
        assert "newer" not in run("export", project, "--renew")
        assert "newer" not in run("export", project)

    def test_telling_known_labels_again_renews_a_report_that_is_behind(
        self, run, project, tmp_path
    ):
        (tmp_path / "b.csv").write_text("id,label\n010,ham\n")
        run("tell", project, "b.csv")
        (tmp_path / "b.csv").write_text("id,label\n010,ham\n011,ham\n")
        run("tell", project, "b.csv", "--no-report")
        assert "expected error" in run("tell", project, "b.csv")
        assert "expected error" not in run("tell", project, "b.csv")

    def test_embed_again_keeps_labels(self, run, project):
        assert "1 features by columns" in run(
            "embed", project, "--encoder", "columns", "--columns", "length"
        )
        with Store.open(project) as store:
            assert store.n_labelled == 6
            assert store.settings.encoded_columns == ("length",)
            store.update_settings(strategy="random")
        run("next", project, "-n", "2")

    def test_export_cannot_start_a_formula(self, run, tmp_path):
        (tmp_path / "d.csv").write_text("id,text\n=1+1,@SUM(A1)\nb,plain\n")
        run("init", "p", "d.csv", "--text", "text", "--classes", "x,y")
        run("export", "p", "--out", "o.csv")
        assert "'=1+1,'@SUM(A1)" in (tmp_path / "o.csv").read_text(encoding="utf-8-sig")
        run("export", "p", "--format", "jsonl", "--out", "o.jsonl")
        assert json.loads((tmp_path / "o.jsonl").read_text().splitlines()[0])["id"] == "=1+1"


MEASURED = {"n": 40, "n_wrong": 0, "n_audit": 50, "n_labels": 128}
MEASURED |= {"error": {"mean": 0.0, "low": 0.0, "high": 0.07}, "recall": {}, "precision": {}}


class TestAudit:
    @pytest.fixture
    def audited(self, run, messages, tmp_path):
        run("init", "p", messages, *ROLES, "--strategy", "margin", "--audit", "12")
        return tmp_path / "p"

    def test_a_round_with_an_audit(self, run, audited, tmp_path):
        assert "of the 9 items are random ones of the audit" in run(
            "next", "p", "-n", "9", "--out", "batch.csv"
        )
        fill(tmp_path / "batch.csv")
        told = run("tell", "p", "batch.csv")
        assert "With 95 % confidence the error is below" in told
        status = run("status", "p")
        assert "5 of the audit's 12 random items labelled" in status
        assert "With 95 % confidence the error is below" in status
        run("export", "p", "--renew", "--with-audit", "--out", "all.csv")
        with open(tmp_path / "all.csv", newline="", encoding="utf-8-sig") as file:
            marked = [row["id"] for row in csv.DictReader(file) if row["audit"] == "true"]
        assert len(marked) == 12

    @pytest.mark.parametrize(
        ("measured", "wanted", "code", "words"),
        [
            (MEASURED, "8%", 0, "May I stop? Yes. With 95 % confidence the error is below 7.0%"),
            (MEASURED, "0.07", 4, "May I stop? Not yet, for 7.0% is wanted. With 95 %"),
            (MEASURED | {"error": None}, "8%", 4, "will be measured as the 50 random items"),
            (None, "8%", 4, "has not been measured"),
        ],
    )
    def test_scripts_learn_whether_they_may_stop(
        self, project, capsys, measured, wanted, code, words
    ):
        error = {"mean": 0.1, "low": 0.0, "high": 0.2}
        body = {"expected_error": error, "expected_log_loss": error, "n_targets": 60}
        body |= {"advice": "Go on.", "warnings": [], "measured": measured}
        with Store.open(project) as store:
            store.update_settings(audit=[10, 20])
            store.save_report(body, 6)
        with pytest.raises(SystemExit) as end:
            main(["status", str(project), "--until-error", wanted])
        assert end.value.code == code
        assert words in capsys.readouterr().out
        with pytest.raises(SystemExit) as end:
            main(["status", str(project), "--until-error", wanted, "--json"])
        assert end.value.code == code
        assert json.loads(capsys.readouterr().out)["may_stop"] == (code == 0)

    @pytest.mark.parametrize("share", ["5", "0%", "100%", "five", "nan"])
    def test_what_is_not_a_share_is_refused(self, run, project, share):
        result = run("status", project, "--until-error", share, fails=True)
        assert result.exit_code == 2
        assert "is not a share; say 5% or 0.05" in result.output

    def test_nothing_can_be_certified_without_an_audit(self, project, capsys):
        with pytest.raises(SystemExit) as end:
            main(["status", str(project), "--until-error", "5%"])
        assert end.value.code == 2
        assert "This project has no audit" in capsys.readouterr().err

    def test_an_audit_larger_than_half_of_what_is_left_is_refused(self, run, messages, tmp_path):
        result = run("init", "p", messages, *ROLES, "--audit", "28", fails=True)
        assert "An audit of 28 items is more than half of the 54" in str(result.exception)
        assert not (tmp_path / "p").exists()


class TestHouse:
    def test_commands_that_need_no_model_load_nothing_heavy(self, project, tmp_path):
        (tmp_path / "b.csv").write_text("id,label\n010,ham\n")
        (tmp_path / "d.csv").write_text("a,b\n1,2\n3,5\n")
        looks = [
            ["--help"],
            ["next", "--help"],
            ["init", "p", "d.csv", "--features", "a,b", "--classes", "x,y"],
            ["status", str(project)],
            ["tell", str(project), "b.csv", "--no-report"],
            ["export", str(project)],
            ["edit", str(project), "--add-class", "neither"],
            ["history", str(project)],
        ]
        code = f"""
import sys
from parbals.cli.main import main
for arguments in {looks}:
    try:
        main(arguments)
    except SystemExit as ended:
        assert not ended.code, arguments
    loaded = {{"jax", "sklearn", "scipy", "matplotlib", "pandas"}} & sys.modules.keys()
    assert not loaded, (arguments, loaded)
"""
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
        assert done.returncode == 0, done.stderr

    def test_choosing_and_reporting_load_no_model_library(self, project, tmp_path):
        """With the default strategy, on a CPU."""
        with Store.open(project) as store:
            store.update_settings(strategy=DEFAULT)
        (tmp_path / "b.csv").write_text("id,label\n010,ham\n")
        code = f"""
import sys
from parbals.cli.main import main
for arguments in [["next", {str(project)!r}], ["tell", {str(project)!r}, "b.csv"]]:
    try:
        main(arguments)
    except SystemExit as ended:
        assert not ended.code, arguments
heavy = {{"jax", "sklearn", "scipy.stats", "matplotlib", "pandas"}} & sys.modules.keys()
assert not heavy, heavy
"""
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
        assert done.returncode == 0, done.stderr

    @pytest.mark.full
    def test_the_second_next_compiles_nothing_new(self, project, tmp_path):
        environment = os.environ | {"PARBALS_CACHE_DIR": str(tmp_path / "xla")}
        command = [sys.executable, "-m", "parbals", "next", str(project), "-n", "3", "--json"]
        kept = []
        for _ in range(2):
            subprocess.run(command, env=environment, check=True, capture_output=True)
            with Store.open(project) as store:
                store.give_back(store.pending())
            kept.append({path.name for path in (tmp_path / "xla").rglob("*-cache")})
        assert kept[0]
        # What was compiled in too short a time to be kept may be kept now.
        assert len(kept[1] - kept[0]) <= 2

    @pytest.mark.parametrize(
        "command",
        ["init", "embed", "edit", "add", "history", "next", "tell", "status", "export", "salvage"],
    )
    def test_every_command_explains_itself_with_an_example(self, run, command):
        text = run(command, "--help")
        assert "Example" in text
        assert "--json" in text

    def test_no_project_there_is_exit_code_3(self, tmp_path, capsys):
        with pytest.raises(SystemExit) as ended:
            main(["status", str(tmp_path / "none")])
        assert ended.value.code == 3
        said = capsys.readouterr().err
        assert said.startswith("parbals: ")
        assert len(said.strip().splitlines()) == 1

    @pytest.mark.full
    def test_four_at_once_all_get_items_of_their_own(self, project, tmp_path):
        environment = os.environ | {"PARBALS_CACHE_DIR": str(tmp_path / "xla")}
        command = [sys.executable, "-m", "parbals", "next", str(project), "-n", "3", "--json"]
        processes = [
            subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            for _ in range(4)
        ]
        ended = [(*process.communicate(timeout=300), process.returncode) for process in processes]
        assert [code for _, _, code in ended] == [0] * 4, ended
        records = [json.loads(output) for output, _, _ in ended]
        assert sorted(record["batch"] for record in records) == [1, 2, 3, 4]
        assert len({name for record in records for name in record["ids"]}) == 12
        for record in records:
            with open(
                project / f"batch-{record['batch']}.csv", newline="", encoding="utf-8-sig"
            ) as file:
                assert [row["id"] for row in csv.DictReader(file)] == record["ids"]

    @pytest.mark.full
    def test_ctrl_c_while_choosing_leaves_the_project_whole(self, project):
        command = [sys.executable, "-m", "parbals", "next", str(project), "-n", "20"]
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        time.sleep(1.5)
        process.send_signal(signal.SIGINT)
        errors = process.communicate(timeout=60)[1]
        # A program that was about to end may die of the signal, which a shell calls 130 as well.
        assert process.returncode in (0, 130, -signal.SIGINT), errors
        with Store.open(project, read_only=True) as store:
            assert store.check() == []
            assert len(store.pending()) in (0, 20)
