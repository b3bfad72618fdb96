"""Label Studio's files are read as they were meant, and lists that are damaged are refused."""

import gzip
import json

import pytest
from parbals.errors import InputError, LabelError
from parbals_label.readers.answers import read_answers
from parbals_label.readers.open import open_source

CLASSES = ["ham", "spam"]


def result(*choices):
    region = {"from_name": "label", "to_name": "text", "type": "choices"}
    return [{**region, "value": {"choices": list(choices)}}]


# As Label Studio 1.23 exports them; the last two are skipped and without an annotation.
TASKS = [
    {
        "id": 11,
        "annotations": [
            {
                "id": 1,
                "completed_by": {"id": 1, "email": "kim@example.com"},
                "result": result("ham"),
            },
            {"id": 2, "completed_by": 7, "result": result("spam")},
            {"id": 3, "completed_by": 8, "result": result("ham")},
        ],
        "predictions": [{"result": result("spam"), "score": 0.7}],
        "data": {"text": "one", "id": "a", "n": 1.5},
        "meta": {},
    },
    {
        "id": 12,
        "annotations": [{"id": 4, "completed_by": 7, "was_cancelled": True, "result": []}],
        "data": {"text": "two", "id": "b", "parbals_item": "007", "parbals_project": "x"},
    },
    {"id": 13, "annotations": [], "data": {"text": "three", "id": "c"}},
]


def write(path, records):
    if path.suffix == ".json":
        path.write_text(json.dumps(records, indent=1), "utf-8")
    else:
        path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return path


def read(path):
    return [row.values for row in open_source(path).rows()]


@pytest.mark.parametrize("ending", [".json", ".jsonl"])
class TestTasks:
    def test_as_they_were_meant(self, tmp_path, ending):
        file = write(tmp_path / f"tasks{ending}", TASKS)
        source = open_source(file)
        assert source.notes == (f"{file.name} is read as tasks of Label Studio.",)
        assert read(file) == [
            {"id": "11", "text": "one", "item.id": "a", "n": 1.5, "label": "ham"},
            {"id": "007", "text": "two", "item.id": "b", "n": None, "label": None},
            {"id": "13", "text": "three", "item.id": "c", "n": None, "label": None},
        ]
        told = read_answers(file, CLASSES)
        assert [row[1:] for row in told] == [
            ("11", "ham", "kim@example.com"),
            ("11", "spam", "label-studio user 7"),
            ("11", "ham", "label-studio user 8"),
        ]

    def test_a_plain_record_stays_plain(self, tmp_path, ending):
        rows = [
            {"id": "1", "text": "a", "answer": "accept", "data": {"x": 1}, "label": "ham"},
            {"id": "2", "text": "b", "answer": "no", "data": None, "label": ""},
        ]
        file = write(tmp_path / f"rows{ending}", rows)
        assert read(file) == rows
        assert [row[1:] for row in read_answers(file, CLASSES)] == [("1", "ham", None)]

    def test_one_person_twice_with_another_label_is_refused(self, tmp_path, ending):
        file = write(
            tmp_path / f"tasks{ending}",
            [TASKS[0], {**TASKS[0], "annotations": [{"completed_by": 7, "result": result("ham")}]}],
        )
        with pytest.raises(LabelError, match="row 2: the item '11' is 'ham' here by 'label-studio"):
            read_answers(file, CLASSES)

    def test_an_unknown_label_is_named(self, tmp_path, ending):
        task = {**TASKS[0], "annotations": [{"completed_by": 7, "result": result("news")}]}
        file = write(tmp_path / f"tasks{ending}", [task])
        with pytest.raises(LabelError, match="row 1: the label 'news' is not one of the classes"):
            read_answers(file, CLASSES)

    def test_a_record_of_another_kind_is_named(self, tmp_path, ending):
        file = write(tmp_path / f"tasks{ending}", [*TASKS, {"text": "x"}])
        with pytest.raises(InputError, match="row 4 is not a task of Label Studio"):
            open_source(file)


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
            ("", "is not a list of objects"),
            ('{"a": 1}', "is not a list of objects"),
            ("[]", "is empty"),
            ('[{"a": 1}', "is cut short"),
            ('[{"a": "x', "row 1 is not valid JSON"),
            ('[{"a": 1} {"a": 2}]', "does not end after row 1"),
            ('[{"a": 1},]', "row 2 is not valid JSON"),
            ('[{"a": 1}] x', "goes on after the end"),
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
        monkeypatch.setattr("parbals_label.readers.json_files._LARGEST", 1000)
        file = write(tmp_path / "rows.json", [{"a": 1}, {"a": "x" * 2000}])
        with pytest.raises(InputError, match="more than 1,000 characters; write one object a line"):
            read(file)
