"""The whole demo: what it writes, and that it never leaves half a file."""

import errno
import os

import pytest
from parbals.cli.main import main
from parbals.errors import ParbalsError
from parbals_bench.demo import story

FILES = {"report.html", "learning_curve.png"}


@pytest.fixture(autouse=True)
def no_work(monkeypatch, demo):
    """The experiment is replaced by one that was already run."""
    monkeypatch.setattr(story, "run_demo", lambda *args, progress: demo)


def test_the_command_writes_the_files_and_says_where_the_report_is(tmp_path, capsys):
    out = tmp_path / "new" / "folder"
    with pytest.raises(SystemExit) as ended:
        main(["demo", "--out", str(out)])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert "of the information in its messages is redundant" in text
    assert f"The report: {out / 'report.html'}" in text
    assert {path.name for path in out.iterdir()} == FILES


@pytest.mark.usefixtures("quick_pictures")
def test_an_old_report_is_replaced_and_no_scraps_are_left(tmp_path):
    (tmp_path / "report.html").write_text("old")
    story.make_demo(tmp_path)
    assert (tmp_path / "report.html").read_text("utf-8").startswith("<!doctype html>")
    assert {path.name for path in tmp_path.iterdir()} == FILES


@pytest.mark.usefixtures("quick_pictures")
def test_a_full_disk_leaves_the_old_files_whole(tmp_path, monkeypatch):
    old = tmp_path / "learning_curve.png"
    old.write_text("old")

    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(ParbalsError, match="No space left"):
        story.make_demo(tmp_path)
    assert old.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["learning_curve.png"]
