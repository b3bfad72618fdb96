"""Studies run at their smallest sizes, without the packages they compare with."""

import json
import lzma
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from repository import ROOT, SOURCES

STUDIES = ROOT / "studies"


def run_study(
    name: str, *arguments: str, path: Path | None = None
) -> subprocess.CompletedProcess[str]:
    places = [str(path)] if path else []
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([*places, *map(str, SOURCES)])}
    command = [sys.executable, "studies", *([name] if name else [])]
    return subprocess.run(
        [*command, *arguments],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def study_names():
    """Every folder with a run.py, as the dotted name that starts it."""
    folders = [path.parent.relative_to(STUDIES) for path in STUDIES.rglob("run.py")]
    return sorted(".".join(folder.parts) for folder in folders)


def test_a_question_is_a_folder_with_studies_and_a_page_in_the_index():
    questions = {path.name for path in STUDIES.iterdir() if path.is_dir()} - {"lib", "__pycache__"}
    assert questions == {name.partition(".")[0] for name in study_names()}
    index = (STUDIES / "README.md").read_text("utf-8")
    for question in questions:
        assert f"({question}/README.md)" in index
        page = (STUDIES / question / "README.md").read_text("utf-8")
        assert page.startswith("# ")


@pytest.mark.parametrize("name", study_names())
def test_the_page_of_a_question_names_every_study_and_links_its_page(name):
    question, _, study = name.partition(".")
    text = (STUDIES / question / "README.md").read_text("utf-8")
    assert study in text
    if study and (STUDIES / question / study / "README.md").exists():
        assert f"({study}/README.md)" in text


def test_all_studies_are_listed_with_their_questions():
    listed = run_study("").stdout
    for name in study_names():
        script = STUDIES.joinpath(*name.split("."), "run.py")
        question = script.read_text("utf-8").partition("\n")[0].removeprefix('"""')
        assert f"{name:26} {question}\n" in listed


@pytest.mark.parametrize("path", sorted(STUDIES.rglob("*.md")), ids=lambda path: path.parent.name)
def test_a_page_names_commands_that_there_are(path):
    for name in re.findall(r"python studies ([\w.]+)", path.read_text("utf-8")):
        file = STUDIES.joinpath(*name.split("."))
        scripts = (file / "run.py", file.with_suffix(".py"))
        assert any(script.is_file() for script in scripts), f"{path}: {name}"


def test_a_study_that_there_is_not_is_refused():
    process = run_study("speed.librarys")
    assert process.returncode == 2
    assert "speed.libraries" in process.stderr


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_rows_of_speed_are_measured_beside_another_commit(tmp_path):
    rows = "batch of 20, 2 classes, EPIG;fits"
    arguments = ("--quick", "--rows", rows, "--before", str(ROOT), "--out", str(tmp_path))
    for _ in range(2):  # again: lines are replaced
        process = run_study("speed", *arguments, "--threads", "1")
        assert process.returncode == 0, process.stderr
    lines = read_lines(tmp_path / "record.jsonl")
    assert [line["row"] for line in lines] == [
        "batch of 20, 2 classes, EPIG",
        *("2 classes", "4 classes", "10 classes"),
    ]
    assert process.stderr.count("batch of 20, 2 classes, EPIG, before ... done") == 2  # rounds
    for line in lines:
        assert line["on"] == "1 thread"
        assert line["commits"]["before"] == ROOT.name
        assert line["before"]["measures"].keys() == line["now"]["measures"].keys()
        assert line["now"]["measures"]["product"]["cpu_seconds"] > 0
    batch = lines[0]["now"]["measures"][""]
    assert batch["indices"] == lines[0]["before"]["measures"][""]["indices"]
    text = (tmp_path / "TABLE.md").read_text("utf-8")
    assert text in process.stdout
    assert "| 1.0000 | 3 of 3 |" in text
    assert "| fits | 2 classes: one more label | 1 thread |" in text


@pytest.mark.full
@pytest.mark.parametrize("rows", ["scores", "commands", "run", "growth", "gpu"])
def test_every_group_of_rows_runs(rows, tmp_path):
    process = run_study("speed", "--quick", "--rows", rows, "--out", str(tmp_path))
    assert process.returncode == 0, process.stderr
    for line in read_lines(tmp_path / "record.jsonl"):
        assert "stopped" not in line["now"], line
        assert len(line["now"]["measures"]) > 1
    text = (tmp_path / "TABLE.md").read_text("utf-8")
    assert ("## Growth" in text) == (rows == "growth")


@pytest.mark.parametrize(
    ("option", "value", "why"),
    [("--limit", "0.01", "more than 0.01 s"), ("--memory", "0.001", "more than 0.001 GB")],
)
def test_a_row_that_takes_too_much_is_stopped(option, value, why, tmp_path):
    arguments = ("--quick", "--rows", "C = 2", option, value, "--out", str(tmp_path))
    process = run_study("speed", *arguments)
    assert process.returncode == 0, process.stderr
    assert why in process.stderr
    (line,) = read_lines(tmp_path / "record.jsonl")
    assert line["now"]["stopped"] == why
    assert f"| 2: {why} |" in process.stdout


def test_a_row_that_fails_says_why(tmp_path):
    """A finder that knows of no PyMC stands in for a machine without it."""
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util\n"
        "find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *a: None if name == 'pymc' else find(name, *a)\n"
    )
    arguments = ("--quick", "--rows", "PyMC", "--out", str(tmp_path))
    process = run_study("speed", *arguments, path=tmp_path)
    assert process.returncode == 0, process.stderr
    assert "now stopped: failed: pymc is not installed (exit code 1)" in process.stdout


def line_of_growth(n: int, seconds: float, n_bytes: int) -> dict[str, Any]:
    """A line of the record of speed: the learner's batch from n items."""
    measure = {"seconds": seconds, "cpu_seconds": seconds}
    return {
        "row": f"N = {n:,}",
        "group": "growth",
        "on": "2 threads",
        "date": "",
        "processor": "made up",
        "threads": 2,
        "commits": {"now": "abc", "before": None},
        "now": {"measures": {"batch": measure}, "own_bytes": n_bytes},
    }


def test_exponents_of_growth_and_what_breaks_first(tmp_path):
    sizes = (10_000, 100_000, 1_000_000)
    lines = [line_of_growth(n, 1e-6 * n**1.4, 8 * n) for n in sizes]
    lines.append(line_of_growth(10_000_000, 0.0, 0))
    lines[-1]["now"] = {"measures": {}, "own_bytes": 0, "stopped": "more than 300 s"}
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    (tmp_path / "record.jsonl").write_text(text, "utf-8")
    process = run_study("speed", "--report", "--out", str(tmp_path))
    assert process.returncode == 0, process.stderr
    growth = "N^1.40 | N^1.40 | N^1.00 | N^1.00 | 10,000,000: more than 300 s"
    assert growth in process.stdout


def test_the_page_of_speed_is_that_of_its_record_also_where_lines_are_added_to_another(tmp_path):
    record = STUDIES / "speed/record.jsonl"
    first, *_ = read_lines(record)
    text = json.dumps(first | {"date": "earlier"}) + "\n"
    (tmp_path / "record.jsonl").write_text(text, "utf-8")
    process = run_study("speed", "--report", "--add", str(record), "--out", str(tmp_path))
    assert process.returncode == 0, process.stderr
    assert read_lines(tmp_path / "record.jsonl") == read_lines(record)
    page = (STUDIES / "speed/TABLE.md").read_text("utf-8")
    assert (tmp_path / "TABLE.md").read_text("utf-8") == page


@pytest.mark.full
def test_commands_of_two_commits_work_on_one_project(tmp_path):
    arguments = ("--quick", "--rows", "2,000 texts", "--before", "HEAD", "--out", str(tmp_path))
    process = run_study("speed", *arguments)
    assert process.returncode == 0, process.stderr
    (line,) = read_lines(tmp_path / "record.jsonl")
    names = {"product", "--version", "status", "tell", "next"}
    assert line["before"]["measures"].keys() == line["now"]["measures"].keys() == names
    batches = [line[tree]["measures"]["next"]["indices"] for tree in ("before", "now")]
    assert batches[0] == batches[1]


@pytest.mark.full
def test_what_batches_cost_is_read_from_the_committed_results():
    process = run_study("paper.results.one_at_a_time")
    assert process.returncode == 0, process.stderr
    last = [line for line in process.stdout.splitlines() if "all datasets" in line]
    assert last == [
        "EPIG           all datasets   -0.37 ± 0.19, 10 seeds",
        "ParBaLS EPIG   all datasets   +0.06 ± 0.15, 10 seeds",
    ]


@pytest.mark.full
def test_savings_against_rivals_are_those_of_the_pages(monkeypatch):
    monkeypatch.syspath_prepend(STUDIES)
    from paper.results import savings as study

    names = ("all settings", "settings that all have")
    monkeypatch.setattr(study, "GROUPS", {name: study.GROUPS[name] for name in names})
    tasks = study.collect(study.ResultsFiles(study.PUBLISHED).records(), study.LEARNT)
    rivals = {line.title: (study.OURS, line) for line in study.RIVALS}
    of_all, of_common = (r"(-?\d+) % \((-?\d+) % to (-?\d+) %; \d+ settings\)" for _ in names)
    row = rf"\| (\w+) \| {of_all} \| {of_common} \|"
    table = "\n".join(study.table("ParBaLS EPIG against", tasks, rivals))
    savings = {name: numbers for name, *numbers in re.findall(row, table)}
    assert set(savings) == {"Random", "Confidence", "Margin", "BADGE", "BALD", "EPIG"}
    results = (ROOT / "docs/explanation/results.md").read_text("utf-8")
    guide = (ROOT / "docs/howto/which-strategy.md").read_text("utf-8")
    readme = (ROOT / "README.md").read_text("utf-8")
    for name, numbers in savings.items():
        median, low, high, *common = numbers
        cells = f"{median} % ({low} to {high}) | {common[0]} % ({common[1]} to {common[2]}) |"
        assert f"| {name} | {cells}" in results
        if name != "BALD":
            assert f"| `{name.lower()}` | {cells}" in guide
    assert "half the labels of random sampling, about as many as Margin" in readme
    assert "a fifth less than BADGE and EPIG" in readme
    saved = {name: int(median) for name, (median, *_) in savings.items()}
    assert 45 <= saved["Random"] <= 60
    assert abs(saved["Margin"]) <= 5
    assert {15 <= int(savings[name][3]) <= 25 for name in ("BADGE", "EPIG")} == {True}


@pytest.mark.full
def test_scores_of_many_classes_are_measured_once(tmp_path):
    def run():
        return run_study("approximation.many_classes", "--quick", "--out", str(tmp_path))

    process = run()
    assert process.returncode == 0, process.stderr
    assert (run().stderr, run().stdout) == ("", process.stdout)
    (row,) = json.loads((tmp_path / "record.json").read_text("utf-8")).values()
    assert row["n_classes"] == 10
    assert process.stdout in (tmp_path / "README.md").read_text("utf-8")
    assert not list(tmp_path.glob("*.npz"))


@pytest.mark.full
def test_the_screen_is_compared_with_a_full_search(tmp_path):
    process = run_study("approximation.screening", "--quick", "--out", str(tmp_path))
    assert process.returncode == 0, process.stderr
    assert process.stdout.splitlines()[-1].startswith("| digits | 10 | 30 | 0.9")
    assert process.stdout in (tmp_path / "README.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("study", "arguments"),
    [
        ("speed", ("--rows", "magic")),
        pytest.param("speed", ("--quick",), marks=pytest.mark.full),
        pytest.param("speed", ("--limit", "0"), marks=pytest.mark.full),
        pytest.param("error_estimates.promises", ("--only", "mnist"), marks=pytest.mark.full),
        ("targets", ("--only", "mnist")),
        pytest.param("targets", ("--target-rows", "75"), marks=pytest.mark.full),
    ],
)
def test_bad_options_are_refused_before_anything_runs(study, arguments):
    process = run_study(study, *arguments)
    assert process.returncode == 2
    assert "usage:" in process.stderr


@pytest.mark.full
def test_trust_measures_a_design_once(tmp_path):
    results = tmp_path / "trust.jsonl"
    arguments = ("--only", "suite, separable", "--draws", "400", "--warm-up", "50", "--chains", "4")
    for _ in range(2):
        process = run_study("approximation.two_classes", *arguments, "--out", str(results))
        assert process.returncode == 0, process.stdout + process.stderr
    (line,) = results.read_text(encoding="utf-8").splitlines()
    methods = json.loads(line)["methods"]
    assert methods["EP"]["p_mean"] < 0.05
    assert methods["4,000 particles"]["rank"] > 0.9


STATEMENTS = {
    "real": 0.2,
    "expected": [0.1, 0.05, 0.15],  # fails
    "with_audit": [0.19, 0.1, 0.3],
    "stop": [False, 0.1, 0.1],
    "certificate": [2, 1],  # of 20 samples
    "shares": [4, 0],  # of 20 samples and two classes
    "audit_shares": [0, 0],
}
PROMISES = {
    "classes": 2,
    "looks": [[75, 25, 0.1, 0.02, 0.3, 0.25], [143, 48, 0.1, 0.05, 0.19, 0.22]],  # one fails
    "at": {"100": STATEMENTS, "250": STATEMENTS},
    "annotators": [[0.05, 0.04, 0.1, 0.05, 0.2], [0.3, 0.3, 0.3, 0.2, 0.4]],  # one fails
}


def write_promises(folder, data, n_seeds):
    """Records of the study of promises, one for each seed."""
    with lzma.open(folder / "record.jsonl.xz", "wt", encoding="utf-8") as packed:
        for seed in range(n_seeds):
            record = {"run": [data, "default", "random", seed], **PROMISES}
            packed.write(json.dumps(record) + "\n")


@pytest.mark.full
def test_the_study_of_promises_goes_on_where_it_stopped(tmp_path):
    write_promises(tmp_path, "digits:*", n_seeds=1)
    arguments = ("--only", "digits:*", "--models", "default", "--strategies", "random")
    options = ("--seeds", "2", "--workers", "2", "--platform", "cpu", "--out", str(tmp_path))
    process = run_study("error_estimates.promises", *arguments, *options)
    assert process.returncode == 0, process.stderr
    with lzma.open(tmp_path / "record.jsonl.xz", "rt", encoding="utf-8") as packed:
        old, new = (json.loads(line) for line in packed)
    assert old == {"run": ["digits:*", "default", "random", 0], **PROMISES}
    assert new["run"] == ["digits:*", "default", "random", 1]
    assert len(new["annotators"]) == 3
    assert new["at"].keys() == {"100", "250"}
    assert "2 with the default model" in process.stdout


def test_the_page_of_promises_counts_failures(tmp_path):
    write_promises(tmp_path, "airline", n_seeds=4)
    process = run_study("error_estimates.promises", "--tables", "--out", str(tmp_path))
    assert process.returncode == 0, process.stderr
    cells = {}
    for line in process.stdout.splitlines():
        if line.count("|") == 6 and "±" in line:
            name, promise, rate = line.split("|")[1:4]
            cells[name.strip()] = (promise.strip(), rate.strip(" *").partition(" ")[0])
    assert cells["The 90 % interval holds the true error: expected by the model"] == ("10", "100.0")
    assert cells["… expected, with a kept sample of 50 beside"] == ("10", "0.0")
    assert cells["… measured once, by 60 random items"] == ("10", "15.0")
    assert cells["… 60 random items, once"] == ("5", "10.0")
    assert cells["*Your goal is reached*: kept sample, at all looks"] == ("5", "100.0")  # 20 %
    assert cells["… from 60 random items"] == ("10", "10.0")
    assert cells["The 90 % interval holds an annotator's error"] == ("10", "50.0")
    assert "*More labels hardly change the model*" not in cells


@pytest.mark.full
def test_the_study_of_expected_errors_learns_its_constants(tmp_path):
    arguments = ("--only", "made-product", "--strategies", "random,confidence")
    process = run_study(
        "error_estimates.expected", *arguments, "--seeds", "1", "--out", str(tmp_path)
    )
    assert process.returncode == 0, process.stderr
    assert "| learnt on |" in (tmp_path / "learnt.txt").read_text("utf-8")


@pytest.mark.full
def test_the_tables_of_the_results_are_those_of_the_records(tmp_path):
    page = tmp_path / "results-prior.md"
    committed = (ROOT / "docs/explanation/results-prior.md").read_text("utf-8")
    begin, end = (f"<!-- python studies paper.results: {mark} -->" for mark in ("begin", "end"))
    before, _, rest = committed.partition(begin)
    after = rest.partition(end)[2]
    page.write_text(f"{before}{begin}\n{end}{after}", "utf-8")
    picture = tmp_path / "curves.png"
    process = run_study("paper.results", "--page", str(page), "--picture", str(picture))
    assert process.returncode == 0, process.stderr
    assert page.read_text("utf-8") == committed
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.full
def test_a_cold_start_is_measured_once(tmp_path):
    arguments = ("--seeds", "1", "--first", "breast-cancer", "--rare", "", "--out", str(tmp_path))
    process = run_study("cold_start.first_batch", *arguments)
    assert process.returncode == 0, process.stderr
    again = run_study("cold_start.first_batch", *arguments)
    assert (again.stderr, again.stdout) == ("", process.stdout)
    lines = (tmp_path / "record.jsonl").read_text("utf-8").splitlines()
    values = {record["run"][2]: record["value"] for record in map(json.loads, lines)}
    assert list(values) == ["Random", "CoreSet", "k-means", "ParBaLS, error", "ParBaLS, log"]
    assert all(0.5 < value < 1.0 for value in values.values())


@pytest.mark.full
def test_engines_that_are_installed_are_compared_and_the_others_are_named(tmp_path):
    process = run_study("speed.libraries", "--smoke", "--out", str(tmp_path))
    assert process.returncode == 0, process.stderr
    page = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert all(f"| {score} | parbals" in page for score in ("EPIG", "BALD", "BatchBALD"))
    assert page.count("scikit-activeml") >= 2


def test_the_page_of_targets_counts_who_is_ahead(tmp_path):
    """ParBaLS with target leads by ten points, but for weighted Margin (ahead) and EPIG (level)."""
    levels = {"weighted-margin": 0.9, "epig": 0.8}
    strategies = ("epig", "weighted-margin", "margin", "badge", "confidence", "random")
    arms = [("parbals-epig", 200), ("parbals-epig", 0)]
    arms += [(name, 200 if name in levels else 0) for name in strategies]
    with (tmp_path / "record.jsonl").open("w", encoding="utf-8") as file:
        for seed in range(4):
            for strategy, n_target in arms:
                level = levels.get(strategy, 0.8 if n_target else 0.7)
                noise = 0.001 * (seed if strategy == "epig" else 1.5)  # which is 1.5 on average
                jitter = 0.0002 * (seed % 2) * (strategy != "parbals-epig")
                record = {"accuracy": [level + noise + jitter] * 9, "of_target": 30}
                run = ["digits-slanted", strategy, n_target, seed]
                file.write(json.dumps({"run": run, **record}) + "\n")
    process = run_study("targets", "--tables", "--out", str(tmp_path))
    assert process.returncode == 0, process.stderr
    rows = {
        cells[1].strip(): [cell.strip() for cell in cells[3:6]]
        for cells in (line.split("|") for line in process.stdout.splitlines())
        if len(cells) == 7
    }
    assert rows["weighted Margin"] == ["0", "0", "1"]
    assert rows["EPIG, target"] == ["0", "1", "0"]
    assert rows["Margin"] == ["1", "0", "0"]
    assert "| leaning to the right; digits, 10 classes | 4 | 80.2 | 80.2 | **90.2** |" in (
        process.stdout
    )
    figure = run_study(
        "targets.figure",
        *("--record", str(tmp_path / "record.jsonl"), "--out", str(tmp_path / "curves.png")),
    )
    assert figure.returncode == 0, figure.stderr
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.full
def test_targets_are_measured_once(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(STUDIES)
    from targets import run

    options = ("--only", "sms-long", "--target-rows", "200", "--seeds", "1")
    monkeypatch.setattr(run, "N_BATCHES", 2)
    monkeypatch.setattr(sys, "argv", ["targets", *options, "--out", str(tmp_path)])
    assert run.main() == 0
    capsys.readouterr()
    assert run.main() == 0
    assert capsys.readouterr().err == "", "nothing is computed again"
    lines = (tmp_path / "record.jsonl").read_text("utf-8").splitlines()
    records = {tuple(record["run"][1:3]): record for record in map(json.loads, lines)}
    curves = [record["accuracy"] for record in records.values() if len(record["accuracy"]) > 1]
    assert len(curves) == 8
    assert len({curve[0] for curve in curves}) == 1  # the same start
    assert records["only-others", 0]["of_target"] == 0
    with_target = records["parbals-epig", 200]
    assert len(with_target["accuracy"]) == 3
    assert with_target["of_target"] > records["random", 0]["of_target"]


def test_a_shift_is_rare_in_its_pool_and_tested_on_other_rows(monkeypatch):
    monkeypatch.syspath_prepend(STUDIES)
    from targets.shifts import POOL_SHARE, split

    large = split("digits-slanted", 3, 200)
    small = split("digits-slanted", 3, 50)
    assert large.pool_of_target.sum() == round(POOL_SHARE * len(large.X_pool))
    assert small.X_target.tolist() == large.X_target[:50].tolist()
    assert small.X_test.tolist() == large.X_test.tolist()
    rows = [{row.tobytes() for row in X} for X in (large.X_pool, large.X_target, large.X_test)]
    assert sum(map(len, rows)) == len(set.union(*rows))


def test_weighted_margin_asks_for_uncertain_rows_of_the_target(monkeypatch):
    monkeypatch.syspath_prepend(STUDIES)
    from targets.run import BATCH, target_odds, weighted_margin

    generator = np.random.default_rng(0)
    pool = generator.standard_normal((200, 3))
    shift = np.array([1.0, 0.0, 0.0])
    odds = target_odds(pool, generator.standard_normal((500, 3)) + shift)
    # Of two normal distributions the log odds are linear: the slope is the shift.
    slopes = np.linalg.lstsq(np.c_[pool, np.ones(200)], np.log(odds), rcond=None)[0][:3]
    np.testing.assert_allclose(slopes, shift, atol=0.4)  # standard error about 0.1

    probs = generator.dirichlet(np.ones(3), 200)
    learner = SimpleNamespace(labelled=[0, 5], predict_proba=lambda X: probs)
    batch = weighted_margin(learner, SimpleNamespace(X_pool=pool), odds)
    first, second = np.sort(probs, axis=1)[:, :-3:-1].T
    scores = {i: (1.0 - first[i] + second[i]) * odds[i] for i in range(200) if i not in (0, 5)}
    assert batch.tolist() == sorted(scores, key=scores.get, reverse=True)[:BATCH]
