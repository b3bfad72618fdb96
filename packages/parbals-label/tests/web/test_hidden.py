"""No read route tells what the model predicts for an item that is being measured (P13).

Every route is asked twice, with predictions that differ only in the measured items: whatever a
route shows, the two responses must be equal. The routes come from the page's own description, so a
new one is tried without a change here.
"""

import json
from dataclasses import asdict

import numpy as np
import pytest
from page_server import make_project, page
from parbals_label.project.features import store_features
from parbals_label.project.measuring import begin_measurement
from parbals_label.store.records import Submission
from parbals_label.store.settings import PredictionsFile
from parbals_label.store.store import Store
from parbals_label.web.map import make_map

KEPT = (4, 9)
"""Items of a measurement that is kept open: 4 is labelled below, 9 is not."""
N_ITEMS = 16
ROLES = {"Olga": "owner", "eve": "annotator"}
CHANGING = {"revision", "expires", "created"}
"""Fields that differ between two requests whatever the predictions are."""
LOGGED = ("exported", "signed in", "settings changed")
"""Entries of the log that this test adds."""
VALUES = {"of": "spam", "near": 0, "after": -1, "limit": 100, "q": "message"}
"""Parameters of routes that are neither an item nor an enumeration."""


def store_predictions(store, changed=()):
    """Predictions of all items; those of the ``changed`` items are exchanged."""
    probs = np.linspace(0.03, 0.47, N_ITEMS)
    rows = np.stack([probs, 1.0 - probs], axis=1).astype(np.float32)
    rows[list(changed)] = rows[list(changed), ::-1]
    written = store_features(store.folder, rows, name="predictions")
    answers = store.revision()[0]
    store.update_settings(predictions=PredictionsFile(**asdict(written), answers=answers))


@pytest.fixture
def measured(tmp_path):
    """A page whose annotator holds all items; a sample of five is drawn, one of them labelled."""
    copies = [(14, 4), (15, 9)]
    folder = make_project(tmp_path / "mail", N_ITEMS, queued=0, audit=KEPT, copies=copies)
    with Store.open(folder) as store:
        links = {name: store.invite(name, role) for name, role in ROLES.items()}
        make_map(store)
        store.submit([Submission(0, "ham"), Submission(1, "spam")], annotator="eve")
        store_predictions(store)
        batch = begin_measurement(store, 5, queued=True)
        sample = store.batch_positions(batch)
        others = sorted(set(range(2, N_ITEMS)) - set(sample))
        store.record_batch("margin", 0, [(p, None, None) for p in others], {}, queued=True)
        store.take("eve", N_ITEMS, 600.0)
        store.submit([Submission(p, "spam") for p in (sample[0], 4)], annotator="eve")
    with page(folder) as server:
        server.visitors = {"link": server.visit()}
        server.visitors |= {name: server.visit(token) for name, token in links.items()}
        server.sample = sample
        server.measured = {*sample, *KEPT, 14, 15}
        yield server


def requests_of(server):
    """Every read route, for every measured item and every value of an enumeration."""
    for path, methods in server.get("/api/openapi.json").json["paths"].items():
        if "get" not in methods:
            continue
        choices = {}
        for parameter in methods["get"].get("parameters", ()):
            schemas = [parameter["schema"], *parameter["schema"].get("anyOf", ())]
            values = next((schema["enum"] for schema in schemas if "enum" in schema), None)
            if parameter["in"] == "path":
                values = sorted(server.measured)
            if values is None and parameter["name"] in VALUES:
                values = [VALUES[parameter["name"]]]
            choices[parameter["name"]] = values or [None]
        defaults = {name: values[0] for name, values in choices.items()}
        for name, values in [*choices.items(), ("", [None])]:
            for value in values:
                chosen = defaults | ({name: value} if name else {})
                address = path.format(**chosen)
                query = "&".join(f"{k}={v}" for k, v in chosen.items() if v is not None)
                yield path, f"{address}?{query}"


def stable(value):
    """A response without what changes from one request to the next."""
    if isinstance(value, dict):
        return {key: stable(item) for key, item in value.items() if key not in CHANGING}
    if isinstance(value, list):
        return [stable(item) for item in value if not _is_logged(item)]
    return value


def _is_logged(item):
    return isinstance(item, dict) and item.get("what") in LOGGED


def responses(server):
    """(role, route, address) → the response; also the tasks that an annotator holds."""
    found = {}
    server.session._next_live = 0.0
    for role, headers in server.visitors.items():
        for path, address in requests_of(server):
            answer = server.get(address, headers=headers, token=False)
            body = answer.body
            if answer.headers.get("content-type") == "application/json":
                body = json.dumps(stable(answer.json))
            if answer.headers.get("content-type") != "application/octet-stream":
                found[role, path, address] = (answer.status, body)
        tasks = server.post("/api/take", {"annotator": role, "n": 10}, headers=headers, token=False)
        assert tasks.status == 200, tasks.body
        found[role, "/api/take", ""] = json.dumps(stable(tasks.json))
    return found


def exchange(server, positions):
    with Store.open(server.folder) as store:
        store_predictions(store, positions)


def differing(first, second):
    return {key[:2] for key in first if first[key] != second[key]}


def test_no_read_route_tells_what_is_predicted_for_a_measured_item(measured):
    before = responses(measured)
    exchange(measured, measured.measured)
    assert differing(before, responses(measured)) == set()
    exchange(measured, set(range(N_ITEMS)) - measured.measured)
    told = differing(before, responses(measured))
    telling = {("link", path) for path in ("/api/items", "/api/map", "/api/export")}
    assert told >= {*telling, ("eve", "/api/take")}, "of other items the routes tell it"


def test_undone_answers_of_a_sample_come_back_without_a_prediction(measured):
    body = {"annotator": "eve", "position": measured.sample[0], "request_id": "u"}
    eve = measured.visitors["eve"]
    why = measured.post("/api/undo", body, headers=eve, token=False).json["item"]["why"]
    assert why["predicted"] is None
    assert why["sentence"].startswith("Test item")


def test_once_the_sample_is_complete_its_predictions_are_shown(measured):
    first = measured.sample[0]
    assert measured.get(f"/api/items/{first}").json["predicted"] is None
    for position in measured.sample[1:]:
        measured.label("Ann", position)
    assert measured.get(f"/api/items/{first}").json["predicted"] is not None
    assert measured.get("/api/items/9").json["predicted"] is None, "the kept one goes on"
