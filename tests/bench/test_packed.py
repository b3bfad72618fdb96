"""One file instead of a folder: nothing is lost, little is left, damage is noticed."""

import json
import lzma
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from bench_helpers import TINY_SUITE, record_of, runs_of
from click.testing import CliRunner

from parbals.bench.folder import ResultsFolder
from parbals.bench.packed import PackedResults, open_results, pack, unpack
from parbals.bench.records import METRICS, write_line
from parbals.bench.spec import Settings
from parbals.cli.bench import bench
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
            name: tuple((0.8 + np.cumsum(generator.normal(0, 0.01, n + 1))).round(7).tolist())
            for name in METRICS
        },
        initial=tuple(
            np.random.default_rng(run.seed)
            .choice(n_pool, run.budget.initial, replace=False)
            .tolist()
        ),
        chosen=tuple(
            tuple(batch.tolist()) for batch in picks[run.budget.initial :].reshape(n, size)
        ),
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
        *runs_of(
            "yelp", "5+2x1", "power-bald", options={"beta": 2.0}, settings=Settings(n_samples=100)
        ),
    ]
    records = [random_record(run, generator) for run in runs]
    records[1] = replace(
        records[1],
        notes=("a doubt — with ünicode\n and a second line",),
        versions={"parbals": "0.2"},
    )
    # What real runs hardly have must survive too: tiny and long numbers, zeros, batches cut short,
    # another stage.
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
    assert (header["format"], header["version"], header["suite"]) == (
        "parbals results",
        1,
        TINY_SUITE,
    )
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
            call(
                command, source, *(["--out", tmp_path / "report"] if command == "report" else [])
            ).output
            for source in (tmp_path / "results", packed["file"])
        ]
        assert texts[0] == texts[1] != ""
    assert "6 of 9 runs are done" in call("status", packed["file"]).output
    assert call("report", packed["file"], "--no-pictures").exit_code == 0
    assert (tmp_path / "results-report" / "report.html").is_file()
    assert (
        json.loads(call("unpack", packed["file"], "--out", tmp_path / "new", "--json").stdout)[
            "runs"
        ]
        == 6
    )
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


class TestFilesOfOthers:
    """Whole .xz files that somebody else has made: one sentence, in little memory."""

    @pytest.fixture
    def parts(self, tmp_path):
        generator = np.random.default_rng(0)
        records = [random_record(run, generator) for run in runs_of(seeds=[0, 1])]
        records[1] = replace(
            records[1], metrics={name: tuple(generator.random(11)) for name in METRICS}
        )
        pack(folder_of(tmp_path / "results", records), tmp_path / "good.xz")
        first, _, content = lzma.decompress((tmp_path / "good.xz").read_bytes()).partition(b"\n")
        return json.loads(first), content

    def written(self, folder, header, content=b""):
        first = header if isinstance(header, bytes) else json.dumps(header).encode()
        (folder / "made.xz").write_bytes(lzma.compress(first + b"\n" + content, preset=1))
        return folder / "made.xz"

    def refused(self, folder, header, content=b""):
        with pytest.raises(InputError) as caught:
            open_results(self.written(folder, header, content))
        said = str(caught.value)
        assert "\n" not in said
        return said

    def test_columns_that_are_too_short(self, tmp_path, parts):
        header, content = parts
        for cut in (1, 100, len(content)):
            assert "no packed results (the column" in self.refused(tmp_path, header, content[:-cut])
        assert "more in it than its columns" in self.refused(tmp_path, header, content + b"more")

    @pytest.mark.parametrize("key", ["format", "version", "suite", "shared", "cells", "columns"])
    @pytest.mark.parametrize("value", [None, "gone", 3, [], {}, [[]], [1, 2], "a text", -1])
    def test_missing_and_strange_values(self, tmp_path, parts, key, value):
        header, content = parts
        header[key] = value
        if value == "gone":
            del header[key]
        if (key, value) in (
            ("suite", "a text"),
            ("version", 3),
        ):  # nothing wrong with it; a newer version
            return
        assert "is damaged or no packed results" in self.refused(tmp_path, header, content)

    @pytest.mark.parametrize("seed", range(20))
    def test_anything_in_the_header_may_be_wrong(self, tmp_path, parts, seed):
        """Random places of the header become random values: it opens, or is refused in one
        sentence."""
        header, content = parts
        generator = np.random.default_rng(seed)
        strange = [
            None,
            True,
            -1,
            10**30,
            1.5,
            float("nan"),
            "x",
            [],
            {},
            [[1]],
            {"x": 1},
            "20+10x20",
        ]
        for _ in range(25):
            changed = json.loads(json.dumps(header))
            for _ in range(generator.integers(1, 3)):
                at = changed
                while True:
                    keys = list(at) if isinstance(at, dict) else list(range(len(at)))
                    key = keys[generator.integers(len(keys))]
                    if (
                        not isinstance(at[key], (dict, list))
                        or not at[key]
                        or generator.random() < 0.2
                    ):
                        break
                    at = at[key]
                if generator.random() < 0.3:
                    del at[key]
                else:
                    at[key] = json.loads(json.dumps(strange[generator.integers(len(strange))]))
            with suppress(InputError):
                open_results(self.written(tmp_path, changed, content)).seconds()

    @pytest.mark.parametrize(
        "first", [b"", b"[" * 100_000, b"9" * 10_000, b"null", b"[]", b'"x"', b"\xff\xfe"]
    )
    def test_a_first_line_that_is_no_header(self, tmp_path, first):
        assert "is damaged or no packed results" in self.refused(tmp_path, first)

    @pytest.mark.parametrize(
        "options", [{"beta": float("nan")}, {"beta": "\ud800"}, {"beta": "x" * 100_000}, [1]]
    )
    def test_options_that_could_not_be_written_again(self, tmp_path, parts, options):
        header, content = parts
        header["cells"][0]["run"]["options"] = options
        assert "is damaged or no packed results" in self.refused(tmp_path, header, content)

    def test_metrics_of_other_lengths_than_the_budget_says(self, tmp_path, parts):
        header, content = parts
        header["cells"][0]["run"]["budget"] = "20+3x20"
        assert "one value of a metric for every round" in self.refused(tmp_path, header, content)

    def test_numbers_that_are_not_finite(self, tmp_path, parts):
        header, content = parts
        at = 0
        for name, n, width, digits in header["columns"]:
            if digits is None:
                changed = bytearray(content)
                changed[at : at + n * width] = b"\xff" * (n * width)
                assert f"{name!r} holds numbers that are not finite" in self.refused(
                    tmp_path, header, bytes(changed)
                )
                return
            at += n * width
        raise AssertionError("there is no column of floats to spoil")

    def test_a_small_file_that_grows_without_end(self, tmp_path):
        """Zeros as far as the eye can see; unpacked at once they would take more than all memory
        allowed here."""
        import tracemalloc

        packer = lzma.LZMACompressor(preset=1)
        path = tmp_path / "bomb.xz"
        with path.open("wb") as file:
            for _ in range(600):
                file.write(packer.compress(bytes(1 << 20)))
            file.write(packer.flush())
        assert path.stat().st_size < 200_000
        tracemalloc.start()
        try:
            with pytest.raises(
                InputError, match=r"packed results \(it would grow to more than 33,554,432 bytes"
            ):
                open_results(path)
            assert tracemalloc.get_traced_memory()[1] < 100_000_000
        finally:
            tracemalloc.stop()

    def test_a_small_file_with_more_records_or_numbers_than_can_be(self, tmp_path, parts):
        header, _ = parts
        run = {**header["cells"][0]["run"], "budget": "1+1x1"}
        records = [
            [0, 0, {"metrics.accuracy": 2, "initial": 0, "chosen": 0}, []],
            *[[0, 0]] * 99_999,
        ]
        columns = [["initial", 0, 1, 0], ["chosen", 0, 1, 0], ["metrics.accuracy", 200_000, 1, 0]]
        many = {**header, "cells": [{"run": run, "records": records}], "columns": columns}
        assert "grow to more than 4,000,000 numbers" in self.refused(tmp_path, many, bytes(200_000))
        many["cells"] = [{"run": run, "records": records[:100]}]
        many["columns"] = [*columns[:2], ["metrics.accuracy", 200, 1, 0]]
        assert len(open_results(self.written(tmp_path, many, bytes(200))).records()) == 100
        wide = {**header, "columns": [["initial", 5_000_000, 1, 0]]}
        assert "grow to more than 4,000,000 numbers" in self.refused(
            tmp_path, wide, bytes(5_000_000)
        )

    def test_several_streams_in_one_file_are_read_as_one(self, tmp_path, parts):
        header, content = parts
        first = json.dumps(header).encode() + b"\n"
        (tmp_path / "two.xz").write_bytes(lzma.compress(first) + bytes(8) + lzma.compress(content))
        assert (
            open_results(tmp_path / "two.xz").records()
            == open_results(tmp_path / "good.xz").records()
        )
        (tmp_path / "two.xz").write_bytes(lzma.compress(first) + lzma.compress(content)[:-20])
        with pytest.raises(InputError, match="it is cut short"):
            open_results(tmp_path / "two.xz")

    def test_a_file_of_a_newer_version_says_so(self, tmp_path, parts):
        header, content = parts
        assert "newer version of parbals" in self.refused(
            tmp_path, {**header, "version": 2}, content
        )


def test_a_folder_with_a_damaged_line_is_not_packed(tmp_path):
    folder = folder_of(tmp_path / "results", [record_of(run) for run in runs_of()])
    path = next(folder.runs.iterdir())
    path.write_text(path.read_text()[:-5])
    refused = call("pack", tmp_path / "results").exception
    assert isinstance(refused, InputError)
    assert "heals it" in str(refused)
    assert not (tmp_path / "results.parbals.xz").exists()
