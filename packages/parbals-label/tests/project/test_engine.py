"""Choose and record a batch: who gets which items, and what happens if others are faster."""

import csv
import time

import numpy as np
import parbals
import pytest
from message_data import message, truth
from message_projects import copy_project
from parbals.errors import InputError
from parbals.learner.evaluation.certify import CERTIFY
from parbals_label.project.choose import NothingAvailableError, _availability, choose_batch
from parbals_label.project.create import Roles, create_project
from parbals_label.project.engine import learner_of, refresh
from parbals_label.project.features import features_of, load_features
from parbals_label.store.batches import ItemsUnavailableError
from parbals_label.store.records import Submission
from parbals_label.store.store import Store


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("engine")
    with open(folder / "mail.csv", "w", newline="", encoding="utf-8") as file:
        rows = [[message(i), truth(i) if i < 10 else ""] for i in range(40)]
        csv.writer(file).writerows([["message", "label"], *rows])
    roles = Roles(text=("message",), label="label")
    create_project(folder / "p", folder / "mail.csv", roles, None, {"strategy": "margin"})
    return folder / "p"


@pytest.fixture
def store(made, tmp_path):
    with Store.open(copy_project(made, tmp_path / "p")) as store:
        yield store


def test_a_new_project_learns_its_prior_and_is_judged_by_accuracy(store):
    assert store.settings.prior_scale == learner_of(store).setup.prior_scale == "auto"
    assert learner_of(store).metric == "accuracy"
    store.update_settings(loss="log")
    assert learner_of(store).metric == "log-loss"


def test_a_batch_is_what_the_learner_would_choose_and_is_out_until_answered(store):
    expected = learner_of(store).choose(5)
    number, batch = choose_batch(store, 5)
    assert number == 1
    assert batch.indices.tolist() == expected.indices.tolist() == store.pending()
    (record,) = store.batches()
    assert [item.score for item in record.items] == pytest.approx(expected.scores.tolist())
    assert (record.strategy, record.settings["n_labelled"]) == ("margin", 10)


def test_the_same_state_gives_the_same_choice_also_among_more_items_than_are_looked_at(store):
    batches = []
    for left_out in ([20, 21], [20, 21], [20, 21, 22]):
        _, batch = choose_batch(store, 4, n_candidates=6, leave_out=left_out)
        store.end_leases(store.pending())
        batches.append(batch.indices.tolist())
    assert batches[0] == batches[1] != batches[2]
    assert store.batches()[-1].settings["n_candidates"] == batch.n_candidates == 6


def test_the_best_of_those_not_left_out_is_chosen(store):
    """``coreset`` takes the item farthest from all labelled ones, which is worked out by hand."""
    learner = learner_of(store)
    rows = learner.pool.rows(np.arange(40)).astype(float)
    far = np.linalg.norm(rows[:, None] - rows[None, learner.labelled], axis=2).min(axis=1)
    left_out = np.argsort(-far)[:12].tolist()
    _, batch = choose_batch(store, 3, strategy="coreset", leave_out=left_out)
    assert set(batch.indices.tolist()).isdisjoint(left_out)
    assert far[batch.indices[0]] == pytest.approx(np.delete(far, left_out).max())
    assert store.batches()[0].settings["n_left_out"] == 12


def test_what_is_labelled_or_out_or_left_out_is_never_chosen(store):
    store.record_batch("random", 0, [(12, None, None)], {}, annotator="kim")
    free = [10, 11, *range(30, 40)]
    with pytest.raises(InputError, match="100 items were requested and 12 are available"):
        choose_batch(store, 100, leave_out=range(13, 30))
    _, batch = choose_batch(store, 100, fewer=True, strategy="random", leave_out=range(13, 30))
    assert sorted(batch.indices.tolist()) == free
    with pytest.raises(NothingAvailableError, match="0 are available"):
        choose_batch(store, 5, fewer=True, leave_out=range(13, 30))


def test_a_machines_items_are_its_own_until_they_expire(store):
    end = time.time() + 60
    _, batch = choose_batch(store, 3, annotator="machine:x", expires=end)
    assert store.pending(annotator="machine:x") == batch.indices.tolist() == store.pending()
    assert store.pending(annotator="machine:y") == []
    assert store.pending(end + 1, annotator="machine:x") == []
    assert store.take("ann", 5, 60.0) == []


@pytest.fixture
def overtaken(monkeypatch):
    """Somebody else takes the first item of a batch just before it is recorded, so many times."""

    def install(times):
        record, others = Store.record_batch, []

        def late(self, strategy, seed, items, *arguments, **options):
            if len(others) < times:
                others.append(items[0][0])
                record(self, "random", 0, items[:1], {})
            return record(self, strategy, seed, items, *arguments, **options)

        monkeypatch.setattr(Store, "record_batch", late)
        return others

    return install


def test_items_that_others_take_meanwhile_are_replaced(store, overtaken):
    others = overtaken(2)
    number, batch = choose_batch(store, 3)
    assert number == 3
    assert len(batch) == 3
    assert not set(others) & set(batch.indices.tolist())
    assert len(store.pending()) == 5


def test_from_a_queued_batch_only_what_was_taken_is_missing(store, overtaken):
    others = overtaken(1)
    number, batch = choose_batch(store, 3, queued=True)
    assert batch.indices.tolist() == store.batch_positions(number)
    assert len(batch) == 2
    assert others[0] not in batch.indices
    assert store.queue_counts().waiting == 2


def test_it_is_not_tried_for_ever(store, overtaken, monkeypatch):
    monkeypatch.setattr("parbals_label.project.choose._MAX_ATTEMPTS", 2)
    overtaken(5)
    with pytest.raises(
        ItemsUnavailableError, match=r"2 times in a row; nothing was assigned, try again"
    ):
        choose_batch(store, 3)
    assert len(store.pending()) == 2, "the others have theirs"


def test_a_label_that_came_meanwhile_is_known_at_the_next_try(store, monkeypatch):
    record, told = Store.record_batch, []

    def late(self, strategy, seed, items, *arguments, **options):
        if not told:
            told.append(items[0][0])
            self.submit([Submission(items[0][0], "ham")], annotator="zoe")
        return record(self, strategy, seed, items, *arguments, **options)

    monkeypatch.setattr(Store, "record_batch", late)
    choose_batch(store, 2)
    assert store.batches()[0].settings["n_labelled"] == 11


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    folder = tmp_path_factory.mktemp("audited")
    with open(folder / "mail.csv", "w", newline="", encoding="utf-8") as file:
        rows = [[message(i), truth(i) if i < 10 else ""] for i in range(80)]
        csv.writer(file).writerows([["message", "label"], *rows])
    roles = Roles(text=("message",), label="label")
    settings = {"strategy": "margin", "seed": 4}
    create_project(folder / "p", folder / "mail.csv", roles, None, settings, audit=20)
    return folder / "p"


def test_an_audit_is_drawn_from_items_without_a_label_and_asked_with_the_others(audited, tmp_path):
    with Store.open(copy_project(audited, tmp_path / "p")) as store:
        audit = store.settings.audit
        assert len(set(audit)) == 20
        assert min(audit) >= 10
        _, batch = choose_batch(store, 10)
        drawn = [p for p in batch.indices.tolist() if p in audit]
        assert drawn == list(audit[:5]), "half a batch, after labels that were there before"
        (record,) = store.batches()
        assert record.settings["n_audit"] == 5
        assert {item.position for item in record.items if item.score is None} == set(drawn)


def test_labels_are_looked_at_in_the_order_they_came(audited, tmp_path):
    with Store.open(copy_project(audited, tmp_path / "p")) as store:
        late, early = store.settings.audit[:2]
        for position in (early, 79, 12, late):
            store.submit([Submission(position, truth(position))], annotator="me")
        assert list(learner_of(store).labels)[-4:] == [early, 79, 12, late]


def test_predictions_do_not_learn_from_the_audit(audited, tmp_path):
    with Store.open(copy_project(audited, tmp_path / "p")) as store:
        store.submit([Submission(p, truth(p)) for p in store.settings.audit], annotator="me")
        assert refresh(store, n_candidates=5).measured.n_audit == 20
        learner, features = learner_of(store), features_of(store)
        found = np.array(load_features(store.folder, store.settings.predictions))
        np.testing.assert_allclose(found, learner.predict_proba(features), atol=1e-6)
        assert np.abs(found - learner.predict_proba(features, with_audit=True)).max() > 0.01


def test_an_item_that_is_excluded_for_two_reasons_is_counted_once():
    rows = np.random.default_rng(0).normal(size=(20, 3))
    rows[19] = rows[0]
    learner = parbals.ActiveLearner(rows, ["no", "yes"], audit=range(3), random_state=0)
    assert learner.setup.audit_duplicates.tolist() == [19]
    assert _availability(learner, {18}).n_available == 18
    assert _availability(learner, {18, 19}).n_available == 18


def test_items_that_wait_on_the_page_unopened_are_taken_where_no_others_are_left(store):
    n_items = store.n_items
    choose_batch(store, n_items, fewer=True, queued=True)
    assert store.queue_counts().waiting > 0
    _, batch = choose_batch(store, 3)
    assert len(batch.indices) == 3
    assert set(store.pending()) >= {*batch.indices.tolist()}


def test_items_of_a_measurement_are_left_in_the_queue(store):
    free = [p for p in range(store.n_items) if p not in store.labelled()]
    items = [(position, None, None) for position in free]
    store.record_batch(CERTIFY, 0, items, {}, queued=True)
    with pytest.raises(NothingAvailableError):
        choose_batch(store, 3, fewer=True)
    assert store.queue_counts().waiting == len(free)
