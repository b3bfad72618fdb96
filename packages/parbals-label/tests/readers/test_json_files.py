"""JSON files are read as they are, and lists that are damaged are refused."""

import gzip
import json

import pytest
from parbals.errors import InputError
from parbals_label.answer_form import AnswerForm
from parbals_label.readers.answers import read_answers
from parbals_label.readers.open import open_source


def write(path, records):
    if path.suffix == ".json":
        path.write_text(json.dumps(records, indent=1), "utf-8")
    else:
        path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return path


def read(path):
    return [row.values for row in open_source(path).rows()]


@pytest.mark.parametrize("ending", [".json", ".jsonl"])
def test_objects_stay_as_they_are(tmp_path, ending):
    rows = [
        {"id": "1", "text": "a", "data": {"x": 1}, "label": "ham"},
        {"id": "2", "text": "b", "data": None, "label": ""},
    ]
    file = write(tmp_path / f"rows{ending}", rows)
    assert read(file) == rows
    assert [row[1:3] for row in read_answers(file, AnswerForm(classes=("ham", "spam")))] == [
        ("1", "ham")
    ]


class TestLists:
    """JSON files that are one list."""

    def test_any_list_is_what_json_says(self, tmp_path):
        texts = ['a "quoted" \\ [x], {y}', "ü\n\u2028", "\\", '\\"', "", "]", "[" * 50]
        rows = [{"t": text, "deep": {"list": [text, [text]]}} for text in texts]
        file = write(tmp_path / "rows.json", rows)
        assert read(file) == rows
        packed = tmp_path / "rows.json.gz"
        packed.write_bytes(gzip.compress(file.read_bytes()))
        assert read(packed) == rows

    @pytest.mark.parametrize(
        ("text", "fault"),
        [
            ("", "is not valid JSON"),
            ('{"a": 1}', "is not a list of objects"),
            ("[]", "is empty"),
            ('[{"a": 1}', "is not valid JSON .*line 1 column 10"),
            ('[{"a": "x', "is not valid JSON"),
            ('[{"a": 1} {"a": 2}]', "is not valid JSON"),
            ('[{"a": 1},]', "is not valid JSON"),
            ('[{"a": 1}] x', "is not valid JSON .*Extra data"),
            ('[{"a": 1}, 3]', "row 2 is not a JSON object"),
            ('[{"a": 1, "a": 2}]', "has the key 'a' twice"),
            ('[{"a": ' + "[" * 100_000 + "]" * 100_000 + "}]", "nested too deeply"),
            ("[" * 100_000, "nested too deeply"),
            ('[{"a": "\0"}]', "NUL"),
        ],
    )
    def test_what_is_wrong_is_said(self, tmp_path, text, fault):
        file = tmp_path / "rows.json"
        file.write_text(text, "utf-8")
        with pytest.raises(InputError, match=fault) as error:
            read(file)
        assert str(error.value).count(". ") == 0

    def test_a_list_that_would_fill_the_memory(self, tmp_path, monkeypatch):
        monkeypatch.setattr("parbals_label.readers.json_files._MAX_LIST_CHARACTERS", 1000)
        file = write(tmp_path / "rows.json", [{"a": 1}, {"a": "x" * 2000}])
        with pytest.raises(InputError, match="1,000 characters; write one object per line"):
            read(file)
