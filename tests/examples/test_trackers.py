"""What trackers are told: the learner's and the bench's batches, in a local file and in MLflow."""

import json
import sys

import numpy as np
import parbals
import pytest
from repository import ROOT

sys.path.insert(0, str(ROOT / "examples" / "trackers"))
from json_lines import JsonLines

X = np.random.default_rng(0).standard_normal((40, 3))
Y = (X[:, 0] > 0).astype(int)


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_line_for_every_batch_of_a_learner(tmp_path):
    path = tmp_path / "run.jsonl"
    learner = parbals.ActiveLearner(
        X, [0, 1], strategy="coreset", random_state=0, on_batch=JsonLines(path), audit=4
    )
    first = learner.ask(4)
    learner.tell(first[:2], Y[first[:2]])
    second = learner.ask(3)
    written = lines(path)
    assert [line["indices"] for line in written] == [first.tolist(), second.tolist()]
    assert [(line["n_labels"], line["n_pending"]) for line in written] == [(0, 0), (2, 2)]
    assert written[1]["batch_size"] == 3
    assert all(np.isfinite(line.get("score_highest", 0.0)) for line in written)


def test_choosing_alone_tells_nobody(tmp_path):
    messages = []
    learner = parbals.ActiveLearner(X, [0, 1], strategy="random", on_batch=messages.append)
    learner.choose(3)
    assert messages == []
    learner.ask(1)
    learner.save(tmp_path / "run.parbals")
    assert len(messages) == 1
    assert parbals.ActiveLearner.load(tmp_path / "run.parbals").on_batch is None


def test_an_error_of_the_tracker_reaches_the_user_and_the_items_stay_pending(tmp_path):
    learner = parbals.ActiveLearner(
        X, [0, 1], strategy="random", on_batch=JsonLines(tmp_path / "no" / "run.jsonl")
    )
    with pytest.raises(OSError, match="No such file"):
        learner.ask(2)
    assert len(learner.pending) == 2  # the choice stands


def test_the_mlflow_example(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="needs MLflow: make test-integrations")
    from mlflow_run import tracked_run

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    settings = {"strategy": "coreset", "random_state": 0}
    run = tracked_run(X, lambda items: Y[items], [0, 1], rounds=2, **settings)
    client = mlflow.MlflowClient()
    history = client.get_metric_history(run, "score_mean")
    assert [point.step for point in history] == [0, 5][-len(history) :]
    assert client.get_run(run).data.params["strategy"] == "coreset"
    names = [file.path for file in client.list_artifacts(run, "batches")]
    assert names == ["batches/0-0.json", "batches/5-0.json"]
