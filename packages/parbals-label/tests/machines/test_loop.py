"""Whole runs: who is asked, what ends a run, what the next run knows of it."""

import json
import time

import pytest
from machine_projects import make_project, stopping_after
from message_data import truth
from parbals.cli.main import main
from parbals.errors import ProjectError
from parbals_label.files import sole_run
from parbals_label.machines.loop import Rules
from parbals_label.project.choose import choose_batch
from parbals_label.project.engine import refresh
from parbals_label.project.summary import overview
from parbals_label.project.summary_lines import overview_lines
from parbals_label.store.records import Submission
from parbals_label.store.store import Store

GOOD = "for item in items(): say(item)\n"
NAMES = """
turn()
with open(Path(__file__).with_suffix('.asked'), 'a') as log:
    for item in (got := items()):
        log.write(item['id'] + '\\n')
"""
LLM = """
import random
for item in items():
    i = int(item["id"])
    right = "spam" if i % 3 == 0 else "ham"
    wrong = random.Random(i).random() < 0.1
    other = {"ham": "spam", "spam": "ham"}[right]
    say(item, other if wrong else right, confidence=0.9, comment="seems so")
"""


def killed_with_items_out(store, n, name="machine:test", seconds=1800.0):
    """What a run leaves that was killed while it asked: positions leased to its name."""
    _, batch = choose_batch(
        store, n, annotator=name, expires=time.time() + seconds, strategy="random"
    )
    return batch.indices.tolist()


def asked(tmp_path):
    return (tmp_path / "annotator.asked").read_text().split()


@pytest.mark.parametrize(
    ("n", "strategy"),
    [(40, "margin"), pytest.param(60, "parbals-epig", marks=pytest.mark.full)],
)
def test_a_simulated_llm_labels_every_item(label, write, tmp_path, n, strategy):
    folder = make_project(tmp_path / "many", n, strategy=strategy)
    found = label(write(LLM), folder=folder, batch_size=20)
    with Store.open(folder) as store:  # texts that repeat others are not asked for
        n_asked = n - len(store.settings.copies)
    assert n - n_asked < 5
    assert (found.result.stored, found.result.ended, found.out) == (n_asked, "done", [])
    wrong = [name for name, given in found.labels.items() if given != truth(int(name))]
    assert 0 < len(wrong) < 15
    assert {answer.source for answer in found.answers} == {"machine"}
    with Store.open(folder) as store:
        assert {batch.strategy for batch in store.batches()} <= {strategy, "kmeans"}
        assert [event.kind for event in store.events() if "run" in event.kind] == [
            "machine run",
            "machine run ended",
        ]


def test_a_budget_is_kept_exactly(label, write):
    found = label(write(NAMES + "for item in got: say(item)\n"), budget=7)
    assert (found.result.stored, found.result.ended, len(found.labels), found.out) == (
        7,
        "budget",
        7,
        [],
    )
    assert label(write(GOOD), budget=3).result.stored == 3


def test_people_are_not_asked_over_and_keep_their_labels(label, write, project, tmp_path):
    with Store.open(project) as store:
        store.submit([Submission(2, "spam"), Submission(3, "ham")], annotator="kim")
        store.record_batch("random", 0, [(4, None, None)], {}, annotator="lee")
    found = label(write(NAMES + "for item in got: say(item)\n"))
    assert sorted(asked(tmp_path)) == [f"{i:03d}" for i in range(12) if i not in (2, 3, 4)]
    assert found.out == [4]
    assert {(a.annotator, a.source) for a in found.answers} == {
        ("kim", "person"),
        ("machine:test", "machine"),
    }


def test_abstentions_are_remembered_and_not_asked_again(label, write, tmp_path):
    words = write(NAMES + "for item in got: say(item, None if item['id'] < '003' else 'ham')\n")
    first = label(words)
    assert (first.result.stored, first.result.abstained, first.result.ended, first.out) == (
        9,
        3,
        "done",
        [],
    )
    assert len(asked(tmp_path)) == 12
    again = label(words)
    assert (again.result.stored, again.result.batches, again.result.ended, again.out) == (
        0,
        0,
        "done",
        [],
    )
    assert (
        label(words, name="machine:other").result.abstained == 3
    )  # another machine may know better


def test_people_get_what_a_machine_abstained_on_while_it_goes_on(label, write, tmp_path):
    folder = make_project(tmp_path / "shared", 12, labelled=2, strategy="margin")
    body = f"""
from parbals_label.store.store import Store
got = items()
with Store.open({str(folder)!r}, read_only=True) as store:
    seen = {{"asked": [item["position"] for item in got], "out": store.pending()}}
with open(Path(__file__).with_suffix(".seen"), "a") as log:
    log.write(json.dumps(seen) + "\\n")
for item in got: say(item, None if int(item["id"]) % 2 else "ham")
"""
    found = label(write(body), folder=folder, batch_size=3)
    seen = [json.loads(line) for line in (tmp_path / "annotator.seen").read_text().splitlines()]
    assert len(seen) == 4
    for batch in seen:  # nothing else is out, least of all what it has abstained on
        assert sorted(batch["out"]) == sorted(batch["asked"])
    assert (found.result.stored, found.result.abstained, found.result.ended) == (5, 5, "done")


@pytest.mark.parametrize("strategy", ["project", "random"])
def test_a_run_that_inherits_abstentions_chooses_as_often_as_it_asks(
    label, write, tmp_path, strategy
):
    folder = make_project(tmp_path / "inherited", 40, labelled=4, strategy="margin")
    with Store.open(folder) as store:
        store.log("machine abstained", annotator="machine:test", positions=list(range(4, 34)))
    found = label(write(GOOD), folder=folder, batch_size=3)
    assert sorted(found.labels) == [f"{i:03d}" for i in range(34, 40)]
    assert (found.result.stored, found.result.ended) == (6, "done")
    with Store.open(folder) as store:
        assert [len(batch.items) for batch in store.batches()] == [3, 3]
        assert [batch.settings["n_left_out"] for batch in store.batches()] == [30, 30]


def test_abstentions_that_a_killed_run_had_out_are_free_at_once(label, write, project, tmp_path):
    with Store.open(project) as store:
        left = killed_with_items_out(store, 3)
        store.log("machine abstained", annotator="machine:test", positions=left[:2])
    body = f"""
from parbals_label.store.store import Store
got = items()
with Store.open({str(project)!r}, read_only=True) as store:
    Path(__file__).with_suffix(".out").write_text(json.dumps(store.pending()))
for item in got: say(item)
"""
    label(write(body), budget=1)
    assert json.loads((tmp_path / "annotator.out").read_text()) == [left[2]]


def test_failed_items_are_not_asked_again_in_this_run_but_in_the_next(label, write):
    words = write("for item in items():\n  if item['id'] != '004': say(item)\n")
    first = label(words, retries=0)
    assert (first.result.failed, first.result.ended, first.out) == (1, "done", [])
    assert label(write(GOOD)).result.stored == 1


def test_an_annotator_that_never_answers_has_failed_however_small_the_pool(label, write):
    found = label(write("sys.exit(1)\n"), batch_size=20, retries=0)
    assert (found.result.ended, found.result.failed) == ("failed", 12)
    assert found.result.fault == "it ended with exit code 1"


def test_a_program_that_abstains_once_a_batch_and_fails_is_stopped(label, write):
    body = "got = items()\nsay(got[0], None)\nsys.exit('429 Too Many Requests')\n"
    found = label(write(body), batch_size=3, retries=1)
    assert (found.result.ended, found.result.batches, found.result.stored) == ("failed", 2, 0)
    assert found.result.fault == "it ended with exit code 1, saying: 429 Too Many Requests"


def test_batches_of_abstentions_alone_do_not_stop_a_rule(label, write):
    body = "for item in items(): say(item, 'spam' if item['id'] == '011' else None)\n"
    found = label(write(body), batch_size=3)
    assert (found.result.ended, found.result.stored, found.result.abstained) == ("done", 1, 11)


def test_abstentions_between_two_failed_batches_do_not_hide_them(label, write):
    body = """
n = turn()
for item in items():
    if n == 2: say(item, None)
sys.exit(0 if n == 2 else '429')
"""
    found = label(write(body), batch_size=3, retries=0)
    assert (found.result.ended, found.result.batches, found.result.stored) == ("failed", 3, 0)


def test_what_an_earlier_run_had_out_is_asked_first(label, write, project, tmp_path):
    with Store.open(project) as store:
        left = killed_with_items_out(store, 3)
        others = killed_with_items_out(store, 2, "machine:other")
    found = label(write(NAMES + "for item in got: say(item)\n"))
    assert asked(tmp_path)[:3] == [f"{position:03d}" for position in left]
    assert found.said == ["3 items that were assigned to an earlier run are asked first."]
    assert found.result.stored == 10
    assert sorted(found.out) == sorted(others)


def test_items_that_a_person_answered_meanwhile_are_not_paid_for(label, write, project, tmp_path):
    with Store.open(project) as store:
        left = killed_with_items_out(store, 3)
        store.submit([Submission(left[0], "spam")], annotator="kim")
    found = label(write(NAMES + "for item in got: say(item)\n"))
    assert f"{left[0]:03d}" not in asked(tmp_path)
    assert found.out == []


def test_an_expired_lease_is_nobodys_and_is_not_taken_from_its_new_owner(project):
    with Store.open(project) as store:
        (position,) = killed_with_items_out(store, 1, seconds=-3600.0)
        assert store.pending(annotator="machine:test") == []
        store.record_batch("random", 0, [(position, None, None)], {}, annotator="kim")
        assert store.end_leases([position], annotator="machine:test") == 0
        assert store.pending() == store.pending(annotator="kim") == [position]


def test_the_same_name_cannot_run_twice_at_once(label, write, project):
    with sole_run(project, "machine", "machine:test", ""):
        with pytest.raises(ProjectError, match="already labelling this project"):
            label(write(GOOD))
        assert label(write(GOOD), name="machine:other").result.stored == 12
    assert label(write(GOOD)).result.ended == "done"


def test_a_stop_keeps_what_came_and_gives_the_rest_back(label, write, tmp_path):
    body = """
got = items()
say(got[0])
Path(__file__).with_suffix('.ready').write_text('')
time.sleep(600)
"""
    with stopping_after(tmp_path / "annotator.ready") as stop:
        found = label(write(body), stop=stop)
    assert (found.result.ended, found.result.stored, found.result.failed) == ("interrupted", 1, 0)
    assert found.out == []


def test_a_rate_sends_smaller_parts(label, write, monkeypatch):
    monkeypatch.setattr("parbals_label.machines.rate.MINUTE", 0.01)
    words = write("got = items()\nfor item in got: say(item, comment=str(len(got)))\n")
    found = label(words, rate=3, batch_size=8)
    assert found.result.stored == 12
    sizes = sorted(answer.comment for answer in found.answers)
    assert sizes == [f'{{"comment":"{n}"}}' for n in (1, 2, 2, *[3] * 9)], "3 + 3 + 2 and 3 + 1"


def test_a_label_given_under_the_same_name_meanwhile_is_not_overwritten(label, write, project):
    body = f"""
from parbals_label.store.records import Submission
from parbals_label.store.store import Store
got = items()
if turn() == 1:
    with Store.open({str(project)!r}) as store:
        answer = Submission(got[1]["position"], "spam")
        store.submit([answer], annotator="machine:test", source="machine")
for item in got: say(item)
"""
    found = label(write(body), budget=4)
    assert sorted(found.labels.values()).count("spam") == 1
    assert any(said.startswith("Not stored: Item") for said in found.said)
    assert found.result.stored == 4


def test_a_lease_outlasts_the_slowest_batch():
    assert Rules().lease_seconds == 1800.0
    slow = Rules(timeout=3600.0, retries=2)
    assert slow.lease_seconds >= 3 * 3600.0
    limited = Rules(timeout=3600.0, retries=2, rate=10, batch_size=100)
    assert limited.lease_seconds > 3 * (3600.0 + 600.0)


@pytest.mark.parametrize("audit_by", ["people", "anyone"])
def test_a_programs_answers_do_not_certify(label, write, tmp_path, capsys, audit_by):
    """The audit is for people; where a program is asked as well, its word measures nothing."""
    folder, audit = make_project(tmp_path / "many", 40, strategy="margin"), list(range(0, 40, 4))
    with Store.open(folder) as store:
        store.update_settings(audit=audit, audit_by=audit_by)
    found = label(write(LLM), folder=folder, batch_size=20)
    n = 40 if audit_by == "anyone" else 30
    assert (found.result.stored, found.result.ended) == (n, "done")
    with Store.open(folder) as store:
        assert store.audit_labelled_by_programs() == (set(audit) if audit_by == "anyone" else set())
        report = refresh(store)
        assert report.measured.error is None
        assert report.certified is None
        assert store.latest_report().n_labels == n  # nothing is newer than the report
        number, batch = choose_batch(store, 10, strategy="random")  # for people
        assert sorted(batch.indices.tolist()) == audit
        assert store.batch_positions(number)

    def status():
        with pytest.raises(SystemExit) as end:
            main(["status", str(folder), "--until-error", "90%", "--json"])
        shown = json.loads(capsys.readouterr().out)
        return (
            end.value.code,
            shown["may_stop"],
            shown["measured_by"],
            shown["measured_not_counted"],
        )

    assert status() == (4, False, {}, 10 if audit_by == "anyone" else 0)
    with Store.open(folder) as store:
        rows = [Submission(p, truth(p)) for p in audit]
        store.invite("Ada")
        store.invite("bob")
        store.submit(rows[:8], annotator="Ada")
        store.submit(rows[8:], annotator="bob")
        refresh(store)
        words = "10 of the 10 test items are labelled. Labelled by Ada (8) and bob (2), 20"
        assert any(line.startswith(words) for line in overview_lines(overview(store)))
    assert status() == (0, True, {"Ada": 8, "bob": 2}, 0)
