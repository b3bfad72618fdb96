"""Labels of every task in the store: one text each, renamed inside lists, and safe from kills."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from dose import small_and_full
from parbals.errors import InputError, LabelError, ProjectDamagedError
from parbals_label.answer_form import TASKS
from parbals_label.store.answers import LabelConflictError
from parbals_label.store.records import Submission
from parbals_label.store.store import Store

WRITER = Path(__file__).with_name("crash_writer.py")


def make(folder, task, classes=("cat", "dog", 'it\'s "both"'), n_items=50):
    names = [] if task == "regression" else classes
    with Store.create(folder, classes=names, settings={"task": task}) as store:
        store.add_items((f"item-{n}", {"text": f"text of {n}"}) for n in range(n_items))
    return folder


def tell(store, position, label, who="ann", **more):
    return store.submit([Submission(position, label)], annotator=who, **more)


def test_the_same_label_in_another_form_is_no_news(tmp_path):
    with Store.open(make(tmp_path / "m", "many-labels")) as store:
        assert tell(store, 0, '["dog", "cat"]').new == 1
        assert tell(store, 0, "cat|dog").repeated == 1
        with pytest.raises(LabelConflictError):
            tell(store, 0, "[]")
        assert tell(store, 0, "[]", revise=True).revised == 1
        assert store.current_labels() == {0: {"ann": "[]"}}
        assert store.undo_labels([0], annotator="ann") == 1
        assert store.n_labelled == 0
        assert store.check() == []
    with Store.open(make(tmp_path / "n", "regression")) as store:
        assert tell(store, 0, "7.50").new == 1
        assert tell(store, 0, "7.5").repeated == 1
        with pytest.raises(LabelError, match="answers\\[0\\]: the label 'x' is not a number"):
            tell(store, 1, "x")
        with pytest.raises(LabelError, match="numbers; there are no classes"):
            store.update_settings(classes=["a", "b"])
        with pytest.raises(InputError, match="the labels are numbers"):
            store.update_settings(goal_error=0.05)


def test_classes_are_renamed_and_merged_inside_lists(tmp_path):
    with Store.open(make(tmp_path / "m", "many-labels", ("a", "b", "c"))) as store:
        for position, label in enumerate(['["a","b"]', '["b","c"]', "[]", '["c"]']):
            tell(store, position, label)
        store.rename_class("b", "z")
        assert tell(store, 0, '["a","b"]').repeated == 1, "a page of yesterday says b"
        assert store.current_labels()[1] == {"ann": '["c","z"]'}
        with pytest.raises(LabelError, match="'z' cannot be removed: answers name it"):
            store.update_settings(classes=["a", "c"])
        store.rename_class("z", "c", merge=True)
        now = {position: by["ann"] for position, by in store.current_labels().items()}
        assert now == {0: '["a","c"]', 1: '["c"]', 2: "[]", 3: '["c"]'}
        assert [a.label for a in store.history(0)] == ['["a","b"]'], "history keeps the old name"
        store.update_settings(classes=["c", "a"])
        assert store.form.plain(store.current_labels()[0]["ann"]) == ["c", "a"]
        assert store.check() == []


def test_a_label_that_no_task_would_store_is_damage(tmp_path):
    folder = make(tmp_path / "m", "many-labels")
    with Store.open(folder) as store:
        tell(store, 0, '["cat"]')
        with store._db.transaction():  # as somebody would write it who can prove rows
            store._db.insert("answers", 1, "ann", 1, '["wolf"]', "person", None, None)
    with pytest.raises(ProjectDamagedError, match="wolf"):
        Store.open(folder)


@pytest.mark.parametrize("task", TASKS[1:])
@pytest.mark.parametrize("kills", small_and_full(2, 200))
def test_killed_at_any_moment_no_confirmed_label_is_lost_or_doubled(tmp_path, task, kills):
    folder = make(tmp_path / "p", task)
    chance = random.Random(kills)
    confirmed = 0
    for _ in range(kills):
        order = ["submit", folder, "ann", max(confirmed - 1, 0), 10**6]
        child = subprocess.Popen(
            [sys.executable, WRITER, *map(str, order)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout.readline() == "ready\n"
        time.sleep(chance.random() * 0.1)
        os.kill(child.pid, signal.SIGKILL)
        with child.stdout:
            confirmed = max([confirmed, *(int(line) + 1 for line in child.stdout)])
        child.wait()
        with Store.open(folder) as store:
            assert store.check() == []
            answers = [answer for p in range(store.n_items) for answer in store.history(p)]
        requests = sorted(answer.request for answer in answers)
        assert len(requests) in (confirmed, confirmed + 1)
        assert requests == sorted(f"ann-{number}" for number in range(len(requests)))
    with Store.open(folder) as store:
        assert all(store.form.fits(answer.label) for answer in answers)
