"""The worker: what it does when, and what it says."""

import json
import subprocess
import sys
import threading

import pytest
from page_server import make_project

from parbals.learner.active import ActiveLearner
from parbals.project.engine import choose_batch, learner_of, refresh
from parbals.store.records import Submission
from parbals.store.store import Store
from parbals.web.supervisor import Supervisor, worker_environment
from parbals.web.worker import Worker, first_items


@pytest.fixture
def store(tmp_path):
    with Store.open(make_project(tmp_path / "p", n_items=30, queued=0, n_samples=40)) as store:
        yield store


def silent(**words):
    pass


def test_the_first_items_are_there_before_the_model_is(store):
    assert first_items(store) == 3
    assert store.queue_counts().free == 3
    assert store.batches()[0].strategy == "random"
    assert first_items(store) == 0, "something waits already"


def test_the_first_items_are_the_same_for_the_same_seed_and_never_taken_ones(store):
    store.submit([Submission(n, "ham") for n in range(0, 26)], annotator="ann")
    store.pass_over(26, "skip", annotator="ann")
    store.record_batch("random", 0, [(27, None, None)], {})
    assert first_items(store) == 2
    assert sorted(item.position for item in store.batches()[1].items) == [28, 29]
    assert first_items(store) == 0


def test_the_first_items_are_the_audits_where_there_is_one(store):
    store.update_settings(audit=[17, 4, 9, 21])
    store.submit([Submission(4, "ham")], annotator="ann")
    assert first_items(store) == 3
    (record,) = store.batches()
    assert [item.position for item in record.items] == [17, 9, 21]
    assert record.strategy == "audit"


def test_nothing_is_left_to_start_with_where_everything_is_labelled(store):
    store.submit([Submission(n, "ham") for n in range(30)], annotator="ann")
    assert first_items(store) == 0


def test_the_plan_keeps_to_the_time_people_will_wait(store):
    worker = Worker(store, silent)
    worker.seconds_each = 0.2  # forty steps fit
    assert worker.plan(10, 20, seconds=0.0) == (10, None)
    assert worker.plan(60, 20, seconds=0.0) == (20, None), "in parts"
    assert worker.plan(60, 20, seconds=30.0) == (60, None), "what waits lasts longer"
    assert worker.plan(150, 20, seconds=0.0) == (150, "power-epig"), "all at once where many wait"
    assert worker.plan(10, 300, seconds=30.0) == (10, "power-epig"), (
        "too many are out to take them into account"
    )


def test_the_worker_chooses_reports_and_maps_and_then_rests(store):
    said = []
    worker = Worker(store, lambda **words: said.append(words))
    store.submit([Submission(0, "ham"), Submission(1, "spam")], annotator="ann")
    store.pass_over(2, "skip", annotator="ann")
    assert worker.step(5)
    assert store.queue_counts().free == 5
    assert not {0, 1, 2} & set(store.pending()), "neither labelled nor passed items are chosen"
    assert worker.step(0)
    assert store.latest_report().n_labels == 2
    assert store.settings.predictions.shape == (30, 2)
    assert worker.step(0)
    assert store.settings.map.shape == (30, 2)
    assert not worker.step(0)
    assert [words["state"] for words in said] == ["choosing", "idle", "reporting", "idle"]
    worker.step(100)
    assert store.queue_counts().free == 27, "fewer where fewer are left"
    said.clear()
    assert not worker.step(3)
    assert said[-1]["chose"] == 0


def test_items_that_wait_for_a_second_opinion_do_not_cost_the_project_its_strategy(store):
    store.update_settings(answers_wanted=2, strategy="margin")
    store.record_batch("random", 0, [(n, None, None) for n in range(20)], {}, queued=True)
    store.submit([Submission(n, ("ham", "spam")[n % 2]) for n in range(20)], annotator="ann")
    assert len(store.pending()) == 20, "they wait for somebody else"
    worker = Worker(store, silent)
    worker.seconds_each = 0.5  # sixteen steps fit
    assert worker.step(2)
    assert store.batches()[-1].strategy == "margin"
    assert refresh(store, with_pending=False).n_pending == len(learner_of(store).pending) == 2


@pytest.fixture
def hasty(store, monkeypatch):
    """Somebody labels items while they are being chosen: ``hasty(batch)`` says which."""
    choose = ActiveLearner.choose

    def install(labelled):
        def chosen(learner, *args, **options):
            batch = choose(learner, *args, **options)
            with Store.open(store.folder) as other:
                other.submit([Submission(int(n), "ham") for n in labelled(batch)], annotator="zoe")
            return batch

        monkeypatch.setattr(ActiveLearner, "choose", chosen)

    return install


def test_a_worker_that_is_overtaken_again_and_again_says_so_and_can_be_asked_again(
    store, hasty, monkeypatch
):
    store.update_settings(strategy="random")
    hasty(lambda batch: batch.indices)
    monkeypatch.setattr("parbals.project.engine._TRIES", 3)
    said = []
    worker = Worker(store, lambda **words: said.append(words))
    worker.next_report = float("inf")
    worker.step(2)
    assert store.n_labelled == 6, "tried three times"
    assert [words["state"] for words in said] == ["choosing", "idle"]
    assert "already has the label 'ham' from 'zoe'" in said[-1]["message"]
    supervisor = Supervisor(store.folder, lambda: None)
    for words in said:
        supervisor._hear(json.dumps(words))
    assert supervisor.state == "idle", "what is missing is asked for again"
    monkeypatch.undo()
    worker.quiet_until = 0.0
    assert worker.step(2)
    assert store.queue_counts().free == 2


def test_what_was_labelled_while_it_was_chosen_is_not_said_to_be_in_the_batch(store, hasty):
    store.update_settings(strategy="random")
    hasty(lambda batch: batch.indices[[0, 2]])
    number, batch = choose_batch(store, 4, queued=True)
    stored = store.batches()[-1].items
    assert len(batch) == 2
    assert (
        batch.indices.tolist()
        == store.batch_positions(number)
        == [item.position for item in stored]
    )
    assert [item.rank for item in stored] == [0, 1]
    assert batch.scores.tolist() == [item.score for item in stored]
    assert len(batch.explain().splitlines()) == 4 + len(batch.notes)


def test_a_corrected_label_renews_the_predictions_after_a_restart(store):
    store.submit([Submission(0, "ham"), Submission(1, "spam")], annotator="ann")
    assert Worker(store, silent)._report()
    assert not Worker(store, silent)._report(), "nothing has changed"
    store.submit([Submission(1, "ham")], annotator="ann", revise=True)
    before = store.settings.predictions.digest
    assert Worker(store, silent)._report(), "as many labels, but others"
    assert store.settings.predictions.digest != before


def test_an_error_is_said_in_one_sentence_and_tried_again_later(store):
    store.update_settings(features=None)
    said = []
    worker = Worker(store, lambda **words: said.append(words))
    assert not worker.step(5)
    assert said[-1]["state"] == "failed"
    assert "parbals embed" in said[-1]["message"]
    assert not worker.step(5)
    assert len(said) == 2, "not at once"


def test_the_process_speaks_json_and_ends_with_its_input(tmp_path):
    folder = make_project(tmp_path / "p", n_items=30, queued=20)
    (folder / ".predictions.123.tmp").write_bytes(b"left by a worker that was cut off")
    process = subprocess.Popen(
        [sys.executable, "-m", "parbals.web.worker", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=worker_environment(),
    )
    out, _ = process.communicate('{"choose": 0}\nnonsense\n', timeout=300)
    assert process.returncode == 0
    assert {json.loads(line)["state"] for line in out.splitlines()} <= {"starting", "idle"}
    assert not list(folder.glob(".predictions*"))


def test_items_come_before_the_report(tmp_path):
    folder = make_project(tmp_path / "p", n_items=30, queued=0, strategy="random")
    with Store.open(folder) as store:
        store.submit([Submission(0, "ham"), Submission(1, "spam")], annotator="ann")
    states, reported = [], threading.Event()

    def react():
        states.append(supervisor.state)
        if states.count("idle") == 1 and states[-1] == "idle":
            supervisor.ask(5)  # as the page does when it hears that the worker is there
        elif states[-1] == "reporting":
            reported.set()

    supervisor = Supervisor(folder, react)
    supervisor.start()
    try:
        assert reported.wait(300)
    finally:
        supervisor.stop()
    assert "choosing" in states[: states.index("reporting")]
