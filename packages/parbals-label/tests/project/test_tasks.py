"""A project of every task, from its data to its exports."""

import csv
import json

import numpy as np
import pytest
from parbals.errors import InputError
from parbals_label.answer_form import AnswerForm
from parbals_label.project.choose import choose_batch
from parbals_label.project.create import Roles, create_project
from parbals_label.project.engine import learner_of, refresh
from parbals_label.project.export_records import export_columns, export_records
from parbals_label.project.exports import write_export
from parbals_label.project.features import features_of, predictions_of
from parbals_label.project.measuring import begin_measurement, estimate_shares
from parbals_label.project.predict import open_new_items, predictions
from parbals_label.project.predicted import decisions
from parbals_label.project.quick import quick_batch
from parbals_label.project.samples import latest_sample
from parbals_label.project.stored_predictions import decision_rule_of
from parbals_label.project.summary import overview
from parbals_label.project.summary_lines import overview_lines, report_lines
from parbals_label.project.training import write_training_data
from parbals_label.readers.answers import read_answers
from parbals_label.store.records import Submission
from parbals_label.store.store import Store

TASKS = {
    "many-labels": (["wet", "cold"], {}),
    "ordinal": (["low", "middle", "high"], {"loss": "rank-error"}),
    "regression": (None, {}),
}
N = 40
X = np.random.default_rng(3).standard_normal((N, 3))
VALUE = (4 * X[:, 0] + 10).round(2)


def truth(task, row):
    """As a person would write it into a cell."""
    if task == "regression":
        return f"{VALUE[row]:.2f}"
    if task == "ordinal":
        return TASKS[task][0][int(np.searchsorted([-0.5, 0.5], X[row, 0]))]
    return "|".join(name for name, x in zip(("wet", "cold"), X[row], strict=False) if x > 0) or "[]"


@pytest.fixture(params=TASKS)
def project(request, tmp_path):
    """Ten known labels, and six random items that measure."""
    task, data = request.param, tmp_path / "data.csv"
    with open(data, "w", newline="", encoding="utf-8") as file:
        rows = [[*X[n].round(4), truth(task, n) if n < 10 else ""] for n in range(N)]
        csv.writer(file).writerows([["x", "y", "z", "label"], *rows])
    classes, settings = TASKS[task]
    roles = Roles(features=("x", "y", "z"), label="label")
    made = create_project(tmp_path / "p", data, roles, classes, {"task": task, **settings}, audit=6)
    assert made.n_labels == 10
    with Store.open(tmp_path / "p") as store:
        yield store
        assert store.check() == []


def give(store, positions, who="me"):
    """Labels through a file, as `parbals tell` reads it."""
    task = store.settings.task
    path = store.folder.with_name("filled.csv")
    rows = [[str(p + 1), truth(task, p)] for p in positions]
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["id", "label"], *rows])
    told = read_answers(path, store.form)
    store.submit([Submission(int(a.id) - 1, a.label) for a in told], annotator=who)


def test_from_choosing_to_exports(project, tmp_path):
    store, task = project, project.settings.task
    form = store.form
    _, batch = choose_batch(store, 8)
    give(store, batch.indices.tolist())
    report = refresh(store)
    assert report.task == task
    learner = learner_of(store)
    told = {p: form.plain(by) for p, by in _labels(store).items()}
    kept = {p: list(v) if isinstance(v, tuple) else v for p, v in learner.labels.items()}
    assert kept == told
    shown = "\n".join(report_lines(report, overview(store).goal, report.n_labelled))
    words = {"many-labels": "expected Hamming loss", "regression": "expected RMSE"}
    assert words.get(task, "expected error") in shown
    assert "random test items" in shown

    all_records = {int(r["id"]) - 1: r for r in export_records(store)}
    hidden = set(store.settings.audit) - told.keys()
    assert {p for p, r in all_records.items() if r["predicted"] is None} == hidden
    records = {p: r for p, r in all_records.items() if p not in hidden}
    X_all = np.asarray(features_of(store))[list(records)]
    if task == "regression":
        mean, spread = learner.predict(X_all, return_std=True)
        assert records[0]["label"] == float(truth(task, 0))
        np.testing.assert_allclose(
            [r["predicted"] for r in records.values()], mean, rtol=1e-4, atol=1e-6
        )
        np.testing.assert_allclose([r["predicted_sd"] for r in records.values()], spread, atol=2e-6)
    else:
        probs = learner.predict_proba(X_all)
        found = [[r[f"p_{c}"] for c in form.classes] for r in records.values()]
        np.testing.assert_allclose(found, probs, atol=1e-5)
        decided = learner.predict(X_all)
        for record, said in zip(records.values(), decided.tolist(), strict=True):
            if task == "many-labels":
                said = [c for c, yes in zip(form.classes, said, strict=True) if yes]
            assert record["predicted"] == said
    for kind in ("csv", "jsonl", "parquet"):
        path = tmp_path / f"out.{kind}"
        assert write_export(path, export_records(store), kind, export_columns(store)) == N
    line = json.loads((tmp_path / "out.jsonl").read_text("utf-8").splitlines()[0])
    assert line["label"] == form.plain(_labels(store)[0])
    parquet = pytest.importorskip("pyarrow.parquet").read_table(tmp_path / "out.parquet")
    assert parquet.column("label").to_pylist()[0] == form.plain(_labels(store)[0])

    counts = write_training_data(store, tmp_path / "train")
    rows = [json.loads(x) for x in (tmp_path / "train/train.jsonl").read_text("utf-8").splitlines()]
    assert len(rows) == counts["train"]
    assert all(0 <= row["weight"] <= 1 for row in rows)
    first = next(row for row in rows if row["id"] == "1")
    assert (first["label"], first["weight"]) == (form.plain(_labels(store)[0]), 1.0)
    guessed = next(row for row in rows if row["labelled_by"] == "model")
    assert isinstance(guessed["label"], type(first["label"]))
    if task == "many-labels":  # what somebody gave, as zeros and ones beside the names
        assert [first[f"p_{c}"] for c in form.classes] == [
            c in first["label"] for c in form.classes
        ]
    datasets = pytest.importorskip("datasets", reason="optional")
    read = datasets.load_dataset(str(tmp_path / "train"), cache_dir=str(tmp_path / "cache"))
    assert read["train"][0]["label"] == rows[0]["label"]
    kinds = {"regression": datasets.Value("float64"), "ordinal": datasets.Value("string")}
    assert read["train"].features["label"] == kinds.get(
        task, datasets.List(datasets.Value("string"))
    )
    if task == "ordinal":
        assert "in order: low, middle, high" in (tmp_path / "train/README.md").read_text("utf-8")

    new = open_new_items(store, tmp_path / "data.csv")
    again = [r["predicted"] for r in predictions(learner, new)][:3]
    exported = [records[p]["predicted"] for p in range(3)]
    assert again == (pytest.approx(exported, rel=1e-5) if task == "regression" else exported)


def _labels(store):
    from parbals_label.project.consensus import aggregate_labels

    return aggregate_labels(store.votes(), store.form)


def test_status_says_what_there_is(project):
    seen = overview(project)
    lines = "\n".join(overview_lines(seen))
    if project.settings.task == "regression":
        values = VALUE[:10]
        assert seen.label_range == {
            "least": values.min(),
            "median": pytest.approx(np.median(values)),
            "greatest": values.max(),
        }
        assert "labels: least" in lines
    else:
        names = [n for p in range(10) for n in project.form.names(_labels(project)[p])]
        assert seen.class_balance == {c: names.count(c) for c in project.classes}


def test_at_once_the_least_sure_is_chosen(project):
    refresh(project)
    number = quick_batch(project, 3, queued=False)
    scores = [item.score for item in project.batches()[-1].items]
    known = [score for score in scores if score is not None]
    assert number == 1
    assert known == sorted(known, reverse=True)
    assert known[0] > 0


def test_a_certificate_counts_items_with_a_mistake(project):
    refresh(project)
    if project.settings.task == "regression":
        with pytest.raises(InputError, match="the labels are numbers"):
            begin_measurement(project, 5, queued=False)
        with pytest.raises(InputError, match="there are no classes to count"):
            estimate_shares(project, "wet")
        return
    probs = predictions_of(project)
    decided = decisions(project.form, probs, decision_rule_of(project, probs))
    number = begin_measurement(project, 12, queued=False)
    drawn = project.batch_positions(number)
    give(project, drawn)
    found = latest_sample(project)
    labels = {p: project.form.plain(label) for p, label in _labels(project).items()}
    assert found.result.n_wrong == sum(decided[p] != labels[p] for p in drawn)
    name = project.classes[0]
    (group,) = estimate_shares(project, name)
    assert 0 <= group.share.low <= group.share.high <= 1


@pytest.mark.parametrize(
    ("task", "classes", "settings", "said"),
    [
        ("regression", ["a", "b"], {}, "has no classes"),
        ("regression", None, {"find": "a"}, 'find needs task="classes"'),
        ("regression", None, {"goal_error": 0.1}, "goal_error"),
        ("many-labels", ["a", "b"], {"strategy": "badge"}, "badge needs classes"),
        ("many-labels", ["a", "b"], {"loss": "balanced-accuracy"}, "hamming"),
        ("ordinal", None, {}, "name them from the lowest to the highest"),
    ],
)
def test_what_a_task_has_no_use_for_is_refused(tmp_path, task, classes, settings, said):
    data = tmp_path / "data.csv"
    data.write_text("x,y\n1,b\n2,a\n3,b\n", "utf-8")
    roles = Roles(features=("x",), label="y")
    with pytest.raises(InputError, match=said):
        create_project(tmp_path / "p", data, roles, classes, {"task": task, **settings})
    assert not (tmp_path / "p").exists()


def test_labels_in_a_column_name_their_classes(tmp_path):
    data = tmp_path / "data.jsonl"
    rows = [{"x": 1, "y": ["b", "a"]}, {"x": 2, "y": []}, {"x": 3, "y": None}, {"x": 4, "y": ["c"]}]
    data.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    made = create_project(
        tmp_path / "p", data, Roles(features=("x",), label="y"), None, {"task": "many-labels"}
    )
    assert made.classes == ("a", "b", "c")
    with Store.open(tmp_path / "p") as store:
        assert _labels(store) == {0: '["a","b"]', 1: "[]", 3: '["c"]'}
        assert store.form == AnswerForm("many-labels", ("a", "b", "c"))
