"""Every part of the benchmark runs at its smoke sizes, without the packages it compares with."""

import json
import lzma
import os
import subprocess
import sys
from pathlib import Path

import pytest
from repository import ROOT, SOURCES


def run_benchmark(
    *arguments: str, path: Path | None = None, script: str = "engine.py"
) -> subprocess.CompletedProcess:
    places = [str(path)] if path else []
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([*places, *map(str, SOURCES)])}
    command = [
        sys.executable,
        str(ROOT / "packages" / "parbals-bench" / "studies" / script),
        *arguments,
    ]
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


@pytest.mark.full
def test_growth_is_measured_once_for_each_device(tmp_path):
    arguments = ("--smoke", "--only", "B,projects", "--out", str(tmp_path))
    done = run_benchmark(*arguments, script="growth.py")
    assert done.returncode == 0, done.stderr
    again = run_benchmark(*arguments, script="growth.py")
    assert (again.stderr, again.stdout) == ("", done.stdout)
    (device,) = json.loads((tmp_path / "growth.json").read_text("utf-8")).values()
    small, large, project = device["points"].values()
    assert [small["sizes"]["B"], large["sizes"]["B"]] == [2, 4]
    assert all(point[name] > 0 for point in (small, large) for name in ("batch", "batch_first"))
    assert project["next_first"] > 0
    assert project["start"] > 0
    assert project["step_strategy"] == "parbals-epig"


@pytest.mark.full
def test_scores_of_many_classes_are_measured_once(tmp_path):
    def run():
        return run_benchmark("--quick", "--out", str(tmp_path), script="many_classes.py")

    done = run()
    assert done.returncode == 0, done.stderr
    assert (run().stderr, run().stdout) == ("", done.stdout)
    (row,) = json.loads((tmp_path / "many_classes.json").read_text("utf-8")).values()
    assert row["n_classes"] == 10
    assert done.stdout in (tmp_path / "MANY_CLASSES.md").read_text("utf-8")
    assert not list(tmp_path.glob("*.npz"))


def test_the_screen_is_compared_with_a_full_search(tmp_path):
    done = run_benchmark("--quick", "--out", str(tmp_path), script="screening.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("| digits | 10 | 30 | 0.9")
    assert done.stdout in (tmp_path / "SCREENING.md").read_text("utf-8")


def test_a_point_that_takes_too_long_is_stopped_and_tried_again_with_more_time(tmp_path):
    def run(limit):
        arguments = ("--smoke", "--only", "C", "--limit", limit, "--out", str(tmp_path))
        return run_benchmark(*arguments, script="growth.py")

    assert run("0.02").stderr.count("more than 0.02 s") == 2
    assert "| more than 0.02 s |" in (tmp_path / "GROWTH.md").read_text("utf-8")
    assert run("0.01").stderr == ""
    assert run("0.03").stderr.count("more than 0.03 s") == 2


def test_growth_of_two_devices_in_one_table_and_figure(tmp_path):
    facts = {"date": "", "system": "", "python": "", "versions": {}, "commit": ""}

    def device(exponent):
        points = (
            {"sizes": {"N": n, "C": 2}, "fit": 0.0, "batch": 1e-6 * n**exponent, "peak": 8 * n}
            for n in (1_000, 10_000, 100_000)
        )
        listed = {str(i): {"kind": "batch", "axis": "N", **p} for i, p in enumerate(points)}
        return {"machine": facts, "points": listed}

    results = {"slow": device(1.4), "fast": device(0.9)}
    (tmp_path / "growth.json").write_text(json.dumps(results), encoding="utf-8")
    done = run_benchmark("--report", "--out", str(tmp_path), script="growth.py")
    assert done.returncode == 0, done.stderr
    assert "| N | 2 | slow | N^1.40 (steep) | N^1.40 (steep) | N^1.00 | N^1.00 |" in done.stdout
    assert "| N | 2 | fast | N^0.90 | N^0.90 | N^1.00 | N^1.00 |" in done.stdout
    assert done.stdout.strip() in (tmp_path / "GROWTH.md").read_text("utf-8")
    assert (tmp_path / "growth.svg").read_text("utf-8").count("<path") > 10


@pytest.mark.parametrize(
    ("script", "arguments"),
    [
        ("engine.py", ("--only", "x")),
        pytest.param("engine.py", ("--rivals", "magic"), marks=pytest.mark.full),
        pytest.param("engine.py", ("--quick", "--smoke"), marks=pytest.mark.full),
        ("growth.py", ("--only", "x")),
        pytest.param("growth.py", ("--N", "many"), marks=pytest.mark.full),
        ("parbals_run.py", ("--sizes", "mnist")),
        ("audit_coverage.py", ("--only", "mnist")),
        pytest.param("parbals_run.py", ("--cores", "0"), marks=pytest.mark.full),
    ],
)
def test_bad_options_are_refused_before_anything_runs(script, arguments):
    done = run_benchmark(*arguments, script=script)
    assert done.returncode == 2
    assert "usage:" in done.stderr


@pytest.mark.full
def test_trust_measures_a_design_once(tmp_path):
    results = tmp_path / "trust.jsonl"
    arguments = ("--only", "suite, separable", "--draws", "400", "--warm-up", "50", "--chains", "4")
    for _ in range(2):
        done = run_benchmark(*arguments, "--out", str(results), script="trust.py")
        assert done.returncode == 0, done.stdout + done.stderr
    (line,) = results.read_text(encoding="utf-8").splitlines()
    methods = json.loads(line)["methods"]
    assert methods["EP"]["p_mean"] < 0.05
    assert methods["4,000 particles"]["rank"] > 0.9


@pytest.mark.full
def test_the_study_of_audits_goes_on_where_it_stopped(tmp_path):
    arguments = ("--only", "breast-cancer", "--strategies", "random", "--most", "60")
    for n_seeds in ("1", "2"):  # the second time two processes compute what is missing
        more = (
            "--seeds",
            n_seeds,
            "--workers",
            n_seeds,
            "--platform",
            "cpu",
            "--out",
            str(tmp_path),
        )
        done = run_benchmark(*arguments, *more, script="audit_coverage.py")
        assert done.returncode == 0, done.stderr
    with lzma.open(tmp_path / "audit_coverage.jsonl.xz", "rt", encoding="utf-8") as packed:
        lines = [json.loads(line) for line in packed]
    runs = [line["run"][2:] for line in lines]
    assert runs[:2] == [[50, 0], [100, 0]]
    assert sorted(runs[2:]) == [[50, 1], [100, 1]]
    assert [row["n"] for row in lines[0]["rows"]] == [7, 16]
    assert "| breast cancer | random | 100 | 60 | 2 |" in done.stdout


@pytest.mark.full
def test_the_tables_of_the_results_are_those_of_the_records(tmp_path):
    page = tmp_path / "results.md"
    committed = (ROOT / "docs" / "results.md").read_text("utf-8")
    before, _, rest = committed.partition("findings.py: begin -->")
    after = rest.partition("<!-- findings.py: end")[2]
    page.write_text(f"{before}findings.py: begin -->\n<!-- findings.py: end{after}", "utf-8")
    picture = tmp_path / "curves.png"
    done = run_benchmark("--page", str(page), "--picture", str(picture), script="findings.py")
    assert done.returncode == 0, done.stderr
    assert page.read_text("utf-8") == committed
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.full
def test_a_cold_start_is_measured_once(tmp_path):
    arguments = ("--seeds", "1", "--first", "breast-cancer", "--rare", "", "--out", str(tmp_path))
    done = run_benchmark(*arguments, script="cold_start.py")
    assert done.returncode == 0, done.stderr
    again = run_benchmark(*arguments, script="cold_start.py")
    assert (again.stderr, again.stdout) == ("", done.stdout)
    lines = (tmp_path / "cold_start.jsonl").read_text("utf-8").splitlines()
    values = {record["run"][2]: record["value"] for record in map(json.loads, lines)}
    assert list(values) == ["Random", "CoreSet", "k-means", "ParBaLS, error", "ParBaLS, log"]
    assert all(0.5 < value < 1.0 for value in values.values())


@pytest.mark.full
def test_engines_that_are_installed_are_compared_and_the_others_are_named(tmp_path):
    done = run_benchmark("--smoke", "--out", str(tmp_path), script="ecosystem.py")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "ECOSYSTEM.md").read_text(encoding="utf-8")
    assert all(f"| {score} | parbals" in page for score in ("EPIG", "BALD", "BatchBALD"))
    assert page.count("scikit-activeml") >= 2
