"""What a measured error is about, and what skips, ties and programs change in it."""

import shutil

import numpy as np
import pytest
from measured_projects import add_predicted, label, make_measured, skip
from parbals.learner.evaluation.certify import hypergeometric_limits, sample_delta
from parbals_label.project.export_records import export_records
from parbals_label.project.measured import held_back_positions, measurable_positions
from parbals_label.project.measuring import begin_measurement, keep_sample
from parbals_label.project.samples import kept_label_sources, latest_sample, random_samples
from parbals_label.store.store import Store

N_ITEMS = 120
HARD = range(20, 40)
LEASES = (
    {},
    {"annotator": "ada"},
    {"annotator": "label-studio project 1"},
    {"annotator": "machine:llm", "expires": 1e12},
    {"queued": True},
)
"""Ways to assign items."""


@pytest.fixture
def store(tmp_path):
    """Ada and eve are invited, ten items have a label, and the model is wrong on the hard ones."""
    make_measured(tmp_path / "p", N_ITEMS, wrong=HARD)
    with Store.open(tmp_path / "p") as store:
        store.invite("ada")
        store.invite("eve")
        label(store, range(10), "ada")
        yield store
        assert store.check() == []


def measure(store, n, *, seed=0, queued=False, **more):
    number = begin_measurement(store, n, queued=queued, seed=seed, **more)
    return store.batch_positions(number)


def assign(store, positions, **lease):
    return store.record_batch("margin", 0, [(p, None, None) for p in positions], {}, **lease)


class TestPopulation:
    """A statement is about all items without a label: those that an export predicts."""

    @pytest.mark.parametrize("queued", [False, True])
    @pytest.mark.parametrize("lease", LEASES, ids=str)
    def test_hard_items_that_are_assigned_are_in_it(self, store, lease, queued):
        """An active learner assigns what it finds hard, and left without it no error is seen."""
        assign(store, HARD, **lease)
        if lease.get("queued"):
            store.take("ada", 20, 600.0)
        positions = measure(store, 100, queued=queued)
        assert len(set(positions) & set(HARD)) > 10
        label(store, positions, "ada")
        result = latest_sample(store).result
        assert result.n_population == N_ITEMS - 10
        assert result.error.low <= len(HARD) / result.n_population <= result.error.high

    def test_it_is_what_an_export_predicts(self, store):
        assign(store, HARD)
        label(store, [50], "machine:llm", source="machine")
        store.update_settings(copies=[(60, 50), (62, 61)], unreadable=[70])
        records = list(export_records(store))
        unlabelled = [
            position
            for position, record in enumerate(records)
            if record["label"] is None and record["predicted"] is not None
        ]
        assert measurable_positions(store).tolist() == unlabelled
        assert not {50, 60, 70} & set(unlabelled)
        assert {20, 62} < set(unlabelled)

    def test_whoever_holds_an_item_keeps_it_and_their_answer_counts(self, store):
        assign(store, HARD, queued=True)
        held = [lease.position for lease in store.take("ada", 5, 600.0)]
        positions = measure(store, 110)
        assert {lease.position for lease in store.take("ada", 5, 600.0)} == set(held)
        label(store, held, "ada")
        assert latest_sample(store).n_labelled == 5
        assert not set(held) & set(store.pending())
        label(store, set(positions) - set(held), "eve")
        assert latest_sample(store).sources.by == {"eve": 105, "ada": 5}

    @pytest.mark.parametrize("lease", LEASES[:4], ids=str)
    def test_on_the_page_items_that_were_handed_out_otherwise_wait_as_well(self, store, lease):
        assign(store, HARD, **lease)
        positions = measure(store, 100, queued=True)
        waiting, _ = store.queued()
        assert set(waiting) == set(positions)

    def test_a_better_batch_does_not_take_items_out_of_the_sample(self, store):
        assign(store, HARD, queued=True)
        store.take("ada", 5, 600.0)
        positions = measure(store, 110, queued=True)
        store.release_all()
        assert not store.unopened()
        assert set(store.queued()[0]) == set(positions)

    def test_a_kept_sample_has_assigned_items_too(self, store):
        assign(store, HARD)
        keep_sample(store, 50, seed=0)
        assert set(store.settings.audit) & set(HARD)
        assert not set(store.settings.audit_excluded) & set(HARD)

    def test_items_that_come_later_are_not_in_it(self, store):
        positions = measure(store, 20)
        add_predicted(store, 30, wrong=range(N_ITEMS, N_ITEMS + 30))
        label(store, positions, "ada")
        sample = latest_sample(store)
        assert sample.result.n_population == N_ITEMS - 10
        assert "among the 110 that had no label at the draw" in sample.sentence


class TestDraw:
    """Nobody can choose a sample before it is drawn."""

    def draws(self, folder, n):
        drawn = []
        for number in range(n):
            copy = shutil.copytree(folder, folder.parent / f"copy-{number}")
            with Store.open(copy) as store:
                drawn.append(
                    frozenset(store.batch_positions(begin_measurement(store, 20, queued=True)))
                )
        return drawn

    def test_a_copy_of_the_folder_draws_other_items(self, store):
        assert len(set(self.draws(store.folder, 3))) == 3

    def test_the_seed_is_stored_with_the_sample(self, store):
        positions = measure(store, 20, seed=None)
        record = store.batches("certify")[-1]
        assert record.seed != store.settings.seed
        copy = shutil.copytree(store.folder, store.folder.parent / "again")
        with Store.open(copy) as other:
            other.end_leases(positions)
            assert measure(other, 20, seed=record.seed, again=True) == positions

    def test_every_item_is_drawn_equally_often(self, store):
        """Those that are assigned as often as others: 60 draws of 22 of 110."""
        assign(store, HARD)
        n_draws = 60
        n_hard = 0
        for seed in range(n_draws):
            n_hard += len(set(measure(store, 22, seed=seed, again=True)) & set(HARD))
        mean = 22 * len(HARD) / 110
        variance = mean * (90 / 110) * (88 / 109)
        assert abs(n_hard / n_draws - mean) < 4 * np.sqrt(variance / n_draws)

    def test_kept_samples_of_two_copies_differ(self, store):
        copy = shutil.copytree(store.folder, store.folder.parent / "copy")
        keep_sample(store, 20)
        with Store.open(copy) as other:
            keep_sample(other, 20)
            assert set(other.settings.audit) != set(store.settings.audit)


class TestSkips:
    """One person's skips neither end a sample nor make a statement about the model."""

    def test_sixty_skips_of_one_annotator_measure_nothing(self, store):
        positions = measure(store, 60, queued=True)
        skip(store, positions, "eve")
        sample = latest_sample(store)
        assert (sample.result, sample.n_labelled, sample.n_open) == (None, 0, 60)
        assert "60 items were skipped, by eve (60)." in sample.sentence
        assert held_back_positions(store) == set(positions), "their guesses stay hidden"
        assert [lease.position for lease in store.take("ada", 5, 600.0)] == positions[:5]
        label(store, positions, "ada")
        result = latest_sample(store).result
        assert (result.n_unknown, result.n_wrong) == (0, len(set(positions) & set(HARD)))

    def test_where_everybody_skips_the_limits_hold_whatever_the_labels_are(self, store):
        positions = measure(store, 60)
        skip(store, positions[:3], "eve")
        skip(store, positions[:2], "ada")
        label(store, positions[3:], "ada")
        assert latest_sample(store).result is None, "ada has not skipped the third"
        skip(store, positions[2:3], "ada")
        sample = latest_sample(store)
        n_wrong = len(set(positions[3:]) & set(HARD))
        assert (sample.result.n_wrong, sample.result.n_unknown) == (n_wrong, 3)
        ends = [hypergeometric_limits(n_wrong + k, 60, 110, sample_delta(1)) for k in (0, 3)]
        assert (sample.result.error.low, sample.result.error.high) == (ends[0][0], ends[1][1])
        assert "3 items were skipped, by eve (3) and ada (3)." in sample.sentence
        assert "3 labels not known: right in the lower limit, wrong in the upper" in sample.sentence
        assert held_back_positions(store) == set()

    def test_where_nobody_answers_the_error_is_not_known(self, store):
        positions = measure(store, 60)
        skip(store, positions, "eve")
        skip(store, positions, "ada")
        result = latest_sample(store).result
        assert (result.error.low, result.error.high, result.n_wrong) == (0.0, 1.0, 0)
        assert "The error is not known: none of 60 random items" in str(result)

    def test_whose_link_was_revoked_is_not_waited_for(self, store):
        positions = measure(store, 20)
        skip(store, positions[:1], "eve")
        label(store, positions[1:], "eve")
        assert latest_sample(store).result is None
        store.revoke("ada")
        assert latest_sample(store).result.n_unknown == 1

    def test_who_comes_after_the_sample_was_complete_is_not_waited_for(self, store):
        positions = measure(store, 20)
        skip(store, positions[:1], "eve")
        skip(store, positions[:1], "ada")
        label(store, positions[1:], "eve")
        before = latest_sample(store).result
        store.invite("bob")
        label(store, [11], "Carol")
        assert latest_sample(store).result == before
        label(store, positions[:1], "bob")
        assert latest_sample(store).result.n_unknown == 0
        assert latest_sample(store).sources.n_changed == 1

    def test_a_skip_that_is_taken_back_opens_the_item(self, store):
        positions = measure(store, 20)
        label(store, positions[1:], "ada")
        skip(store, positions[:1], "ada")
        skip(store, positions[:1], "eve")
        assert latest_sample(store).result is not None
        store.undo(positions[0], "eve", lease_seconds=60.0)
        assert latest_sample(store).result is None

    def test_names_that_nobody_invited_and_programs_end_nothing(self, store):
        positions = measure(store, 20)
        for name in ("machine:llm", "label-studio project 1", "mallory"):
            skip(store, positions, name)
        assert "skipped" not in latest_sample(store).sentence
        assert latest_sample(store).n_open == 20

    def test_an_earlier_sample_counts_what_came_before_the_next(self, store):
        positions = measure(store, 20)
        label(store, positions[2:], "ada")
        skip(store, positions[:2], "ada")
        measure(store, 20, again=True, seed=1)
        skip(store, positions[:2], "eve")
        first, _ = random_samples(store)
        assert (first.result, first.n_labelled) == (None, 18)


class TestTies:
    def test_where_two_people_differ_neither_the_first_nor_the_model_decides(self, store):
        store.update_settings(judged=[(p, 2, "ham") for p in range(N_ITEMS)])
        positions = measure(store, 20)
        label(store, positions, "ada")
        label(store, positions[:4], "eve", opposite=True)
        sample = latest_sample(store)
        assert sample.result.n_unknown == 4
        assert "4 items were answered differently by people" in sample.sentence
        label(store, positions[:4], "eve", opposite=True, source="decision")
        assert latest_sample(store).result.n_unknown == 0

    def test_of_a_kept_sample_they_wait_for_one_more_answer(self, store):
        keep_sample(store, 20, seed=0)
        first, *others = store.settings.audit
        label(store, [first, *others], "ada")
        label(store, [first], "eve", opposite=True)
        sources = kept_label_sources(store)
        assert (sources.n_tied, sources.n_changed) == (1, 1)
        assert "1 item was answered differently by people" in sources.sentence
