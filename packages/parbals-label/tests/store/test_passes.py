"""Passes and undo: an item somebody skipped, and second thoughts."""

import sqlite3
from contextlib import closing

import pytest
from message_projects import pass_history
from parbals.errors import InputError, LabelError, ProjectDamagedError
from parbals_label.project.consensus import aggregate_labels
from parbals_label.store.answers import LabelConflictError, RequestIdReusedError
from parbals_label.store.records import Submission
from parbals_label.store.store import Store


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "project"


@pytest.fixture
def store(folder):
    with Store.create(folder, classes=["spam", "ham"], settings={}) as store:
        store.add_items((f"mail-{n}", {}) for n in range(6))
        store.record_batch("random", 0, [(4, None, None), (2, None, None)], {}, queued=True)
        yield store


def taken(store, annotator):
    return [lease.position for lease in store.take(annotator, 10, 1000.0)]


def undo(store, position, annotator, request=None):
    was, lease = store.undo(position, annotator, lease_seconds=1000.0, request_id=request)
    assert lease.position == position
    return was.get("label"), was.get("kind"), was.get("comment")


def test_a_passed_item_goes_to_others_and_not_back_to_whoever_passed_it(store):
    assert taken(store, "ann") == [4, 2]
    assert store.pass_over(4, "unsure", annotator="ann", comment="two meanings") == "new"
    assert taken(store, "ann") == [2]
    assert taken(store, "bob") == [4]
    assert store.passes() == {4: {"ann": "unsure"}}


def test_a_pass_is_repeated_or_revised_like_an_answer(store):
    assert store.pass_over(4, "skip", annotator="ann", request_id="r") == "new"
    assert store.pass_over(4, "skip", annotator="ann", request_id="r") == "repeated"
    assert store.pass_over(4, "skip", annotator="ann") == "repeated"
    assert store.pass_over(4, "unsure", annotator="ann", request_id="s") == "revised"
    assert [(entry.kind, entry.request) for entry in pass_history(store, 4)] == [
        ("skip", "r"),
        ("unsure", "s"),
    ]
    with pytest.raises(RequestIdReusedError, match="used for something else"):
        store.pass_over(2, "skip", annotator="ann", request_id="r")


def test_a_comment_on_the_same_pass_is_kept(store):
    store.pass_over(4, "skip", annotator="ann", request_id="r")
    assert (
        store.pass_over(4, "skip", annotator="ann", request_id="s", comment="blurred") == "revised"
    )
    assert (
        store.pass_over(4, "skip", annotator="ann", request_id="s", comment="blurred") == "repeated"
    )
    assert (
        store.pass_over(4, "skip", annotator="ann", request_id="t", comment="blurred") == "repeated"
    )
    assert store.pass_over(4, "skip", annotator="ann", request_id="u") == "repeated", (
        "says nothing new"
    )
    assert [(entry.kind, entry.comment) for entry in pass_history(store, 4)] == [
        ("skip", None),
        ("skip", "blurred"),
    ]
    assert undo(store, 4, "ann") == (None, "skip", "blurred")


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "later"},
        {"annotator": " "},
        {"comment": "\ud800"},
        {"request_id": ""},
        {"position": 6},
    ],
)
def test_bad_passes_are_refused_before_anything_changes(store, wrong):
    good = {"position": 4, "kind": "skip", "annotator": "ann"}
    with pytest.raises(InputError):
        store.pass_over(**{**good, **wrong})
    assert store.passes() == {}


def test_whoever_has_labelled_an_item_cannot_pass_it_without_taking_the_label_back(store):
    store.submit([Submission(4, "ham")], annotator="ann")
    with pytest.raises(LabelConflictError, match="undo it") as caught:
        store.pass_over(4, "skip", annotator="ann")
    assert caught.value.current_label == "ham"


def test_a_label_after_a_pass_wins(store):
    store.pass_over(4, "skip", annotator="ann")
    store.submit([Submission(4, "ham")], annotator="ann")
    assert store.passes() == {}
    assert store.n_completed() == 1


def test_undo_takes_back_a_label_and_leases_the_item_to_the_annotator_again(store):
    taken(store, "ann")
    store.submit([Submission(4, "ham", comment="sure")], annotator="ann")
    assert undo(store, 4, "ann") == ("ham", None, "sure")
    assert store.current_labels() == {}
    assert [answer.label for answer in store.history(4)] == ["ham", None]
    assert taken(store, "bob") == []
    assert taken(store, "ann") == [4, 2]


def test_undo_takes_back_a_pass_and_history_keeps_it(store):
    store.pass_over(4, "unsure", annotator="ann", comment="hm")
    assert undo(store, 4, "ann") == (None, "unsure", "hm")
    assert store.passes() == {}
    assert [entry.kind for entry in pass_history(store, 4)] == ["unsure", "taken back"]
    assert taken(store, "ann") == [4, 2]


def test_undo_of_an_item_that_no_batch_chose_works_without_a_lease(store):
    store.submit([Submission(0, "ham")], annotator="ann")
    was, lease = store.undo(0, "ann", lease_seconds=60.0)
    assert (was["label"], lease.why) == ("ham", None)
    assert store.pending() == [4, 2]


def test_undo_does_not_take_an_item_from_somebody_else(store):
    store.update_settings(answers_wanted=2)
    taken(store, "ann")
    store.submit([Submission(4, "ham")], annotator="ann")
    assert taken(store, "bob") == [4]
    undo(store, 4, "ann")
    assert taken(store, "bob") == [4]
    assert taken(store, "ann") == [2]


def test_the_same_undo_again_takes_back_nothing_more(store):
    store.submit([Submission(4, "ham")], annotator="ann")
    store.submit([Submission(4, "spam")], annotator="ann", revise=True)
    assert undo(store, 4, "ann", "u1") == ("spam", None, None)
    assert undo(store, 4, "ann", "u1") == ("spam", None, None)
    assert len(store.history(4)) == 3
    store.pass_over(2, "skip", annotator="ann", comment="c")
    assert undo(store, 2, "ann", "u2") == undo(store, 2, "ann", "u2") == (None, "skip", "c")
    assert len(pass_history(store, 2)) == 2
    with pytest.raises(RequestIdReusedError):
        undo(store, 2, "ann", "u1")


def test_there_must_be_something_to_undo(store):
    store.submit([Submission(4, "ham")], annotator="ann")
    undo(store, 4, "ann")
    for annotator in ("ann", "bob"):
        with pytest.raises(InputError, match="neither labelled nor skipped"):
            undo(store, 4, annotator)


def test_passes_cannot_be_changed_or_deleted_even_with_sql(store, folder):
    store.pass_over(4, "skip", annotator="ann")
    with closing(sqlite3.connect(folder / "project.sqlite3")) as connection:
        for statement in ("UPDATE passes SET kind = 'unsure'", "DELETE FROM passes"):
            with pytest.raises(sqlite3.IntegrityError, match="take back instead"):
                connection.execute(statement)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("UPDATE passes SET kind = 'skip' WHERE pass = 1", "pass 1 does not pass its checksum"),
        ("DELETE FROM passes WHERE pass = 1", "pass 1 is missing"),
        ("DELETE FROM passes WHERE pass = 2", "2 passes were confirmed but only 1 are there"),
    ],
)
def test_damaged_passes_are_noticed_on_opening(store, folder, change, message):
    store.pass_over(4, "unsure", annotator="ann")
    store.pass_over(2, "unsure", annotator="ann")
    store.close()
    with closing(sqlite3.connect(folder / "project.sqlite3", isolation_level=None)) as connection:
        triggers = connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE name LIKE 'passes_are%'"
        ).fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(change)
        for _, sql in triggers:
            connection.execute(sql)
    with pytest.raises(ProjectDamagedError, match=message):
        Store.open(folder)


def test_answers_beside_passes_can_be_salvaged(store, folder):
    store.submit([Submission(n, "ham") for n in range(5)], annotator="ann")
    store.pass_over(5, "skip", annotator="ann", comment="x" * 9000)
    undo(store, 0, "ann", "u")
    assert store.check() == []
    store.close()
    assert [(answer.position, answer.label) for answer in Store.salvage(folder)] == [
        *((n, "ham") for n in range(5)),
        (0, None),
    ]


def test_a_submission_can_ask_for_its_own_revision(store):
    store.submit([Submission(1, "ham")], annotator="ann")
    with pytest.raises(LabelError):
        store.submit([Submission(0, "ham", revise=True), Submission(1, "spam")], annotator="ann")
    result = store.submit(
        [Submission(0, "ham"), Submission(1, "spam", revise=True)], annotator="ann"
    )
    assert result.outcomes == ("new", "revised")


def test_a_comment_on_ones_own_unchanged_label_is_kept_when_it_is_meant(store):
    store.submit([Submission(0, "ham", "r")], annotator="ann")
    added = Submission(0, "ham", "s", "signed by the bank", revise=True)
    assert store.submit([added], annotator="ann").outcomes == ("revised",)
    assert store.submit([added], annotator="ann").outcomes == ("repeated",), "a retry is free"
    same = Submission(0, "ham", "t", "signed by the bank", revise=True)
    silent = Submission(0, "ham", "u", revise=True)
    unmeant = Submission(0, "ham", "v", "other words")
    assert store.submit([same, silent, unmeant], annotator="ann").repeated == 3
    stored = [(answer.label, answer.comment, answer.revision) for answer in store.history(0)]
    assert stored == [("ham", None, 1), ("ham", "signed by the bank", 2)]
    assert store.check() == []


def test_a_comment_added_later_does_not_turn_a_tie(store):
    store.submit([Submission(0, "ham")], annotator="ann")
    store.submit([Submission(0, "spam")], annotator="bob")
    store.submit([Submission(0, "ham", comment="sure", revise=True)], annotator="ann")
    assert aggregate_labels(store.votes()) == {0: "ham"}
    store.submit([Submission(0, "spam", revise=True)], annotator="ann")
    store.submit([Submission(0, "ham", revise=True)], annotator="ann")
    assert aggregate_labels(store.votes()) == {0: "spam"}, (
        "ann has come to her label later than bob now"
    )


def test_one_persons_work_is_taken_back_at_once(store):
    """Labels, revisions and passes of one; everybody else's stay, and history keeps all."""
    store.submit([Submission(0, "ham"), Submission(1, "spam", comment="sure")], annotator="eve")
    store.submit([Submission(0, "spam")], annotator="ann")
    store.submit([Submission(1, "ham", comment="no")], annotator="eve", revise=True)
    store.submit([Submission(5, "ham")], annotator="eve", source="machine")
    store.pass_over(4, "skip", annotator="eve", comment="blurred")
    store.pass_over(2, "skip", annotator="ann")
    assert store.remove_labels("eve") == (3, 1)
    assert store.current_labels() == {0: {"ann": "spam"}}
    assert store.passes() == {2: {"ann": "skip"}}
    assert [a.label for a in store.history(1)] == ["spam", "ham", None]
    assert store.remove_labels("eve") == (0, 0)
    (event,) = store.events()
    assert (event.kind, event.detail["name"], event.detail["answers"]) == (
        "work taken back", "eve", 3,
    )  # fmt: skip
    store.submit([Submission(0, "ham")], annotator="eve")  # they may say something else
    assert store.current_labels() == {0: {"ann": "spam", "eve": "ham"}}
    assert store.check() == []


def test_work_since_a_time_is_taken_back_alone(store, monkeypatch):
    for position, hour in ((0, 8), (1, 12)):
        moment = f"2026-11-16T{hour:02d}:00:00.000+00:00"
        monkeypatch.setattr("parbals_label.store.database.utc_now", lambda moment=moment: moment)
        store.submit([Submission(position, "ham")], annotator="eve")
        store.pass_over(position + 2, "skip", annotator="eve")
    assert store.remove_labels("eve", "2026-11-16T11:00:00.000+00:00") == (1, 1)
    assert store.current_labels() == {0: {"eve": "ham"}}
    assert store.passes() == {2: {"eve": "skip"}}
