"""Files that commands must not overwrite, and checks before items are assigned."""

import csv

import parbals_label.project.exports
import pytest
from parbals.errors import InputError
from parbals_label.store.store import Store


def read(path):
    with open(path, newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


def n_out(project):
    with Store.open(project, read_only=True) as store:
        return len(store.pending())


class TestFilesThatAreThere:
    @pytest.mark.parametrize(
        "command",
        [
            ("next", "-n", "3", "--out"),
            ("next", "--again", "1", "--out"),
            ("export", "--out"),
            ("export", "--model"),
            ("salvage", "--out"),
            ("predict", "messages.csv", "--out"),
            ("backup",),
        ],
    )
    def test_they_are_replaced_by_force_alone(self, run, project, tmp_path, command):
        run("next", project, "-n", "2")
        name, *more = command
        file = "x.npz" if "--model" in more else "x.csv"
        (tmp_path / file).write_text("my labels\n")
        refused = run(name, project, *more, file, fails=True)
        said = f"{file} is there already; name another file, or replace it by --force."
        assert str(refused.exception) == said
        assert (tmp_path / file).read_text() == "my labels\n"
        assert n_out(project) == 2
        run(name, project, *more, file, "--force")
        assert (tmp_path / file).read_bytes() != b"my labels\n"

    def test_the_default_file_of_a_batch_too(self, run, project):
        run("next", project, "-n", "2")
        assert "batch-1.csv is there" in str(
            run("next", project, "--again", "1", fails=True).exception
        )
        (project / "batch-2.csv").write_text("my notes\n")
        assert "batch-2.csv is there" in str(run("next", project, "-n", "2", fails=True).exception)
        assert n_out(project) == 2

    def test_the_projects_own_export_is_renewed(self, run, project):
        for _ in range(2):
            run("export", project)
        (project / "export.csv").unlink()
        (project / "export.csv").symlink_to(project.parent / "elsewhere.csv")
        assert "leads out of the project" in str(run("export", project, fails=True).exception)
        assert not (project.parent / "elsewhere.csv").exists()


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
        (tmp_path / "folder").symlink_to(project)
        before = features.read_bytes()
        for out in (
            features,
            "link.csv",
            f"folder/{features.name}",
            f"spam/../spam/{features.name}",
        ):
            for command in ("next", "export"):
                assert "the project itself" in str(
                    run(command, project, "--out", out, "--force", fails=True).exception
                )
        assert features.read_bytes() == before

    def test_names_like_them_elsewhere_are_free(self, run, project, tmp_path):
        run("export", project, "--out", "project.csv")
        run("export", project, "--out", project / "labels.csv")


class TestBeforeItemsAreChosen:
    def test_a_file_that_cannot_be_written_takes_nothing_out(self, run, project, tmp_path):
        for out, complaint in (
            ("nope/x.csv", "cannot be written: there is no"),
            (".", "is a folder"),
            ("/dev/null", "is there already"),
        ):
            assert complaint in str(run("next", project, "--out", out, fails=True).exception)
        assert n_out(project) == 0

    def test_what_fails_later_says_how_to_get_the_file(self, run, project, tmp_path, monkeypatch):
        def full(*arguments):
            raise InputError("x.csv could not be written (No space left on device).")

        with monkeypatch.context() as patch:
            patch.setattr(parbals_label.project.exports, "write_batch_csv", full)
            said = str(run("next", project, "-n", "2", "--out", "x.csv", fails=True).exception)
        assert said.startswith("x.csv could not be written")
        assert f"`parbals next {project} --again 1 --out FILE`" in said
        run("next", project, "--again", "1", "--out", "x.csv")
        assert len(read(tmp_path / "x.csv")) == 2
