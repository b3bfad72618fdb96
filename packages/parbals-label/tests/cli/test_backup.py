"""`parbals backup` and `parbals doctor DIR`."""

import json

from click.testing import CliRunner
from parbals.cli.main import parbals
from parbals.errors import InputError, ProjectError
from parbals_label.store.records import Submission
from parbals_label.store.store import Store


def test_a_backup_restores_items_and_answers(run, project, tmp_path):
    said = run("backup", "create", project, "b.zip")
    assert "60 items and 6 answers in b.zip" in said
    assert "b.zip is complete: 3 files" in run("doctor", "b.zip")
    assert run("backup", "restore", "b.zip", "again") == "60 items and 6 answers in again.\n"
    assert "again is sound: 60 items, 6 answers" in run("doctor", "again")
    record = json.loads(run("backup", "create", project, "b.zip", "--force", "--json"))
    assert (record["items"], record["answers"], record["file"]) == (60, 6, "b.zip")
    assert "ham" in run("status", "again")


def test_restoring_ends_personal_links_and_names_them(run, project):
    run("team", "invite", project, "Ada")
    run("backup", "create", project, "b.zip")
    said = run("backup", "restore", "b.zip", "again")
    assert "Personal links were ended (1: Ada)" in said
    assert "parbals team invite again NAME" in said
    assert "ended" in run("team", "list", "again")
    assert "ended" not in run("backup", "restore", "b.zip", "kept", "--keep-links")
    assert "annotator" in run("team", "list", "kept")


def test_a_backup_to_standard_output_prints_nothing_else(run, project, tmp_path):
    result = CliRunner().invoke(parbals, ["backup", "create", str(project), "-"])
    assert result.exit_code == 0
    (tmp_path / "b.zip").write_bytes(result.stdout_bytes)
    assert "is complete" in run("doctor", "b.zip")


def test_a_backup_never_replaces_a_file_of_the_project(run, project):
    before = (project / "project.sqlite3").read_bytes()
    for name in ("project.sqlite3", "project.journal", "page-token"):
        refused = run("backup", "create", project, project / name, fails=True)
        assert "a file of the project itself" in str(refused.exception)
    assert (project / "project.sqlite3").read_bytes() == before


def test_a_damaged_project_is_reported_with_exit_code_3(run, project):
    features = next(project.glob("features-*.npy"))
    features.write_bytes(features.read_bytes()[:-1] + b"x")
    result = run("doctor", project, fails=True)
    assert result.exit_code == 3
    assert f"{features} is not what was written" in result.output
    result = run("doctor", project, "--json", fails=True)
    assert len(json.loads(result.output)["problems"]) == 1
    file = project / "project.sqlite3"
    with Store.open(project) as store:
        words = store.items([7])[0].content["message"].encode()[:12]
    file.write_bytes(file.read_bytes().replace(words, b"Buy this now"))
    assert "item 7 does not pass its checksum" in run("doctor", project, fails=True).output


def test_missing_projects_and_backups_are_refused(run, tmp_path):
    assert isinstance(run("doctor", "nowhere", fails=True).exception, ProjectError)
    assert isinstance(
        run("backup", "create", "nowhere", "b.zip", fails=True).exception, ProjectError
    )
    assert isinstance(run("backup", "restore", "nowhere", "p", fails=True).exception, InputError)
    (tmp_path / "text.zip").write_text("no zip", encoding="utf-8")
    assert "not a backup" in str(run("doctor", "text.zip", fails=True).exception)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "cache") == ["text.zip"]


def test_the_latest_backup_is_tested_by_restoring_it(project, run, tmp_path):
    assert "No backup of" in str(run("backup", "test", project, fails=True).exception)
    run("backup", "create", project, tmp_path / "b.zip")
    with Store.open(project) as store:
        store.submit([Submission(20, "ham")], annotator="ann")
    before = sorted(tmp_path.iterdir())
    assert f"{tmp_path / 'b.zip'} opens: 60 items, 6 answers; 1 are newer." in run(
        "backup", "test", project
    )
    assert sorted(tmp_path.iterdir()) == before
    data = bytearray((tmp_path / "b.zip").read_bytes())
    data[len(data) // 3] ^= 1
    (tmp_path / "b.zip").write_bytes(data)
    assert "damaged" in str(run("backup", "test", project, fails=True).exception)
    (tmp_path / "b.zip").unlink()
    assert "There is no backup" in str(run("backup", "test", project, fails=True).exception)


def test_missing_images_are_reported(run, tmp_path):
    from PIL import Image

    (tmp_path / "photos").mkdir()
    for n in range(4):
        Image.new("RGB", (8, 8), (60 * n, 0, 9)).save(tmp_path / "photos" / f"{n}.png")
    run("init", "p", "photos", "--classes", "a,b")
    assert "is sound" in run("doctor", "p")
    assert "is sound" in run("check", "p")
    (tmp_path / "photos" / "2.png").unlink()
    for command in ("check", "doctor"):  # the first is an earlier spelling
        result = run(command, "p", "--json", fails=True)
        assert result.exit_code == 3
        (fault,) = json.loads(result.output)["problems"]
        assert fault.startswith("1 of 4 images is not in ")
