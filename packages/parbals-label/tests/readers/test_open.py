"""Every kind of file a user may bring is read as it was meant, as often as it is asked for."""

import datetime
import gc
import gzip
import json
import os
import re
import sys
import unicodedata
from collections import Counter
from contextlib import suppress
from decimal import Decimal

import numpy as np
import pytest
from parbals.errors import InputError, LabelError, MissingDependencyError
from parbals.installing import install_command
from parbals_label.answer_form import AnswerForm
from parbals_label.readers import source as source_module
from parbals_label.readers.answers import read_answers
from parbals_label.readers.cells import plain_value
from parbals_label.readers.items import NUMBERED, classes_in, id_column_of, plan_items
from parbals_label.readers.open import open_source

ROWS = [
    {"id": "a", "text": "Grüße, „Welt“", "label": "ham"},
    {"id": "b", "text": 'a "quoted"\nsecond line', "label": ""},
    {"id": "c", "text": "x;y\tz", "label": "spam"},
]


def read(path, **options):
    return [row.values for row in open_source(path, **options).rows()]


def csv_text(delimiter=",", end="\n"):
    quoted = [["id", "text", "label"], *(list(row.values()) for row in ROWS)]
    return "".join(
        delimiter.join('"' + c.replace('"', '""') + '"' for c in cells) + end for cells in quoted
    )


class TestTextTables:
    @pytest.mark.parametrize("delimiter", [",", ";", "\t"])
    @pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
    def test_the_delimiter_and_the_line_ends_are_found(self, tmp_path, delimiter, end):
        file = tmp_path / "items.csv"
        file.write_bytes(csv_text(delimiter, end).encode())
        assert read(file) == ROWS

    @pytest.mark.parametrize(
        ("encoding", "reported"),
        [
            ("utf-8", "utf-8"),
            ("utf-8-sig", "utf-8-sig"),
            ("utf-16", "utf-16"),
            ("cp1252", "cp1252"),
        ],
    )
    def test_the_encoding_is_found_and_reported(self, tmp_path, encoding, reported):
        file = tmp_path / "items.csv"
        file.write_bytes(csv_text().encode(encoding))
        source = open_source(file)
        assert source.encoding == reported
        assert source.columns == ["id", "text", "label"]  # and no mark in the first name
        assert [row.values for row in source.rows()] == ROWS

    def test_bytes_that_cp1252_does_not_have_are_latin_1(self, tmp_path):
        file = tmp_path / "items.csv"
        file.write_bytes(b"text\ncaf\xe9 \x81\n")
        assert open_source(file).encoding == "latin-1"
        assert read(file) == [{"text": "café \x81"}]

    @pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
    def test_a_named_encoding_is_used(self, tmp_path, encoding):
        file = tmp_path / "items.csv"
        file.write_bytes(csv_text().encode(encoding))
        assert read(file, encoding=encoding) == ROWS

    def test_a_named_encoding_does_not_leave_the_mark_in_the_first_name(self, tmp_path):
        file = tmp_path / "items.csv"
        file.write_bytes(b"\xef\xbb\xbfid,text\n1,a\n")
        assert open_source(file, encoding="utf8").columns == ["id", "text"]

    def test_rows_are_numbered_as_a_spreadsheet_shows_them(self, tmp_path):
        file = tmp_path / "items.csv"
        file.write_text(
            'text\n"one\ntwo"\n\nthree\n'
        )  # a cell of two lines is one row; a blank line is one, too
        assert [row.number for row in open_source(file).rows()] == [2, 4]

    def test_a_source_can_be_walked_again(self, tmp_path):
        file = tmp_path / "items.csv"
        file.write_text("a\n1\n2\n")
        source = open_source(file)
        next(source.rows())
        assert len(list(source.rows())) == len(list(source.rows())) == 2

    def test_a_tsv_keeps_its_commas(self, tmp_path):
        file = tmp_path / "items.tsv"
        file.write_text("a,b\tc\n1,2\t3\n")
        assert read(file) == [{"a,b": "1,2", "c": "3"}]

    def test_one_column_with_punctuation_in_its_text_stays_one_column(self, tmp_path):
        file = tmp_path / "items.csv"
        file.write_text("text\nfirst; second\nthird; fourth\n")
        assert read(file) == [{"text": "first; second"}, {"text": "third; fourth"}]

    def test_a_cell_longer_than_pythons_limit(self, tmp_path):
        file = tmp_path / "items.csv"
        file.write_text(f"text\n{'x' * 1_000_000}\n")
        assert len(read(file)[0]["text"]) == 1_000_000

    def test_jsonl_takes_keys_from_every_line(self, tmp_path):
        file = tmp_path / "items.jsonl"
        file.write_text('{"a": 1}\n\n{"b": [1, {"c": null}], "a": "ü"}\n', encoding="utf-8")
        source = open_source(file)
        assert source.columns == ["a", "b"]
        assert source.n_rows == 2
        assert [tuple(row) for row in source.rows()] == [
            (1, {"a": 1, "b": None}),
            (3, {"a": "ü", "b": [1, {"c": None}]}),
        ]


class TestTablesAsPublished:
    """Files without a header, with quotes that mean nothing, packed, or without an ending."""

    SMS = (
        'ham\tGo until jurong point\nspam\t"Free entry\nham\tshe said "ok" then\n'
        'ham\t5 inch" and\nspam\t"Call" now\n'
    )

    @pytest.mark.parametrize("name", ["SMSSpamCollection", "sms.tsv", "sms.txt", "sms.tsv.gz"])
    def test_messages_without_header_whose_quotes_never_close(self, tmp_path, name):
        data = self.SMS.encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        source = open_source(tmp_path / name)
        assert source.columns == ["column 1", "column 2"]
        assert any("no header row" in note for note in source.notes)
        rows = list(source.rows())
        assert [row.number for row in rows] == [1, 2, 3, 4, 5]
        assert [row.values["column 2"] for row in rows] == [
            line.split("\t")[1] for line in self.SMS.splitlines()
        ]
        named = open_source(tmp_path / name, names=["label", "text"])
        assert next(named.rows()).values == {"label": "ham", "text": "Go until jurong point"}

    def test_a_quoted_cell_of_several_lines_is_still_one(self, tmp_path):
        (tmp_path / "t.tsv").write_text('id\ttext\n1\t"two\nlines"\n2\tone "word" here\n')
        assert read(tmp_path / "t.tsv") == [
            {"id": "1", "text": "two\nlines"},
            {"id": "2", "text": 'one "word" here'},
        ]

    @pytest.mark.parametrize(
        "header", ["Email,note", "year,2019", "kind,note", "kind,note\nkind,note"]
    )
    def test_a_header_stays_one(self, tmp_path, header):
        (tmp_path / "t.csv").write_text(f"{header}\nEmail,2019\n,2020\nEmail,x\n")
        assert open_source(tmp_path / "t.csv").columns == header.split("\n")[0].split(",")

    def test_a_column_without_a_name_is_numbered_and_said(self, tmp_path):
        (tmp_path / "t.csv").write_text(",a\n0,x\n1,y\n")
        source = open_source(tmp_path / "t.csv")
        assert source.columns == ["column 1", "a"]
        assert "'column 1'" in source.notes[0]

    def test_names_must_be_as_many_as_columns(self, tmp_path):
        (tmp_path / "t.csv").write_text("1,2\n3,4\n")
        with pytest.raises(InputError, match=r"3 names were given .* 2 cells"):
            open_source(tmp_path / "t.csv", names=["a", "b", "c"])

    def test_a_packed_file_that_was_cut_is_refused(self, tmp_path):
        whole = gzip.compress(("text\n" + "a line of text\n" * 1000).encode())
        (tmp_path / "t.csv.gz").write_bytes(whole[:-20])
        with pytest.raises(InputError, match="damaged or truncated"):
            read(tmp_path / "t.csv.gz")

    def test_lines_without_tabs_are_not_guessed_at(self, tmp_path):
        (tmp_path / "notes.txt").write_text("one line, of prose\nanother\n")
        with pytest.raises(InputError, match="no tabs, or not all the same number"):
            open_source(tmp_path / "notes.txt")


class TestArrow:
    def test_parquet(self, tmp_path):
        pa = pytest.importorskip("pyarrow")
        pq = pytest.importorskip("pyarrow.parquet")
        file = tmp_path / "items.parquet"
        table = pa.table(
            {
                "text": ["ä", None, "c"],
                "n": [1, 2, None],
                "day": [datetime.date(2024, 1, d) for d in (1, 2, 3)],
            }
        )
        pq.write_table(table, file, row_group_size=2)
        source = open_source(file)
        assert (source.columns, source.n_rows) == (["text", "n", "day"], 3)
        items = list(plan_items(source))
        assert items[0] == ("1", {"text": "ä", "n": 1, "day": "2024-01-01"}, None)
        assert items[2][1]["n"] is None

    def test_a_hugging_face_dataset_gives_labels_by_name(self, tmp_path):
        datasets = pytest.importorskip("datasets")
        pytest.importorskip("pyarrow")
        names = datasets.ClassLabel(names=["neg", "pos"])
        rows = {"text": list("abcde"), "label": [0, 1, -1, None, 1]}
        features = datasets.Features({"text": datasets.Value("string"), "label": names})
        dataset = datasets.Dataset.from_dict(rows, features=features)
        dataset.to_parquet(str(tmp_path / "x.parquet"))
        labels = plan_items(open_source(tmp_path / "x.parquet"), label_column="label")
        assert [label for _, _, label in labels] == ["neg", "pos", None, None, "pos"]
        dataset.save_to_disk(str(tmp_path / "folder"))
        with pytest.raises(InputError, match="to_parquet"):
            open_source(tmp_path / "folder")


class TestExcel:
    @pytest.fixture
    def book(self):
        return pytest.importorskip("openpyxl").Workbook()

    def test_cells_are_what_excel_shows(self, book, tmp_path):
        sheet = book.active
        sheet.append([])
        sheet.append(["id", "text", None, "when", "label"])
        sheet.append(["007", "grün", "a remark", datetime.datetime(2024, 5, 6), 1.0])
        sheet.append([])
        sheet.append([8, "  ", None, None, "N/A"])
        book.create_sheet("prices").append([1])
        book.save(tmp_path / "items.xlsx")
        source = open_source(tmp_path / "items.xlsx")
        assert [(row.number, row.values["text"]) for row in source.rows()] == [
            (3, "grün"),
            (5, None),
        ]
        assert source.notes == (
            "Only the sheet 'Sheet' of items.xlsx is read, not 'prices'.",
            "Column 3 of items.xlsx has no name and is left out.",
        )
        form = AnswerForm(classes=("0", "1"))
        rows = plan_items(source, id_column="id", label_column="label", form=form)
        assert list(rows) == [
            ("007", {"text": "grün", "when": "2024-05-06T00:00:00"}, "1"),
            ("8", {"text": None, "when": None}, None),
        ]
        assert [a[1:3] for a in read_answers(tmp_path / "items.xlsx", form)] == [("007", "1")]

    def test_a_file_that_was_read_in_part_is_closed(self, book, tmp_path):
        book.active.append(["text"])
        book.active.append(["a"])
        book.create_sheet("prices").append([1])
        book.save(tmp_path / "items.xlsx")
        gc.disable()  # a file that only the collector closes would stay open
        try:
            next(open_source(tmp_path / "items.xlsx").rows())
            links = [os.path.realpath(f"/dev/fd/{name}") for name in os.listdir("/dev/fd")]
        finally:
            gc.enable()
        assert str(tmp_path / "items.xlsx") not in links

    def test_an_empty_book_and_one_that_fills_the_disk(self, book, tmp_path, monkeypatch):
        book.save(tmp_path / "x.xlsx")
        with pytest.raises(InputError, match="is empty"):
            open_source(tmp_path / "x.xlsx")
        monkeypatch.setattr(source_module, "_BOMB_BYTES", 100)
        monkeypatch.setattr(source_module, "_BOMB_RATIO", 1)
        with pytest.raises(InputError, match="would grow"):
            open_source(tmp_path / "x.xlsx")

    def test_a_damaged_book_never_crashes(self, book, tmp_path):
        for number in range(50):
            book.active.append([f"column {number}", number])
        book.save(tmp_path / "x.xlsx")
        whole = (tmp_path / "x.xlsx").read_bytes()
        rng = np.random.default_rng(0)
        for trial in range(40):
            content = bytearray(whole if trial % 3 else whole[: rng.integers(len(whole))])
            for at in rng.integers(0, max(len(content), 1), 3):
                content[at : at + 1] = bytes([rng.integers(256)])
            (tmp_path / "x.xlsx").write_bytes(content)
            with suppress(InputError):
                list(plan_items(open_source(tmp_path / "x.xlsx")))

    def test_without_openpyxl_one_sentence_says_what_to_install(self, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "openpyxl", None)
        (tmp_path / "x.xlsx").write_bytes(b"PK")
        with pytest.raises(
            MissingDependencyError, match=re.escape(install_command("parbals[excel]"))
        ):
            open_source(tmp_path / "x.xlsx")


class TestImages:
    @pytest.fixture
    def folder(self, tmp_path):
        image = pytest.importorskip("PIL.Image")
        for name in (
            "cat/one.png",
            "cat/deep/two.JPG",
            "dog/three.webp",
            "top.bmp",
            "dog/four.gif",
            "dog/five.jpeg",
        ):
            file = tmp_path / "pets" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            image.new("RGB", (9, 7), (200, 10, 10)).save(file)
        (tmp_path / "pets" / "notes.txt").write_text("not an image")
        (tmp_path / "pets" / "._one.png").write_text("what a Mac leaves behind")
        return tmp_path / "pets"

    def test_images_are_found_with_the_folder_they_are_in(self, folder):
        source = open_source(folder)
        assert source.columns == ["image", "folder"]
        assert [tuple(row.values.values()) for row in source.rows()] == [
            ("cat/deep/two.JPG", "cat"),
            ("cat/one.png", "cat"),
            ("dog/five.jpeg", "dog"),
            ("dog/four.gif", "dog"),
            ("dog/three.webp", "dog"),
            ("top.bmp", None),
        ]
        assert classes_in(source, "folder") == ["cat", "dog"]

    def test_images_are_named_by_their_paths(self, folder):
        source = open_source(folder)
        assert id_column_of(source, "folder") == "image"
        name, content, label = next(plan_items(source, id_column="image", label_column="folder"))
        assert (name, content, label) == ("cat/deep/two.JPG", {"image": "cat/deep/two.JPG"}, "cat")
        assert next(plan_items(source, id_column=NUMBERED))[0] == "1"

    def test_a_flat_folder_has_no_labels_to_offer(self, tmp_path):
        pytest.importorskip("PIL.Image").new("L", (2, 2)).save(tmp_path / "a.png")
        assert open_source(tmp_path).columns == ["image"]


class TestArrays:
    def test_npy_is_mapped_and_not_loaded(self, tmp_path):
        features = np.arange(12, dtype=np.float32).reshape(4, 3)
        np.save(tmp_path / "x.npy", features)
        source = open_source(tmp_path / "x.npy")
        assert isinstance(source.features, np.memmap)
        np.testing.assert_array_equal(source.features, features)
        assert [item for item, _, _ in plan_items(source)] == ["1", "2", "3", "4"]

    @pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
    def test_npz_brings_ids_labels_and_texts(self, tmp_path, save):
        features = np.linspace(0, 1, 6).reshape(3, 2)
        save(
            tmp_path / "x.npz",
            X=features,
            id=np.array(["a", "b", "c"]),
            label=np.array(["no", "", "yes"]),
        )
        source = open_source(tmp_path / "x.npz")
        np.testing.assert_array_equal(source.features, features)
        assert list(plan_items(source, id_column="id", label_column="label")) == [
            ("a", {}, "no"),
            ("b", {}, None),
            ("c", {}, "yes"),
        ]


class TestItems:
    def source(self, tmp_path, text, name="items.csv"):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return open_source(tmp_path / name)

    def test_a_partly_filled_column_becomes_labels(self, tmp_path):
        source = self.source(tmp_path, "id,text,y\nu,a, spam\nv,b,\nw,c,ham\n")
        assert list(plan_items(source, id_column="id", label_column="y")) == [
            ("u", {"text": "a"}, "spam"),
            ("v", {"text": "b"}, None),
            ("w", {"text": "c"}, "ham"),
        ]

    def test_rows_can_be_numbered_although_there_are_ids(self, tmp_path):
        source = self.source(tmp_path, "id,text\n7,a\n8,b\n")
        assert [item for item, _, _ in plan_items(source, id_column=NUMBERED)] == ["1", "2"]

    @pytest.mark.parametrize(
        ("header", "label", "expected"),
        [
            ("id,text", None, "id"),
            ("text,ID", None, "ID"),
            ("id,text", "id", NUMBERED),
            ("key,text", None, NUMBERED),
        ],
    )
    def test_which_column_names_the_items(self, tmp_path, header, label, expected):
        assert id_column_of(self.source(tmp_path, f"{header}\n1,2\n"), label) == expected

    def test_labels_are_read_as_answers_are(self, tmp_path):
        source = self.source(tmp_path, "t,y\na,HAM\nb, spam \nc,Ham\n")
        assert [
            label
            for _, _, label in plan_items(
                source, label_column="y", form=AnswerForm(classes=("ham", "spam"))
            )
        ] == [
            "ham",
            "spam",
            "ham",
        ]

    def test_classes_that_differ_only_in_capitals_are_refused(self, tmp_path):
        message = r"items.csv, row 5, column 'y': .* 'Spam' .* 'spam' in row 3 only .*--classes"
        with pytest.raises(LabelError, match=message):
            classes_in(self.source(tmp_path, "t,y\na,ham\nb,spam\nc,spam \nd,Spam\n"), "y")

    def test_whole_numbers_are_the_same_label_with_and_without_gaps(self, tmp_path):
        source = self.source(
            tmp_path, '{"y": 1}\n{"y": 0.0}\n{"y": NaN}\n{"y": null}\n{"y": 1.0}\n', "items.jsonl"
        )
        assert [label for _, _, label in plan_items(source, label_column="y")] == [
            "1",
            "0",
            None,
            None,
            "1",
        ]

    @pytest.mark.parametrize("form", [None, AnswerForm(classes=("0", "1"))])
    def test_whole_numbers_in_text_as_well(self, tmp_path, form):
        source = self.source(tmp_path, "t,y\na,1.0\nb,0.0\nc,\nd,1\n")
        planned = plan_items(source, label_column="y", form=form)
        assert [label for _, _, label in planned] == ["1", "0", None, "1"]

    def test_what_programs_write_for_no_label_is_counted(self, tmp_path):
        source = self.source(tmp_path, "t,y\na,ham\nb,N/A\nc,N/A \nd,nan\ne,spam\nf,\n")
        blank = Counter()
        planned = plan_items(source, label_column="y", blank=blank)
        assert [label for _, _, label in planned] == ["ham", None, None, None, "spam", None]
        assert blank == {"N/A": 2, "nan": 1}
        assert classes_in(source, "y") == ["ham", "spam"]

    def test_two_unicode_forms_of_a_name_are_one_class(self, tmp_path):
        two = unicodedata.normalize("NFD", "café")
        source = self.source(tmp_path, f"t,y\na,café\nb,{two}\nc,tea\n")
        assert classes_in(source, "y") == ["café", "tea"]

    def test_values_that_json_has_not_become_text(self):
        result = plain_value(
            [
                Decimal("1.10"),
                b"caf\xc3\xa9",
                datetime.datetime(2024, 5, 6),
                float("nan"),
            ]
        )
        assert result == ["1.10", "café", "2024-05-06T00:00:00", None]
        json.dumps(result, allow_nan=False)

    def test_classes_are_sorted_and_at_least_two(self, tmp_path):
        assert classes_in(self.source(tmp_path, "y\nb\na\nb\n"), "y") == ["a", "b"]
        with pytest.raises(LabelError, match="only the label 'b'"):
            classes_in(self.source(tmp_path, "x,y\n1,b\n2,\n"), "y")
        with pytest.raises(LabelError, match="no labels"):
            plan_items(self.source(tmp_path, "x,y\n1,\n"), label_column="y")
        with pytest.raises(LabelError, match="more than 1000 different labels by row 1002"):
            classes_in(self.source(tmp_path, "y\n" + "\n".join(map(str, range(2000)))), "y")
