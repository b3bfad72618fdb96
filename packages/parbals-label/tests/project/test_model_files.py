"""Model and encoder files that somebody made up cost bounded memory and time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from dose import small_and_full

PROGRAM = Path(__file__).with_name("hostile_models.py")


@pytest.mark.parametrize("n_examples", small_and_full(8, 400))
def test_made_up_files_are_refused_or_predict_within_limits(n_examples):
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, PROGRAM, str(n_examples)],
        env=os.environ | one_thread | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=1_800,
    )
    assert done.returncode == 0, f"{done.returncode}: {done.stdout[-2000:]} {done.stderr[-4000:]}"
    assert done.stdout.splitlines()[-1] == "done"
    refused = dict(line.split(": ", 1) for line in done.stdout.splitlines()[:-1])
    assert "no trees of this table" in refused["three million trees"]
    assert "deeper than" in refused["a chain of two million nodes"]
    assert refused["many draws"] == "predicts"
