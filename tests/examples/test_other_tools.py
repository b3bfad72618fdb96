"""The example for Prodigy and Argilla: exports of real projects, checked by the documented fields.

Neither tool is installed here, so the tests compare field by field with the tools' documentation.
"""

import json
import subprocess
import sys
from uuid import UUID

import pytest
from message_projects import run  # noqa: F401 - a fixture
from repository import ROOT

PROGRAM = ROOT / "examples" / "other_tools" / "to_other_tools.py"
USER = "5f0c3d9e-27a4-4c1d-9d0f-6f7b0c1f2a3b"
MESSAGES = (ROOT / "examples" / "messages.csv").read_text("utf-8").splitlines()[:41]


def read_lines(path):
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


@pytest.fixture
def export(run, tmp_path):  # noqa: F811
    """Create a project of 40 messages, store labels (lines "id,label") and export it."""
    (tmp_path / "messages.csv").write_text("\n".join(MESSAGES), encoding="utf-8")

    def create(labels, *options, report=True):
        run("init", "project", "messages.csv", "--text", "message", "--encoder", "words", *options)
        (tmp_path / "told.csv").write_text("\n".join(["id,label", *labels]), encoding="utf-8")
        run("tell", "project", "told.csv", *([] if report else ["--no-report"]))
        run("export", "project", "--format", "jsonl", "--out", "labels.jsonl")
        return read_lines(tmp_path / "labels.jsonl")

    return create


def convert(folder, *options, text="message"):
    """Run the program in a folder; its error output."""
    process = subprocess.run(
        [sys.executable, PROGRAM, "labels.jsonl", "--text", text, *options],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (process.returncode == 0) == (not process.stderr), process.stderr
    return process.stderr


def check_prodigy_task(task, classes):
    """Check the fields of https://prodi.gy/docs/api-interfaces#choice."""
    assert set(task) == {"text", "options", "accept", "answer", "meta"}
    assert isinstance(task["text"], str)
    assert task["options"] == [{"id": name, "text": name} for name in classes]
    assert set(task["accept"]) <= set(classes)
    assert task["answer"] in {"accept", "reject", "ignore"}
    assert isinstance(task["meta"], dict)


def check_argilla_record(record):
    """Check the fields of https://docs.argilla.io/latest/reference/argilla/records/records."""
    assert set(record) == {"id", "fields", "metadata", "suggestions", "responses"}
    assert isinstance(record["id"], str)
    assert set(record["fields"]) == {"text"}
    assert set(record["metadata"]) <= {"annotators"}
    for suggestion in record["suggestions"].values():
        assert {"value", "agent", "type"} <= set(suggestion) <= {"value", "agent", "type", "score"}
        assert suggestion["value"]
        assert suggestion["type"] in {"model", "human"}
        scores = suggestion.get("score")
        if isinstance(scores, list):
            assert len(scores) == len(suggestion["value"])
    for responses in record["responses"].values():
        for response in responses:
            assert set(response) == {"value", "user_id", "status"}
            assert response["value"]
            assert UUID(response["user_id"])
            assert response["status"] in {"draft", "submitted", "discarded"}


def test_one_class_for_each_item(export, tmp_path):
    rows = export(["0,ham", "1,ham", "2,spam", "5,spam"], "--classes", "ham,spam")
    convert(tmp_path, "--prodigy", "p.jsonl", "--argilla", "a.jsonl", "--argilla-user", USER)
    tasks = read_lines(tmp_path / "p.jsonl")
    for task in tasks:
        check_prodigy_task(task, ["ham", "spam"])
    assert [task["meta"]["id"] for task in tasks] == ["0", "1", "2", "5"]
    assert [task["accept"] for task in tasks] == [["ham"], ["ham"], ["spam"], ["spam"]]
    assert {task["answer"] for task in tasks} == {"accept"}
    assert tasks[0]["text"] == rows[0]["message"]

    records = read_lines(tmp_path / "a.jsonl")
    for record in records:
        check_argilla_record(record)
    assert [record["id"] for record in records] == [row["id"] for row in rows]
    labelled = records[2]
    assert labelled["responses"] == {
        "label": [{"value": "spam", "user_id": USER, "status": "submitted"}]
    }
    assert labelled["metadata"] == {"annotators": ["me"]}
    unlabelled = records[3]
    predicted = rows[3]["predicted"]
    assert unlabelled["responses"] == {}
    assert unlabelled["suggestions"]["label"] == {
        "value": predicted,
        "agent": "parbals",
        "type": "model",
        "score": rows[3][f"p_{predicted}"],
    }


def test_several_labels_for_each_item(export, tmp_path):
    labels = ["0,fun", "1,[]", "2,money|time"]
    rows = export(labels, "--task", "many-labels", "--classes", "money,time,fun")
    convert(tmp_path, "--prodigy", "p.jsonl", "--argilla", "a.jsonl", "--argilla-user", USER)
    tasks = read_lines(tmp_path / "p.jsonl")
    for task in tasks:
        check_prodigy_task(task, ["money", "time", "fun"])
    assert [task["accept"] for task in tasks] == [["fun"], [], ["money", "time"]]

    records = read_lines(tmp_path / "a.jsonl")
    for record in records:
        check_argilla_record(record)
    values = [record["responses"]["label"][0]["value"] for record in records[:3]]
    assert values == [["fun"], ["none of these"], ["money", "time"]]
    for row, record in zip(rows, records, strict=True):
        suggestion = record["suggestions"]["label"]
        assert suggestion["value"] == (row["predicted"] or ["none of these"])
        if row["predicted"]:
            assert suggestion["score"] == [row[f"p_{name}"] for name in row["predicted"]]


def test_labels_are_suggestions_if_argilla_has_no_user_for_them(export, tmp_path):
    export(["0,ham", "2,spam"], "--classes", "ham,spam", report=False)  # without predictions
    convert(tmp_path, "--prodigy", "p.jsonl", "--argilla", "a.jsonl")
    for task in read_lines(tmp_path / "p.jsonl"):
        check_prodigy_task(task, ["ham", "spam"])
    records = read_lines(tmp_path / "a.jsonl")
    for record in records:
        check_argilla_record(record)
        assert record["responses"] == {}
    human = {"value": "ham", "agent": "annotators", "type": "human"}
    assert records[0]["suggestions"] == {"label": human}
    assert records[1]["suggestions"] == {}


def test_an_error_names_the_column_or_the_task(export, tmp_path):
    export(["0,1.5", "1,2.5"], "--task", "regression")
    assert "no column 'body'; it has id, message" in convert(tmp_path, text="body")
    assert "numbers as labels" in convert(tmp_path, "--prodigy", "p.jsonl")


def test_a_text_may_contain_line_separators(tmp_path):
    text = "one\u2028two\x85three\nfour"
    row = {"id": "0", "message": text, "label": "ham", "annotators": "me"}
    (tmp_path / "labels.jsonl").write_text(json.dumps(row, ensure_ascii=False), encoding="utf-8")
    convert(tmp_path, "--prodigy", "p.jsonl", "--argilla", "a.jsonl")
    assert read_lines(tmp_path / "p.jsonl")[0]["text"] == text
    assert read_lines(tmp_path / "a.jsonl")[0]["fields"] == {"text": text}
