"""The state of a project, read without a model."""

from dataclasses import asdict

import numpy as np
import pytest
from parbals_label.project.export_records import export_columns, export_records
from parbals_label.project.features import store_features
from parbals_label.project.summary import overview
from parbals_label.project.summary_lines import overview_lines, strategy_line
from parbals_label.store.records import Submission
from parbals_label.store.settings import PredictionsFile
from parbals_label.store.store import Store


def test_the_overview_counts_what_waits_what_is_out_and_what_was_passed(tmp_path):
    with Store.create(tmp_path / "p", classes=["spam", "ham"], settings={}) as store:
        store.add_items((f"mail-{n}", {"text": f"text {n}"}) for n in range(10))
        store.record_batch("random", 0, [(n, None, None) for n in (4, 2, 7)], {}, queued=True)
        store.record_batch("random", 0, [(0, None, None)], {})
        store.take("ann", 1, 1000.0)
        store.pass_over(9, "skip", annotator="ann")
        for annotator, label in (("ann", "ham"), ("bob", "spam"), ("cyd", "spam")):
            store.submit([Submission(1, label)], annotator=annotator)
        store.submit([Submission(3, "ham")], annotator="rule", source="machine")
        store.submit([Submission(1, "ham")], annotator="rule", source="machine")
        state = overview(store)
    assert (state.items, state.labelled, state.answers) == (10, 2, 4)
    assert (state.pending, state.queued, state.assigned, state.skipped, state.batches) == (
        4,
        2,
        2,
        1,
        2,
    )
    assert state.class_balance == {"spam": 1, "ham": 1}
    assert [annotator.name for annotator in state.annotators] == ["ann", "bob", "cyd", "rule"]
    assert state.agreement.n_items == 1
    assert len(state.agreement.pairs) == 3, "machines do not count"
    first, second, *_ = lines = overview_lines(state)
    assert first == "2 of 10 items labelled (20 %), 2 assigned"
    assert second == "2 waiting on the labelling page, 1 skipped without a label"
    assert not any("parbals-epig" in line for line in lines)
    assert state.chosen_by == {"": 2}


def test_who_chose_what_is_told_as_it_was(tmp_path):
    with Store.create(tmp_path / "p", classes=["spam", "ham"], settings={}) as store:
        store.add_items((f"mail-{n}", {"text": f"text {n}"}) for n in range(10))
        store.record_batch("k-means", 0, [(n, None, None) for n in range(4)], {}, queued=True)
        store.submit([Submission(0, "ham")], annotator="ann")
        rows = [(n, None, None) for n in (1, 5, 6)]
        store.record_batch("parbals-epig", 0, rows, {}, queued=True, replaces=["k-means"])
        store.submit([Submission(n, "ham") for n in (1, 2, 5)], annotator="ann")
        assert overview(store).chosen_by == {"parbals-epig": 2, "": 1, "k-means": 1}


def test_what_the_model_is_judged_by_is_said_where_it_is_not_accuracy(tmp_path):
    with Store.create(tmp_path / "p", classes=["spam", "ham"], settings={"loss": "error"}) as store:
        store.add_items([("mail", {"text": "text"})])
        assert not any("Metric:" in line for line in overview_lines(overview(store)))
        store.update_settings(loss="f1:spam")
        (line,) = (line for line in overview_lines(overview(store)) if "Metric:" in line)
        assert line.startswith("Metric: F1 of spam. The predicted class may not be the most")


def test_progress_is_shown_against_the_goal(tmp_path):
    settings = {"goal_labels": 4, "goal_error": 0.05}
    with Store.create(tmp_path / "p", classes=["spam", "ham"], settings=settings) as store:
        store.add_items((f"mail-{n}", {"text": f"text {n}"}) for n in range(10))
        store.submit([Submission(3, "ham"), Submission(4, "ham")], annotator="ann")
        lines = overview_lines(overview(store))
    assert f"goal  {'█' * 15}{'░' * 15}  2 of 4 labels" in lines
    assert f"goal  {'░' * 30}  an error below 5 %" in lines


def test_an_audit_is_counted_and_marked_in_exports(tmp_path):
    settings = {"columns": ["text", "test_item"], "audit": [7, 2]}
    with Store.create(tmp_path / "p", classes=["spam", "ham"], settings=settings) as store:
        store.add_items((f"mail-{n}", {"text": f"text {n}", "test_item": "x"}) for n in range(10))
        store.submit([Submission(2, "ham"), Submission(3, "ham")], annotator="me")
        state = overview(store)
        assert export_columns(store) == [
            *("id", "text", "item.test_item", "label", "annotators", "votes", "agreement"),
            "test_item",
        ]
        records = list(export_records(store))
        assert [r["id"] for r in records if r["test_item"]] == ["mail-2", "mail-7"]
        store.update_settings(audit=[])
        assert export_columns(store) == [
            *("id", "text", "test_item", "label", "annotators", "votes", "agreement")
        ]
    assert (state.audit, state.audit_labelled) == (2, 1)
    (line,) = [line for line in overview_lines(state) if "test items" in line]
    assert line.startswith(
        "1 of the 2 test items are labelled; the error is measured at 2. Labelled by me (1), 20"
    )


def test_it_is_said_who_chose_what_is_labelled(tmp_path):
    with Store.create(tmp_path / "p", classes=["a", "b"], settings={}) as store:
        store.add_items((f"i{n}", {"text": str(n)}) for n in range(30))
        assert strategy_line(overview(store)) is None
        for strategy, positions in {
            "k-means": range(5),
            "parbals-epig": range(5, 15),
            "confidence": range(15, 19),
            "random": range(19, 20),
        }.items():
            store.record_batch(strategy, 0, [(p, None, None) for p in positions], {})
        store.submit([Submission(p, "a") for p in range(25)], annotator="ann")
        state = overview(store)
        assert strategy_line(state) == (
            "10 of 25 labelled items were chosen by ParBaLS EPIG; 5 by k-means, before there was "
            "a model; 5 by a quick fallback, so that nobody had to wait (25 %); 5 by nobody: they "
            "came with a label or were opened from a list"
        )
        assert strategy_line(state) in overview_lines(state)
        store.record_batch("audit", 0, [(p, None, None) for p in range(25, 28)], {})
        store.submit([Submission(p, "a") for p in range(25, 28)], annotator="ann")
        line = strategy_line(overview(store))
        assert line.startswith("10 of 28 labelled items")
        assert "3 at random, to measure the error" in line
        n_by_reason = [int(part.split()[0]) for part in line.split("; ")]
        assert sum(n_by_reason) == overview(store).labelled == 28


@pytest.mark.parametrize(("n_classes", "n_lines"), [(2, 2), (6, 6), (20, 20), (77, 11)])
def test_many_classes_are_no_wall_of_names(tmp_path, n_classes, n_lines):
    classes = [f"intent {n}" for n in range(n_classes)]
    with Store.create(tmp_path / "p", classes=classes, settings={}) as store:
        store.add_items((f"i{n}", {"text": str(n)}) for n in range(90))
        store.submit([Submission(p, classes[-1]) for p in range(5)], annotator="ann")
        lines = overview_lines(overview(store))
    balance = [line for line in lines if line.startswith("  ")]
    assert len(balance) == n_lines
    assert any(line.startswith(f"  {classes[-1]} ") and line.endswith(" 5") for line in balance)
    if n_classes == 77:
        assert balance[-1] == "  and 67 more classes; 76 of all 77 have no label yet"


def test_a_person_has_as_many_answers_as_there_are_now(tmp_path):
    with Store.create(tmp_path / "p", classes=["a", "b"], settings={}) as store:
        store.add_items((f"i{n}", {"text": str(n)}) for n in range(70))
        heard = [("nora", 1, None, 0.0, 1.0, 0, ()), ("machine:gpt", 60, 0.2, 0.1, 0.3, 1, ())]
        store.update_settings(heard=heard)
        labels = [Submission(p, "a") for p in range(60)]
        store.submit(labels, annotator="machine:gpt", source="machine")
        store.submit([Submission(p, "b" if p < 12 else "a") for p in range(60)], annotator="nora")
        state = overview(store)
    nora, program = state.annotator_errors
    assert (nora.n_answers, nora.error) == (60, None)
    assert nora.sentence.endswith("no other person has answered the same items")
    assert (program.n_answers, program.n_checked, program.error) == (60, 60, 0.2)


def test_labelled_means_that_as_many_answers_as_wanted_are_there(tmp_path):
    settings = {"answers_wanted": 2}
    with Store.create(tmp_path / "p", classes=["spam", "ham"], settings=settings) as store:
        store.add_items((f"mail-{n}", {"text": f"text {n}"}) for n in range(10))
        store.submit([Submission(n, "ham") for n in (0, 1, 2)], annotator="ann")
        store.submit([Submission(0, "spam")], annotator="bob")
        store.submit([Submission(3, "ham")], annotator="import", source="import")
        store.submit(
            [Submission(2, "ham"), Submission(4, "ham")], annotator="rule", source="machine"
        )
        assert store.unfinished() == {1, 2}, "a program's answer is not a person's"
        state = overview(store)
        assert (state.labelled, state.partially_labelled, state.ties) == (3, 2, 1)
        assert "2 more have fewer answers than required" in overview_lines(state)
        store.submit([Submission(0, "spam")], annotator="ann", source="decision", revise=True)
        store.submit([Submission(1, "spam")], annotator="cyd", source="decision")
        state = overview(store)
        assert (state.labelled, state.partially_labelled, state.ties) == (4, 1, 0)
        rows = {row["id"]: row for row in export_records(store)}
    assert (rows["mail-1"]["label"], rows["mail-1"]["votes"]) == ("spam", "ham:1;spam:1")


def test_what_is_taken_for_what_is_counted_over_the_audit_alone(tmp_path):
    with Store.create(tmp_path / "p", classes=["spam", "ham"], settings={}) as store:
        store.add_items((f"mail-{n}", {"text": f"text {n}"}) for n in range(30))
        said = np.arange(30) % 3 == 0
        probs = np.stack([said, ~said], axis=1).astype(np.float32)
        written = asdict(store_features(store.folder, probs, name="predictions"))
        store.update_settings(audit=list(range(20)), predictions=PredictionsFile(**written))
        labels = ["spam" if n % 2 == 0 else "ham" for n in range(30)]
        store.submit([Submission(n, labels[n]) for n in range(9)], annotator="me")
        assert overview(store).confusion is None, "too few"
        store.submit([Submission(n, labels[n]) for n in range(9, 26)], annotator="me")
        # Of 20, every sixth is spam and taken for it: 0, 6, 12, 18.
        assert overview(store).confusion == [[4, 6], [3, 7]]
