"""Samples of the target set: labelled like other items, never chosen, never trained on."""

import numpy as np
import parbals
import pytest
from parbals.errors import InputError
from parbals_label.project.backup import check_project
from parbals_label.project.choose import NothingAvailableError, choose_batch
from parbals_label.project.create import Roles, create_project
from parbals_label.project.embedding import embed_project
from parbals_label.project.engine import learner_of, refresh
from parbals_label.project.features import features_of
from parbals_label.project.fitted import FittedFeatures, items_at
from parbals_label.project.measured import held_back_positions, measured_positions
from parbals_label.project.measuring import begin_measurement, estimate_shares
from parbals_label.project.predicted import decisions
from parbals_label.project.quick import quick_batch
from parbals_label.project.samples import latest_sample
from parbals_label.project.stored_predictions import decision_rule_of
from parbals_label.project.target import (
    add_target,
    remove_target,
    stored_features,
    target_features,
)
from parbals_label.project.target_sample import n_target_rows_left
from parbals_label.store.records import Submission
from parbals_label.store.store import Store

N_POOL = 30


def write_rows(path, start, n):
    lines = ["id,note,region"]
    for number in range(start, start + n):
        words = "cheap pills now" if number % 2 else "lunch at noon"
        lines.append(f"r{number},{words} secret{number},{'north' if number % 3 else 'south'}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def folder(tmp_path):
    data = write_rows(tmp_path / "pool.csv", 0, N_POOL)
    create_project(tmp_path / "p", data, Roles(text=("note",)), ["ham", "spam"], {})
    with Store.open(tmp_path / "p") as store:
        label(store, range(6))
    return tmp_path / "p"


@pytest.fixture
def target(tmp_path):
    return write_rows(tmp_path / "new.csv", 100, 12)


def label(store, positions, annotator="me"):
    labels = []
    for item in store.items(list(positions)):
        is_spam = "pills" in item.content["note"]
        labels.append(Submission(item.position, "spam" if is_spam else "ham"))
    store.submit(labels, annotator=annotator)


class TestFile:
    def test_drawn_rows_become_items_and_are_measured(self, folder, target):
        with Store.open(folder) as store:
            add_target(store, target)
            number = begin_measurement(store, 8, queued=False, from_target=True)
            positions = store.batch_positions(number)
            assert sorted(positions) == list(range(N_POOL, N_POOL + 8))
            assert store.settings.target_items == tuple(range(N_POOL, N_POOL + 8))
            assert len(features_of(store)) == store.n_items == N_POOL + 8
            assert held_back_positions(store) == set(positions)
            assert measured_positions(store) >= set(positions)  # nobody sees their predictions
            assert latest_sample(store).result is None
            label(store, positions)
            sample = latest_sample(store)
            assert (sample.result.n, sample.result.n_population) == (8, 12)
            assert sample.target == "new.csv"
            assert "from the target set new.csv" in sample.sentence
        assert check_project(folder)[1] == []

    def test_their_labels_never_train(self, folder, target):
        with Store.open(folder) as store:
            add_target(store, target)
            number = begin_measurement(store, 8, queued=False, from_target=True)
            label(store, store.batch_positions(number))
            refresh(store)
            assert learner_of(store).labelled.tolist() == list(range(6))
            assert store.latest_report().n_labels == 14
            remove_target(store)
            assert learner_of(store).labelled.tolist() == list(range(6))

    def test_a_learner_of_the_project_does_not_ask_for_them(self, folder, target):
        with Store.open(folder) as store:
            add_target(store, target)
            number = begin_measurement(store, 8, queued=False, from_target=True)
            label(store, store.batch_positions(number)[:3])
        free = [f"r{number}" for number in range(6, N_POOL)]
        assert sorted(parbals.open(folder).ask(len(free))) == sorted(free)

    @pytest.mark.parametrize("is_quick", [False, True])
    def test_no_strategy_chooses_them(self, folder, target, is_quick):
        with Store.open(folder) as store:
            add_target(store, target)
            first = store.batch_positions(
                begin_measurement(store, 4, queued=False, from_target=True)
            )
            store.end_leases(first)
            if is_quick:
                quick_batch(store, 100, queued=False)
                chosen = set(store.pending())
            else:
                _, batch = choose_batch(store, 100, fewer=True)
                chosen = set(batch.indices.tolist())
            assert chosen == set(range(6, N_POOL))
            label(store, chosen)
            with pytest.raises(NothingAvailableError):
                choose_batch(store, 1)

    def test_no_choice_depends_on_them(self, folder, target):
        with Store.open(folder) as store:
            add_target(store, target)
            begin_measurement(store, 4, queued=False, from_target=True)
            assert not set(learner_of(store).pending) & set(store.settings.target_items)

    def test_a_second_sample_has_other_rows(self, folder, target):
        with Store.open(folder) as store:
            add_target(store, target)
            first = store.batch_positions(
                begin_measurement(store, 5, queued=False, from_target=True)
            )
            with pytest.raises(InputError, match="not complete yet"):
                begin_measurement(store, 5, queued=False, from_target=True)
            label(store, first)
            assert n_target_rows_left(store) == 7
            second = store.batch_positions(
                begin_measurement(store, 7, queued=False, from_target=True)
            )
            assert not set(first) & set(second)
            label(store, second)
            notes = [item.content["note"] for item in store.items([*first, *second])]
            assert len(set(notes)) == 12
            with pytest.raises(InputError, match="only 0 items"):
                begin_measurement(store, 1, queued=False, from_target=True)

    def test_rows_that_were_not_drawn_are_nowhere_but_in_the_target(self, folder, target):
        with Store.open(folder) as store:
            add_target(store, target)
            number = begin_measurement(store, 3, queued=True, from_target=True)
            drawn = {item.content["note"] for item in store.items(store.batch_positions(number))}
            shown = {item.content["note"] for item in store.iter_items()}
            secrets = {f"secret{number}" for number in range(100, 112)}
            found = {word for note in shown for word in note.split()} & secrets
            assert found == {note.split()[-1] for note in drawn}
            assert len(found) == 3

    def test_shares_are_those_of_the_target(self, folder, target):
        with Store.open(folder) as store:
            with pytest.raises(InputError, match="none of the target set yet"):
                estimate_shares(store, "spam", from_target=True)
            add_target(store, target)
            label(
                store,
                store.batch_positions(begin_measurement(store, 12, queued=False, from_target=True)),
            )
            (group,) = estimate_shares(store, "spam", from_target=True)
            assert (group.name, group.n_items, group.n) == ("the target set", 12, 12)
            assert group.share.mean == pytest.approx(0.5)
            with pytest.raises(InputError, match="there are none yet"):
                estimate_shares(store, "spam")
            with pytest.raises(InputError, match="--by"):
                estimate_shares(store, "spam", "region", from_target=True)

    def test_nothing_is_encoded_again(self, folder, target, monkeypatch):
        """Drawn rows keep their features, and all other items theirs; a new encoder fits to all."""
        with Store.open(folder) as store:
            add_target(store, target)
            before = np.array(features_of(store))
            rows = {tuple(row) for row in stored_features(store)}
            with monkeypatch.context() as patch:
                patch.setattr(FittedFeatures, "of", None)
                number = begin_measurement(store, 5, queued=False, from_target=True)
                assert len(target_features(store)) == 12
            drawn = store.batch_positions(number)
            after = features_of(store)
            assert np.array_equal(after[:N_POOL], before)
            assert {tuple(row) for row in after[drawn]} < rows
            assert set(store.settings.unfitted) == set(drawn)
            # New items are encoded as before, by an encoder that is fitted to the same items.
            items = items_at(store, np.array(drawn))
            fitted = FittedFeatures.of(store)
            again = fitted.features(fitted.encoded(items, folder))
            assert again == pytest.approx(np.asarray(after[drawn]), abs=1e-4)
            embed_project(store, "words", None, lambda *_: None)
            assert store.settings.unfitted == ()
            FittedFeatures.of(store)  # refuses features that it does not make

    def test_given_features_are_appended(self, tmp_path):
        rows = np.random.default_rng(0).standard_normal((40, 3)).astype(np.float32)
        np.save(tmp_path / "rows.npy", rows[:30])
        np.save(tmp_path / "new.npy", rows[30:])
        create_project(tmp_path / "p", tmp_path / "rows.npy", Roles(), ["a", "b"], {})
        with Store.open(tmp_path / "p") as store:
            store.submit([Submission(0, "a"), Submission(1, "b")], annotator="ann")
            add_target(store, tmp_path / "new.npy")
            number = begin_measurement(store, 10, queued=False, from_target=True)
            features = features_of(store)[store.batch_positions(number)]
            assert {tuple(row) for row in features} == {tuple(row) for row in rows[30:]}


class TestFilter:
    def test_the_sample_is_of_the_rows_that_it_selects(self, folder):
        with Store.open(folder) as store:
            add_target(store, "region = south")
            members = set(range(0, N_POOL, 3))
            number = begin_measurement(store, 6, queued=False, from_target=True)
            positions = store.batch_positions(number)
            assert set(positions) <= members - set(range(6))
            assert store.n_items == N_POOL
            label(store, positions)
            sample = latest_sample(store)
            assert sample.result.n_population == 8  # ten, two of them labelled before
            assert len(learner_of(store).labelled) == 12  # items of the pool train afterwards
            (group,) = estimate_shares(store, "spam", from_target=True)
            assert (group.name, group.n_items, group.n) == ("the target set", 10, 6)
            groups = estimate_shares(store, "spam", "region", from_target=True)
            assert [group.name for group in groups] == ["south"]

    def test_weights_and_missing_targets_are_refused(self, folder, target, tmp_path):
        with Store.open(folder) as store:
            with pytest.raises(InputError, match="no target set"):
                begin_measurement(store, 3, queued=False, from_target=True)
            text = target.read_text().splitlines()
            weighted = [f"{text[0]},w", *(f"{line},2" for line in text[1:])]
            (tmp_path / "w.csv").write_text("\n".join(weighted) + "\n")
            add_target(store, tmp_path / "w.csv", weights="w")
            with pytest.raises(InputError, match="have weights"):
                begin_measurement(store, 3, queued=False, from_target=True)
            assert store.n_items == N_POOL


@pytest.mark.parametrize("metric", ["balanced-accuracy", "f1:spam"])
def test_stored_decisions_are_those_of_a_learner_with_the_target(folder, tmp_path, metric):
    """Class weights depend on how common the classes are where the model will be used."""
    rare = write_rows(tmp_path / "new.csv", 100, 20).read_text().splitlines()
    kept = [line for line in rare if "pills" not in line]
    (tmp_path / "new.csv").write_text("\n".join([*kept, rare[2]]) + "\n")
    with Store.open(folder) as store:
        store.update_settings(loss=metric)
        add_target(store, tmp_path / "new.csv")
        refresh(store)
        learner = learner_of(store)
        features = np.asarray(features_of(store))
        probs = learner.predict_proba(features)
        stored = decisions(store.form, probs, decision_rule_of(store, probs))
        assert stored == learner.predict(features).tolist()
        weights = learner.setup.class_weights(learner.fitted())
        np.testing.assert_allclose(
            decision_rule_of(store, probs).class_weights.values, weights.values
        )
        store.update_settings(loss="error")
        assert decision_rule_of(store, probs).class_weights is None
