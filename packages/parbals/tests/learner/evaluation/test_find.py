"""A rare class: likely items are asked for, some at random, and the recall is careful."""

import json

import numpy as np
import parbals
import pytest
from parbals.learner.evaluation.find import FIND, choose_likely_positives, estimate_recall

GENERATOR = np.random.default_rng(8)
X = GENERATOR.standard_normal((300, 4))
IS_RARE = X[:, 0] > np.sort(X[:, 0])[-13]  # 12 of 300
Y = np.where(IS_RARE, "rare", "other")


def make_learner(**options):
    defaults = {"random_state": 3, "n_samples": 64, "find": "rare"}
    return parbals.ActiveLearner(X, ["other", "rare"], **(defaults | options))


def make_labelled(n, batch_size=10, **options):
    active = make_learner(**options)
    while len(active.labelled) < n:
        batch = active.ask(batch_size)
        active.tell(batch, Y[batch])
    return active


@pytest.fixture(scope="module")
def searched():
    return make_labelled(80, batch_size=20)


def test_likely_items_are_asked_for_and_the_class_is_found_soon(searched):
    n_found = IS_RARE[searched.labelled].sum()
    at_random = 80 * IS_RARE.mean()
    assert n_found >= 10 > 3 * at_random


def test_the_first_items_are_random_then_every_second_and_every_tenth():
    active = make_learner()
    free = np.arange(300)
    assert (
        "10 of the 10 items are random" in choose_likely_positives(active.state, free, 10).notes[0]
    )
    negatives = np.flatnonzero(~IS_RARE)[:10]
    active.tell(negatives, Y[negatives])
    assert "5 of the 10 items are random" in active.choose(10).notes[0]
    active.tell([int(np.flatnonzero(IS_RARE)[0])], ["rare"])
    batch = active.choose(20)
    assert batch.strategy == FIND
    assert "2 of the 20 items are random" in batch.notes[0]
    assert (batch.scores >= 0).all()
    assert np.sort(batch.scores)[-1] > 0.3
    active.mark_pending(np.flatnonzero(~IS_RARE)[10:18])
    assert active.choose(1).notes == (
        "1 of the 1 items are random ones, by which the class is counted.",
    )


def test_a_choice_is_a_function_of_seed_labels_and_pending_items():
    first = make_labelled(20)
    second = make_labelled(20)
    assert first.choose(8).indices.tolist() == second.choose(8).indices.tolist()
    pending = first.ask(8)
    assert not set(first.choose(8).indices) & set(pending)
    assert first.choose(5, strategy="random").strategy == "random"
    assert first.choose(5, strategy="power-epig").strategy == FIND  # the fallback is not cheaper


def test_the_recall_is_found_of_all_that_are_expected(searched):
    report = searched.report()
    recall = report.recall
    assert recall is not None
    assert recall.found == IS_RARE[searched.labelled].sum()
    assert 0 <= recall.recall.low <= recall.recall.mean <= recall.recall.high <= 1
    assert recall.recall.low <= recall.found / 12  # not promised more than there is
    assert recall.left.low <= recall.left.mean <= recall.left.high
    assert recall.measured is None
    assert f"{recall.found} items of rare found" in report.advice
    assert json.loads(json.dumps(report.to_dict()))["recall"]["label"] == "rare"


def test_nothing_is_left_when_everything_is_labelled():
    active = make_learner()
    active.tell(np.arange(300), Y)
    recall = estimate_recall(active.state)
    assert recall is not None
    assert (recall.left.high, recall.recall.low, recall.stop) == (0.0, 1.0, True)
    assert "You can stop" in recall.advice


def test_an_audit_counts_the_class_without_the_model():
    active = make_labelled(60, batch_size=30, audit=40)
    recall = active.report().recall
    assert recall is not None
    assert recall.measured is not None
    assert recall.measured.low <= recall.found / 12 <= recall.measured.high
    assert "By the random test items alone" in recall.advice


def test_before_the_first_one_the_report_says_so():
    active = make_learner()
    negatives = np.flatnonzero(~IS_RARE)[:25]
    active.tell(negatives, Y[negatives])
    recall = active.report().recall
    assert recall is not None
    assert (recall.found, recall.stop) == (0, False)
    assert "no rare has been found yet" in recall.advice


def test_it_is_saved_with_the_learner_and_must_be_a_class(tmp_path):
    active = make_labelled(20)
    active.save(tmp_path / "l.parbals")
    loaded = parbals.ActiveLearner.load(tmp_path / "l.parbals")
    assert loaded.classes[loaded.setup.find] == "rare"
    assert loaded.choose(6).indices.tolist() == active.choose(6).indices.tolist()
    with pytest.raises(parbals.errors.LabelError, match="'seldom', which is not one of the class"):
        make_learner(find="seldom")


def test_a_custom_model_finds_them_too():
    from sklearn.ensemble import RandomForestClassifier

    active = make_learner(model=RandomForestClassifier(8, random_state=0))
    start = np.concatenate([np.flatnonzero(IS_RARE)[:2], np.flatnonzero(~IS_RARE)[:20]])
    active.tell(start, Y[start])
    batch = active.ask(20)
    assert IS_RARE[batch].sum() >= 4
    active.tell(batch, Y[batch])
    assert active.report().recall is not None
