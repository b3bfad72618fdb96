"""The page's second process: what it does when, what it says, and how it ends."""

import json
import os
import random
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest
from dose import small_and_full
from page_server import make_project, wait_for
from parbals.errors import MissingDependencyError
from parbals.learner.active import ActiveLearner
from parbals_label.project import adapting
from parbals_label.project.adapting import AdaptationResult
from parbals_label.project.choose import choose_batch
from parbals_label.project.engine import learner_of, refresh
from parbals_label.project.features import features_of, store_features
from parbals_label.project.summary import overview
from parbals_label.store.records import ADAPTED, Submission
from parbals_label.store.store import Store
from parbals_label.web import worker as worker_module
from parbals_label.web.supervisor import Supervisor, worker_environment
from parbals_label.web.worker import Adapter, Chooser, Reporter

PARTS = (Chooser, Reporter)


@pytest.fixture
def store(tmp_path):
    with Store.open(make_project(tmp_path / "p", n_items=30, queued=0, n_samples=40)) as store:
        yield store


def silent(**words):
    pass


def test_the_worker_chooses_reports_and_maps_and_then_rests(store):
    messages = []
    chooser, reporter = (part(store, lambda **words: messages.append(words)) for part in PARTS)
    store.submit([Submission(0, "ham"), Submission(1, "spam")], annotator="ann")
    store.pass_over(2, "skip", annotator="ann")
    assert chooser.step(5)
    assert store.queue_counts().waiting == 5
    assert not {0, 1, 2} & set(store.pending()), "neither labelled nor skipped items are chosen"
    assert reporter.step()
    assert store.latest_report().n_labels == 2
    assert store.settings.predictions.shape == (30, 2)
    assert reporter.step()
    assert store.settings.map.shape == (30, 2)
    assert not reporter.step()
    assert [words.get("state") for words in messages] == ["choosing", "idle", None]
    assert messages[1]["chose"] == 5
    assert messages[1]["seconds"] >= 0.0
    chooser.step(100)
    assert store.queue_counts().waiting == 27, "fewer where fewer are left"
    messages.clear()
    assert not chooser.step(3)
    assert messages[-1]["chose"] == 0


def test_a_better_batch_takes_the_place_of_what_nobody_has_seen(store):
    store.submit([Submission(0, "ham"), Submission(1, "spam")], annotator="ann")
    store.record_batch("confidence", 0, [(n, None, None) for n in range(2, 20)], {}, queued=True)
    (mine,) = store.take("ann", 1, 60.0)
    assert Chooser(store, silent).step(5, replaces=["confidence"])
    assert list(store.unopened()) == ["parbals-epig"]
    assert Chooser(store, silent).step(3, replaces=["confidence"])
    assert len(store.unopened()["parbals-epig"]) == 8, "its own stay"
    assert mine.position in store.pending(), "what somebody has stays theirs"
    assert [len(record.items) for record in store.batches()] == [1, 5, 3]


def test_after_ten_answers_a_report_waits_half_as_long(store):
    reporter = Reporter(store, silent)
    reporter.n_reported = 5
    reporter.started_at = time.monotonic() - 600.0
    reporter.min_interval = 1000.0
    assert not reporter.is_due(5), "nothing is new"
    assert not reporter.is_due(14), "the last one took long"
    assert reporter.is_due(15)
    reporter.started_at = time.monotonic()
    assert not reporter.is_due(15), "the others want their items chosen"


def test_reports_that_take_long_leave_most_of_the_time(store, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("parbals_label.web.worker.time.monotonic", lambda: now[0])

    def slow(*args, **options):
        now[0] += 26.0

    monkeypatch.setattr(
        "parbals_label.web.worker.load_engine", lambda: SimpleNamespace(refresh=slow)
    )
    store.submit([Submission(0, "ham")], annotator="ann")
    reporter = Reporter(store, silent)
    assert reporter.step()
    now[0] += 30.0
    assert not reporter.is_due(100), "a report of 26 seconds, and 30 after it"
    now[0] += 10.0
    assert reporter.is_due(100)


def test_a_report_does_not_wait_where_nobody_answers(store, monkeypatch):
    now = 1000.0
    monkeypatch.setattr("parbals_label.web.worker.time.monotonic", lambda: now)
    reporter = Reporter(store, silent)
    reporter.n_reported = 5
    reporter.started_at = now
    reporter.min_interval = 30.0
    for now in (1001.0, 1003.0, 1005.0, 1009.0):
        assert not reporter.is_due(round(now) - 995), "somebody labels: items come first"
    now = 1018.0
    assert reporter.is_due(14), "the person has stopped, and looks at the curve"


def test_items_that_wait_for_a_second_opinion_do_not_cost_the_project_its_strategy(store):
    store.update_settings(answers_wanted=2, strategy="margin")
    store.record_batch("random", 0, [(n, None, None) for n in range(20)], {}, queued=True)
    store.submit([Submission(n, ("ham", "spam")[n % 2]) for n in range(20)], annotator="ann")
    assert len(store.pending()) == 20, "they wait for somebody else"
    assert Chooser(store, silent).step(2)
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
    monkeypatch.setattr("parbals_label.project.choose._MAX_ATTEMPTS", 3)
    messages = []
    worker = Chooser(store, lambda **words: messages.append(words))
    worker.step(2)
    assert store.n_labelled == 6, "tried three times"
    assert [words["state"] for words in messages] == ["choosing", "idle"]
    assert "already has the label 'ham' from 'zoe'" in messages[-1]["message"]
    supervisor = Supervisor(store.folder, lambda: None)
    for words in messages:
        supervisor._receive(json.dumps(words))
    assert supervisor.state == "idle", "what is missing is asked for again"
    monkeypatch.undo()
    worker.paused_until = 0.0
    assert worker.step(2)
    assert store.queue_counts().waiting == 2


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
    assert Reporter(store, silent)._update_report()
    assert not Reporter(store, silent)._update_report(), "nothing has changed"
    store.submit([Submission(1, "ham")], annotator="ann", revise=True)
    before = store.settings.predictions.digest
    assert Reporter(store, silent)._update_report(), "as many labels, but others"
    assert store.settings.predictions.digest != before


def test_an_error_is_said_in_one_sentence_and_tried_again_later(store):
    store.update_settings(features=None)
    messages = []
    worker = Chooser(store, lambda **words: messages.append(words))
    assert not worker.step(5)
    assert messages[-1]["state"] == "failed"
    assert "parbals embed" in messages[-1]["message"]
    assert not worker.step(5)
    assert len(messages) == 2, "not at once"


def test_the_process_speaks_json_and_ends_with_its_input(tmp_path):
    folder = make_project(tmp_path / "p", n_items=30, queued=20)
    leftover = folder / ".12ab.parbals-tmp"
    fresh = folder / ".34cd.parbals-tmp"
    leftover.write_bytes(b"by a worker that was cut off two days ago")
    os.utime(leftover, (time.time() - 2 * 24 * 3600,) * 2)
    fresh.write_bytes(b"by another process, just now")
    process = subprocess.Popen(
        [sys.executable, "-m", "parbals_label.web.worker", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=worker_environment(),
    )
    out, _ = process.communicate('{"choose": 0}\nnonsense\n', timeout=300)
    assert process.returncode == 0
    messages = [json.loads(line) for line in out.splitlines()]
    assert {"alive": True} in messages
    states = {message["state"] for message in messages if "state" in message}
    assert states <= {"starting", "idle"}
    assert (leftover.exists(), fresh.exists()) == (False, True)


@pytest.mark.parametrize("starts", small_and_full(2, 60))
def test_a_worker_that_is_stopped_while_its_threads_compute_ends_cleanly(tmp_path, starts):
    """Python's shutdown must not meet threads in compiled code: C++ would abort the process."""
    folder = make_project(tmp_path / "p", n_items=400, queued=20)
    with Store.open(folder) as store:
        labels = [Submission(i, "ham" if i % 2 else "spam") for i in range(40)]
        store.submit(labels, annotator="ann")
    chance = random.Random(0)
    for _ in range(starts):
        process = subprocess.Popen(
            [sys.executable, "-m", "parbals_label.web.worker", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=worker_environment(),
        )
        while (line := process.stdout.readline()) and json.loads(line).get("state") != "idle":
            pass
        assert line, process.communicate(timeout=300)[1]
        time.sleep(chance.uniform(0.0, 1.5))  # the report is computed meanwhile
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors


def test_a_worker_that_fails_says_why(tmp_path):
    command = [sys.executable, "-m", "parbals_label.web.worker", str(tmp_path / "nowhere")]
    ended = subprocess.run(
        command, input="", capture_output=True, text=True, env=worker_environment(), check=False
    )
    assert ended.returncode == 1
    assert "nowhere" in ended.stderr


def test_a_batch_and_a_report_are_made_beside_each_other(tmp_path):
    folder = make_project(tmp_path / "p", n_items=30, queued=0, strategy="random")
    with Store.open(folder) as store:
        store.submit([Submission(0, "ham"), Submission(1, "spam")], annotator="ann")
    supervisor = Supervisor(folder, lambda: None)
    supervisor.start()
    try:
        with Store.open(folder, read_only=True) as store:
            wait_for(lambda: supervisor.state == "idle")
            supervisor.ask(5)
            wait_for(lambda: store.queue_counts().waiting == 5 and store.latest_report())
    finally:
        supervisor.stop()
    assert supervisor.n_chosen == 5


class TestAdapting:
    """The idle task, without PyTorch: what adapts is a stand-in."""

    @pytest.fixture
    def adapter(self, store, monkeypatch):
        self.ran = []
        self.said = []
        self.used = False

        def adapt(store, progress, announce):
            announce(90.0)
            progress("training on all labels", 1, 4)
            n_labels = store.n_labelled
            self.ran.append(n_labels)
            store.log(ADAPTED, n_labels=n_labels, used=self.used)
            return AdaptationResult(self.used, "e", n_labels, 0.1, 0.2, 0.1, 0.1)

        monkeypatch.setattr(adapting, "adapt_project", adapt)
        monkeypatch.setattr(adapting, "starting_point", lambda store: None)
        monkeypatch.setattr(worker_module, "ADAPT_FROM", 4)
        store.update_settings(encoded_kind="text", encoder="words")
        return Adapter(store, lambda **words: self.said.append(words))

    @staticmethod
    def label(store, first, last):
        store.submit(
            [Submission(n, ("ham", "spam")[n % 2]) for n in range(first, last)], annotator="ann"
        )

    def test_nothing_happens_before_an_owner_wants_it(self, store, adapter):
        self.label(store, 0, 10)
        assert not adapter.step()
        assert not self.said

    def test_it_waits_for_labels_and_then_for_half_as_many_more(self, store, adapter):
        store.update_settings(adapt=True)
        self.label(store, 0, 3)
        assert not adapter.step()
        assert "starts at 4 labels; there are 3" in self.said[-1]["adapting"]
        self.label(store, 3, 4)
        assert adapter.step()
        assert any("on all labels: 25 %; about" in (s["adapting"] or "") for s in self.said)
        assert self.said[-1] == {"adapting": None}
        self.label(store, 4, 5)
        assert not adapter.step()
        self.label(store, 5, 6)
        assert Adapter(store, silent).step(), "also where a worker was started again"
        assert self.ran == [4, 6]
        assert "did not improve held-out predictions" in overview(store).features

    def test_switched_off_it_ends_and_says_so(self, store, adapter, monkeypatch):
        store.update_settings(adapt=True)
        self.label(store, 0, 6)

        def slow(store, progress, announce):
            store.update_settings(adapt=False)
            progress("training on all labels", 1, 4)

        monkeypatch.setattr(adapting, "adapt_project", slow)
        assert not adapter.step()
        assert "switched off" in self.said[-1]["adapting"]

    def test_one_that_cannot_adapt_says_why_in_one_sentence(self, store, adapter, monkeypatch):
        def missing(store):
            raise MissingDependencyError("Adapting an encoder needs packages.")

        store.update_settings(adapt=True)
        monkeypatch.setattr(adapting, "starting_point", missing)
        assert not adapter.step()
        assert self.said == [{"adapting": "Adapting an encoder needs packages."}]
        supervisor = Supervisor(store.folder, lambda: None)
        supervisor._receive(json.dumps(self.said[0]))
        assert supervisor.adapting == "Adapting an encoder needs packages."
        supervisor._receive('{"adapting": null}')
        assert supervisor.adapting is None
        assert supervisor.state == "starting", "choosing goes on"


def test_other_features_are_reported_on_without_a_new_label(store):
    store.submit([Submission(0, "ham"), Submission(1, "spam")], annotator="ann")
    reporter = Reporter(store, silent)
    assert reporter.step()
    old = store.settings.features
    written = store_features(store.folder, 1.0 + np.array(features_of(store)))
    store.update_settings(features=written, predictions=None)
    assert written != old
    reporter.min_interval = 0.0
    assert reporter.step()
    assert store.settings.predictions is not None


def test_predictions_of_features_that_are_gone_are_not_kept(store, monkeypatch):
    store.submit([Submission(0, "ham"), Submission(1, "spam")], annotator="ann")
    report = ActiveLearner.report

    def meanwhile(learner):
        written = store_features(store.folder, 1.0 + np.array(features_of(store)))
        store.update_settings(features=written, predictions=None)
        return report(learner)

    monkeypatch.setattr(ActiveLearner, "report", meanwhile)
    refresh(store)
    assert store.settings.predictions is None
    assert not list(store.folder.glob("predictions-*"))
