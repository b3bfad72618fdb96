"""Class shares from a program's labels, corrected by people's random checks."""

import numpy as np
import pytest
from message_data import truth, write_messages
from message_projects import copy_project
from parbals_label.project.checks import queue_checks
from parbals_label.project.create import Roles, create_project
from parbals_label.project.program_report import program_reports
from parbals_label.project.program_shares import corrected_share, program_shares
from parbals_label.store.records import Submission
from parbals_label.store.store import Store

N_ITEMS = 2_000
N_RUNS = 400


@pytest.mark.parametrize("n_checked", [20, 60])
@pytest.mark.parametrize(
    ("share", "n_false_alarms", "n_missed"),
    [(0.2, 0.0, 0.0), (0.2, 0.1, 0.1), (0.1, 0.3, 0.0), (0.05, 0.0, 0.6), (0.3, 0.5, 0.5)],
)
def test_the_interval_holds_whatever_the_program_does(share, n_false_alarms, n_missed, n_checked):
    """It fails in at most 10 % of the runs, within two Monte-Carlo errors."""
    generator = np.random.default_rng(round(1000 * share) + n_checked)
    n_failures = 0
    for _ in range(N_RUNS):
        is_class = generator.random(N_ITEMS) < share
        chance = np.where(is_class, 1.0 - n_missed, n_false_alarms)
        said = generator.random(N_ITEMS) < chance
        order = generator.permutation(N_ITEMS)
        checked = order[:n_checked]
        unchecked = order[n_checked:]
        estimate = corrected_share(
            is_class[checked].astype(float),
            said[checked].astype(float),
            said[unchecked].astype(float),
        )
        n_failures += not estimate.low <= is_class.mean() <= estimate.high
    assert n_failures / N_RUNS <= 0.1 + 2 * np.sqrt(0.1 * 0.9 / N_RUNS)


def test_a_good_program_narrows_the_interval():
    generator = np.random.default_rng(0)
    is_class = (generator.random(N_ITEMS) < 0.3).astype(float)
    said = np.where(generator.random(N_ITEMS) < 0.05, 1.0 - is_class, is_class)
    powered = corrected_share(is_class[:60], said[:60], said[60:])
    plain = corrected_share(is_class[:60], np.zeros(60), np.zeros(N_ITEMS - 60))
    assert powered.high - powered.low < 0.6 * (plain.high - plain.low)


@pytest.fixture(scope="module")
def spam_project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shares")
    write_messages(folder / "messages.csv")
    roles = Roles(text=("message",))
    create_project(folder / "spam", folder / "messages.csv", roles, ["ham", "spam"], {})
    return folder / "spam"


@pytest.fixture
def store(spam_project, tmp_path):
    """A program took everything for ham; people labelled the first five items before."""
    with Store.open(copy_project(spam_project, tmp_path / "spam")) as store:
        store.submit([Submission(p, truth(p)) for p in range(5)], annotator="kim")
        rows = [Submission(p, "ham") for p in range(50)]
        store.submit(rows, annotator="machine:gpt", source="machine")
        yield store


def test_a_program_that_finds_no_spam_is_corrected(store):
    drawn = queue_checks(store, 20).positions
    assert program_shares(store, "machine:gpt") is None, "nobody has checked"
    store.submit([Submission(p, truth(p)) for p in drawn], annotator="lee")
    shares = program_shares(store, "machine:gpt")
    assert (shares.n_items, shares.n_checked) == (45, 20)
    ham, spam = shares.classes
    n_spam = sum(truth(p) == "spam" for p in drawn)
    assert (ham.by_program, spam.by_program) == (1.0, 0.0)
    assert spam.share.mean == pytest.approx(n_spam / 20)
    true_share = sum(truth(p) == "spam" for p in range(5, 50)) / 45
    assert spam.share.low <= true_share <= spam.share.high
    (report,) = program_reports(store, [])
    assert "Class shares among 45 of its answers, corrected by 20 random checks" in " ".join(
        report.lines
    )


def check(store, n):
    """Have people check n random answers."""
    drawn = queue_checks(store, n).positions
    store.submit([Submission(p, truth(p)) for p in drawn], annotator="lee")


def test_error_shares_and_mix_are_about_the_answers_at_the_latest_draw(store):
    """Draws without an answer between them are one sample; a later one has a sample of its own."""
    store.update_settings(goal_error=0.02)
    check(store, 12)
    check(store, 4)
    store.submit([Submission(55, "ham")], annotator="machine:gpt", source="machine")
    shares = program_shares(store, "machine:gpt")
    assert (shares.n_items, shares.n_checked) == (45, 16), "without the later answer"
    check(store, 11)
    shares = program_shares(store, "machine:gpt")
    (report,) = program_reports(store, [])
    assert (shares.n_items, shares.n_checked) == (30, 11), "46 answers, 16 of them checked before"
    assert report.error.n_checked == report.mix.n_checked == 11
