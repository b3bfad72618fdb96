"""Model and encoder files that somebody made up cost bounded memory and time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from dose import small_and_full

PROGRAM = Path(__file__).with_name("hostile_models.py")


def open_files(n_examples):
    """Lines that the process prints."""
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, PROGRAM, str(n_examples)],
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
    assert open_files(n_examples) == []


@pytest.mark.faults
def test_large_files_are_refused_or_predict_within_limits():
    refused = dict(line.split(": ", 1) for line in open_files(0))
    assert "no trees of this table" in refused["three million trees"]
    assert "deeper than" in refused["a chain of two million nodes"]
    assert refused["many draws"] == "predicts"
