"""The benchmark of one run works, at sizes where its times mean nothing."""

import os
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[2]


def run(*arguments):
    command = [sys.executable, str(_ROOT / "benchmarks" / "parbals_run.py"), *arguments]
    environment = os.environ | {"PYTHONPATH": str(_ROOT / "src")}
    return subprocess.run(
        command,
        env=environment,
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_every_stage_is_measured_and_written(tmp_path):
    done = run("--smoke", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "PARBALS_RUN.md").read_text("utf-8")
    rows = {
        cells[1].strip(): [cell.strip() for cell in cells[2:-1]]
        for cells in (line.split("|") for line in text.splitlines() if line.startswith("| "))
    }
    assert rows["fit the model"][0] == "3"  # 20 + 2×3: before the first batch and after each
    assert rows["predict the test set"][0] == "3"
    assert rows["draw candidates and targets"][0] == "4"
    assert rows["select: everything else"][0] == "2"
    assert float(rows["fit the model"][1].split()[0]) > 0  # a fresh process must compile
    assert "Peak memory" in text


def test_unknown_names_are_refused_before_anything_runs(tmp_path):
    for arguments in (("--sizes", "mnist"), ("--cores", "0")):
        done = run(*arguments, "--out", str(tmp_path))
        assert done.returncode == 2
        assert "usage:" in done.stderr
    done = run("--dataset", "nowhere", "--data", str(tmp_path))
    assert done.returncode == 1
    assert "nowhere" in done.stderr
