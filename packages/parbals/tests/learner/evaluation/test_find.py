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


def learner(**more):
    options = {"random_state": 3, "n_samples": 64, "find": "rare"} | more
    return parbals.ActiveLearner(X, ["other", "rare"], **options)


def labelled(n, batch=10, **more):
    active = learner(**more)
    while len(active.labelled) < n:
        out = active.ask(batch)
        active.tell(out, Y[out])
    return active


@pytest.fixture(scope="module")
def searched():
    return labelled(80, batch=20)


def test_likely_items_are_asked_for_and_the_class_is_found_soon(searched):
    found = IS_RARE[searched.labelled].sum()
    at_random = 80 * IS_RARE.mean()
    assert found >= 10 > 3 * at_random


def test_the_first_items_are_random_then_every_second_and_every_tenth():
    active = learner()
    free = np.arange(300)
    assert (
        "10 of the 10 items are random" in choose_likely_positives(active.state, free, 10).notes[0]
    )
    others = np.flatnonzero(~IS_RARE)[:10]
    active.tell(others, Y[others])
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
    one, other = labelled(20), labelled(20)
    assert one.choose(8).indices.tolist() == other.choose(8).indices.tolist()
    asked = one.ask(8)
    assert not set(one.choose(8).indices) & set(asked)
    assert one.choose(5, strategy="random").strategy == "random"
    assert one.choose(5, strategy="power-epig").strategy == FIND  # what stands in is not cheaper


def test_the_recall_is_found_of_all_that_are_expected(searched):
    report = searched.report()
    seen = report.recall
    assert seen is not None
    assert seen.found == IS_RARE[searched.labelled].sum()
    assert 0 <= seen.recall.low <= seen.recall.mean <= seen.recall.high <= 1
    assert seen.recall.low <= seen.found / 12  # not promised more than there is
    assert seen.left.low <= seen.left.mean <= seen.left.high
    assert seen.measured is None
    assert f"{seen.found} items of rare found" in report.advice
    assert json.loads(json.dumps(report.to_dict()))["recall"]["label"] == "rare"


def test_nothing_is_left_when_everything_is_labelled():
    active = learner()
    active.tell(np.arange(300), Y)
    seen = estimate_recall(active.state)
    assert seen is not None
    assert (seen.left.high, seen.recall.low, seen.stop) == (0.0, 1.0, True)
    assert "You can stop" in seen.advice


def test_an_audit_counts_the_class_without_the_model():
    active = labelled(60, batch=30, audit=40)
    seen = active.report().recall
    assert seen is not None
    assert seen.measured is not None
    assert seen.measured.low <= seen.found / 12 <= seen.measured.high
    assert "By the audit's random items alone" in seen.advice


def test_before_the_first_one_the_report_says_so():
    active = learner()
    others = np.flatnonzero(~IS_RARE)[:25]
    active.tell(others, Y[others])
    seen = active.report().recall
    assert seen is not None
    assert (seen.found, seen.stop) == (0, False)
    assert "no rare has been found yet" in seen.advice


def test_it_is_saved_with_the_learner_and_must_be_a_class(tmp_path):
    active = labelled(20)
    active.save(tmp_path / "l.parbals")
    loaded = parbals.ActiveLearner.load(tmp_path / "l.parbals")
    assert loaded.classes[loaded.setup.find] == "rare"
    assert loaded.choose(6).indices.tolist() == active.choose(6).indices.tolist()
    with pytest.raises(parbals.errors.LabelError, match="'seldom', which is not one of the class"):
        learner(find="seldom")


def test_a_model_of_ones_own_finds_too():
    from sklearn.ensemble import RandomForestClassifier

    active = learner(model=RandomForestClassifier(8, random_state=0))
    start = np.concatenate([np.flatnonzero(IS_RARE)[:2], np.flatnonzero(~IS_RARE)[:20]])
    active.tell(start, Y[start])
    out = active.ask(20)
    assert IS_RARE[out].sum() >= 4
    active.tell(out, Y[out])
    assert active.report().recall is not None
