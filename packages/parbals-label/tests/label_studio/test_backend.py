"""The model that Label Studio connects: it is accepted, predicts, and hears of annotations."""

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
import requests
from parbals_label.label_studio.backend import make_backend
from parbals_label.server import connections
from parbals_label.store.store import Store
from studio import CONFIG, right, until

MOMENT = "2026-11-16T09:04:20.176947Z"


@pytest.fixture
def backend(folder, serve_model):
    """The address of the project's model."""
    return serve_model(folder)


def labels_of(folder):
    with Store.open(folder, read_only=True) as store:
        return {store.items([p])[0].id: by for p, by in store.current_labels().items()}


@pytest.mark.label_studio
def test_it_is_accepted_predicts_and_learns(admin, people, folder, supply, backend):
    project = admin.new_project("Model", CONFIG)
    supply(folder, project)
    tasks = admin.tasks(project)
    model = {"project": project, "url": backend, "title": "parbals"}
    connected = admin.call("POST", "ml/", json=model)
    assert connected["readable_state"] == "Connected"
    kim, lee = people
    numbers = [kim.annotate(task["id"], right(task)) for task in tasks[:3]]
    until(lambda: len(labels_of(folder)) == 3)  # at once: nobody ran connect again
    names = [task["data"]["parbals_item"] for task in tasks]
    kim.change(numbers[0], "spam" if right(tasks[0]) == "ham" else "ham")
    kim.delete("annotations", numbers[1])
    until(lambda: names[1] not in labels_of(folder))
    assert set(labels_of(folder)) == {names[0], names[2]}
    held = list(labels_of(folder)[names[0]].values())
    assert held == ["spam" if right(tasks[0]) == "ham" else "ham"]
    # The server's client knows everybody's address: nobody is counted twice.
    again = supply(folder, project)
    assert again.labels[names[0]] == {"kim@example.com": held[0]}
    lee.annotate(tasks[1]["id"], right(tasks[1]))
    until(lambda: names[1] in labels_of(folder))
    time.sleep(0.5)
    assert labels_of(folder)[names[1]] in (
        {"lee@example.com": right(tasks[1])},
        {"label-studio user 3": right(tasks[1])},
    )
    action = f"dm/actions?id=retrieve_tasks_predictions&project={project}"
    chosen = {"selectedItems": {"all": True, "excluded": []}}

    def predicted():
        admin.call("POST", action, json=chosen)
        versions = [
            prediction["model_version"]
            for task in admin.tasks(project)[:6]
            for prediction in task["predictions"]
        ]
        return sum(version.startswith("parbals-") for version in versions) >= 6

    until(predicted)


@pytest.mark.full
def test_strangers_and_bad_requests_are_refused(folder, backend):
    stem = backend.rpartition("/")[0]
    for path in ("health", "wrong/health"):
        assert requests.get(f"{stem}/{path}", timeout=60).status_code in (401, 404)
    event = {"action": "ANNOTATION_CREATED", "annotation": {"id": 1}}
    assert requests.post(f"{stem}/wrong/webhook", json=event, timeout=60).status_code == 401
    assert requests.get(f"{backend}/health", timeout=60).json() == {"status": "UP"}
    bad = [b"", b"[]", b"[" * 100_000, b'{"tasks": 3}', b"\xff"]
    for body in bad:
        answer = requests.post(f"{backend}/predict", data=body, timeout=60)
        assert answer.status_code == 400, body[:20]
        assert answer.json()["error"]
    answer = requests.post(f"{backend}/setup", json={"schema": "<View/>"}, timeout=60)
    assert "no <Choices>" in answer.json()["error"]
    assert requests.post(f"{backend}/webhook", json={"action": "x"}, timeout=60).ok
    assert labels_of(folder) == {}


@pytest.mark.full
def test_events_are_taken_and_tasks_predicted(folder, backend):
    """As Label Studio 1.23 writes them."""
    with Store.open(folder, read_only=True) as store:
        data = {"message": "x", "parbals_item": "004", "parbals_project": store.identity}
    region = {"from_name": "label", "to_name": "item", "type": "choices"}
    annotation = {
        "id": 3,
        "result": [{**region, "value": {"choices": ["spam"]}}],
        "completed_by": 7,
        "updated_at": "2026-11-16T09:06:49.826086Z",
    }
    project = {"id": 1, "created_at": MOMENT, "label_config": CONFIG}
    event = {"annotation": annotation, "project": project, "task": {"id": 1, "data": data}}
    created = {"action": "ANNOTATION_CREATED", **event}
    for expected in (1, 0):
        answer = requests.post(f"{backend}/webhook", json=created, timeout=60)
        assert answer.json()["labels"] == expected
    assert labels_of(folder) == {"004": {"label-studio user 7": "spam"}}
    asked = {"label_config": CONFIG, "tasks": [{"id": 1, "data": data}, {"id": 2, "data": {}}]}

    def predicted():
        return requests.post(f"{backend}/predict", json=asked, timeout=60).json()["results"][0]

    until(predicted)  # the model is fitted meanwhile
    (prediction,), nothing = requests.post(f"{backend}/predict", json=asked).json()["results"]
    assert (prediction["result"][0]["value"]["choices"], nothing) == (["spam"], [])
    version = requests.post(f"{backend}/setup", json={"schema": CONFIG}).json()["model_version"]
    assert version == prediction["model_version"] == "parbals-1"
    gone = {"action": "ANNOTATIONS_DELETED", "annotations": [{"id": 3}], "project": project}
    assert requests.post(f"{backend}/webhook", json=gone).json()["withdrawn"] == 1
    assert labels_of(folder) == {}


def test_half_open_connections_do_not_lock_label_studio_out(folder, monkeypatch):
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 20)
    server = connections.make_server(make_backend(folder, "word"))
    with connections.listen("127.0.0.1", 0) as listener, ExitStack() as held:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        place = listener.getsockname()
        for _ in range(60):
            link = held.enter_context(socket.create_connection(place, timeout=20))
            link.sendall(b"POST /word/predict HTTP/1.1\r\nHost: x\r\nContent-Ty")
        address = f"http://127.0.0.1:{place[1]}/word"
        answer = requests.get(f"{address}/health", timeout=20)
        for bad in ({"annotations": 3}, {"annotations": [3]}):
            event = {"action": "ANNOTATIONS_DELETED", "project": {"id": 1, "created_at": MOMENT}}
            told = requests.post(f"{address}/webhook", json=event | bad, timeout=20)
            assert told.json() == {"labels": 0, "revised": 0, "withdrawn": 0}
        server.should_exit = True
        thread.join()
    assert (answer.status_code, answer.json()) == (200, {"status": "UP"})


def served(folder, held):
    """The model's address, served in a thread until ``held`` ends."""
    server = connections.make_server(make_backend(folder, "word"))
    listener = held.enter_context(connections.listen("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, args=([listener],))

    def end():
        server.should_exit = True
        thread.join()

    thread.start()
    held.callback(end)
    return f"http://127.0.0.1:{listener.getsockname()[1]}/word"


def event_for(store, item, who, number):
    data = {"parbals_item": item, "parbals_project": store.identity}
    region = {"from_name": "label", "to_name": "item", "type": "choices"}
    annotation = {"id": number, "result": [{**region, "value": {"choices": ["spam"]}}]}
    annotation |= {"completed_by": who, "updated_at": MOMENT}
    project = {"id": 1, "created_at": MOMENT, "label_config": CONFIG}
    event = {"annotation": annotation, "project": project, "task": {"id": 1, "data": data}}
    return {"action": "ANNOTATION_CREATED", **event}


def test_many_events_at_once_are_all_stored(folder):
    with ExitStack() as held, Store.open(folder, read_only=True) as store:
        address = served(folder, held)
        names = [item.id for item in store.iter_items()][:32]
        events = [event_for(store, name, 1, n) for n, name in enumerate(names, 1)]
        with ThreadPoolExecutor(32) as crowd:
            told = list(
                crowd.map(
                    lambda event: requests.post(f"{address}/webhook", json=event, timeout=60),
                    events,
                )
            )
    assert [(answer.status_code, answer.json()["labels"]) for answer in told] == [(200, 1)] * 32
    assert labels_of(folder) == {name: {"label-studio user 1": "spam"} for name in names}


@pytest.mark.parametrize(
    "name", ["machine:x", "import", "label-studio admin", "a\x1b[31m", "x" * 300, "\u202eada"]
)
def test_names_that_are_programs_or_cannot_be_shown_are_not_taken(folder, name, caplog):
    with ExitStack() as held, Store.open(folder, read_only=True) as store:
        address = served(folder, held)
        item = next(iter(store.iter_items())).id
        event = event_for(store, item, {"id": 1, "email": name}, 1)
        told = requests.post(f"{address}/webhook", json=event, timeout=60)
    assert (told.status_code, told.json()["labels"]) == (200, 0)
    assert labels_of(folder) == {}


def test_mistakes_of_label_studio_do_not_fill_the_log(folder, capfd):
    with ExitStack() as held:
        address = served(folder, held)
        for _ in range(50):
            assert requests.post(f"{address}/predict", data=b"[]", timeout=60).status_code == 400
    assert capfd.readouterr().err.count("not a JSON object") <= 10
