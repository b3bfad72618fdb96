"""One server for all tests, with a project of its own for each of them."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from message_data import message
from parbals_label.project.create import Roles, create_project
from parbals_label.store.store import Store


@pytest.fixture(scope="session")
def studio(tmp_path_factory):
    from studio import fresh_studio

    server = fresh_studio(tmp_path_factory.mktemp("label-studio"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def admin(studio):
    from studio import Person

    return Person(studio)


@pytest.fixture(scope="session")
def key(admin):
    """A personal access token."""
    return admin.call("POST", "token/")["token"]


@pytest.fixture(scope="session")
def people(studio):
    from studio import Person

    return [Person(studio, f"{name}@example.com", "their password 1") for name in ("kim", "lee")]


@pytest.fixture(scope="session")
def made_once(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    data = folder / "messages.jsonl"
    lines = [json.dumps({"id": f"{i:03d}", "message": message(i)}) for i in range(40)]
    data.write_text("\n".join(lines), "utf-8")
    create_project(
        folder / "spam",
        data,
        Roles(text=("message",)),
        ["ham", "spam"],
        {"strategy": "margin"},
    )
    return folder / "spam"


@pytest.fixture
def folder(made_once, tmp_path):
    """A project of 40 messages without labels; its strategy is the quick ``margin``."""
    from message_projects import copy_project

    return copy_project(made_once, tmp_path / "spam")


@pytest.fixture
def supply(studio, key):
    """``supply(folder, project)``: one round; what it did, what was said, what is stored."""
    from threading import Event

    from parbals_label.label_studio.client import Client
    from parbals_label.label_studio.sync import Rules, keep_supplied

    def once(folder, project, n=6, key=key, studio=studio, **rules):
        messages = []
        with Store.open(folder) as store:
            rules = Rules(batch_size=n, once=True, **rules)
            client = Client(studio.url, key)
            result = keep_supplied(store, client, project, rules, Event(), say=messages.append)
            labels = {store.items([p])[0].id: by for p, by in store.current_labels().items()}
            assert store.check() == []
        return SimpleNamespace(result=result, said=messages, labels=labels)

    return once
