"""The labelling page's queue: who gets what, until when, and what comes back."""

import time

import pytest
from parbals.errors import InputError
from parbals_label.store.records import QueueCounts, Submission
from parbals_label.store.store import Store


@pytest.fixture
def store(tmp_path):
    with Store.create(tmp_path / "project", classes=["spam", "ham"], settings={}) as store:
        store.add_items((f"mail-{n}", {"text": f"text {n}"}) for n in range(10))
        store.record_batch(
            "parbals-epig", 0, [(4, 0.5, 0.6), (2, 0.4, 0.4), (7, 0.3, 0.5)], {}, queued=True
        )
        yield store


def taken(store, annotator, n=10, seconds=1000.0):
    return [lease.position for lease in store.take(annotator, n, seconds)]


def test_items_go_out_best_first_and_to_one_person_at_a_time(store):
    assert taken(store, "ann", 2) == [4, 2]
    assert taken(store, "bob") == [7]
    assert taken(store, "cyd") == []
    assert store.queue_counts() == QueueCounts(available=0, waiting=0, assigned=3)


def test_whoever_asks_again_gets_the_same_items_first(store):
    assert taken(store, "ann", 1) == [4]
    assert taken(store, "ann", 2) == [4, 2], "a reload shows the same item"


def test_a_lease_tells_until_when_it_is_and_why_the_item_was_chosen(store):
    (lease,) = store.take("ann", 1, 60.0)
    assert abs(lease.expires - time.time() - 60.0) < 5.0
    assert (lease.why.batch, lease.why.rank, lease.why.size, lease.why.strategy) == (
        1,
        0,
        3,
        "parbals-epig",
    )
    assert (lease.why.score, lease.why.initial_score) == (0.5, 0.6)
    assert store.why(0) is None


def test_items_handed_out_as_a_file_are_never_offered_on_the_page(store):
    store.record_batch("random", 0, [(0, None, None)], {})
    store.record_batch("random", 0, [(1, None, None)], {}, annotator="ann", expires=time.time() - 1)
    assert taken(store, "ann") == [4, 2, 7]


def test_an_expired_lease_is_in_the_queue_again_and_is_not_chosen_anew(store):
    assert taken(store, "ann", 1, seconds=-1.0) == [4]
    assert store.queue_counts() == QueueCounts(available=3, waiting=3, assigned=0)
    assert 4 in store.pending()
    with pytest.raises(InputError, match="already assigned in batch 1"):
        store.record_batch("random", 0, [(4, None, None)], {})
    assert taken(store, "bob", 1) == [4]
    assert store.renew("ann", [4], 60.0) == [], "bob has it now"


def test_a_lease_can_be_renewed_after_its_time_while_nobody_else_has_the_item(store):
    assert taken(store, "ann", 2, seconds=-1.0) == [4, 2]
    assert store.renew("ann", [4, 2, 7, 4], 60.0) == [4, 2]
    assert taken(store, "bob") == [7]


def test_an_undone_skip_does_not_take_an_item_from_somebody_else(store):
    taken(store, "ann", 1)
    store.pass_over(4, "skip", annotator="ann")
    assert taken(store, "bob", 1) == [4]
    _, lease = store.undo(4, "ann", lease_seconds=60.0)
    assert lease.expires <= time.time(), "bob holds it"
    assert store.renew("ann", [4], 60.0) == []
    assert taken(store, "bob", 1) == [4]


def test_an_undone_label_of_an_item_that_was_never_chosen_leases_nothing(store):
    store.submit([Submission(0, "ham")], annotator="ann")
    _, lease = store.undo(0, "ann", lease_seconds=60.0)
    assert lease.expires <= time.time()
    assert lease.why is None


def test_released_items_go_to_the_next_person(store):
    assert taken(store, "ann", 2) == [4, 2]
    assert store.release("bob", [4]) == 0, "only one's own"
    assert store.release("ann", [4, 4, 9]) == 1
    assert taken(store, "bob", 1) == [4]


def test_answered_items_leave_the_queue(store):
    taken(store, "ann", 1)
    store.submit([Submission(4, "ham"), Submission(2, "ham")], annotator="ann")
    assert taken(store, "bob") == [7]
    assert store.pending() == [7]


def test_a_late_answer_counts_and_the_item_stays_with_whoever_has_it_now(store):
    taken(store, "ann", 1, seconds=-1.0)
    taken(store, "bob", 1)
    assert store.submit([Submission(4, "ham")], annotator="ann").new == 1
    assert taken(store, "bob", 1) == [4], "bob is looking at it"
    store.submit([Submission(4, "spam")], annotator="bob")
    assert store.current_labels() == {4: {"ann": "ham", "bob": "spam"}}
    assert taken(store, "cyd") == [2, 7]


def test_with_two_answers_wanted_an_item_waits_for_a_second_person(store):
    store.update_settings(answers_wanted=2)
    taken(store, "ann", 1)
    store.submit([Submission(4, "ham")], annotator="ann")
    assert store.queue_counts("ann") == QueueCounts(available=2, waiting=3, assigned=0)
    assert taken(store, "ann", 1) == [2], "nobody is asked twice"
    assert taken(store, "bob", 1) == [4]
    store.submit([Submission(4, "ham")], annotator="bob")
    assert taken(store, "cyd") == [7]


def test_an_item_answered_by_enough_people_while_it_was_out_is_not_offered_again(store):
    taken(store, "ann", 1, seconds=-1.0)
    store.submit([Submission(4, "ham")], annotator="bob")
    assert taken(store, "cyd") == [2, 7]
    assert store.pending() == [2, 7]


def test_an_item_with_answers_enough_leaves_the_queue_whoever_asks_also_when_fewer_are_wanted_now(
    store,
):
    store.update_settings(answers_wanted=2)
    store.submit([Submission(4, "ham"), Submission(2, "spam")], annotator="ann")
    assert store.pending() == [4, 2, 7]
    store.update_settings(answers_wanted=1)
    assert taken(store, "ann", 1) == [7], "ann has answered the others herself"
    assert store.pending() == [7]
    assert store.queue_counts() == QueueCounts(available=0, waiting=0, assigned=1)


def test_the_places_in_a_queued_batch_count_what_is_in_it(store):
    store.submit([Submission(8, "ham")], annotator="ann")
    batch = store.record_batch(
        "random", 0, [(6, None, None), (8, None, None), (9, None, None)], {}, queued=True
    )
    whys = [store.why(position) for position in store.batch_positions(batch)]
    assert [(why.rank, why.size) for why in whys] == [(0, 2), (1, 2)]


def test_labels_of_machines_do_not_count_towards_the_answers_wanted(store):
    store.submit([Submission(4, "ham")], annotator="model", source="machine")
    assert taken(store, "ann", 1) == [4]


def test_a_queued_batch_leaves_out_what_was_answered_while_it_was_chosen(store):
    store.submit([Submission(8, "ham")], annotator="ann")
    assert store.record_batch("random", 0, [(8, None, None), (9, None, None)], {}, queued=True) == 2
    assert [(item.position, item.rank) for item in store.batches()[1].items] == [(9, 0)]
    assert store.batch_positions(2) == [9]
    with pytest.raises(InputError, match="already has the label"):
        store.record_batch("random", 0, [(8, None, None)], {}, queued=True)


def test_waiting_and_out_are_told_apart(store):
    store.record_batch("random", 0, [(0, None, None)], {})
    taken(store, "ann", 1)
    assert store.queued() == ([2, 7], [0, 4])


def test_calls_together_are_stored_by_one_commit_and_a_refused_one_leaves_the_others(
    store, tmp_path
):
    with Store.open(tmp_path / "project", read_only=True) as reader, store.transaction():
        store.submit([Submission(0, "ham")], annotator="ann")
        with pytest.raises(InputError):
            store.submit([Submission(1, "ham"), Submission(2, "eggs")], annotator="ann")
        store.submit([Submission(3, "ham")], annotator="bob")
        assert reader.current_labels() == {}, "nothing is confirmed before the end"
    assert store.current_labels() == {0: {"ann": "ham"}, 3: {"bob": "ham"}}
    assert store.check() == []


def test_calls_together_are_all_undone_by_any_other_error(store, tmp_path):
    def fail():
        with store.transaction():
            store.submit([Submission(0, "ham")], annotator="ann")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert store.current_labels() == {}
    assert store.check() == [], "the journal was not told of an answer that is not there"
    store.close()
    with Store.open(tmp_path / "project") as again:
        assert again.submit([Submission(0, "ham")], annotator="ann").answers == (1,)
