"""A batch comes back from a spreadsheet: read as the annotator meant it, or refused as a whole."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parbals.errors import InputError, LabelError
from parbals_label.answer_form import AnswerForm
from parbals_label.project.exports import write_batch_csv
from parbals_label.readers.answers import read_answers
from parbals_label.readers.open import open_source

CLASSES = ["ham", "spam", "Very Bad"]
# No NUL and no half of a surrogate pair: neither can be an id (imports refuse both).
IDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)


@pytest.fixture
def answers(tmp_path):
    def read(content, name="batch.csv", classes=CLASSES):
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        result = read_answers(tmp_path / name, AnswerForm(classes=tuple(classes)))
        return [row[:3] for row in result]

    return read


class TestWhatSpreadsheetsDo:
    def test_partly_filled_reordered_and_with_more_columns(self, answers):
        assert answers("note,label,id,text\n,spam,b,x\nhm,,a,y\n,ham,c,z\n") == [
            (2, "b", "spam"),
            (4, "c", "ham"),
        ]

    @pytest.mark.parametrize(
        "content",
        [
            b"\xef\xbb\xbfid;label\r\n1;ham\r\n",
            b"sep=;\r\nid;label\r\n1;ham\r\n",
            b"\xef\xbb\xbfsep=;\r\nid;label\r\n1;ham\r\n",
            b'"sep=|"\r\nid|label\r\n1|ham\r\n',
            b"id\tlabel\r\n1\tham\r\n",
            b"id,label\r1,ham\r",
            "id\tlabel\r\n1\tham\r\n".encode("utf-16"),
            b"id;label;;\r\n1;ham;;\r\n",  # columns that once had something in them
            b"id,label,\r\n1,ham,a note without a heading\r\n",
            b"ID, Label \r\n1, ham \r\n",
            b"id,label\r\n\r\n1,HAM\r\n,\r\n",
        ],
    )
    def test_quirks_of_saved_files(self, answers, content):
        result = answers(content)
        assert [(item, label) for _, item, label in result] == [("1", "ham")]
        assert result[0][0] == (
            3 if b"\r\n\r\n" in content else 2
        )  # what Excel shows; it hides the sep= line

    def test_excel_leaves_off_the_last_delimiters_of_empty_rows(self, answers):
        rows = "".join(f"{i},text\r\n" for i in range(40))
        assert answers(f"id,text,label\r\n{rows}40,text,spam\r\n") == [(42, "40", "spam")]

    def test_other_encodings(self, answers):
        assert answers("id,label\n1,ärger\n".encode("cp1252"), classes=["ärger", "b"]) == [
            (2, "1", "ärger")
        ]

    def test_tsv_txt_and_jsonl(self, answers):
        assert answers("id\tlabel\n1\tham\n", "a.tsv") == [(2, "1", "ham")]
        assert answers("id\tlabel\n1\tham\n", "a.txt") == [(2, "1", "ham")]
        assert answers('{"id": 1, "label": "ham"}\n{"id": 2, "label": null}\n', "a.jsonl") == [
            (1, "1", "ham")
        ]

    def test_an_id_stays_the_text_it_is(self, answers):
        assert [item for _, item, _ in answers("id,label\n007,ham\n7,spam\n1.0,ham\n")] == [
            "007",
            "7",
            "1.0",
        ]


class TestLabels:
    @pytest.mark.parametrize("cell", ["Very Bad", " very bad ", "VERY BAD", "\u00a0Very Bad"])
    def test_blanks_and_capitals_do_not_count(self, answers, cell):
        assert answers(f"id,label\n1,{cell}\n") == [(2, "1", "Very Bad")]

    def test_unless_two_classes_differ_by_nothing_else(self, answers):
        assert answers("id,label\n1,a\n2, A\n", classes=["a", "A"]) == [
            (2, "1", "a"),
            (3, "2", "A"),
        ]
        with pytest.raises(
            LabelError, match=r"row 2, column 'label': the label 'up' could be 'Up' or 'UP'"
        ):
            answers("id,label\n1,up\n", classes=["Up", "UP"])

    @pytest.mark.parametrize("cell", ["1", "1.0", " 1. ", "1.00"])
    def test_whole_numbers_with_a_point(self, answers, cell):
        assert answers(f"id,label\n7,{cell}\n", classes=["0", "1"]) == [(2, "7", "1")]

    def test_a_fraction_is_another_number(self, answers):
        with pytest.raises(LabelError, match=r"'1\.5' is not one of"):
            answers("id,label\n7,1.5\n", classes=["0", "1"])

    @pytest.mark.parametrize("form", ["NFC", "NFD"])
    def test_one_unicode_form(self, answers, form):
        cell = unicodedata.normalize(form, "Café")
        assert answers(f"id,label\n1,{cell}\n", classes=["Café", "b"]) == [(2, "1", "Café")]

    @pytest.mark.parametrize("cell", ["N/A", "na", "NaN", "NULL", "#N/A", "<NA>"])
    def test_what_programs_write_for_no_label(self, answers, cell):
        assert answers(f"id,label\n1,{cell}\n2,ham\n") == [(3, "2", "ham")]
        assert answers(f"id,label\n1,{cell}\n", classes=["x", cell]) == [(2, "1", cell)]

    def test_bytes_that_cannot_be_read_matter_only_in_a_label(self, answers):
        rows = "id,text,label\n1,gr\u00fcn,ham\n".encode()
        assert answers(rows + b"2,\xff,spam\n")[1] == (3, "2", "spam")
        with pytest.raises(LabelError, match=r"row 3, column 'label'.*is not one of"):
            answers(rows + b"2,a,sp\xffm\n")

    def test_a_class_that_looks_like_a_formula(self, answers):
        assert answers("id,label\n1,'-ve\n2,-VE\n", classes=["-ve", "+ve"]) == [
            (2, "1", "-ve"),
            (3, "2", "-ve"),
        ]

    def test_an_unknown_label(self, answers):
        with pytest.raises(
            LabelError, match=r"batch.csv, row 3, column 'label': the label 'eggs' is not one of"
        ):
            answers("id,label\n1,ham\n2,eggs\n")

    def test_one_item_with_two_labels(self, answers):
        with pytest.raises(
            LabelError,
            match=r"row 4, column 'label': the item '1' is 'spam' here and 'ham' in row 2",
        ):
            answers("id,label\n1,ham\n2,ham\n1,spam\n")

    def test_the_same_answer_twice_counts_once(self, answers):
        assert answers("id,label\n1,ham\n1,Ham\n1,\n") == [(2, "1", "ham")]


class TestRefused:
    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("text,label\n1,ham\n", r"no column 'id'; its columns are: 'text', 'label'"),
            ("id,text\n1,ham\n", r"no column 'label'"),
            ("id,Label,LABEL\n1,ham,ham\n", r"2 columns like 'label'"),
            ("id,label,label\n1,ham,ham\n", r"row 1: the name 'label' is used by columns 2 and 3"),
            ("id,label\n,ham\n", r"row 2, .*: there is a label, but no id"),
            ("id,label\n1,ham,more\n", r"row 2 has 3 cells"),
            ('id,label\n1,"ham\n', r"row 2 opens a quote"),
            ("id,label\n1,ha\0m\n", r"row 2, column 2 contains a NUL"),
            ("", r"is empty"),
        ],
    )
    def test_with_the_place(self, answers, content, message):
        with pytest.raises(InputError, match=message):
            answers(content)

    def test_files_that_are_no_tables(self, answers, tmp_path):
        with pytest.raises(InputError, match=r"save the sheet as \.xlsx or CSV"):
            answers(b"PK\x03\x04", "batch.ods")
        with pytest.raises(InputError, match="does not exist"):
            read_answers(tmp_path / "no.csv", AnswerForm(classes=tuple(CLASSES)))

    def test_a_label_that_is_no_text(self, answers):
        with pytest.raises(InputError, match=r"row 1, column 'label'"):
            answers('{"id": 1, "label": ["ham"]}\n', "a.jsonl")


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(IDS, st.sampled_from([*CLASSES, ""])),
        min_size=1,
        max_size=6,
        unique_by=lambda pair: pair[0],
    )
)
def test_ids_come_back_from_a_filled_in_batch(tmp_path_factory, pairs):
    """Write a batch, fill it in as a spreadsheet does, read it: the same ids, whatever they are."""
    file = tmp_path_factory.mktemp("batch") / "batch.csv"
    write_batch_csv(file, [(item, {"text": "x,\n;"}) for item, _ in pairs], ["text"])
    shown = [row.values for row in open_source(file).rows()]
    quoted = [[row["id"], row["text"], label] for row, (_, label) in zip(shown, pairs, strict=True)]
    lines = [
        ";".join('"' + cell.replace('"', '""') + '"' for cell in row)
        for row in [["id", "text", "label"], *quoted]
    ]
    file.write_bytes("\r\n".join(lines).encode("utf-8-sig"))
    assert [
        (row.id, row.label) for row in read_answers(file, AnswerForm(classes=tuple(CLASSES)))
    ] == [pair for pair in pairs if pair[1]]
