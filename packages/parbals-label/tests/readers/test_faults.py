"""Files that are damaged, ambiguous or made to harm: refused with the place, and nothing runs."""

import gzip
import io
import os
import struct
import subprocess
import sys
import zipfile
from contextlib import suppress

import numpy as np
import pytest
from dose import full_count
from hypothesis import given, settings
from hypothesis import strategies as st
from parbals.errors import InputError, LabelError
from parbals_label.answer_form import AnswerForm
from parbals_label.readers import source as readers_source
from parbals_label.readers.items import check_numbers, plan_items
from parbals_label.readers.open import open_source


def refused(path, *said, **options):
    """Reading the file to its end raises one sentence that says all of this."""
    with pytest.raises(InputError) as found:
        list(plan_items(open_source(path, **options)))
    for part in said:
        assert part in str(found.value)
    assert "\n" not in str(found.value)


class TestText:
    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"a,b\n1,2\n3,x\0y\n", ["row 3", "column 2", "NUL"]),
            (b"a,b\n1,2\n3\n", ["row 3", "'b'", "1 cells"]),
            (b"a,b\n1,2\n3,4,5\n", ["row 3", "'b'", "3 cells"]),
            (b"a,b,a\n1,2,3\n", ["row 1", "'a'", "columns 1 and 3"]),
            (b'a,b\n1,2\n3,"open\n5,6\n', ["row 3", "quote", "never closed"]),
            (b'a,b\n1,"2"x\n', ["row 2", "closing quote"]),
            (b"", ["empty"]),
            (b"\n\n", ["empty"]),
            (b"a,b\n", ["no rows"]),
            (b"PAR1aaaa", ["Parquet"]),
            (b"PK\x03\x04aaaa", ["spreadsheet"]),
        ],
    )
    def test_csv(self, tmp_path, content, message):
        (tmp_path / "bad.csv").write_bytes(content)
        refused(tmp_path / "bad.csv", "bad.csv", *message)

    def test_utf_16_without_a_mark_is_not_guessed(self, tmp_path):
        (tmp_path / "bad.csv").write_bytes("a,b\n1,2\n".encode("utf-16-le"))
        refused(tmp_path / "bad.csv", "NUL", "UTF-16")

    def test_a_mark_that_promises_what_the_bytes_do_not_keep(self, tmp_path):
        (tmp_path / "bad.csv").write_bytes(b"\xef\xbb\xbfa\nfine\n\xff\xfe\n")
        refused(tmp_path / "bad.csv", "not utf-8", "row")
        (tmp_path / "bad.csv").write_bytes("a\nxyz\n".encode("utf-16")[:-1])
        refused(tmp_path / "bad.csv", "not utf-16", "row")

    @pytest.mark.parametrize(
        ("name", "content", "row"),
        [
            ("x.csv", "n,text\n1,grün\n2,blau\n3,gelb ?\n4,öde\n", 4),
            ("x.csv", "n,text\n" + "1,grün\n" * 5_000 + "3,?\n" + "1,grün\n" * 9, 5_002),
            ("x.jsonl", '{"text": "grün, blöd"}\n{"text": "?"}\n', 2),
        ],
    )
    def test_a_bad_byte_is_named_or_replaced(self, tmp_path, name, content, row):
        file = tmp_path / name
        file.write_bytes(content.encode().replace(b"?", b"\xff"))
        refused(file, f"{name}, row {row}, column 'text'", "not utf-8", "--encoding-errors replace")
        source = open_source(file, encoding_errors="replace")
        assert "\ufffd" in {r.number: r.values["text"] for r in source.rows()}[row]
        assert next(source.rows()).values["text"].startswith("grün")
        assert "read as \ufffd" in source.notes[0]

    def test_nothing_is_replaced_where_all_can_be_read(self, tmp_path):
        (tmp_path / "x.csv").write_bytes("text\ngrün \n".encode("cp1252"))
        source = open_source(tmp_path / "x.csv", encoding_errors="replace")
        assert (source.encoding, source.notes) == ("cp1252", ())

    def test_a_txt_file_says_what_is_wrong_with_it(self, tmp_path):
        (tmp_path / "x.txt").write_bytes("a\tb\n1\t2\n".encode("utf-16-le"))
        refused(tmp_path / "x.txt", "--encoding utf-16-le")
        assert open_source(tmp_path / "x.txt", encoding="utf-16-le").columns == ["a", "b"]

    def test_an_encoding_that_does_not_exist(self, tmp_path):
        (tmp_path / "x.csv").write_bytes(b"a\n1\n")
        refused(tmp_path / "x.csv", "not a text encoding", encoding="klingon")
        refused(tmp_path / "x.csv", "not a text encoding", encoding="rot13")

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b'{"a": 1}\n[1, 2]\n', ["row 2", "not a JSON object"]),
            (b'{"a": 1}\n{"a": \n', ["row 2", "not valid JSON"]),
            (b'{"a": 1, "a": 2}\n', ["row 1", "'a' twice"]),
            (b'{"": 1}\n', ["row 1", "without a name"]),
            (b'{"a": "x\\u0000"}\n', ["row 1", "'a'", "NUL"]),
            (b'{"a": "\\ud800"}\n', ["row 1", "'a'", "surrogate"]),
            (b'{"a\\ud800": 1}\n', ["surrogate"]),
            (b'{"a": 1e999}\n', ["row 1", "'a'", "infinite"]),
            (b'{"a": ' + b"[" * 100_000 + b"\n", ["row 1", "nested"]),
            (b'{"a": ' + b"9" * 5_000 + b"}\n", ["row 1"]),
            (b'{"a"\0: 1}\n', ["row 1", "NUL"]),
            (b"\n", ["empty"]),
        ],
    )
    def test_jsonl(self, tmp_path, content, message):
        (tmp_path / "bad.jsonl").write_bytes(content)
        refused(tmp_path / "bad.jsonl", "bad.jsonl", *message)

    @settings(max_examples=200, deadline=None)
    @given(
        st.binary(max_size=200),
        st.sampled_from([".csv", ".tsv", ".jsonl", ".npy", ".npz", ".parquet"]),
    )
    def test_any_bytes_are_read_or_refused(self, tmp_path_factory, content, suffix):
        file = tmp_path_factory.mktemp("any") / f"x{suffix}"
        file.write_bytes(content)
        with suppress(InputError):  # any other error fails the test
            list(plan_items(open_source(file)))


class TestItems:
    def source(self, tmp_path, text):
        (tmp_path / "x.csv").write_text(text)
        return open_source(tmp_path / "x.csv")

    def test_a_repeated_id_names_both_rows(self, tmp_path):
        with pytest.raises(
            InputError, match=r"row 4, column 'k': the id 'u' is also that of row 2"
        ):
            list(plan_items(self.source(tmp_path, "k,t\nu,1\nv,2\nu,3\n"), id_column="k"))

    def test_an_empty_id_names_its_row(self, tmp_path):
        with pytest.raises(InputError, match=r"row 3, column 'k' is empty"):
            list(plan_items(self.source(tmp_path, "k,t\nu,1\n ,2\n"), id_column="k"))

    def test_a_label_outside_the_classes(self, tmp_path):
        with pytest.raises(
            LabelError,
            match=r"row 3, column 'y': the label 'eggs' is not one of .* \('ham', 'spam'\)",
        ):
            list(
                plan_items(
                    self.source(tmp_path, "y\nham\neggs\n"),
                    label_column="y",
                    form=AnswerForm(classes=("ham", "spam")),
                )
            )

    @pytest.mark.parametrize("option", [{"id_column": "no"}, {"label_column": "no"}])
    def test_a_column_that_is_not_there_is_refused_in_the_call(self, tmp_path, option):
        with pytest.raises(InputError, match=r"no column 'no'; its columns are: 'a', 'b'"):
            plan_items(self.source(tmp_path, "a,b\n1,2\n"), **option)

    @pytest.mark.parametrize(
        "cell", ["", " ", "x", "1;5", "nan", "NaN", "inf", "-inf", "1e39", "1_000", "0x10", "--1"]
    )
    def test_a_cell_that_is_no_number(self, tmp_path, cell):
        with pytest.raises(InputError, match=r"x.csv, row 3, column 'b'"):
            check_numbers(self.source(tmp_path, f"a,b\n1,2\n3,{cell}\n"), ["a", "b"])

    def test_a_decimal_comma_is_recognised(self, tmp_path):
        with pytest.raises(
            InputError, match=r"row 3, column 'b' is '2,5', with a decimal comma; write 2.5"
        ):
            check_numbers(self.source(tmp_path, 'a,b\n1,2\n3,"2,5"\n'), ["a", "b"])

    def test_binary_values_are_refused_with_their_place(self, tmp_path):
        pa = pytest.importorskip("pyarrow")
        pq = pytest.importorskip("pyarrow.parquet")
        pq.write_table(pa.table({"image": [b"text", b"\x89PNG\xff"]}), tmp_path / "x.parquet")
        refused(tmp_path / "x.parquet", "row 2", "'image'", "binary")


def npy_bytes(header: str) -> bytes:
    padded = header.encode().ljust(118 - 1) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(padded)) + padded


class TestArrays:
    def test_objects_are_never_unpickled(self, tmp_path):
        class Bomb:
            def __reduce__(self):
                return os.mkdir, (str(tmp_path / "executed"),)

        np.save(tmp_path / "x.npy", np.array([[Bomb()]], dtype=object), allow_pickle=True)
        np.savez(tmp_path / "x.npz", id=np.array([Bomb()], dtype=object))
        np.savez(tmp_path / "y.npz", X=np.array([[Bomb()]], dtype=object))
        for name in ("x.npy", "x.npz", "y.npz"):
            refused(tmp_path / name, "Python objects")
        assert not (tmp_path / "executed").exists()

    @pytest.mark.parametrize(
        "shape", ["(1000000000000, 384)", f"({2**62}, 4)", "(-1, 4)", f"({2**70}, {2**70})"]
    )
    def test_a_header_that_declares_more_than_the_file_holds(self, tmp_path, shape):
        content = npy_bytes(
            f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}"
        ) + bytes(64)
        (tmp_path / "x.npy").write_bytes(content)
        refused(tmp_path / "x.npy", "damaged")
        with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("X.npy", content)
        refused(tmp_path / "x.npz", "damaged")

    def test_strings_of_no_width_cannot_be_many(self, tmp_path):
        content = npy_bytes("{'descr': '<U0', 'fortran_order': False, 'shape': (1000000000000,), }")
        with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
            archive.writestr("id.npy", content)
        refused(tmp_path / "x.npz", "empty")

    def test_a_zip_member_that_expands_without_end(self, tmp_path, monkeypatch):
        """Zeros deflate a thousandfold; the directory says so, and nothing is unpacked."""
        monkeypatch.setattr(readers_source, "_BOMB_BYTES", 2**20)
        file = io.BytesIO()
        with (
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
            archive.open("X.npy", "w", force_zip64=True) as member,
        ):
            rows = 3 * 2**20 // 8
            member.write(
                npy_bytes(f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({rows}, 1), }}")
            )
            zeros = bytes(2**20)
            for _ in range(3):
                member.write(zeros)
        (tmp_path / "x.npz").write_bytes(file.getvalue())
        assert (tmp_path / "x.npz").stat().st_size < 4_000
        refused(tmp_path / "x.npz", "bomb", "save it as .npy")

    def test_a_zip_member_that_lies_about_its_size(self, tmp_path):
        np.savez_compressed(tmp_path / "x.npz", X=np.zeros((4, 4)))
        content = (tmp_path / "x.npz").read_bytes()
        at = content.index(b"PK\x01\x02") + 24
        (tmp_path / "x.npz").write_bytes(
            content[:at] + struct.pack("<I", 2**31) + content[at + 4 :]
        )
        refused(tmp_path / "x.npz", "more than the file can hold")

    def test_a_flipped_byte_in_an_npz(self, tmp_path):
        for save in (np.savez, np.savez_compressed):
            save(tmp_path / "x.npz", X=np.random.default_rng(0).normal(size=(50, 4)))
            content = bytearray((tmp_path / "x.npz").read_bytes())
            content[len(content) // 2] ^= 1
            (tmp_path / "x.npz").write_bytes(content)
            refused(tmp_path / "x.npz", "damaged")

    @pytest.mark.parametrize(
        ("array", "message"),
        [
            (np.zeros(3), "1 axes"),
            (np.zeros((2, 2, 2)), "3 axes"),
            (np.zeros((0, 3)), "0 rows"),
            (np.zeros((2, 2), complex), "real numbers"),
            (np.array([["a", "b"]]), "real numbers"),
            (np.zeros((2, 2), [("a", "f4")]), "real numbers"),
        ],
    )
    def test_arrays_that_are_no_features(self, tmp_path, array, message):
        np.save(tmp_path / "x.npy", array)
        refused(tmp_path / "x.npy", message)

    def test_a_truncated_npy(self, tmp_path):
        np.save(tmp_path / "x.npy", np.zeros((100, 3)))
        content = (tmp_path / "x.npy").read_bytes()
        for length in (0, 5, 9, 60, 200, len(content) - 1):
            (tmp_path / "x.npy").write_bytes(content[:length])
            refused(tmp_path / "x.npy", "damaged")

    def test_arrays_that_do_not_belong_together(self, tmp_path):
        np.savez(tmp_path / "x.npz", X=np.zeros((3, 2)), id=np.array(["a", "b"]))
        refused(tmp_path / "x.npz", "different lengths")
        np.savez(tmp_path / "x.npz", X=np.zeros((3, 2)), y=np.zeros(3))
        refused(tmp_path / "x.npz", "'X', 'y'")


class TestBombs:
    """Files that are small, and unpack to much more."""

    @pytest.fixture(autouse=True)
    def low_bound(self, monkeypatch):
        monkeypatch.setattr(readers_source, "_BOMB_BYTES", 2**20)

    @pytest.mark.parametrize("kind", ["column", "field", "list"])
    @pytest.mark.parametrize("stored", [True, False])
    def test_a_text_that_every_row_of_a_parquet_file_repeats(self, tmp_path, kind, stored):
        pa = pytest.importorskip("pyarrow")
        pq = pytest.importorskip("pyarrow.parquet")
        texts = pa.DictionaryArray.from_arrays(pa.array([0] * 2_000), pa.array(["x" * 4_000]))
        texts = texts if stored else texts.dictionary_decode()
        columns = {
            "column": lambda: texts,
            "field": lambda: pa.StructArray.from_arrays([texts], ["text"]),
            "list": lambda: pa.ListArray.from_arrays(np.arange(0, 2_001, 100), texts),
        }
        file = tmp_path / "x.parquet"
        pq.write_table(pa.table({"text": columns[kind]()}), file)
        assert file.stat().st_size < 40_000
        refused(file, "x.parquet would grow", "save it as CSV")

    def test_a_parquet_file_that_says_itself_how_much_it_unpacks_to(self, tmp_path):
        pa = pytest.importorskip("pyarrow")
        pq = pytest.importorskip("pyarrow.parquet")
        table = pa.table({"text": ["x" * 2**22], "n": [1]})
        pq.write_table(table, tmp_path / "x.parquet", compression="zstd")
        with pytest.raises(InputError, match="would grow"):
            open_source(tmp_path / "x.parquet")

    def test_columns_of_few_values_are_no_bomb(self, tmp_path):
        """A hundred sparse columns, and categories as pandas writes them, compress well."""
        pa = pytest.importorskip("pyarrow")
        pq = pytest.importorskip("pyarrow.parquet")
        zeros = {f"x{n}": np.zeros(4_000) for n in range(100)}
        codes = pa.array([0, 1] * 2_000)
        kinds = pa.DictionaryArray.from_arrays(codes, pa.array(["north", "south"]))
        years = pa.DictionaryArray.from_arrays(codes, pa.array([2025, 2026]))
        pq.write_table(pa.table({"kind": kinds, "year": years, **zeros}), tmp_path / "x.parquet")
        items = list(plan_items(open_source(tmp_path / "x.parquet")))
        assert len(items) == 4_000
        assert (items[1][1]["kind"], items[1][1]["year"]) == ("south", 2026)

    @pytest.mark.parametrize(("name", "line"), [("x.csv.gz", b"1\n"), ("x.jsonl.gz", b'{"a":1}\n')])
    def test_compressed_text(self, tmp_path, name, line):
        (tmp_path / name).write_bytes(gzip.compress(b"a\n" * (line == b"1\n") + line * 2**20))
        refused(tmp_path / name, f"{name} would grow", "unpack it first")

    @pytest.mark.parametrize("n_columns", [20_001, 100_000])
    def test_a_row_of_very_many_columns(self, tmp_path, n_columns):
        """Refused before names are compared: each with all others takes minutes."""
        names = ",".join(f"c{n}" for n in range(n_columns))
        (tmp_path / "x.csv").write_text(f"{names}\n{'1,' * (n_columns - 1)}1\n")
        refused(tmp_path / "x.csv", f"{n_columns:,} columns", "at most 20,000")


class TestFolders:
    def test_a_link_out_of_the_folder(self, tmp_path):
        (tmp_path / "secret").write_text("x")
        (tmp_path / "images").mkdir()
        (tmp_path / "images" / "a.png").symlink_to(tmp_path / "secret")
        refused(tmp_path / "images", "a.png", "outside")

    def test_a_folder_without_images(self, tmp_path):
        refused(tmp_path, "no image")

    def test_damaged_parquet_files_never_crash(self, tmp_path):
        pa = pytest.importorskip("pyarrow")
        pq = pytest.importorskip("pyarrow.parquet")
        table = pa.table({"text": [f"text {i}" for i in range(50)], "label": list(range(50))})
        file = tmp_path / "x.parquet"
        pq.write_table(table, file)
        whole = file.read_bytes()
        rng = np.random.default_rng(0)
        for trial in range(60):
            content = bytearray(whole if trial % 3 else whole[: rng.integers(len(whole))])
            for at in rng.integers(0, max(len(content), 1), 3):
                content[at : at + 1] = bytes([rng.integers(256)])
            file.write_bytes(content)
            with suppress(InputError):
                list(plan_items(open_source(file)))

    @pytest.mark.parametrize("name", ["x.pkl", "x.pt", "x.xls", "x.json", "x.gz", "x.unknown"])
    def test_other_files_come_with_advice(self, tmp_path, name):
        (tmp_path / name).write_bytes(b"\x80\x04K\x01.")
        refused(tmp_path / name, name, "cannot be read")

    def test_what_is_not_there_or_no_file(self, tmp_path):
        refused(tmp_path / "no.csv", "does not exist")
        os.mkfifo(tmp_path / "pipe.csv")
        refused(tmp_path / "pipe.csv", "neither file nor folder")


@pytest.mark.parametrize("unit", ["ns", "us"])
def test_times_that_python_has_not_are_refused_or_written_in_full(tmp_path, unit):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(
        pa.table({"t": pa.array([1, 2**62], pa.timestamp(unit))}), tmp_path / "x.parquet"
    )
    try:
        items = list(plan_items(open_source(tmp_path / "x.parquet")))
    except InputError as error:
        output = str(error)
    else:
        output = items[0][1]["t"]
    assert "x.parquet" in output or output.startswith("1970-01-01T00:00:00.000000001")


def test_reading_needs_no_jax_and_no_optional_package(tmp_path):
    """Commands without a model answer at once; optional packages wait for files that need them."""
    (tmp_path / "x.csv").write_text("id,label\n1,a\n")
    code = (
        "import sys; from parbals_label.project import exports\n"
        "from parbals_label.readers import answers, items, open\n"
        "from parbals_label.answer_form import AnswerForm\n"
        f"list(items.plan_items(open.open_source({str(tmp_path / 'x.csv')!r})))\n"
        f"answers.read_answers({str(tmp_path / 'x.csv')!r}, AnswerForm(classes=('a', 'b')))\n"
        "heavy = {'jax', 'pyarrow', 'openpyxl', 'PIL', 'scipy', 'sklearn'}\n"
        "print(sorted(heavy & sys.modules.keys()))"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )


@pytest.mark.faults
def test_a_million_rows_in_bounded_memory(tmp_path):
    """Rows are streamed: ten times the rows, the same memory."""
    code = (
        "import resource, sys; from parbals_label.readers.open import open_source\n"
        "n = sum(1 for _ in open_source(sys.argv[1]).rows())\n"
        "print(n, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    peaks = {}
    n_few = full_count(100_000)
    n_many = full_count(1_000_000)
    for n_rows in (n_few, n_many):
        file = tmp_path / f"{n_rows}.csv"
        with file.open("w") as out:
            out.write("id,text,label\n")
            out.writelines(
                f'{i},"some text of row {i}, long enough to matter {"x" * 60}",\n'
                for i in range(n_rows)
            )
        result = subprocess.run(
            [sys.executable, "-c", code, str(file)], capture_output=True, text=True, check=True
        )
        count, peaks[n_rows] = map(int, result.stdout.split())
        assert count == n_rows
    unit = 1024 if sys.platform == "darwin" else 1  # bytes there, KiB elsewhere
    assert peaks[n_many] < peaks[n_few] + 20_000 * unit
