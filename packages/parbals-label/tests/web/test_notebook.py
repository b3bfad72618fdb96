"""The page on a learner's data: what people see, and their labels back in the learner."""

import time
import urllib.request
from http.cookiejar import CookieJar

import numpy as np
import parbals
import pytest
from parbals.errors import InputError, ProjectError
from parbals_label.project.engine import learner_of
from parbals_label.project.features import features_of, load_features
from parbals_label.store.records import Submission
from parbals_label.store.store import Store
from parbals_label.web.notebook import OwnModel, own_of, project_of, take_over

X = np.random.default_rng(8).standard_normal((300, 4))


def learner(**more):
    options = {"random_state": 3, "n_samples": 64, "strategy": "margin"} | more
    return parbals.ActiveLearner(X, [0, 1], **options)


def test_the_page_chooses_what_the_learner_would(tmp_path):
    active = learner(audit=9, standardise=True, ids=[f"n{i}" for i in range(300)])
    active.tell([f"n{i}" for i in range(8)], (X[:8, 0] > 0).astype(int))
    project_of(active, [f"text {i}" for i in range(300)], tmp_path / "p")
    with Store.open(tmp_path / "p") as store:
        assert store.items([3])[0].id == "n3"
        assert store.items([3])[0].content == {"text": "text 3"}
        assert features_of(store).shape == (300, 4)
        again = learner_of(store)
        assert again.choose(6).indices.tolist() == active.choose(6).indices.tolist()


def test_what_people_see_may_be_a_table_or_the_features(tmp_path):
    import pandas as pd

    frame = pd.DataFrame({"name": [f"<{i}>" for i in range(300)], "size": range(300)})
    project_of(learner(), frame, tmp_path / "frame")
    project_of(learner(), None, tmp_path / "rows")
    with Store.open(tmp_path / "frame") as store:
        assert store.items([2])[0].content == {"name": "<2>", "size": 2}
    with Store.open(tmp_path / "rows") as store:
        assert list(store.items([0])[0].content) == [f"feature {n}" for n in range(4)]
    with pytest.raises(InputError, match="items has 2 entries and the pool has 300 rows"):
        project_of(learner(), ["a", "b"], tmp_path / "q")
    assert not (tmp_path / "q").exists()
    with pytest.raises(ProjectError, match="is not empty"):
        project_of(learner(), None, tmp_path / "rows")


def test_labels_are_told_and_changed_ones_corrected():
    active = learner()
    active.tell([0, 1], [0, 1])
    assert take_over(active, {0: 0, 1: 0, 2: 1}) == 2
    assert active.labels == {0: 0, 1: 0, 2: 1}
    assert [action for action, _ in active.history(1)] == ["tell", "correct"]


def test_the_page_is_shown_and_its_labels_come_back(tmp_path):
    """A real server in a process of its own; somebody labels; the learner learns."""
    active = learner()
    served = active.serve(
        [f"text {i}" for i in range(300)], folder=tmp_path / "p", wait=False, browser=False
    )
    try:
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        with opener.open(served.link, timeout=30) as page:
            assert page.status == 200
        with Store.open(tmp_path / "p") as store:
            store.submit([Submission(7, "1"), Submission(8, "0")], annotator="kim")
    finally:
        new = served.stop()
    assert new == 2
    assert active.labels == {7: 1, 8: 0}
    assert (tmp_path / "p").exists()  # a folder that was named is kept


class Nearest:
    """Two samples: which labelled item is nearest, and the same less sure."""

    def __init__(self, broken=False):
        self.broken = broken

    def fit(self, X, y):
        if self.broken:
            raise ZeroDivisionError("this model cannot be fitted")
        self.X, self.y = X, y
        return self

    def sample_proba(self, X):
        gaps = np.square(X[:, None] - self.X).sum(axis=2)
        right = np.eye(2)[self.y[gaps.argmin(axis=1)]]
        return np.stack([0.98 * right + 0.01, 0.6 * right + 0.2], axis=1)


def until(known, store):
    """Waits for another process; the limit is for one that never comes."""
    for _ in range(1200):
        if known(store):
            return
        time.sleep(0.1)
    raise AssertionError("it did not happen within two minutes")


def test_a_model_of_ones_own_chooses_for_the_page_and_predicts(tmp_path):
    active = learner(model=Nearest(), X_target=X[:50], standardise=True)
    active.tell([0, 1], [0, 1])
    served = active.serve(
        [f"text {i}" for i in range(300)], folder=tmp_path / "p", wait=False, browser=False
    )
    try:
        with Store.open(tmp_path / "p") as store:
            until(lambda s: s.settings.predictions and "margin" in s.unseen(), store)
            before = len(store.batches())
            store.submit([Submission(2, "1"), Submission(3, "0")], annotator="kim")
            until(lambda s: s.settings.predictions.answers == 4, store)
            until(lambda s: len(s.batches()) > before, store)
            guesses = load_features(tmp_path / "p", store.settings.predictions)
            chosen = [item.position for item in store.batches()[-1].items]
    finally:
        new = served.stop()
    assert new == 2
    np.testing.assert_allclose(guesses, active.predict_proba(X), atol=1e-6)
    assert chosen == active.choose(len(chosen)).indices.tolist()


def test_a_model_that_fails_is_named_and_labels_are_kept(tmp_path, capsys):
    active = learner(model=Nearest(broken=True))
    active.tell([0, 1], [0, 1])
    project_of(active, None, tmp_path / "p")
    model, said = OwnModel(tmp_path / "p", own_of(active)), ""
    try:
        with Store.open(tmp_path / "p") as store:
            store.submit([Submission(2, "1")], annotator="kim")
        for _ in range(1200):
            said += capsys.readouterr().out
            if "failed" in said:
                break
            time.sleep(0.1)
    finally:
        model.stop()
    assert "The model failed: ZeroDivisionError: this model cannot be fitted\n" in said
    with Store.open(tmp_path / "p") as store:
        assert store.n_labelled == 3
