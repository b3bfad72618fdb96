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
        command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
    )


@pytest.mark.parametrize("part", ["a", "b", "c", "d"])
def test_each_part_runs_and_writes_its_results(part, tmp_path):
    done = run_benchmark("--smoke", "--only", part, "--rivals", "none", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert f"({part})" in done.stdout
    record = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert [section["name"] for section in record["sections"]] == [part]
    assert record["machine"]["cores_used"] == 2
    assert record["machine"]["versions"]["jax"]
    assert (tmp_path / "RESULTS.md").read_text(encoding="utf-8").startswith("# Benchmark results")


def test_every_strategy_is_measured(tmp_path):
    done = run_benchmark(
        "--smoke",
        "--only",
        "random,galaxy,batchbald",
        "--out",
        str(tmp_path),
        script="strategies.py",
    )
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "strategies.json").read_text(encoding="utf-8"))
    assert [key.split(",")[0] for key in record["sections"][0]["data"]] == [
        "random",
        "galaxy",
        "batchbald",
    ]


def test_runs_side_by_side_choose_what_they_choose_alone():
    done = run_benchmark("--smoke", "--runs", "2", "--workers", "1,2", script="cell.py")
    assert done.returncode == 0, done.stderr
    assert "2 of 2 runs chose the same items as in the first line." in done.stdout


def test_a_missing_package_is_named_with_its_pip_command(tmp_path):
    # A finder that comes first and knows of no PyMC stands in for a machine without it.
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util\n"
        "found = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *a: None if name == 'pymc' else found(name, *a)\n"
    )
    done = run_benchmark("--smoke", "--only", "c", "--rivals", "pymc", path=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "pip install pymc" in done.stderr


@pytest.mark.parametrize(
    "arguments", [("--only", "x"), ("--rivals", "magic"), ("--cores", "0"), ("--quick", "--smoke")]
)
def test_bad_options_are_refused_before_anything_runs(arguments):
    done = run_benchmark(*arguments)
    assert done.returncode == 2
    assert "usage:" in done.stderr
