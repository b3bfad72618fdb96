"""Several annotators in a project: consensus labels, and error rates of each annotator."""

import csv
import json

import numpy as np
import pytest
from message_data import message, truth
from message_projects import copy_project
from parbals.errors import InputError
from parbals.randomness import derive_generator
from parbals_label.project.checks import queue_checks
from parbals_label.project.consensus import aggregate_labels, consensus_labels
from parbals_label.project.create import Roles, create_project
from parbals_label.project.engine import learner_of, refresh
from parbals_label.project.program_report import program_reports
from parbals_label.project.summary import overview
from parbals_label.project.summary_lines import overview_lines
from parbals_label.store.forget import forget_person
from parbals_label.store.records import Submission
from parbals_label.store.store import Store

N = 80
THIRDS = ("least sure", "surer", "surest")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("channels")
    with open(folder / "mail.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["message"], *[[message(i)] for i in range(N)]])
    settings = {"strategy": "margin"}
    create_project(
        folder / "p", folder / "mail.csv", Roles(text=("message",)), ["ham", "spam"], settings
    )
    return folder / "p"


@pytest.fixture
def store(made, tmp_path):
    with Store.open(copy_project(made, tmp_path / "p")) as store:
        yield store


def said(store, name, right, seed, positions=range(60), source="person"):
    generator = np.random.default_rng(seed)
    other = {"ham": "spam", "spam": "ham"}
    labels = {p: truth(p) if generator.random() < right else other[truth(p)] for p in positions}
    store.submit(
        [Submission(p, label) for p, label in labels.items()], annotator=name, source=source
    )
    return labels


def test_the_careful_person_outweighs_two_who_click_at_random(store):
    said(store, "ada", 1.0, 0)
    said(store, "bob", 0.5, 1)
    said(store, "eve", 0.5, 2)
    before = aggregate_labels(store.votes())
    assert consensus_labels(store) == before  # no report has judged them yet
    refresh(store)
    after = consensus_labels(store)
    right = [sum(labels[p] == truth(p) for p in range(60)) for labels in (before, after)]
    assert right[1] > right[0]
    assert right[1] >= 57
    heard = {one.name: one for one in overview(store).annotator_errors}
    assert heard["ada"].high < min(heard["bob"].low, heard["eve"].low)
    assert any(line.startswith("bob is wrong in ") for line in overview_lines(overview(store)))
    # One more answer, and the majority stands until the next report.
    said(store, "sam", 1.0, 3, positions=[0])
    votes = store.votes()
    assert consensus_labels(store)[0] == aggregate_labels(votes)[0]


def test_one_person_is_taken_at_their_word(store):
    labels = said(store, "ada", 0.9, 0)
    refresh(store)
    assert consensus_labels(store) == labels
    assert store.settings.heard == store.settings.judged == ()
    assert learner_of(store).state.annotator_fit is None


def test_a_program_decides_between_people_and_never_over_one(store):
    people = said(store, "ada", 0.9, 0, positions=range(40))
    said(store, "bob", 0.9, 4, positions=range(20))
    said(store, "machine:rule", 1.0, 1, source="machine")
    refresh(store)
    labels = consensus_labels(store)
    votes = store.votes()
    assert all(labels[p] in votes[p].values() for p in range(60))
    assert [labels[p] for p in range(20, 40)] == [people[p] for p in range(20, 40)]
    assert {one.name for one in overview(store).annotator_errors} == {"ada", "bob", "machine:rule"}


def test_the_audit_rests_on_people_and_the_majority(store):
    store.update_settings(audit=(1, 3, 5))
    for name, seed in (("ada", 0), ("bob", 1), ("eve", 2)):
        store.invite(name)
        said(store, name, 0.8, seed)
    said(store, "machine:rule", 0.0, 3, source="machine")
    refresh(store)
    votes = store.votes(by_people=True)
    learner = learner_of(store)
    for position in (1, 3, 5):
        assert learner.labels[position] == aggregate_labels(votes)[position]
    assert not {1, 3, 5} & {position for position, _, _ in store.settings.judged}


def test_a_forgotten_persons_name_leaves_the_errors_too(store):
    said(store, "ada", 1.0, 0)
    said(store, "bob", 0.6, 1)
    refresh(store)
    assert "bob" in {one.name for one in overview(store).annotator_errors}
    forget_person(store, "bob")
    with Store.open(store.folder) as again:
        assert not any("bob" in one for one in again.settings.heard)


def sure_of(store, right, sure, name="machine:bot"):
    """A program's answers of all items and how sure it says it is."""
    other = {"ham": "spam", "spam": "ham"}
    rows = [
        Submission(
            p,
            truth(p) if right(p) else other[truth(p)],
            comment=json.dumps({"confidence": sure(p), "comment": "so"}),
        )
        for p in range(N)
    ]
    store.submit(rows, annotator=name, source="machine")


def test_what_a_program_is_unsure_of_counts_by_how_often_that_is_right(store):
    """It is always wrong where it is least sure, and says so."""
    said(store, "ada", 1.0, 0)
    sure_of(store, lambda p: p % 3, lambda p: 0.3 * (p % 3) + 0.2 + 0.001 * p)
    refresh(store)
    heard = {one.name: one for one in overview(store).annotator_errors}
    assert set(heard) == {"ada", "machine:bot", *(f"machine:bot, {one}" for one in THIRDS)}
    assert heard["machine:bot, least sure"].low > heard["machine:bot, surest"].high
    assert sum(heard[f"machine:bot, {one}"].n_answers for one in THIRDS) == N
    (report,) = program_reports(store, [])
    shown = heard["machine:bot"]
    assert (shown.error, shown.low, shown.high) == (
        *(report.error.share, report.error.low, report.error.high),
    ), "one figure, wherever it is shown"
    labels = consensus_labels(store)
    assert all(labels[p] == truth(p) for p in range(60))


@pytest.mark.parametrize("sure", [lambda p: 0.9, lambda p: None if p % 2 else p / N, str])
def test_one_who_says_little_of_that_stays_one(store, sure):
    said(store, "ada", 1.0, 0)
    sure_of(store, lambda p: p % 3, sure)
    refresh(store)
    assert {one.name for one in overview(store).annotator_errors} == {"ada", "machine:bot"}


def test_a_program_alone_may_err_however_sure_it_is(store):
    sure_of(store, lambda p: p % 3, lambda p: p / N)
    assert store.confidences()[3, "machine:bot"] == 3 / N
    learner = learner_of(store)
    (program,) = learner.annotators()
    assert (program.name, program.n_answers, program.error.known) == ("machine:bot", N, False)
    assert all(probs.max() < 1.0 for probs in learner.consensus().values())
    refresh(store)
    votes = {p: by["machine:bot"] for p, by in store.votes().items()}
    assert consensus_labels(store) == votes, "its labels stay what it answered"
    lines = overview_lines(overview(store))
    assert any(line.startswith("The error of machine:bot is not known") for line in lines)


def test_in_haste_people_are_taken_at_their_word_and_programs_are_not(store):
    said(store, "ada", 1.0, 0, range(30))
    said(store, "bob", 1.0, 1, range(30, 60))
    assert {one.name for one in learner_of(store).annotators()} == {"ada", "bob"}
    assert learner_of(store, models_annotators=False).annotators() == ()
    assert learner_of(store, models_annotators=False).labels == {p: truth(p) for p in range(60)}
    said(store, "machine:bot", 0.5, 2, range(60, N), source="machine")
    assert "machine:bot" in {
        one.name for one in learner_of(store, models_annotators=False).annotators()
    }


def test_errors_that_nobody_checked_are_not_known(store):
    said(store, "ada", 0.9, 0, positions=range(20))
    said(store, "machine:gpt", 0.5, 1, positions=range(20, 70), source="machine")
    refresh(store)
    lines = overview_lines(overview(store))
    assert "The error of ada is not known: no other person has answered the same items" in lines
    program = "The error of machine:gpt is not known: check 20 of its answers"
    assert any(line.startswith(program) for line in lines)
    rates = {rate.name: rate for rate in overview(store).annotator_errors}
    assert rates["machine:gpt"].error is None
    assert rates["machine:gpt"].n_checked == 0


def test_checks_are_random_answers_of_the_program_for_people(store):
    said(store, "ada", 0.9, 0, positions=range(20))
    said(store, "machine:gpt", 0.5, 1, positions=range(10, 70), source="machine")
    checks = queue_checks(store, 10, "gpt")
    assert checks.program == "machine:gpt"
    assert len(set(checks.positions)) == 10
    assert set(checks.positions) <= set(range(20, 70))
    leased = {lease.position for lease in store.take("ada", 20, 60.0)}
    assert set(checks.positions) <= leased
    assert not set(queue_checks(store, 10).positions) & set(checks.positions)
    assert "drawn at random" in checks.sentence
    with pytest.raises(InputError, match=r"machine:rule has not answered.*machine:gpt"):
        queue_checks(store, 10, "rule")
    store.submit(
        [Submission(position, truth(position)) for position in checks.positions], annotator="ada"
    )
    refresh(store)
    rates = {rate.name: rate for rate in overview(store).annotator_errors}
    assert rates["machine:gpt"].n_checked == 10, "those that were drawn at random"
    assert rates["machine:gpt"].error is not None


def test_every_answer_is_as_likely_to_be_checked(store):
    """Over 200 seeds each of 40 answers is drawn in a quarter of them, within four errors."""
    said(store, "machine:gpt", 0.5, 1, positions=range(40), source="machine")
    counts = np.zeros(40)
    for seed in range(200):
        order = derive_generator(seed, "checks", "machine:gpt").permutation(store.n_items)
        counts[[position for position in order.tolist() if position < 40][:10]] += 1
    assert np.abs(counts / 200 - 0.25).max() < 4.0 * np.sqrt(0.25 * 0.75 / 200)


def test_error_rates_of_earlier_projects_are_read(store):
    store.update_settings(heard=[("ada", 40, 0.1, 0.05, 0.2)])
    (rate,) = overview(store).annotator_errors
    assert (rate.error, rate.n_checked, rate.same_mistakes_as) == (0.1, 0, ())
