"""The commands as a person types them."""

import json
import subprocess
import sys

import pytest
from bench_helpers import TINY_SUITE
from click.testing import CliRunner

from parbals.bench.folder import ResultsFolder
from parbals.cli.bench import bench
from parbals.errors import InputError


def call(*arguments):
    return CliRunner().invoke(bench, [str(part) for part in arguments])


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    (folder / "tiny.toml").write_text(TINY_SUITE)
    result = call(
        "run",
        "--suite",
        folder / "tiny.toml",
        "--out",
        folder / "out",
        "--workers",
        1,
        "--seeds",
        1,
        "--json",
    )
    assert result.exit_code == 0, result.output
    return folder, json.loads(result.stdout)


def test_run_status_report(ran):
    folder, told = ran
    assert (told["runs"], told["computed"], told["failed"]) == (3, 3, 0)

    status = json.loads(call("status", folder / "out", "--json").stdout)
    assert (status["done"], status["runs"]) == (3, 9)
    assert status["settings"] == [
        {"dataset": "breast-cancer", "budget": "10+2x3", "done": 3, "runs": 9}
    ]
    assert status["process_seconds_left"] > 0
    assert "3 of 9 runs are done" in call("status", folder / "out").output

    report = json.loads(call("report", folder / "out", "--json").stdout)
    assert report["report"].endswith("report.html")
    by_loss = call(
        "report", folder / "out", "--metric", "log-loss", "--out", folder / "loss", "--no-pictures"
    )
    assert by_loss.exit_code == 0
    assert "Final log loss" in (folder / "loss" / "report.html").read_text("utf-8")
    assert "no metric 'recall'" in str(
        call("report", folder / "out", "--metric", "recall").exception
    )
    assert (
        "Next: parbals bench report"
        in call(
            "run", "--suite", folder / "tiny.toml", "--out", folder / "out", "--seeds", 1
        ).output
    )


def test_running_again_computes_nothing(ran):
    folder, _ = ran
    again = call(
        "run", "--suite", folder / "tiny.toml", "--out", folder / "out", "--seeds", 1, "--json"
    )
    assert json.loads(again.stdout)["computed"] == 0


def test_data_of_ones_own_and_results_of_another_suite(tmp_path):
    rows = "".join(f"{i % 7},{'no' if i % 7 < 3 else 'yes'}\n" for i in range(60))
    (tmp_path / "mine.csv").write_text("size,verdict\n" + rows)
    named = '\n[data.mine]\npath = "mine.csv"\nlabel = "verdict"\n'
    (tmp_path / "own.toml").write_text(TINY_SUITE.replace("breast-cancer", "mine") + named)
    out = tmp_path / "out"
    options = ("--out", out, "--workers", 1, "--strategies", "random", "--seeds", 1)
    result = call("run", "--suite", tmp_path / "own.toml", *options)
    assert "1 of 1 runs are done" in result.output, result.output
    (tmp_path / "tiny.toml").write_text(TINY_SUITE)
    assert "1 results in" in call("run", "--suite", tmp_path / "tiny.toml", *options).stderr


def test_whoever_is_writing_keeps_the_suite(ran, tmp_path):
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
    ):
        result = call("run", "--out", tmp_path / "out", *arguments)
        assert isinstance(result.exception, InputError)
        assert message in str(result.exception)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["run", "status", "report", "pack", "unpack"])
def test_help_has_examples(command):
    assert "Examples:" in call(command, "--help").output


def test_looking_loads_no_model(ran):
    folder, _ = ran
    program = (
        "import sys; from parbals.cli.bench import bench;"
        f"bench(['status', {str(folder / 'out')!r}], standalone_mode=False);"
        f"bench(['report', {str(folder / 'out')!r}, '--no-pictures'], standalone_mode=False);"
        "assert 'jax' not in sys.modules, 'JAX was loaded'"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
