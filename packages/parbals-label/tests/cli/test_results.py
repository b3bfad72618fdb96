"""`parbals status`, `export` and `backup salvage`."""

import csv
import json

import pytest
from message_data import truth
from message_projects import ROLES, fill
from parbals.cli.main import main
from parbals.errors import ProjectDamagedError
from parbals_label.store.answers import Writer
from parbals_label.store.store import Store

MEASURED = {"n": 40, "n_wrong": 0, "n_audit": 50, "n_labels": 128}
MEASURED |= {"error": {"mean": 0.0, "low": 0.0, "high": 0.07}, "recall": {}, "precision": {}}
MEASURED |= {"loss": "error"}


class TestFiles:
    def test_answers_of_a_damaged_project_are_salvaged_by_a_command(self, run, project, tmp_path):
        file = project / "project.sqlite3"
        content = bytearray(file.read_bytes())
        content[:16] = bytes(16)
        file.write_bytes(content)
        damage = run("status", project, fails=True).exception
        assert isinstance(damage, ProjectDamagedError)
        assert f"`parbals backup salvage {project} --out answers.csv`" in str(damage)
        assert "6 answers in answers.csv" in run(
            "backup", "salvage", project, "--out", "answers.csv"
        )
        with open(tmp_path / "answers.csv", newline="", encoding="utf-8") as table:
            rows = list(csv.DictReader(table))
        assert [(row["id"], row["label"]) for row in rows] == [
            (f"{i:03d}", truth(i)) for i in range(6)
        ]
        assert "the project itself" in str(
            run("backup", "salvage", project, "--out", file, fails=True).exception
        )

    def test_a_nul_that_an_earlier_parbals_let_in_stops_neither_salvage_nor_history(
        self, run, project, tmp_path
    ):
        with Store.open(project) as store, store._db.transaction() as connection:
            Writer(store._db, connection, "ann").append(9, 1, "ham", None, "so\0so")
        assert "7 answers" in run("backup", "salvage", project, "--out", "answers.csv")
        assert "so\ufffdso" in (tmp_path / "answers.csv").read_text("utf-8")
        assert "so\ufffdso" in run("labels", "history", project)

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

    def test_export_cannot_start_a_formula(self, run, tmp_path):
        (tmp_path / "d.csv").write_text("id,text\n=1+1,@SUM(A1)\nb,plain\n")
        run("init", "p", "d.csv", "--text", "text", "--classes", "x,y")
        run("export", "p", "--out", "o.csv")
        assert "'=1+1,'@SUM(A1)" in (tmp_path / "o.csv").read_text(encoding="utf-8-sig")
        run("export", "p", "--format", "jsonl", "--out", "o.jsonl")
        assert json.loads((tmp_path / "o.jsonl").read_text().splitlines()[0])["id"] == "=1+1"


class TestAudit:
    @pytest.fixture
    def audited(self, run, messages, tmp_path):
        run("init", "p", messages, *ROLES, "--strategy", "margin", "--audit", "6")
        return tmp_path / "p"

    def test_a_round_with_an_audit(self, run, audited, tmp_path):
        said = run("next", "p", "-n", "9", "--out", "batch.csv")
        assert "of them are random ones, to measure the error." in said
        assert "of the 9 items are random test items" not in said, "that is a detail"
        notes = json.loads(run("next", "p", "-n", "3", "--json"))["notes"]
        assert any("items are random test items" in note for note in notes)
        fill(tmp_path / "batch.csv")
        told = run("tell", "p", "batch.csv")
        assert "will be measured as the 6 random test items are labelled" in told
        fill(tmp_path / "p" / "batch-2.csv")
        assert "With 95 % confidence the error is at most" in run("tell", "p", "p/batch-2.csv")
        status = run("status", "p")
        assert "6 of the 6 test items are labelled. Labelled by me (6), 20" in status
        assert "With 95 % confidence the error is at most" in status
        run("export", "p", "--renew", "--out", "all.csv")
        with open(tmp_path / "all.csv", newline="", encoding="utf-8-sig") as file:
            marked = [row["id"] for row in csv.DictReader(file) if row["test_item"] == "true"]
        assert len(marked) == 6

    @pytest.mark.parametrize(
        ("measured", "wanted", "code", "words"),
        [
            (MEASURED, "8%", 0, "May I stop? Yes. With 95 % confidence the error is at most 7 %"),
            (MEASURED, "0.07", 4, "May I stop? Not yet: the target is 7 %. With 95 %"),
            (MEASURED | {"error": None}, "8%", 4, "will be measured as the 50 random test items"),
            (None, "8%", 4, "has not been measured"),
        ],
    )
    def test_the_exit_code_tells_whether_the_error_is_certified(
        self, project, capsys, measured, wanted, code, words
    ):
        error = {"mean": 0.1, "low": 0.0, "high": 0.2}
        body = {"expected_error": error, "expected_log_loss": error, "n_targets": 60}
        body |= {"n_items": 60, "n_labelled": 6, "n_pending": 0, "class_balance": {}}
        body |= {"batch_size": 10, "next_gain": 0.1, "warnings": [], "measured": measured}
        body |= {"recall": None, "metric": "accuracy", "expected_metric": None, "decide_from": None}
        body |= {"task": "classes", "label_errors": None}
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

    def test_before_the_first_label_the_audit_is_still_to_come(self, project, capsys):
        with Store.open(project) as store:
            store.update_settings(audit=[10, 20])
        with pytest.raises(SystemExit) as end:
            main(["status", str(project), "--until-error", "5%"])
        assert end.value.code == 4
        assert "will be measured as the 2 random test items" in capsys.readouterr().out

    def test_nothing_can_be_certified_without_an_audit(self, project, capsys):
        with pytest.raises(SystemExit) as end:
            main(["status", str(project), "--until-error", "5%"])
        assert end.value.code == 4, "a script that waits for a measurement goes on"
        assert "no error was measured in this project; `parbals measure" in capsys.readouterr().out
