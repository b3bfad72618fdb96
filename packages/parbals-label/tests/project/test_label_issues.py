"""Likely label errors by leave-one-out predictions, and second opinions on them."""

import json

import numpy as np
import pytest
from message_projects import run  # noqa: F401
from parbals_label.project.engine import refresh
from parbals_label.project.features import store_features
from parbals_label.project.label_issues import current_label_issues
from parbals_label.store.records import Submission
from parbals_label.store.store import Store
from parbals_label.web.items import list_items

FLIPPED = (3, 17, 31)
LISTED = {"label": None, "annotator": None, "query": None, "after": -1, "limit": 50}


@pytest.fixture(params=[2, 3])
def store(tmp_path, request):
    """Clusters of two or three classes, three labels of sixty in the wrong one."""
    classes = ["ham", "spam", "eggs"][: request.param]
    truth = np.arange(80) % len(classes)
    generator = np.random.default_rng(0)
    rows = 3.0 * np.eye(4)[truth] + 0.5 * generator.standard_normal((80, 4))
    settings = {"columns": ["text"], "encoder": "words", "loss": "error"}
    with Store.create(tmp_path / "p", classes=classes, settings=settings) as store:
        store.add_items((f"i{n}", {"text": f"text {n}"}) for n in range(80))
        store.update_settings(features=store_features(tmp_path / "p", rows.astype(np.float32)))
        given = {n: classes[(truth[n] + (n in FLIPPED)) % len(classes)] for n in range(60)}
        store.submit([Submission(n, label) for n, label in given.items()], annotator="ann")
        yield store


def test_the_labels_that_were_flipped_are_doubted_most(store):
    refresh(store)
    found = current_label_issues(store)
    assert {doubt.position for doubt in found[:3]} == set(FLIPPED)
    assert all(doubt.probability < 0.5 for doubt in found)
    listed = list_items(store, state="doubted", **LISTED).items
    assert [row.position for row in listed] == [doubt.position for doubt in found]
    assert "the model expects" in listed[0].doubt
    assert list_items(store, state="doubted", only="ann", **LISTED).items == []
    first = found[0]
    right = Submission(first.position, first.instead, revise=True)
    store.submit([right], annotator="ann")
    assert first.position not in {doubt.position for doubt in current_label_issues(store)}


def test_somebody_else_is_asked_once_more(store):
    store.ask_again(3)
    store.ask_again(3)
    assert store.take("ann", 5, 60.0) == [], "not who gave the label"
    (lease,) = store.take("bob", 5, 60.0)
    assert (lease.position, lease.why.strategy) == (3, "second opinion")
    store.submit([Submission(3, "ham")], annotator="bob")
    assert store.take("eve", 5, 60.0) == [], "two are enough"
    assert len(store.votes()[3]) == 2
    assert store.check() == []


def test_a_command_lists_them(store, run):  # noqa: F811
    said = json.loads(run("labels", "review", store.folder, "-n", "3", "--json"))
    assert {record["id"] for record in said["doubts"]} == {"i3", "i17", "i31"}
    assert {record["text"] for record in said["doubts"]} == {"text 3", "text 17", "text 31"}
    listed = run("labels", "review", store.folder, "--ask-again", "i3")
    assert "the model expects" in listed
    assert "\n    text 17\n" in listed
    assert 3 in dict(store.settings.again)


def test_the_duplicate_of_an_item_that_is_measured_is_not_doubted(store):
    """Both have the same text, so what the model expects of one it expects of the other."""
    refresh(store)
    doubted = current_label_issues(store)[0].position
    store.update_settings(audit=[70], copies=[(doubted, 70)])
    assert doubted not in {issue.position for issue in current_label_issues(store)}
