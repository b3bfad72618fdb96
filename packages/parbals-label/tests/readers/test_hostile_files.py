"""Files of users that somebody made up cost bounded memory and time, in every format (P15)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from dose import small_and_full

pytest.importorskip("pyarrow")
pytest.importorskip("openpyxl")
pytest.importorskip("PIL")


def read_files(n_examples):
    """Lines that a process with limits prints."""
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("hostile_files.py"), str(n_examples)],
        env=os.environ | one_thread | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=1_800,
    )
    assert done.returncode == 0, f"{done.returncode}: {done.stdout[-2000:]} {done.stderr[-4000:]}"
    *lines, last_line = done.stdout.splitlines()
    assert last_line == "done"
    return lines


@pytest.mark.parametrize("n_examples", small_and_full(30, 1_000))
def test_made_up_files_are_refused_or_read(n_examples):
    assert read_files(n_examples) == []


@pytest.mark.faults
def test_small_files_that_are_large_inside_are_refused():
    refused = dict(line.split(": ", 1) for line in read_files(0))
    for name in ("dictionary.parquet", "text.parquet", "lines.csv.gz", "sheet.xlsx"):
        assert "would grow" in refused[name], name
    for name in ("columns.csv", "keys.jsonl"):
        assert "20,000" in refused[name] or "20000" in refused[name], name
    assert "nested" in refused["nested.jsonl"]
    assert "characters" in refused["line.csv"]
    assert "pixels" in refused["large.png"]
