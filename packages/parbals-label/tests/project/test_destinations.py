"""Files that commands must not write over, and what is checked before items are handed out."""

import csv
import json
import os

import parbals_label.project.batch_files
import pytest
from message_data import truth
from parbals.errors import InputError
from parbals_label.store.store import Store


def read(path):
    with open(path, newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


def fill(path, n, extra=None):
    """Fill in the first ``n`` labels, as a person would."""
    rows = read(path)
    for row in rows[:n]:
        row["label"] = truth(int(row["id"])).upper()
    for row in rows if extra else ():
        row[extra] = "mine"
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def n_out(project):
    with Store.open(project, read_only=True) as store:
        return len(store.pending())


class TestLabelsNotTold:
    @pytest.mark.parametrize(
        "again", [("-n", "3", "--out", "batch.csv"), ("--again", "1", "--out", "batch.csv")]
    )
    def test_they_are_never_written_over(self, run, project, tmp_path, again):
        run("next", project, "-n", "5", "--out", "batch.csv")
        fill(tmp_path / "batch.csv", 4)
        before = (tmp_path / "batch.csv").read_bytes()
        said = str(run("next", project, *again, fails=True).exception)
        assert said == (
            f"batch.csv holds 4 labels that have not been told; run `parbals tell {project} "
            "batch.csv` first, or name another file with --out."
        )
        assert (tmp_path / "batch.csv").read_bytes() == before
        assert n_out(project) == 5
        run("tell", project, "batch.csv", "--no-report")
        run("next", project, *again)
        assert not any(row["label"] for row in read(tmp_path / "batch.csv"))

    def test_a_label_other_than_the_one_told_and_one_that_is_no_class_count(
        self, run, project, tmp_path
    ):
        ids = json.loads(run("next", project, "-n", "3", "--out", "b.csv", "--json"))["ids"]
        fill(tmp_path / "b.csv", 3)
        run("tell", project, "b.csv", "--no-report")
        text = (tmp_path / "b.csv").read_text()
        label = truth(int(ids[0])).upper()
        (tmp_path / "b.csv").write_text(text.replace(f",{label}\n", ",maybe\n", 1))
        assert "holds 1 label that has not been told" in str(
            run("next", project, "--out", "b.csv", fails=True).exception
        )

    def test_an_export_does_not_replace_them_but_an_earlier_export(self, run, project, tmp_path):
        run("next", project, "-n", "5", "--out", "batch.csv")
        fill(tmp_path / "batch.csv", 2)
        said = str(run("export", project, "--out", "batch.csv", fails=True).exception)
        assert "batch.csv holds 2 labels that have not been told" in said
        run("export", project, "--out", "export.csv")
        before = sum(bool(row["label"]) for row in read(tmp_path / "export.csv"))
        run("tell", project, "batch.csv")
        run("export", project, "--out", "export.csv")
        assert sum(bool(row["label"]) for row in read(tmp_path / "export.csv")) == before + 2

    def test_the_default_file_is_looked_at_too(self, run, project):
        run("next", project, "-n", "2")
        fill(project / "batch-1.csv", 1)
        assert "batch-1.csv holds 1 label" in str(
            run("next", project, "--again", "1", fails=True).exception
        )
        (project / "batch-2.csv").write_text("my notes\n")
        assert "not a batch file" in str(run("next", project, "-n", "2", fails=True).exception)
        assert n_out(project) == 2


class TestOtherFiles:
    @pytest.mark.parametrize(
        "content",
        ["my diary\n", "id,label\n007,\n", "id,label\nnobody,ham\n", "id,label\n,\n", "\0\1"],
    )
    def test_what_is_no_batch_file_stays(self, run, project, tmp_path, content):
        (tmp_path / "x.csv").write_text(content)
        said = str(run("next", project, "--out", "x.csv", fails=True).exception)
        assert said.startswith("x.csv is there already and is not a batch file")
        assert (tmp_path / "x.csv").read_text() == content
        assert n_out(project) == 0

    def test_a_column_that_somebody_added_is_work_too(self, run, project, tmp_path):
        run("next", project, "-n", "2", "--out", "b.csv")
        fill(tmp_path / "b.csv", 0, extra="note")
        assert "not a batch file" in str(
            run("next", project, "--out", "b.csv", fails=True).exception
        )

    def test_an_empty_file_and_an_unfilled_batch_may_go(self, run, project, tmp_path):
        (tmp_path / "b.csv").touch()
        run("next", project, "-n", "2", "--out", "b.csv")
        run("next", project, "-n", "3", "--out", "b.csv")
        assert len(read(tmp_path / "b.csv")) == 3

    @pytest.mark.parametrize("command", ["next", "export"])
    def test_the_data_of_the_project_stay(self, run, project, messages, command):
        before = messages.read_bytes()
        assert "made from" in str(run(command, project, "--out", messages, fails=True).exception)
        assert messages.read_bytes() == before


class TestFilesOfTheProject:
    @pytest.mark.parametrize("command", ["next", "export"])
    @pytest.mark.parametrize(
        "name", ["project.sqlite3", "project.sqlite3-wal", "project.journal", "page-token"]
    )
    def test_they_are_refused_whether_they_are_there_or_not(self, run, project, command, name):
        said = str(run(command, project, "--out", project / name, fails=True).exception)
        assert said == f"{project / name} is a file of the project itself; name another with --out."

    def test_by_another_name_too(self, run, project, tmp_path):
        features = next(project.glob("features-*.npy"))
        (tmp_path / "link.csv").symlink_to(features)
        os.link(features, tmp_path / "hard.csv")
        (tmp_path / "folder").symlink_to(project)
        before = features.read_bytes()
        for out in (
            features,
            "link.csv",
            "hard.csv",
            f"folder/{features.name}",
            f"spam/../spam/{features.name}",
        ):
            for command in ("next", "export"):
                assert "the project itself" in str(
                    run(command, project, "--out", out, fails=True).exception
                )
        assert features.read_bytes() == before

    def test_names_like_them_elsewhere_are_free(self, run, project, tmp_path):
        run("export", project, "--out", "project.csv")
        run("export", project, "--out", project / "labels.csv")


class TestBeforeItemsAreChosen:
    def test_a_file_that_cannot_be_written_takes_nothing_out(self, run, project, tmp_path):
        for out, complaint in (
            ("nope/x.csv", "there is no folder"),
            (".", "is a folder"),
            ("/dev/null", "not a file"),
        ):
            assert complaint in str(run("next", project, "--out", out, fails=True).exception)
        assert n_out(project) == 0

    def test_what_fails_later_says_how_to_get_the_file(self, run, project, tmp_path, monkeypatch):
        def full(*arguments):
            raise InputError("x.csv could not be written (No space left on device).")

        with monkeypatch.context() as patch:
            patch.setattr(parbals_label.project.batch_files, "write_batch_csv", full)
            said = str(run("next", project, "-n", "2", "--out", "x.csv", fails=True).exception)
        assert said.startswith("x.csv could not be written")
        assert f"`parbals next {project} --again 1 --out FILE`" in said
        run("next", project, "--again", "1", "--out", "x.csv")
        assert len(read(tmp_path / "x.csv")) == 2
