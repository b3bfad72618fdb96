"""Exports: values survive a round trip, no formulas for spreadsheets, atomic writes."""

import csv
import io
import json
import os
import random
import re
import signal
import stat
import subprocess
import sys
import time

import pytest
from dose import full_count
from hypothesis import example, given, settings
from hypothesis import strategies as st
from parbals.errors import InputError
from parbals.files import TEMPORARY_SUFFIX
from parbals_label.project.export_records import export_columns, export_records
from parbals_label.project.exports import write_batch_csv, write_export
from parbals_label.readers.cells import raw_cell, safe_cell
from parbals_label.readers.open import open_source
from parbals_label.store.records import Submission
from parbals_label.store.store import Store

# Any text but NUL, which CSV cannot hold and imports refuse, and halves of surrogate pairs, which
# are no characters.
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
RISKY = [
    "=1+1",
    "+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    "＝1+1",
    "'=1",
    "''=1",
    "=",
    "-",
    "+",
]


def rows_of(path):
    return [row.values for row in open_source(path).rows()]


class TestFormulas:
    @pytest.mark.parametrize("text", RISKY)
    def test_what_a_spreadsheet_would_run_gets_an_apostrophe(self, text):
        assert safe_cell(text).startswith("'" + text[0])
        assert raw_cell(safe_cell(text)) == text

    @pytest.mark.parametrize("text", ["ann;=1", "ann; =1", "a\t+1", "a\n-1", "a\r@b", 'a;"=1"'])
    def test_so_does_what_it_would_run_after_splitting_a_cell(self, text):
        cell = safe_cell(text)
        assert [part[:1] for part in re.split("[;\t\r\n]", cell)] == ["a", "'"]
        assert raw_cell(cell) == text

    def test_a_number_at_the_start_of_a_row_cannot_begin_a_formula_with_its_neighbour(self):
        # One cell where rows are split at semicolons and 5,0 is a number.
        assert safe_cell("-5", is_first=True) == "'-5"
        assert raw_cell("'-5") == "-5"
        assert raw_cell(safe_cell("'-5")) == "'-5"

    @pytest.mark.parametrize(
        "text", ["-5", "+5", "-1.5e-3", "-.5", "5", "a=b", "", "'quoted'", "it's"]
    )
    def test_numbers_and_plain_text_are_left_alone(self, text):
        assert safe_cell(text) == raw_cell(text) == text

    @settings(max_examples=300, deadline=None)
    @given(st.one_of(TEXT, st.text("'=+-@\t1.e;\n\" ")), st.booleans())
    def test_every_text_survives_and_none_begins_a_formula(self, text, is_first):
        assert raw_cell(safe_cell(text, is_first=is_first)) == text
        cell = safe_cell(text)
        if cell.startswith(tuple("=+-@\t\r")):
            float(cell)  # only a plain number may begin like that

    def test_no_cell_of_any_file_begins_a_formula(self, tmp_path):
        write_export(
            tmp_path / "x.csv", [{"=h": text, "b": [text]} for text in RISKY], "csv", ["=h", "b"]
        )
        write_batch_csv(tmp_path / "y.csv", [(text, {"=h": text}) for text in RISKY], ["=h"])
        for name in ("x.csv", "y.csv"):
            with (tmp_path / name).open(encoding="utf-8-sig", newline="") as file:
                cells = [cell for record in csv.reader(file) for cell in record]
            assert not [cell for cell in cells if cell.startswith(tuple("=+-@\t\r\n"))]

    @settings(max_examples=200, deadline=None)
    @given(st.lists(st.lists(st.text("'=+-@\t1,ce;\n\" "), min_size=3, max_size=3), min_size=1))
    @example([["-5", "0*cmd|' /C calc'!A0", "x"], ["7", "x;=1", ";'=\n-1"]])
    def test_no_file_begins_a_formula_wherever_it_is_split(self, tmp_path_factory, rows):
        file = tmp_path_factory.mktemp("export") / "x.csv"
        records = [dict(zip("abc", row, strict=True)) for row in rows]
        write_export(file, records, "csv", ["a", "b", "c"])
        text = file.read_text("utf-8")
        parts = re.split("[;\t\r\n]", text)
        cells = [cell for part in parts for cell in next(csv.reader([part], delimiter="|"), [])]
        for mark in ";\t":
            lines = io.StringIO(text, newline="")
            cells += [cell for row in csv.reader(lines, delimiter=mark) for cell in row]
        for cell in [*parts, *cells]:
            assert not cell.startswith(tuple("=+-@")), cell

    def test_names_of_annotators_cannot_make_a_formula_of_their_list(self, tmp_path):
        with Store.create(tmp_path / "p", classes=["a", "b"], settings={}) as store:
            store.add_items([("1", {})])
            for name in ("ann", "=HYPERLINK(0)", "@bob"):
                store.submit([Submission(0, "a")], annotator=name)
            write_export(tmp_path / "x.csv", export_records(store), "csv", export_columns(store))
        assert ";'=HYPERLINK(0);'@bob" in (tmp_path / "x.csv").read_text("utf-8")


class TestRoundTrip:
    @settings(max_examples=150, deadline=None)
    @given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=5), st.booleans())
    @example([("\r", "\n"), ("", ""), ("\ufeff", '"'), ("a;b", "\x1c\x85\u2028")], False)
    def test_csv_cells(self, tmp_path_factory, pairs, bom):
        file = tmp_path_factory.mktemp("export") / "x.csv"
        names = ["first column", "second column"]  # no cell is one: the first row stays a header
        records = [dict(zip(names, pair, strict=True)) for pair in pairs]
        assert write_export(file, records, "csv", names, bom=bom) == len(pairs)
        assert [
            {key: raw_cell(cell) for key, cell in row.items()} for row in rows_of(file)
        ] == records

    @settings(max_examples=60, deadline=None)
    @given(st.lists(TEXT, min_size=1, max_size=5))
    def test_a_single_column_keeps_its_empty_cells(self, tmp_path_factory, texts):
        file = tmp_path_factory.mktemp("export") / "x.csv"
        write_export(file, [{"a": text} for text in texts], "csv", ["a"])
        assert [raw_cell(row["a"]) for row in rows_of(file)] == texts

    @pytest.mark.parametrize("fmt", ["jsonl", "parquet"])
    def test_values_keep_their_types(self, tmp_path, fmt):
        if fmt == "parquet":
            pytest.importorskip("pyarrow")
        records = [
            {"id": "=a", "p": 0.25, "n": 1, "ok": True, "none": None},
            {"id": "ü", "p": None, "n": -(2**63), "ok": False},
            {"id": "", "p": 1.0, "n": None, "ok": None, "none": float("nan")},
        ]
        write_export(tmp_path / f"x.{fmt}", iter(records), fmt, ["id", "p", "n", "ok", "none"])
        result = rows_of(tmp_path / f"x.{fmt}")
        assert [row["id"] for row in result] == ["=a", "ü", ""]
        assert [row["p"] for row in result] == [0.25, None, 1.0]
        assert [row["n"] for row in result] == [1, -(2**63), None]
        assert [row["ok"] for row in result] == [True, False, None]
        assert [row["none"] for row in result] == [None, None, None]

    def test_a_parquet_column_of_mixed_values_is_text(self, tmp_path):
        pytest.importorskip("pyarrow")
        records = [
            {"a": 1, "b": 1, "c": 2**70},
            {"a": "x", "b": 0.5, "c": 1},
            {"a": [1], "b": None, "c": None},
        ]
        write_export(tmp_path / "x.parquet", records, "parquet", ["a", "b", "c"])
        assert rows_of(tmp_path / "x.parquet") == [
            {"a": "1", "b": 1.0, "c": str(2**70)},
            {"a": "x", "b": 0.5, "c": "1"},
            {"a": "[1]", "b": None, "c": None},
        ]

    def test_parquet_in_several_slices(self, tmp_path):
        pytest.importorskip("pyarrow")
        assert (
            write_export(
                tmp_path / "x.parquet", ({"i": i} for i in range(10_000)), "parquet", ["i"]
            )
            == 10_000
        )
        assert [row["i"] for row in rows_of(tmp_path / "x.parquet")] == list(range(10_000))

    def test_csv_writes_numbers_shortest(self, tmp_path):
        record = {
            "a": 0.1,
            "b": 1 / 3,
            "c": -4,
            "d": True,
            "e": [1, "ü"],
            "f": None,
        }
        write_export(tmp_path / "x.csv", [record], "csv", list(record))
        assert list(rows_of(tmp_path / "x.csv")[0].values()) == [
            "0.1",
            repr(1 / 3),
            "-4",
            "true",
            '[1, "ü"]',
            "",
        ]


class TestBatch:
    @pytest.mark.parametrize("greeting", ["Grüße", "plain"])
    def test_the_file_to_fill_in_always_has_a_byte_order_mark(self, tmp_path, greeting):
        content = {"text": greeting, "label": "old", "score": -1.5}
        write_batch_csv(tmp_path / "b.csv", [("7", content)], ["text", "label", "score"])
        # Without it Excel shows GrÃ¼ÃŸe; a script must not work until such a letter comes.
        assert (tmp_path / "b.csv").read_bytes().startswith(b"\xef\xbb\xbf")
        assert rows_of(tmp_path / "b.csv") == [
            {"id": "7", "text": greeting, "item.label": "old", "score": "-1.5", "label": ""}
        ]


class TestWholeOrNothing:
    def test_standard_output(self, capfdbinary):
        write_export("-", [{"a": "ü"}], "csv", ["a"])
        assert capfdbinary.readouterr().out == "a\r\nü\r\n".encode()

    @pytest.mark.parametrize("fmt", ["csv", "jsonl", "parquet"])
    @pytest.mark.parametrize("bad", ["x\0y", "\ud800", b"\xff", object(), float("inf")])
    def test_a_value_that_cannot_be_written_leaves_the_old_file(self, tmp_path, fmt, bad):
        if fmt == "parquet":
            pytest.importorskip("pyarrow")
        file = tmp_path / "x"
        file.write_text("old")
        with pytest.raises(InputError, match=r"record 2, column 'a'"):
            write_export(file, [{"a": "fine"}, {"a": bad}], fmt, ["a"])
        assert [found.name for found in tmp_path.iterdir()] == ["x"]
        assert file.read_text() == "old"

    def test_an_error_or_ctrl_c_in_the_records_leaves_the_old_file(self, tmp_path):
        (tmp_path / "x").write_text("old")
        for error in (RuntimeError, KeyboardInterrupt):

            def records(error=error):
                yield {"a": 1}
                raise error

            with pytest.raises(error):
                write_export(tmp_path / "x", records(), "csv", ["a"])
            assert [found.name for found in tmp_path.iterdir()] == ["x"]
        assert (tmp_path / "x").read_text() == "old"

    def test_places_that_cannot_be_written(self, tmp_path):
        for path in (tmp_path, "/dev/null", tmp_path / "no" / "x.csv"):
            with pytest.raises(InputError, match=r"not a file|could not be written"):
                write_export(path, [{"a": 1}], "csv", ["a"])
        assert stat.S_ISCHR(os.stat("/dev/null").st_mode)

    def test_a_disk_that_takes_no_more_is_said(self, tmp_path):
        """A limit on file size stands in for a full disk: the writes of a real process fail half
        way."""
        (tmp_path / "x.csv").write_text("old")
        code = (
            "import resource, sys; from parbals_label.project.exports import write_export\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))\n"
            "rows = ({'a': 'x' * 100} for _ in range(1000))\n"
            "try: write_export(sys.argv[1], rows, 'csv', ['a'])\n"
            "except Exception as error: print(type(error).__name__, error)"
        )
        command = [sys.executable, "-W", "error", "-c", code, str(tmp_path / "x.csv")]
        result = subprocess.run(command, capture_output=True, text=True, check=True)
        assert result.stdout.startswith("InputError")
        assert "could not be written (File too large)" in result.stdout
        assert result.stderr == ""
        assert [found.name for found in tmp_path.iterdir()] == ["x.csv"]
        assert (tmp_path / "x.csv").read_text() == "old"

    def test_a_link_and_permissions_are_kept(self, tmp_path):
        (tmp_path / "real.csv").write_text("old")
        os.chmod(tmp_path / "real.csv", 0o640)
        (tmp_path / "link.csv").symlink_to("real.csv")
        write_export(tmp_path / "link.csv", [{"a": 1}], "csv", ["a"])
        assert (tmp_path / "link.csv").is_symlink()
        assert (tmp_path / "real.csv").read_bytes() == b"a\r\n1\r\n"
        assert stat.S_IMODE((tmp_path / "real.csv").stat().st_mode) == 0o640


WRITER = """
import sys
from parbals_label.project.exports import write_export
path, fmt, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
for generation in range(10**9):
    rows = ({"g": generation, "i": i, "t": "x" * 50} for i in range(n))
    write_export(path, rows, fmt, ["g", "i", "t"])
    print(generation, flush=True)
"""


def kill_while_exporting(tmp_path, times):
    """Kill -9 a process that exports over and over, and look at what it leaves."""
    rng = random.Random(0)
    n_rows = 3_000
    cut_short = 0
    for trial in range(times):
        fmt = ("csv", "jsonl", "parquet")[trial % 3]
        folder = tmp_path / str(trial)
        folder.mkdir()
        file = folder / f"x.{fmt}"
        command = [sys.executable, "-c", WRITER, str(file), fmt, str(n_rows)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            process.stdout.readline()  # the first export is complete and confirmed
            time.sleep(rng.uniform(0, 0.06))
            os.kill(process.pid, signal.SIGKILL)
            confirmed = len(process.stdout.read().split())
        rows = rows_of(file)
        assert [int(row["i"]) for row in rows] == list(range(n_rows))
        generations = {int(row["g"]) for row in rows}
        assert len(generations) == 1
        assert generations.pop() >= confirmed  # a confirmed export is not undone
        leftovers = [found.name for found in folder.iterdir() if found != file]
        assert all(name.endswith(TEMPORARY_SUFFIX) for name in leftovers)
        cut_short += bool(leftovers)
    return cut_short


def test_kill_while_exporting(tmp_path):
    pytest.importorskip("pyarrow")
    kill_while_exporting(tmp_path, 3)  # once in each format


@pytest.mark.faults
def test_kill_while_exporting_100_times(tmp_path):
    pytest.importorskip("pyarrow")
    kills = full_count(100, least=6)
    assert kill_while_exporting(tmp_path, kills) > kills / 5  # most hit an export under way


def test_json_lines_are_valid_json(tmp_path):
    write_export(tmp_path / "x.jsonl", [{"a": "\u2028\n"}], "jsonl", ["a"])
    assert [
        json.loads(line) for line in (tmp_path / "x.jsonl").read_bytes().split(b"\n") if line
    ] == [{"a": "\u2028\n"}]


def test_an_export_is_readable_by_its_owner_alone(tmp_path):
    path = tmp_path / "labels.csv"
    write_export(path, [{"id": "a"}], "csv", ["id"])
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)  # somebody wants others to read it
    write_export(path, [{"id": "a"}], "csv", ["id"])
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("fmt", ["csv", "parquet", "jsonl"])
def test_labels_come_back(run, project, tmp_path, fmt):
    with Store.open(project) as store:
        for who, label in (("kim", "ham"), ("lee", "spam")):
            store.submit([Submission(p, label) for p in (10, 11, 12)], annotator=who)
    file = tmp_path / f"labels.{fmt}"
    run("export", project, "--format", fmt, "--out", file)
    record = json.loads(run("tell", project, file, "--no-report", "--json", "--annotator", "me"))
    assert record["new"] == 9
    with Store.open(project) as store:
        mine = {p: by["me"] for p, by in store.current_labels().items() if "me" in by}
    assert (mine[0], mine[10]) == ("spam", "ham")  # of two opinions the first
