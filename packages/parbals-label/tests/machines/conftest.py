"""A tiny project made by the project's own functions, and annotators that are real programs."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # the helper modules beside this file

from threading import Event

from machine_projects import PRELUDE, make_project
from message_projects import copy_project
from parbals_label.machines.loop import Rules, label_items
from parbals_label.machines.programs import Program
from parbals_label.store.store import Store


@pytest.fixture(scope="session")
def made_once(tmp_path_factory):
    return make_project(tmp_path_factory.mktemp("machines") / "spam")


@pytest.fixture
def project(made_once, tmp_path):
    return copy_project(made_once, tmp_path / "spam")


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
    """Run a program over the project: what it did, what was said, and what the store holds now."""

    def run(words, name="machine:test", stop=None, folder=project, **rules):
        said = []
        program = words if isinstance(words, Program) else Program(words)
        rules = Rules(
            **{"batch_size": 4, "retries": 1, "timeout": 20.0, "first_wait": 0.01, **rules}
        )
        with Store.open(folder) as store:
            result = label_items(store, name, program, rules, stop or Event(), say=said.append)
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
