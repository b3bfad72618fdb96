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
from parbals.learner.evaluation.certify import CERTIFY
from parbals_label.project.features import store_features
from parbals_label.project.measuring import begin_measurement
from parbals_label.project.target import add_target
from parbals_label.store.records import Lease, Submission
from parbals_label.store.settings import PredictionsFile
from parbals_label.store.store import Store
from parbals_label.web.items import Tasks
from parbals_label.web.map import make_map

KEPT = (4, 9)
"""Items of a measurement that is kept open: 4 is labelled below, 9 is not."""
N_ITEMS = 16
ROLES = {"Olga": "owner", "eve": "annotator"}
CHANGING = {"revision", "expires", "created"}
"""Fields that differ between two requests whatever the predictions are."""
LOGGED = ("exported", "signed in", "settings changed")
"""Entries of the log that this test adds."""
N_STATEMENTS_OF_AN_ITEM = 2
VALUES = {
    "of": ["spam"],
    "near": [0],
    "after": [-1],
    "limit": [100],
    "q": ["message"],
    "label": [None, "spam"],
    "annotator": [None, "eve"],
    "labelled_only": [None, "true"],
    "target": [None, "true"],
    "since": [None],
    "name": [None],
    "before": [None],
}
"""Parameters of routes that are neither an item nor an enumeration; None leaves one out."""
WRITE_ROUTES = {
    "/api/take": "returns items: tried below",
    "/api/undo": "returns an item: tried below",
    "/api/settings": "returns the settings",
    "/api/answers": "returns which answers were stored",
    "/api/passes": "returns which skips were stored",
    "/api/bulk": "counts",
    "/api/leases": "returns the positions that were asked for",
    "/api/release": "counts",
    "/api/release-all": "counts",
    "/api/again": "confirms",
    "/api/measure": "counts",
    "/api/measure/undo": "counts",
    "/api/check": "counts items of a program",
    "/api/pause": "confirms",
    "/api/leave": "confirms",
    "/api/people": "returns people",
    "/api/people/role": "returns people",
    "/api/people/revoke": "returns people",
}
"""Routes that are not GET, and why they tell no prediction. A new one must be tried or named."""


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
        add_target(store, "text != none")  # all items
        make_map(store)
        store.submit([Submission(0, "ham"), Submission(1, "spam")], annotator="eve")
        store_predictions(store)
        batch = begin_measurement(store, 5, queued=True, seed=2)
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
                assert parameter["name"] == "position", f"say what {path} is to be asked for"
                values = sorted(server.measured)
            if values is None:
                values = VALUES[parameter["name"]]  # a new parameter needs values to try
            choices[parameter["name"]] = values
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


def gets(server):
    """(role, route, address) → status and body of every read route."""
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
    return found


def responses(server):
    """The same, with the tasks that an annotator holds."""
    found = gets(server)
    for role, headers in server.visitors.items():
        tasks = server.post("/api/take", {"annotator": role, "n": 10}, headers=headers, token=False)
        assert tasks.status == 200, tasks.body
        found[role, "/api/take", ""] = json.dumps(stable(tasks.json))
    return found


def exchange(server, positions):
    with Store.open(server.folder) as store:
        store_predictions(store, positions)


def differing(first, second):
    return {key[:2] for key in first if first[key] != second[key]}


def test_every_route_is_tried_or_named(measured):
    paths = measured.get("/api/openapi.json").json["paths"]
    others = {path for path, methods in paths.items() if methods.keys() - {"get"}}
    assert others == set(WRITE_ROUTES)
    answered = {path for (_, path, _), (status, _) in gets(measured).items() if status == 200}
    images = {"/api/media/{position}"}  # the items of this project are texts
    assert answered == {path for path, methods in paths.items() if "get" in methods} - images


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


def statements(store, act):
    """The SQL statements that an action runs."""
    seen = []
    with store._db.reading() as connection:
        connection.set_trace_callback(seen.append)
        act()
        connection.set_trace_callback(None)
    return seen


def test_tasks_read_the_sample_once_for_a_change_and_no_earlier_samples(tmp_path):
    folder = make_project(tmp_path / "mail", N_ITEMS, queued=0)
    leases = [Lease(position, 0.0, None) for position in range(6)]
    with Store.open(folder) as store:
        store_predictions(store)
        counts = []
        for n_samples in (1, 2, 3):
            begin_measurement(store, 2, queued=True, again=True)
            tasks = Tasks(store)
            unchanged = statements(store, lambda tasks=tasks: tasks.tasks(store, leases))
            assert not any("batch_items" in statement for statement in unchanged)
            position = store.latest_batch(CERTIFY).items[0].position
            store.submit([Submission(position, "ham")], annotator="me")
            one = statements(store, lambda tasks=tasks: tasks.tasks(store, leases[:1]))
            store.undo_labels([position], annotator="me")
            six = statements(store, lambda tasks=tasks: tasks.tasks(store, leases))
            assert sum("batch_items" in statement for statement in one) > 0
            assert len(six) - len(one) <= 5 * N_STATEMENTS_OF_AN_ITEM
            counts.append(len(six))
            assert len(store.batches(CERTIFY)) == n_samples
        assert len(set(counts)) == 1, "earlier samples are not read"
