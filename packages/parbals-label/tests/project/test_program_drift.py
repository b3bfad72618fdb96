"""A program that has become worse: a scan by brute force, false alarms, and where it is shown."""

import numpy as np
import pytest
from message_data import truth, write_messages
from parbals_label.project.change_point import increase_at_look, increase_in
from parbals_label.project.checks import queue_checks
from parbals_label.project.create import Roles, create_project
from parbals_label.project.engine import refresh
from parbals_label.project.program_drift import program_drift
from parbals_label.project.program_report import program_reports
from parbals_label.project.summary import overview
from parbals_label.project.summary_lines import overview_lines
from parbals_label.store.records import Submission
from parbals_label.store.store import Store

N_ITEMS = 200
OTHER = {"ham": "spam", "spam": "ham"}


def test_the_change_is_where_the_standardised_difference_is_largest():
    generator = np.random.default_rng(3)
    values = generator.random(60) < np.repeat([0.1, 0.6], 30)
    best = max(
        range(6, 55),
        key=lambda k: (values[k:].mean() - values[:k].mean()) / np.sqrt(1 / k + 1 / (60 - k)),
    )
    change = increase_in(values, 0.05, generator)
    assert change.start == best
    assert (change.before, change.after) == (values[:best].mean(), values[best:].mean())


@pytest.mark.parametrize(("n", "share"), [(25, 0.2), (40, 0.1), (200, 0.3)])
def test_false_alarms_are_as_rare_as_the_level_says(n, share):
    """At level 0.05, within 3 standard errors over 400 sequences."""
    generator = np.random.default_rng(n)
    changes = [increase_in(generator.random(n) < share, 0.05, generator) for _ in range(400)]
    rate = np.mean([change is not None for change in changes])
    assert rate <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)


def test_a_decrease_is_no_alarm():
    assert increase_in(np.repeat([True, False], 40), 0.5, np.random.default_rng(0)) is None


def test_false_alarms_at_any_look_are_as_rare_as_the_level_says():
    """At 20, 40, 80 and 160 values, level 0.05, within 3 standard errors over 200 sequences."""
    generator = np.random.default_rng(8)
    looks = (20, 40, 80, 160)
    n_alarms = 0
    for _ in range(200):
        values = generator.random(160) < 0.2
        alarms = [increase_at_look(values[:n], n, 0.05, generator) for n in looks]
        n_alarms += any(alarm is not None for alarm in alarms)
    assert n_alarms / 200 <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 200)


def test_few_or_equal_answers_tell_nothing():
    generator = np.random.default_rng(0)
    assert increase_in([True] * 19, 0.5, generator) is None
    assert increase_in([False] * 100, 0.5, generator) is None


def make_project(folder, accuracies, seed=0):
    """A program answers all items with these accuracies; people checked forty at random."""
    source = folder.parent / "messages.csv"
    write_messages(source, N_ITEMS)
    create_project(folder, source, Roles(text=("message",)), ["ham", "spam"], {})
    generator = np.random.default_rng(seed)
    order = generator.permutation(N_ITEMS).tolist()
    with Store.open(folder) as store:
        for position, accuracy in zip(order, accuracies, strict=True):
            label = truth(position)
            if generator.random() >= accuracy:
                label = OTHER[label]
            store.submit([Submission(position, label)], annotator="machine:m", source="machine")
        for position in queue_checks(store, 40).positions:
            store.submit([Submission(position, truth(position))], annotator="kim")
    return folder


def test_a_change_is_in_the_report_the_status_and_after_people_checked(tmp_path):
    folder = make_project(tmp_path / "spam", np.repeat([0.98, 0.4], N_ITEMS // 2))
    with Store.open(folder) as store:
        drift = program_drift(store, "machine:m")
        assert drift.by_people
        assert 70 <= drift.n_before <= 130
        assert drift.before < 0.15 < 0.4 < drift.after
        sentence = drift.sentence("machine:m")
        assert "Its error covers both" in sentence
        assert sentence in program_reports(store, [])[0].lines
        assert sentence in overview_lines(overview(store))


def test_the_model_notices_a_change_that_people_did_not_check(tmp_path):
    folder = make_project(tmp_path / "spam", np.repeat([0.98, 0.4], N_ITEMS // 2))
    with Store.open(folder) as store:
        positions = store.positions_labelled_by("machine:m")
        late = set(positions[N_ITEMS // 2 :])
        checked = [p for p, by in store.current_labels().items() if "kim" in by and p in late]
        store.undo_labels(checked, annotator="kim")
        refresh(store)
        drift = program_drift(store, "machine:m")
        assert not drift.by_people
        assert drift.before < drift.after


def test_a_program_that_does_not_change_is_not_reported(tmp_path):
    folder = make_project(tmp_path / "spam", np.full(N_ITEMS, 0.8))
    with Store.open(folder) as store:
        refresh(store)
        assert program_drift(store, "machine:m") is None
        assert overview(store).drifts == []
