"""The commands as a person types them."""

import json
import subprocess
import sys

import numpy as np
import pytest
from bench_helpers import OWN_DATA, OWN_SUITE, TINY_SUITE, Canned, InProcess, runs_of
from click.testing import CliRunner
from parbals.errors import InputError
from parbals_bench.cli.bench import bench
from parbals_bench.run.folder import ResultsFolder
from parbals_bench.run.spec import Shard

COMMANDS = sys.modules["parbals_bench.cli.bench"]  # the package's attribute is the command


def call(*arguments):
    return CliRunner().invoke(bench, [str(part) for part in arguments])


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Three runs on data of one's own, computed by a process of their own."""
    folder = tmp_path_factory.mktemp("bench")
    np.savez(folder / "mine.npz", **OWN_DATA)
    (folder / "own.toml").write_text(OWN_SUITE)
    where = ("--suite", folder / "own.toml", "--out", folder / "out")
    result = call("run", *where, "--workers", 1, "--seeds", 1, "--json")
    assert result.exit_code == 0, result.output
    return folder, json.loads(result.stdout)


def test_run_status_report(ran):
    folder, record = ran
    assert (record["runs"], record["computed"], record["failed"]) == (3, 3, 0)

    status = json.loads(call("status", folder / "out", "--json").stdout)
    assert (status["done"], status["runs"]) == (3, 9)
    assert status["settings"] == [{"dataset": "mine", "budget": "10+2x3", "done": 3, "runs": 9}]
    text = call("status", folder / "out").output
    assert "mine     10+2x3  3     9" in text
    assert "3 of 9 runs are done" in text

    report = json.loads(call("report", folder / "out", "--json").stdout)
    assert report["report"].endswith("report.html")
    loss = ("--metric", "log-loss", "--out", folder / "loss")
    assert call("report", folder / "out", *loss).exit_code == 0
    assert "Final log loss" in (folder / "loss" / "report.html").read_text("utf-8")
    refused = call("report", folder / "out", "--metric", "recall").exception
    assert "no metric 'recall'" in str(refused)


def test_running_again_computes_nothing(ran):
    folder, _ = ran
    where = ("--suite", folder / "own.toml", "--out", folder / "out", "--seeds", 1)
    assert json.loads(call("run", *where, "--json").stdout)["computed"] == 0
    assert "Next: parbals bench report" in call("run", *where).output


def test_results_of_another_suite_are_mentioned(tmp_path, monkeypatch):
    monkeypatch.setattr(COMMANDS, "_executor", lambda workers, scheduler: Canned())
    (tmp_path / "tiny.toml").write_text(TINY_SUITE)
    (tmp_path / "other.toml").write_text(TINY_SUITE.replace("breast-cancer", "digits"))
    options = ("--out", tmp_path / "out", "--strategies", "random", "--seeds", 1)
    first = call("run", "--suite", tmp_path / "tiny.toml", *options)
    assert "1 of 1 runs are done, 1 of them computed now." in first.output
    assert "1 results in" in call("run", "--suite", tmp_path / "other.toml", *options).stderr


def test_shards_share_a_folder_and_have_all_runs_together(tmp_path, monkeypatch):
    monkeypatch.setattr(COMMANDS, "_executor", lambda workers, scheduler: Canned())
    (tmp_path / "tiny.toml").write_text(TINY_SUITE)
    options = ("--suite", tmp_path / "tiny.toml", "--out", tmp_path / "out")
    first = call("run", *options, "--shard", "1/2")
    assert "5 of 5 runs are done, 5 of them computed now." in first.output
    with ResultsFolder(tmp_path / "out", Shard(1, 2)).writing():  # another job of the array
        assert "Another process" in str(call("run", *options, "--shard", "1/2").exception)
        second = call("run", *options, "--shard", "2/2")
    assert "4 of 4 runs are done, 4 of them computed now." in second.output
    whole = call("run", *options)
    assert "9 of 9 runs are done, 0 of them computed now." in whole.output
    assert "0 of 0 runs are done" in call("run", *options, "--shard", "10/10").output


def test_a_shard_of_another_suite_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(COMMANDS, "_executor", lambda workers, scheduler: Canned())
    (tmp_path / "tiny.toml").write_text(TINY_SUITE)
    (tmp_path / "other.toml").write_text(TINY_SUITE.replace("seeds = 3", "seeds = 2"))
    out = ("--out", tmp_path / "out")
    call("run", "--suite", tmp_path / "tiny.toml", *out, "--shard", "1/2")
    other = call("run", "--suite", tmp_path / "other.toml", *out, "--shard", "2/2")
    assert "holds another suite" in str(other.exception)


def test_a_shard_repairs_its_own_files_only(tmp_path):
    folders = [ResultsFolder(tmp_path, Shard(number, 2)) for number in (1, 2)]
    run = runs_of(seeds=[0])[0]
    for folder in folders:
        with folder.writing() as append:
            append(run, "unfinished")
    with folders[0].writing():
        pass
    sizes = [path.stat().st_size for path in sorted((tmp_path / "runs").iterdir())]
    assert sizes == [0, len("unfinished\n")]


def test_what_fails_is_said_and_the_exit_code_tells(tmp_path, monkeypatch):
    monkeypatch.setattr(COMMANDS, "_executor", lambda workers, scheduler: InProcess())
    (tmp_path / "own.toml").write_text(OWN_SUITE)  # and its mine.npz is not there
    where = ("--suite", tmp_path / "own.toml", "--out", tmp_path / "out")
    result = call("run", *where, "--seeds", 1)
    assert result.exit_code == 1
    assert "0 of 3 runs are done" in result.stdout
    assert "Not done: mine cannot be loaded" in result.stderr


def test_a_process_that_is_writing_keeps_its_suite(ran, tmp_path):
    folder, _ = ran
    (tmp_path / "other.toml").write_text(TINY_SUITE.replace("seeds = 3", "seeds = 1"))
    before = (folder / "out" / "suite.toml").read_text("utf-8")
    with ResultsFolder(folder / "out").writing():
        second = call("run", "--suite", tmp_path / "other.toml", "--out", folder / "out")
    assert "Another process is writing" in str(second.exception)
    assert (folder / "out" / "suite.toml").read_text("utf-8") == before


def test_mistakes_are_refused_before_anything_is_written(tmp_path):
    (tmp_path / "bad.toml").write_text(TINY_SUITE.replace("confidence", "confidnce"))
    for arguments, message in (
        (("--suite", tmp_path / "bad.toml"), "no strategy 'confidnce'"),
        (("--suite", "papr"), "neither a built-in suite"),
        (("--suite", "quick", "--datasets", "airline"), "no dataset 'airline'"),
        (("--suite", "quick", "--workers", 1, "--scheduler", "tcp://x:1"), "give one of them"),
        (("--suite", "quick", "--shard", "0/4"), "'0/4' is not a shard"),
        (("--suite", "quick", "--shard", "5/4"), "'5/4' is not a shard"),
        (("--suite", "quick", "--shard", "half"), "'half' is not a shard"),
    ):
        result = call("run", "--out", tmp_path / "out", *arguments)
        assert isinstance(result.exception, InputError)
        assert message in str(result.exception)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["run", "status", "report"])
def test_help_has_examples(command):
    assert "Examples:" in call(command, "--help").output


def test_looking_loads_no_model(ran):
    folder, _ = ran
    program = (
        "import sys; from parbals_bench.cli.bench import bench;"
        "import parbals_bench.datasets.table, parbals_bench.report.page;"
        f"bench(['status', {str(folder / 'out')!r}], standalone_mode=False);"
        "assert 'jax' not in sys.modules, 'JAX was loaded'"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
