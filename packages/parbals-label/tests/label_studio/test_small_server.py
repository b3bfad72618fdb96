"""A small server in Label Studio's place: what a round creates, and what one finds again."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from threading import Event
from types import SimpleNamespace

import pytest
from parbals.errors import InputError
from parbals_label.label_studio.client import Client, ServerError
from parbals_label.label_studio.sync import Rules, keep_supplied
from parbals_label.project.measured import measurable_positions
from parbals_label.project.measuring import begin_measurement
from parbals_label.project.samples import latest_sample
from parbals_label.store.records import Submission
from parbals_label.store.store import Store

CONFIG = (
    '<View><Text name="item" value="$message"/><Choices name="label" toName="item">'
    '<Choice value="ham"/><Choice value="spam"/></Choices></View>'
)
PROJECT = {"id": 1, "created_at": "2026-01-01T00:00:00Z", "label_config": CONFIG}


class Small(BaseHTTPRequestHandler):
    """``server.trouble`` says what becomes of the next import: "down" or "background"."""

    def do_GET(self):
        if self.path.startswith("/api/tasks/?"):
            tasks = self.server.tasks
            return self.answer(200, {"tasks": tasks, "total": len(tasks)})
        if self.path.startswith("/api/tasks/"):
            return self.answer(404, {})
        assert self.path == "/api/projects/1/"
        return self.answer(200, PROJECT)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.path == "/api/projects/1/import?return_task_ids=true"
        made = [{**task, "id": next(self.server.numbers), "annotations": []} for task in body]
        self.server.tasks += made
        trouble = self.server.trouble
        self.server.trouble = None
        if trouble == "down":
            return self.answer(503, {})
        numbers = [task["id"] for task in made]
        return self.answer(201, {"import": 7} if trouble else {"task_ids": numbers})

    def answer(self, status, body):
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def small(folder):
    """``supply()``: one round; ``tasks`` and ``trouble`` are the server's."""
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Small)
    httpd.tasks = []
    httpd.trouble = None
    httpd.numbers = count(100)
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


def test_a_batch_becomes_tasks_in_its_order_and_the_next_waits(small):
    assert small.supply().created == 6
    assert len(set(items_of(small.server.tasks))) == 6
    assert [task["data"]["parbals_rank"] for task in small.server.tasks] == [1, 2, 3, 4, 5, 6]
    assert small.supply().created == 0


def test_labels_are_taken_and_make_room_for_the_next_batch(small, folder):
    small.supply()
    choice = {"type": "choices", "from_name": "label", "value": {"choices": ["spam"]}}
    for task in small.server.tasks[:4]:
        task["annotations"] = [
            {"id": task["id"], "result": [choice], "updated_at": "2026-01-02T00:00:00Z"}
        ]
    second = small.supply()
    assert (second.labels, second.created) == (4, 6)
    assert small.supply().labels == 0
    with Store.open(folder) as store:
        assert sorted(len(votes) for votes in store.current_labels().values()) == [1, 1, 1, 1]


def test_tasks_whose_creation_was_not_confirmed_are_found_again(small):
    small.server.trouble = "down"
    with pytest.raises(ServerError, match="status 503"):
        small.supply()
    assert small.supply().created == 0
    assert len(items_of(small.server.tasks)) == 6


def test_a_server_that_creates_tasks_in_the_background_is_refused(small):
    small.server.trouble = "background"
    with pytest.raises(InputError, match="in the background"):
        small.supply()


def test_tasks_that_are_not_ours_are_left_alone(small):
    small.supply()
    ours = small.server.tasks[0]["data"]
    strange = ({**ours, "parbals_project": "another"}, {**ours, "parbals_item": "nobody"})
    for number, data in enumerate((*strange, None, [], {}, {"message": ["x"]})):
        small.server.tasks.append({"id": number, "data": data, "annotations": [{"id": 1}]})
    result = small.supply()
    assert (result.labels, result.created) == (0, 0)


def test_an_open_task_that_was_deleted_is_not_made_again(small, folder):
    small.supply()
    deleted = items_of(small.server.tasks)[:4]
    del small.server.tasks[:4]
    assert small.supply().created == 6
    assert small.supply().created == 0
    assert not {*deleted} & {*items_of(small.server.tasks)}
    with Store.open(folder) as store:
        assert set(store.passes()) == set(store.position_of(deleted))


def test_a_skip_leaves_an_item_of_a_random_sample_to_the_others(small, folder):
    small.supply()
    first, second = small.server.tasks[:2]
    with Store.open(folder) as store:
        store.invite("ada")
        ours = store.position_of(items_of(small.server.tasks))
        others = [position for position in range(store.n_items) if position not in ours]
        labels = [Submission(p, ("ham", "spam")[p % 2]) for p in others[:10]]
        store.submit(labels, annotator="ada")
        n_left = len(measurable_positions(store))
        begin_measurement(store, n_left, queued=False, progress=lambda *_: None)
    choice = {"type": "choices", "from_name": "label", "value": {"choices": ["spam"]}}
    kim = {"created_username": " kim@example.com, 7", "updated_at": "2026-01-02T00:00:00Z"}
    first["annotations"] = [{"id": 1, "result": [], "was_cancelled": True, **kim}]
    second["annotations"] = [{"id": 2, "result": [choice], **kim}]
    small.supply()
    with Store.open(folder) as store:
        skipped, labelled = store.position_of(items_of([first, second]))
        assert skipped in store.pending()
        assert labelled not in store.pending()
        assert latest_sample(store).n_labelled == 1
