"""One file instead of a folder: nothing is lost, little is left, damage is noticed."""

import json
import lzma
from dataclasses import replace

import numpy as np
import pytest
from bench_helpers import TINY_SUITE, record_of, runs_of
from click.testing import CliRunner

from parbals.bench.commands import bench
from parbals.bench.folder import ResultsFolder
from parbals.bench.packed import PackedResults, open_results, pack, unpack
from parbals.bench.records import METRICS, write_line
from parbals.bench.runs import Settings
from parbals.errors import InputError


def call(*arguments):
    return CliRunner().invoke(bench, [str(part) for part in arguments])


def folder_of(path, records, suite=TINY_SUITE):
    folder = ResultsFolder(path)
    folder.save_suite(suite)
    files = {}
    for record in records:
        files.setdefault(record.run.cell, []).append(write_line(record))
    for cell, lines in files.items():
        (folder.runs / f"{cell}.jsonl").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return folder


def random_record(run, generator, n_pool=100_000):
    """Batches that no rule explains, and numbers with the digits that real runs have."""
    n, size = run.budget.rounds, run.budget.batch
    picks = generator.choice(n_pool, run.budget.initial + n * size, replace=False)
    return replace(
        record_of(run),
        metrics={
            name: tuple((0.8 + np.cumsum(generator.normal(0, 0.01, n + 1))).round(7).tolist()) for name in METRICS
        },
        initial=tuple(np.random.default_rng(run.seed).choice(n_pool, run.budget.initial, replace=False).tolist()),
        chosen=tuple(tuple(batch.tolist()) for batch in picks[run.budget.initial :].reshape(n, size)),
        seconds={
            stage: tuple(generator.gamma(20, 0.005, n + (stage != "select")).round(4).tolist())
            for stage in ("fit", "predict", "select")
        },
    )


def test_everything_comes_back_to_the_last_byte(tmp_path):
    generator = np.random.default_rng(0)
    runs = [
        *runs_of("airline", seeds=[2, 0, 1]),
        *runs_of("ag-news", "20+3x7", "bald", positive="Sci/Tech"),
        *runs_of("yelp", "5+2x1", "power-bald", options={"beta": 2.0}, settings=Settings(n_samples=100)),
    ]
    records = [random_record(run, generator) for run in runs]
    records[1] = replace(records[1], notes=("a doubt — with ünicode\n and a second line",), versions={"parbals": "0.2"})
    # What real runs hardly have must survive too: tiny and long numbers, zeros, batches cut short, another stage.
    records[2] = replace(
        records[2],
        metrics={**records[2].metrics, "log_loss": tuple(0.1 + generator.random(11) / 3)},
        seconds={**records[2].seconds, "fit": (0.0,) * 11, "load": (1e-9, 12345.678)},
        chosen=((1, 2, 3), (), (0,)),
        initial=(),
    )
    folder = folder_of(tmp_path / "results", records)
    file = tmp_path / "results.parbals.xz"
    assert pack(folder, file) == len(records)
    packed = open_results(file)
    assert isinstance(packed, PackedResults)
    assert packed.records() == folder.records()
    assert packed.suite_text() == TINY_SUITE
    assert packed.seconds() == folder.seconds()
    again = ResultsFolder(tmp_path / "again")
    assert unpack(file, again) == len(records)
    assert {p.name: p.read_bytes() for p in again.runs.iterdir()} == {
        p.name: p.read_bytes() for p in folder.runs.iterdir()
    }
    pack(again, tmp_path / "twice.xz")
    assert (tmp_path / "twice.xz").read_bytes() == file.read_bytes()


def test_three_thousand_runs_are_small_enough_to_commit(tmp_path):
    generator = np.random.default_rng(1)
    records = [
        random_record(run, generator)
        for dataset in ("airline", "ag-news", "cifar10")
        for budget in ("100+10x20", "20+10x20")
        for number in range(50)
        for run in runs_of(dataset, budget, f"strategy-{number}", range(10))
    ]
    folder = folder_of(tmp_path / "results", records)
    assert pack(folder, tmp_path / "all.xz") == 3000
    size = (tmp_path / "all.xz").stat().st_size
    assert size < 2_000_000
    assert size < sum(path.stat().st_size for path in folder.runs.iterdir()) / 4
    assert PackedResults(tmp_path / "all.xz").records() == folder.records()


def test_the_header_is_what_the_documentation_says(tmp_path):
    """Whoever has no parbals must be able to read the file."""
    (run,) = runs_of(seeds=[3])
    record = random_record(run, np.random.default_rng(2))
    pack(folder_of(tmp_path / "results", [record]), tmp_path / "one.xz")
    first, _, content = lzma.decompress((tmp_path / "one.xz").read_bytes()).partition(b"\n")
    header = json.loads(first)
    assert (header["format"], header["version"], header["suite"]) == ("parbals results", 1, TINY_SUITE)
    assert header["cells"][0]["records"][0][0] == 3
    at = 0
    for name, n, width, digits in header["columns"]:
        whole = [sum(content[at + b * n + i] << (8 * b) for b in range(width)) for i in range(n)]
        at += n * width
        whole = [value // 2 if value % 2 == 0 else -(value + 1) // 2 for value in whole]
        if name == "initial":
            assert tuple(whole) == record.initial
        if name == "metrics.accuracy":
            assert tuple(np.cumsum(whole) / 10**digits) == record.metrics["accuracy"]
    assert at == len(content)


def test_status_and_report_read_it_like_a_folder(tmp_path):
    records = [
        record_of(run, 0.8 + 0.01 * run.seed)
        for name in ("random", "confidence")
        for run in runs_of("breast-cancer", "10+2x3", name, settings=Settings(40, 20, 32, 2))
    ]
    folder_of(tmp_path / "results", records)
    packed = json.loads(call("pack", tmp_path / "results", "--json").stdout)
    assert packed["runs"] == 6
    assert packed["file"] == str(tmp_path / "results.parbals.xz")
    for command in ("status", "report"):
        texts = [
            call(command, source, *(["--out", tmp_path / "report"] if command == "report" else [])).output
            for source in (tmp_path / "results", packed["file"])
        ]
        assert texts[0] == texts[1] != ""
    assert "6 of 9 runs are done" in call("status", packed["file"]).output
    assert call("report", packed["file"], "--no-pictures").exit_code == 0
    assert (tmp_path / "results-report" / "report.html").is_file()
    assert json.loads(call("unpack", packed["file"], "--out", tmp_path / "new", "--json").stdout)["runs"] == 6
    refused = call("unpack", packed["file"], "--out", tmp_path / "new").exception
    assert isinstance(refused, InputError)
    assert "not empty" in str(refused)


def test_damage_is_noticed_wherever_it_is(tmp_path):
    folder = folder_of(tmp_path / "results", [record_of(run) for run in runs_of()])
    file = tmp_path / "packed.xz"
    pack(folder, file)
    whole = file.read_bytes()
    for place in range(0, len(whole), max(1, len(whole) // 40)):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(InputError, match="packed results"):
            open_results(file)
        file.write_bytes(whole[:place])
        with pytest.raises(InputError, match="packed results"):
            open_results(file)


def test_a_folder_with_a_damaged_line_is_not_packed(tmp_path):
    folder = folder_of(tmp_path / "results", [record_of(run) for run in runs_of()])
    path = next(folder.runs.iterdir())
    path.write_text(path.read_text()[:-5])
    refused = call("pack", tmp_path / "results").exception
    assert isinstance(refused, InputError)
    assert "heals it" in str(refused)
    assert not (tmp_path / "results.parbals.xz").exists()
