"""How good a program is: known errors, the alternative annotator test, and simulated coverage."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from message_data import truth, write_messages
from message_projects import copy_project
from parbals.wording import percent
from parbals_label.cli.label import label as command
from parbals_label.project.alternative_test import alternative_test
from parbals_label.project.checks import queue_checks
from parbals_label.project.create import Roles, create_project
from parbals_label.project.program_errors import CheckedError
from parbals_label.project.program_report import ProgramReport, program_reports
from parbals_label.store.records import Submission
from parbals_label.store.replies import PaidReply, Replies, Usage, usage_of
from parbals_label.store.store import Store
from scipy import stats

OTHER = {"ham": "spam", "spam": "ham"}


def simulated(generator, n_items, noise_people, noise_program, n_classes=4):
    """Labels of three people and a program, each uniformly wrong with a probability."""
    truths = generator.integers(n_classes, size=n_items)

    def noisy(noise):
        shift = generator.integers(1, n_classes, size=n_items)
        is_wrong = generator.random(n_items) < noise
        return [str(c) for c in np.where(is_wrong, (truths + shift) % n_classes, truths)]

    columns = {name: noisy(noise_people) for name in ("ann", "bob", "eve")}
    people = {i: {name: column[i] for name, column in columns.items()} for i in range(n_items)}
    return people, dict(enumerate(noisy(noise_program)))


def by_definition(people, program, epsilon):
    """The test written down from its definition, a person and an item at a time."""
    names = sorted({name for by_person in people.values() for name in by_person})
    p_values, advantages = [], []
    for name in names:
        w_program, w_person = [], []
        for item, by_person in people.items():
            others = [label for other, label in by_person.items() if other != name]
            score_program = sum(label == program[item] for label in others) / len(others)
            score_person = sum(label == by_person[name] for label in others) / len(others)
            w_program.append(score_program >= score_person)
            w_person.append(score_person >= score_program)
        d = np.array(w_person, float) - np.array(w_program, float)
        t = (d.mean() - epsilon) / (d.std(ddof=1) / len(d) ** 0.5)
        p_values.append(stats.t.cdf(t, len(d) - 1))
        advantages.append(np.mean(w_program))
    m = len(names)
    order = np.argsort(p_values)
    harmonic = sum(1 / k for k in range(1, m + 1))
    passing = [k for k in range(1, m + 1) if p_values[order[k - 1]] <= k / m * 0.05 / harmonic]
    return max(passing, default=0), float(np.mean(advantages))


@pytest.mark.parametrize("noise", [0.1, 0.3, 0.45, 0.6])
def test_the_alternative_annotator_test_is_that_of_its_definition(noise):
    generator = np.random.default_rng(int(100 * noise))
    for _ in range(20):
        people, program = simulated(generator, 80, 0.3, noise)
        result = alternative_test(people, program)
        n_beaten, advantage = by_definition(people, program, 0.1)
        assert (result.n_beaten, result.n_people) == (n_beaten, 3)
        assert result.advantage == pytest.approx(advantage)
        assert result.passed == (n_beaten >= 1.5)


def test_good_programs_pass_and_bad_ones_do_not():
    """At the border of the null hypothesis 5 % pass at most, within 3 standard errors."""
    generator = np.random.default_rng(0)

    def rate(noise, epsilon=0.1, n=200):
        results = [
            alternative_test(*simulated(generator, 100, 0.2, noise), epsilon=epsilon).passed
            for _ in range(n)
        ]
        return np.mean(results)

    assert rate(0.02, n=50) > 0.9
    assert rate(0.6, n=50) == 0.0
    # Of the same quality as people, and no tolerance: the null hypothesis holds with equality.
    assert rate(0.2, epsilon=0.0) <= 0.05 + 3 * (0.05 * 0.95 / 200) ** 0.5


def test_the_test_needs_three_people_with_thirty_items():
    people, program = simulated(np.random.default_rng(1), 29, 0.2, 0.1)
    assert alternative_test(people, program) is None
    people, program = simulated(np.random.default_rng(1), 60, 0.2, 0.1)
    two = {i: {name: by[name] for name in ("ann", "bob")} for i, by in people.items()}
    assert alternative_test(two, program) is None
    assert alternative_test(people, {}) is None


def test_people_who_never_differ_from_a_program_are_beaten_and_the_reverse():
    people = {i: {"ann": "a", "bob": "a", "eve": "a"} for i in range(40)}
    assert alternative_test(people, dict.fromkeys(people, "a")).n_beaten == 3
    assert alternative_test(people, dict.fromkeys(people, "b")).n_beaten == 0


@pytest.mark.parametrize("n", [10, 40, 100])
def test_the_interval_covers_the_error_of_a_random_sample(n):
    """At least 90 % whatever the error is, computed over all counts."""
    errors = np.linspace(0.001, 0.999, 999)
    cover = np.zeros(len(errors))
    for k in range(n + 1):
        checked = CheckedError.of(n, k, is_random=True)
        is_covered = (checked.low <= errors) & (errors <= checked.high)
        cover += is_covered * stats.binom.pmf(k, n, errors)
    assert cover.min() >= 0.9 - 1e-9


@pytest.fixture(scope="module")
def spam_project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reported")
    write_messages(folder / "messages.csv")
    roles = Roles(text=("message",))
    create_project(folder / "spam", folder / "messages.csv", roles, ["ham", "spam"], {})
    return folder / "spam"


@pytest.fixture
def labelled(spam_project, tmp_path):
    """A project where a program labelled the first 40 items, and kim 20 of these."""
    folder = copy_project(spam_project, tmp_path / "spam")
    with Store.open(folder) as store:
        labels = {p: OTHER[truth(p)] if p in (3, 7, 30) else truth(p) for p in range(40)}
        rows = [Submission(p, label) for p, label in labels.items()]
        store.submit(rows, annotator="machine:gpt", source="machine")
        store.submit([Submission(p, truth(p)) for p in range(20)], annotator="kim")
    return folder


def test_the_error_is_counted_where_people_have_labelled(labelled):
    with Store.open(labelled) as store:
        n = store.n_items
        (report,) = program_reports(store, [])
    assert (report.error.n_checked, report.error.n_wrong) == (20, 2)
    assert not report.error.is_random
    assert report.export_error[0] == pytest.approx((1 - 20 / n) * 0.1)
    assert report.test is None
    assert report.cost_of_rest is None
    assert any("not all chosen at random" in line for line in report.lines)


def test_test_items_are_no_random_sample_of_a_programs_answers(labelled):
    """They were drawn from all items, and a strategy chose which of these the program labelled."""
    with Store.open(labelled) as store:
        store.update_settings(audit=list(range(7, 19)), audit_by="anyone")
        (report,) = program_reports(store, [])
    assert (report.error.n_checked, report.error.is_random) == (20, False)


def test_answers_that_were_drawn_to_be_checked_count_alone(labelled):
    with Store.open(labelled) as store:
        drawn = queue_checks(store, 15).positions
        store.submit([Submission(p, truth(p)) for p in drawn], annotator="lee")
        (report,) = program_reports(store, [])
    assert (report.error.n_checked, report.error.is_random) == (15, True)
    assert report.error.n_wrong == (30 in drawn)


def test_a_program_that_nobody_checked_has_no_figure(labelled):
    with Store.open(labelled) as store:
        store.submit([Submission(50, "ham")], annotator="machine:new", source="machine")
        reports = {report.annotator: report for report in program_reports(store, [])}
    assert reports["machine:new"].error is None
    assert reports["machine:new"].lines[0].startswith("Good enough? Not known: have people check")


@pytest.mark.parametrize(
    ("goal", "n_wrong", "is_random", "verdict"),
    [
        (0.05, 12, True, "Not for 5 %: it is wrong in "),
        (0.4, 2, True, "Yes, for 40 %: it is wrong in "),
        (0.1, 2, True, "Not known for 10 %: it is wrong in "),
        (0.05, 12, False, "Not known for 5 %: it is wrong in "),
        (None, 12, True, "Without a goal nobody can tell (--goal-error 5%); it is wrong in "),
    ],
)
def test_the_report_begins_with_the_answer_to_its_question(goal, n_wrong, is_random, verdict):
    error = CheckedError.of(40, n_wrong, is_random=is_random)
    report = ProgramReport(
        annotator="machine:gpt",
        n_labels=200,
        n_items=500,
        n_people=40,
        n_unlabelled=300,
        error=error,
        test=None,
        usage=Usage("machine:gpt", "gpt", 200, 1000, 10, 4.0, 0, 0),
        goal_error=goal,
    )
    interval = f"{percent(error.low)} to {percent(error.high)}"
    assert report.lines[0].startswith(f"Good enough? {verdict}{interval} of its answers")
    assert (
        report.lines[-1] == "The other 300 items would cost about 6.00 in the currency of --price."
    )


def test_the_cost_of_the_rest_is_that_of_a_label_so_far(labelled):
    with Replies(labelled) as replies:
        for _ in range(40):
            paid = PaidReply("x", 100, 5, True, 0.01)
            replies.expect("key", "machine:gpt", "gpt", paid)
    with Store.open(labelled) as store:
        n_left = store.n_items - store.n_labelled
        (report,) = program_reports(store, usage_of(labelled))
    assert report.cost_of_rest == pytest.approx(0.01 * n_left)


def test_the_mix_needs_a_goal_and_random_checks(labelled):
    with Store.open(labelled) as store:
        (report,) = program_reports(store, [])
        assert "Set a goal: --goal-error" in " ".join(report.lines)
        store.update_settings(goal_error=0.02)
        (report,) = program_reports(store, [])
        assert report.n_for_goal is None
        assert "have people check random answers" in " ".join(report.lines)
        drawn = queue_checks(store, 15).positions
        store.submit([Submission(p, truth(p)) for p in drawn], annotator="lee")
        (report,) = program_reports(store, [], human_cost=0.5)
        n_open = store.n_items - 35
    high = report.error.high
    n_more = report.n_for_goal
    assert (n_open - n_more) * high <= 0.02 * report.n_items < (n_open - n_more + 1) * high
    assert report.mix.cost == pytest.approx(0.5 * n_more)
    assert set(report.mix.lines) <= set(report.lines)


def test_the_command_prints_the_report_and_asks_nobody(labelled):
    result = CliRunner().invoke(command, [str(labelled), "--report", "--cost", "kim=0.5"])
    assert result.exit_code == 0, result.exception
    assert "machine:gpt, 40 labels" in result.output
    assert "wrong in 2 of 20 answers that people checked, 10 %" in result.output
    shown = CliRunner().invoke(command, [str(labelled), "--report", "--json"])
    assert json.loads(shown.stdout)["programs"][0]["error"]["n_wrong"] == 2
    other = CliRunner().invoke(command, [str(labelled), "--report", "--name", "x"])
    assert "has labelled this project yet" in str(other.exception)
