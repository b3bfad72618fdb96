"""One label from several people's answers."""

import pytest

from parbals.project.consensus import combined_labels
from parbals.store.records import Submission
from parbals.store.store import Store


@pytest.fixture
def store(tmp_path):
    with Store.create(tmp_path / "project", classes=["spam", "ham"], settings={}) as store:
        store.add_items((f"mail-{n}", {}) for n in range(3))
        yield store


def test_the_majority_decides_and_the_earliest_among_equals():
    answers = {
        0: {"kim": "ham"},
        1: {"kim": "ham", "lee": "spam", "sam": "spam"},
        2: {"kim": "spam", "lee": "ham"},
        3: {},
    }
    assert combined_labels(answers) == {0: "ham", 1: "spam", 2: "spam"}


def test_a_tie_goes_to_the_earlier_answer_not_to_the_first_name(store):
    store.submit([Submission(0, "spam")], annotator="zoe")
    store.submit([Submission(0, "ham")], annotator="ann")
    assert combined_labels(store.votes()) == {0: "spam"}
    store.submit([Submission(0, "ham")], annotator="zoe", revise=True)
    assert combined_labels(store.votes()) == {0: "ham"}


def test_people_outvote_machines_and_machines_count_where_nobody_answered(store):
    for machine in ("model-1", "model-2"):
        store.submit(
            [Submission(0, "spam"), Submission(1, "spam")], annotator=machine, source="machine"
        )
    store.submit([Submission(0, "ham")], annotator="ann")
    assert combined_labels(store.votes()) == {0: "ham", 1: "spam"}
    assert store.current_labels()[0] == {"model-1": "spam", "model-2": "spam", "ann": "ham"}, (
        "nothing is hidden"
    )
    store.withdraw([0], annotator="ann")
    assert combined_labels(store.votes()) == {0: "spam", 1: "spam"}
