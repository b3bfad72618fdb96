"""Every part of the benchmark runs at its smoke sizes, without the packages it compares with."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run_benchmark(
    *arguments: str, path: Path | None = None, script: str = "engine.py"
) -> subprocess.CompletedProcess:
    places = [str(path)] if path else []
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([*places, str(ROOT / "src")])}
    command = [sys.executable, str(ROOT / "benchmarks" / script), *arguments]
    return subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    "part", [*(pytest.param(part, marks=pytest.mark.full) for part in "abd"), "c"]
)
def test_each_part_runs_and_writes_its_results(part, tmp_path):
    """A package that is missing is named: a finder that knows of no PyMC stands in for that."""
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util\n"
        "find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *a: None if name == 'pymc' else find(name, *a)\n"
    )
    arguments = ("--smoke", "--only", part, "--rivals", "pymc", "--out", str(tmp_path))
    done = run_benchmark(*arguments, path=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "pip install pymc" in done.stderr
    assert f"({part})" in done.stdout
    record = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert [section["name"] for section in record["sections"]] == [part]
    assert record["machine"]["cores_used"] == 2
    assert record["machine"]["versions"]["jax"]
    assert (tmp_path / "RESULTS.md").read_text(encoding="utf-8").startswith("# Benchmark results")


@pytest.mark.full
def test_every_strategy_is_measured(tmp_path):
    names = ["random", "galaxy", "batchbald"]
    arguments = ("--smoke", "--only", ",".join(names), "--out", str(tmp_path))
    done = run_benchmark(*arguments, script="strategies.py")
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "strategies.json").read_text(encoding="utf-8"))
    assert [key.split(",")[0] for key in record["sections"][0]["data"]] == names


@pytest.mark.full
def test_runs_side_by_side_choose_what_they_choose_alone():
    done = run_benchmark("--smoke", "--runs", "2", "--workers", "1,2", script="cell.py")
    assert done.returncode == 0, done.stderr
    assert "2 of 2 runs chose the same items as in the first line." in done.stdout


@pytest.mark.full
def test_every_stage_of_a_run_is_measured_and_written(tmp_path):
    done = run_benchmark("--smoke", "--out", str(tmp_path), script="parbals_run.py")
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


@pytest.mark.full
def test_what_batches_cost_is_read_from_the_committed_results():
    done = run_benchmark(script="one_at_a_time.py")
    assert done.returncode == 0, done.stderr
    last = [line for line in done.stdout.splitlines() if "all datasets" in line]
    assert last == [
        "EPIG           all datasets   -0.37 ± 0.53",
        "ParBaLS EPIG   all datasets   +0.14 ± 0.44",
    ]


@pytest.mark.parametrize(
    ("script", "arguments"),
    [
        ("engine.py", ("--only", "x")),
        pytest.param("engine.py", ("--rivals", "magic"), marks=pytest.mark.full),
        pytest.param("engine.py", ("--quick", "--smoke"), marks=pytest.mark.full),
        ("parbals_run.py", ("--sizes", "mnist")),
        pytest.param("parbals_run.py", ("--cores", "0"), marks=pytest.mark.full),
    ],
)
def test_bad_options_are_refused_before_anything_runs(script, arguments):
    done = run_benchmark(*arguments, script=script)
    assert done.returncode == 2
    assert "usage:" in done.stderr
