"""Files of ours that somebody made up cost bounded memory and time (P15)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from dose import small_and_full

MODELS = "hostile_models.py"
PROJECTS = "hostile_projects.py"


def open_files(program, n_examples):
    """Lines that a process with limits prints."""
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name(program), str(n_examples)],
        env=os.environ | one_thread | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=1_800,
    )
    assert done.returncode == 0, f"{done.returncode}: {done.stdout[-2000:]} {done.stderr[-4000:]}"
    *lines, last_line = done.stdout.splitlines()
    assert last_line == "done"
    return lines


@pytest.mark.parametrize("n_examples", small_and_full(20, 400))
def test_made_up_files_are_refused_or_predict(n_examples):
    assert open_files(MODELS, n_examples) == []


@pytest.mark.parametrize("n_examples", small_and_full(8, 200))
def test_made_up_projects_and_backups_are_refused_or_used(n_examples):
    assert open_files(PROJECTS, n_examples) == []


@pytest.mark.faults
def test_large_files_are_refused_or_predict_within_limits():
    refused = dict(line.split(": ", 1) for line in open_files(MODELS, 0))
    assert "no trees of this table" in refused["three million trees"]
    assert "deeper than" in refused["a chain of two million nodes"]
    assert refused["many draws"] == "predicts"
