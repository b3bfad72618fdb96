"""A server that creates tasks in the background, as Label Studio Enterprise does.

It answers an import with a number, and the tasks appear later. The open source release has that
code, which a setting switches on, but no queue: everything is done when it answers. So a small
server of our own stands for one that takes its time.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from threading import Event
from types import SimpleNamespace

import pytest
from parbals.errors import InputError
from parbals_label.label_studio import client
from parbals_label.label_studio.client import Client, ServerError
from parbals_label.label_studio.sync import Rules, keep_supplied
from parbals_label.store.store import Store

CONFIG = (
    '<View><Text name="item" value="$message"/><Choices name="label" toName="item">'
    '<Choice value="ham"/><Choice value="spam"/></Choices></View>'
)
PROJECT = {"id": 1, "created_at": "2026-01-01T00:00:00Z", "label_config": CONFIG}


class Background(BaseHTTPRequestHandler):
    """``server.polls`` holds what the next looks at an import find; then it has been done."""

    def do_GET(self):
        if self.path.startswith("/api/tasks/?"):
            tasks = self.server.tasks
            return self.answer(200, {"tasks": tasks, "total": len(tasks)})
        if self.path == "/api/projects/1/":
            return self.answer(200, PROJECT)
        state = self.server.polls.pop(0) if self.server.polls else "completed"
        if state == "down":
            return self.answer(503, {})
        waiting = self.server.imports[self.path]
        if state == "completed":
            self.server.tasks += waiting
        numbers = [task["id"] for task in waiting] if state == "completed" else []
        error = "Prediction validation failed\n- Task 0" if state == "failed" else None
        return self.answer(200, {"status": state, "task_ids": numbers, "error": error})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.path == "/api/projects/1/import?return_task_ids=true"
        made = [{**task, "id": next(self.server.numbers), "annotations": []} for task in body]
        number = len(self.server.imports) + 1
        self.server.imports[f"/api/projects/1/imports/{number}/"] = made
        self.answer(201, {"import": number})

    def answer(self, status, body):
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def enterprise(folder, monkeypatch):
    """``supply()``: one round; ``polls``, ``tasks`` and ``imports`` are the server's."""
    monkeypatch.setattr(client, "_PAUSE", 0.01)
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Background)
    httpd.tasks, httpd.imports, httpd.polls, httpd.numbers = [], {}, [], count(100)
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()

    def supply():
        with Store.open(folder) as store:
            there = Client(f"http://127.0.0.1:{httpd.server_address[1]}", "0123456789abcdef")
            rules = Rules(batch_size=6, once=True)
            return keep_supplied(store, there, 1, rules, Event(), say=lambda _: None)

    yield SimpleNamespace(server=httpd, supply=supply)
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def items_of(tasks):
    return [task["data"]["parbals_item"] for task in tasks]


def test_tasks_that_appear_later_are_waited_for(enterprise):
    enterprise.server.polls += ["created", "in_progress"]
    assert enterprise.supply().created == 6
    assert len(set(items_of(enterprise.server.tasks))) == 6
    assert enterprise.supply().created == 0


def test_a_run_that_did_not_see_the_end_of_an_import_creates_nothing_twice(enterprise):
    enterprise.server.polls += ["created", "down"]
    with pytest.raises(ServerError, match="status 503"):
        enterprise.supply()
    assert enterprise.server.tasks == []
    enterprise.server.polls += ["in_progress"]  # still not there when the next run begins
    assert enterprise.supply().created == 0
    assert len(items_of(enterprise.server.tasks)) == 6
    assert len(enterprise.server.imports) == 1


def test_an_import_that_fails_says_why_and_is_made_again(enterprise):
    enterprise.server.polls += ["failed"]
    with pytest.raises(InputError, match="could not import: Prediction validation failed - Task 0"):
        enterprise.supply()
    enterprise.server.polls += ["failed"]  # what the first import is found to be
    assert enterprise.supply().created == 6
    assert len(set(items_of(enterprise.server.tasks))) == 6


@pytest.mark.label_studio
def test_the_code_of_the_other_editions(tmp_path, folder, supply):
    from studio import OTHER_EDITION, Person, fresh_studio

    studio = fresh_studio(tmp_path, settings=OTHER_EDITION)
    try:
        admin = Person(studio)
        key = admin.call("POST", "token/")["token"]
        project = admin.new_project("Background", CONFIG)
        assert supply(folder, project, key=key, studio=studio).result.created == 6
        assert [task["data"]["parbals_rank"] for task in admin.tasks(project)] == [1, 2, 3, 4, 5, 6]
        with Store.open(folder) as store:
            imports = [event for event in store.events() if event.kind == "label studio import"]
        assert len(imports) == 2  # begun and ended, as it is not in the Community edition
        assert supply(folder, project, key=key, studio=studio).result.created == 0
        address = Client(studio.url, key).upload(project, "a.txt", b"text", "text/plain")
        assert address.startswith("/data/upload/")
    finally:
        studio.stop()
