"""One story, told by the command line, the page, the learner, the export and Label Studio."""

import json
import os

import parbals
import pytest
from click.testing import CliRunner
from measured_projects import CLASSES, label, make_measured, truth
from page_server import page
from parbals.cli.main import parbals as command
from parbals.wording import percent_above
from parbals_label.answer_form import AnswerForm
from parbals_label.label_studio.annotations import AnnotationCounts, record_annotations
from parbals_label.label_studio.interface import new_interface, read_interface
from parbals_label.project.measuring import begin_measurement, keep_sample
from parbals_label.store.store import Store

FORM = AnswerForm(classes=CLASSES)
INTERFACE = read_interface(new_interface([("text", "text")], FORM), FORM)
TARGET = 0.5
KIM = "kim@example.com"


def run(*arguments):
    result = CliRunner().invoke(command, [str(argument) for argument in arguments])
    assert result.exit_code in (0, 4), (result.output, result.exception)
    return result


def annotate(store, position, chosen):
    """What somebody in Label Studio said; None skips the task."""
    region = {"from_name": "label", "to_name": "item", "type": "choices"}
    annotation = {
        "id": position,
        "result": [{**region, "value": {"choices": [chosen]}}] if chosen else [],
        "completed_by": 7,
        "created_username": f" {KIM}, 7",
        "was_cancelled": chosen is None,
        "updated_at": f"2026-01-01T00:00:{position:02d}Z",
    }
    record_annotations(store, INTERFACE, "1.17", position, [annotation], AnnotationCounts())


@pytest.fixture
def server(tmp_path):
    folder = make_measured(tmp_path / "p", 60, wrong=range(20, 26))
    with Store.open(folder) as store:
        store.invite("ada")
        store.invite("eve")
        label(store, range(8), "ada")
        keep_sample(store, 12, seed=0)
        kept = list(store.settings.audit)
        number = begin_measurement(store, 20, queued=True, seed=5)
        sample = store.batch_positions(number)
    with page(folder) as server:
        server.kept = kept
        server.sample = [position for position in sample if position not in kept]
        server.both = [position for position in sample if position in kept]
        yield server


def told(server):
    """What each of them says: alike, or this fails."""
    folder = server.folder
    measured = json.loads(run("measure", folder, "--json").output)
    sentence = run("measure", folder).output.strip()
    status = json.loads(run("status", folder, "--json", "--until-error", TARGET).output)
    server.session._next_live = 0.0
    live = server.get("/api/live").json
    exported = folder.parent / "all.jsonl"
    if exported.exists():
        os.remove(exported)
    run("export", folder, "--format", "jsonl", "--out", exported)
    rows = [json.loads(line) for line in exported.read_text("utf-8").splitlines()]

    assert sentence in live["certificate"]
    assert sentence in run("status", folder).output
    assert status["samples"][-1]["n_labelled"] == measured["n_labelled"]
    assert status["samples"][-1]["result"] == measured["certificate"]
    assert live["is_measuring"] == (measured["certificate"] is None)

    hidden = {n for n, row in enumerate(rows) if row["predicted"] is None}
    assert hidden.issuperset(server.sample) == live["is_measuring"]
    learner = parbals.open(folder)
    n_kept = len(learner.state.audited)
    assert n_kept == live["audit_labelled"] == status["audit_labelled"]
    assert f"{n_kept} of the 12 test items are labelled" in live["certificate"]
    report = learner.report()
    assert report.measured.n_audit == 12 == sum(row["test_item"] for row in rows)
    assert (report.measured.n > 0) == (report.measured_error is not None)
    return measured


def test_they_tell_the_same_numbers_in_the_same_words(server):
    first, second, third, fourth, *others = server.sample
    assert told(server)["n_labelled"] == 0
    for position in others:
        server.label("Ann", position)
    with Store.open(server.folder) as store:
        label(store, [first, second, third, fourth], "machine:llm", source="machine")
        label(store, server.both, "ada")
        annotate(store, first, truth(first))
        ids = [item.id for item in store.items([second])]
    file = server.folder.parent / "labels.csv"
    file.write_text(f"id,label\n{ids[0]},{truth(second)}\n", "utf-8")
    run("tell", server.folder, file, "--no-report")
    found = told(server)
    assert (found["n_labelled"], found["certificate"]) == (18, None)
    n_page = len(others)
    assert found["sources"]["by"] == {"Ann": n_page, "ada": len(server.both), KIM: 1, "me": 1}
    with Store.open(server.folder) as store:
        label(store, [third], "ada")
        label(store, [third], "eve", opposite=True)
        for name in ("ada", "eve", "Ann"):
            store.pass_over(fourth, "skip", annotator=name)
    assert told(server)["certificate"] is None, "kim may still answer it"
    with Store.open(server.folder) as store:
        annotate(store, fourth, None)
    found = told(server)
    assert found["certificate"]["n_unknown"] == 2
    assert found["sources"]["skipped_by"] == {"ada": 1, "eve": 1, "Ann": 1, KIM: 1}
    words = run("measure", server.folder).output
    high = percent_above(found["certificate"]["error"]["high"])
    assert f"at most {high}: of the 18 known labels of 20 random items among the 52" in words
    assert f"1 item was skipped, by ada (1), eve (1), Ann (1) and {KIM} (1)." in words
    assert "1 item was answered differently by people" in words


def test_people_who_differ_on_a_kept_item_are_told_alike(server):
    kept = [position for position in server.kept if position not in server.both]
    with Store.open(server.folder) as store:
        label(store, kept, "ada")
        label(store, kept[:1], "eve", opposite=True)
    told(server)
    assert (
        f"{len(kept) - 1} of the 12 test items are labelled" in run("status", server.folder).output
    )
