"""A tiny project made by the project's own functions, and annotators that are real programs."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # the helper modules beside this file

from machine_projects import PRELUDE, make_project

from parbals.machines.loop import Rules, Watcher, label_items
from parbals.machines.pace import Stop
from parbals.machines.programs import Program
from parbals.store.store import Store


@pytest.fixture
def project(tmp_path):
    return make_project(tmp_path / "spam")


@pytest.fixture
def write(tmp_path):
    """Write an annotator; returns the words that run it."""

    def program(body, name="annotator"):
        path = tmp_path / f"{name}.py"
        path.write_text(PRELUDE + body, encoding="utf-8")
        return [sys.executable, str(path)]

    return program


@pytest.fixture
def label(project):
    """Run a machine over the project; returns what it did, what it said, and the labels as the
    store has them now."""

    def run(machine, name="machine:test", stop=None, folder=project, **rules):
        said = []
        machine = Program(machine) if isinstance(machine, list) else machine
        rules = Rules(
            **{"batch_size": 4, "retries": 1, "timeout": 20.0, "first_wait": 0.01, **rules}
        )
        with Store.open(folder) as store:
            result = label_items(
                store, name, machine, rules, stop or Stop(), Watcher(say=said.append)
            )
            labels = {
                store.items([p])[0].id: by.get(name)
                for p, by in store.current_labels().items()
                if name in by
            }
            out, answers = (
                store.pending(),
                [a for p in range(store.n_items) for a in store.history(p)],
            )
            assert store.check() == []
        return SimpleNamespace(result=result, said=said, labels=labels, out=out, answers=answers)

    return run
