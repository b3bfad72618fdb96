"""The draw of a sample is undone while nobody has answered one of its items."""

import pytest
from message_data import truth, write_messages
from parbals.errors import InputError
from parbals_label.project.create import Roles, create_project
from parbals_label.project.engine import refresh
from parbals_label.project.measured import measured_positions, open_sample
from parbals_label.project.measuring import begin_measurement, keep_sample
from parbals_label.project.samples import random_samples
from parbals_label.project.undo_sample import undo_sample, undoable_sample_size
from parbals_label.store.records import Submission
from parbals_label.store.store import Store


@pytest.fixture
def store(tmp_path):
    """A project of 60 messages, six of them labelled, with predictions."""
    write_messages(tmp_path / "messages.csv", 60)
    create_project(
        tmp_path / "p", tmp_path / "messages.csv", Roles(text=("message",)), ["ham", "spam"], {}
    )
    with Store.open(tmp_path / "p") as store:
        store.submit([Submission(p, truth(p)) for p in range(6)], annotator="ann")
        refresh(store)
        yield store


def test_a_sample_that_is_undone_has_used_its_share_of_the_error_level(store):
    number = begin_measurement(store, 12, queued=True)
    drawn = store.batch_positions(number)
    assert undoable_sample_size(store) == 12
    assert undo_sample(store) == 12
    assert open_sample(store) is None
    assert random_samples(store) == []
    assert not measured_positions(store)
    assert not set(store.pending()) & set(drawn)
    assert store.check() == []
    begin_measurement(store, 12, queued=True)
    (sample,) = random_samples(store)
    assert (sample.number, sample.n_samples) == (2, 2), "nobody can look for a better sample"


@pytest.mark.parametrize("kind", ["label", "label of a program", "skip"])
def test_an_answer_ends_the_way_back(store, kind):
    number = begin_measurement(store, 12, queued=True)
    position = store.batch_positions(number)[3]
    if kind == "skip":
        store.pass_over(position, "skip", annotator="ann")
    else:
        who = {"annotator": "ann"}
        if kind != "label":
            who = {"annotator": "machine:gpt", "source": "machine"}
        store.submit([Submission(position, truth(position))], **who)
    assert undoable_sample_size(store) == 0
    with pytest.raises(InputError, match="no sample to undo"):
        undo_sample(store)
    assert len(open_sample(store).items) == 12


def test_a_kept_sample_is_not_undone(store):
    keep_sample(store, 10)
    assert undoable_sample_size(store) == 0
    with pytest.raises(InputError, match="it is kept"):
        undo_sample(store)


def test_without_a_sample_there_is_nothing_to_undo(store):
    assert undoable_sample_size(store) == 0
    with pytest.raises(InputError, match="none was drawn"):
        undo_sample(store)
