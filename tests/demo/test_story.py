"""The whole demo: what it writes, and that it never leaves half a file."""

import errno
import json
import os
from dataclasses import replace

import numpy as np
import pytest

from parbals.cli import main
from parbals.demo import story
from parbals.errors import ParbalsError

FILES = {"report.html", "learning_curve.png", "pool_map.png", "results.json"}


@pytest.fixture
def no_work(monkeypatch, result):
    """The experiment is replaced by one that was already run."""

    def finished(settings, on_batch):
        on_batch("random")
        return result

    monkeypatch.setattr(story, "run_demo", finished)


@pytest.mark.usefixtures("no_work", "quick_pictures")
def test_the_command_says_where_the_report_is(tmp_path, capsys):
    out = tmp_path / "new" / "folder"
    with pytest.raises(SystemExit) as ended:
        main(["demo", "--out", str(out)])
    assert ended.value.code == 0
    assert f"The report: {out / 'report.html'}" in capsys.readouterr().out
    assert {path.name for path in out.iterdir()} == FILES


@pytest.mark.usefixtures("no_work", "quick_pictures")
def test_an_old_report_is_replaced_and_no_scraps_are_left(tmp_path):
    (tmp_path / "report.html").write_text("old")
    stages = []
    story.make_demo(tmp_path, on_stage=stages.append)
    assert (tmp_path / "report.html").read_text("utf-8").startswith("<!doctype html>")
    assert {path.name for path in tmp_path.iterdir()} == FILES
    assert len(stages) == 2


@pytest.mark.usefixtures("no_work", "quick_pictures")
def test_the_numbers_are_written_for_programs_too(tmp_path, result):
    story.make_demo(tmp_path)
    found = json.loads((tmp_path / "results.json").read_text("utf-8"))
    np.testing.assert_allclose(
        found["metrics"]["epig"]["accuracy"], result.metric("accuracy", "epig")
    )
    assert found["n_labels"] == [12, 15, 18]
    assert found["first_batch"]["parbals-epig"]["joint_mnat"] > 0


def test_a_full_disk_leaves_the_old_file_whole(tmp_path, monkeypatch):
    old = tmp_path / "report.html"
    old.write_text("old")

    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(ParbalsError, match="No space left"):
        story._write(old, b"new")
    assert old.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_the_whole_story_runs_from_end_to_end(tmp_path, settings):
    story.make_demo(tmp_path, replace(settings, n_seeds=1, n_rounds=1))
    assert {path.name for path in tmp_path.iterdir()} == FILES
