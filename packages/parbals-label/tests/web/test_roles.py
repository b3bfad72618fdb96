"""Any sequence of requests: who sees and changes what, for every route, role and kind of item.

The routes and their parameters come from the page's own description, so a new one joins by itself.
Every item has a text and a prediction of its own, by which it is recognised in any response.
"""

import re
import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from dose import full_count
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from page_server import make_project, page
from parbals.learner.evaluation.certify import CERTIFY
from parbals_label.project.features import store_features
from parbals_label.project.measuring import begin_measurement
from parbals_label.store.records import Submission
from parbals_label.store.settings import PredictionsFile
from parbals_label.store.store import Store
from parbals_label.web.map import make_map

N_ITEMS = 24
KEPT = (3, 11, 17)
N_SAMPLED = 4
PEOPLE = {"Olga": "owner", "eve": "annotator", "Ada": "annotator", "gone": "annotator"}
ROLES = ("link", *PEOPLE, "stranger")
ANNOTATORS = ("eve", "Ada")
OUTSIDERS = ("gone", "stranger")
TEXT = re.compile(r"secret-(\d{3})")
NAMES = ("eve", "Ada", "Olga", "somebody", "machine:gpt")
WORDS = {
    "name": ("Zoe",),  # an invitation of somebody else would end that person's link
    "label": ("ham", "spam"),
    "kind": ("skip", "unsure"),
    "sort": ("order", "doubt", "predicted", "probability", "meaning"),
    "of": ("spam",),
    "q": ("secret", "spam"),
    "state": ("all", "labelled", "unlabelled", "doubted", "queued", "out"),
}
"""Values of fields that are text; names of people for all others."""
PUBLIC = ("/healthz", "/readyz")


def prediction_of(position):
    """A probability that no other item and no other number has."""
    return 0.5137 + 0.0173 * position


def text_of(position):
    return f"secret-{position:03d} of the project"


def request_body(schema, schemas, draw, position, name, depth=0):
    """A value that a schema allows, with these items and this name wherever it asks for some."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rsplit("/", 1)[1]]
    if "anyOf" in schema:
        schema = draw(st.sampled_from(schema["anyOf"]))
        return request_body(schema, schemas, draw, position, name, depth)
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    if "const" in schema:
        return schema["const"]
    kind = schema.get("type")
    if kind == "object" and depth < 4:
        required = schema.get("required", ())
        return {
            field: request_body({"field": field, **inner}, schemas, draw, position, name, depth + 1)
            for field, inner in schema.get("properties", {}).items()
            if field in required or draw(st.booleans())
        }
    if kind == "array":
        inner = {"field": schema.get("field"), **schema.get("items", {})}
        return [request_body(inner, schemas, draw, position, name, depth + 1)]
    if kind in ("integer", "number"):
        is_count = schema.get("field") in ("n", "limit")
        return draw(st.integers(1, 3)) if is_count else position
    if kind == "boolean":
        return draw(st.booleans())
    if kind == "string":
        return text_value(schema.get("field"), draw, name)
    return None


def text_value(field, draw, name):
    if field == "request_id":
        return f"r{draw(st.integers(0, 10**9))}"
    if field == "annotator":
        return name
    return draw(st.sampled_from(WORDS.get(field, NAMES)))


class RolesMachine(RuleBasedStateMachine):
    """Requests of all kinds, each checked against what its sender may see and change."""

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp()) / "mail"
        self.tokens = make_roles_project(self.folder)
        self._page = page(self.folder)
        self.server = self._page.__enter__()
        self.server.guard.door.rate_limiter.admit = lambda *_, **__: None
        self.store = Store.open(self.folder)
        self.given = {name: set() for name in ANNOTATORS}
        description = self.server.get("/api/openapi.json").json
        self.schemas = description.get("components", {}).get("schemas", {})
        self.routes = [
            (method.upper(), path, operation)
            for path, methods in sorted(description["paths"].items())
            for method, operation in sorted(methods.items())
        ]

    def teardown(self):
        self.store.close()
        self._page.__exit__(None, None, None)
        shutil.rmtree(self.folder.parent)

    def headers_of(self, role):
        token = {"link": self.server.token, "stranger": "x" * 43}.get(role) or self.tokens[role]
        return {"Authorization": f"Bearer {token}"}

    def call(self, role, method, path, body=None):
        """A request, and what holds for every response."""
        before = self.answers()
        measured = self.measured()
        answer = self.server.call(method, path, body, self.headers_of(role), token=False)
        text = answer.body.decode("utf-8", "replace")
        assert answer.status != 500, (role, method, path, body, text)
        seen = {int(number) for number in TEXT.findall(text)}
        new = self.answers() - before
        if role in OUTSIDERS:
            assert answer.status in (401, 403), (role, method, path)
            assert not seen
            assert not new
        if role in ANNOTATORS:
            if path == "/api/take" and answer.status == 200:
                self.given[role] |= {item["position"] for item in answer.json["items"]}
            assert seen <= self.given[role], (role, method, path, body)
            assert {name for _, name, *_ in new} <= {role}, (role, method, path, body)
            assert {position for position, *_ in new} <= self.given[role]
        if role in PEOPLE:
            assert {name for _, name, *_ in new} <= {role}, "nobody labels as somebody else"
        self.check_hidden(text, measured, (role, method, path, body))
        return answer

    def check_hidden(self, text, measured, request):
        """No number of the response is what the model predicts for a measured item."""
        numbers = {round(float(n), 4) for n in re.findall(r"(?<![\w.])[01]\.\d{3,}", text)}
        for position in measured:
            prob = float(np.float32(prediction_of(position)))
            assert not numbers & {round(prob, 4), round(1 - prob, 4)}, (position, request)

    def answers(self):
        """All answers and passes that are stored."""
        rows = set()
        with self.store._db.reading() as connection:
            for table, value in (("answers", "label"), ("passes", "kind")):
                rows.update(
                    connection.execute(
                        f"SELECT position, annotator, '{table}', {value}, created FROM {table}"
                    )
                )
        return rows

    def measured(self):
        """The items of the kept sample, and those of another one that is not complete."""
        sample = {item.position for item in self.store.batches(CERTIFY)[-1].items}
        finished = {*self.store.current_labels(), *self.store.passes()}
        return {*self.store.settings.audit, *(() if sample <= finished else sample)}

    @rule(name=st.sampled_from(ANNOTATORS), n=st.integers(1, 3))
    def take(self, name, n):
        answer = self.call(name, "POST", "/api/take", {"annotator": name, "n": n})
        assert answer.status == 200

    @rule(
        name=st.sampled_from(ANNOTATORS),
        position=st.integers(0, N_ITEMS - 1),
        label=st.sampled_from(["ham", "spam"]),
        revise=st.booleans(),
    )
    def label(self, name, position, label, revise):
        one = {"position": position, "label": label, "request_id": f"{name}{position}{label}"}
        body = {"annotator": name, "answers": [{**one, "revise": revise}]}
        answer = self.call(name, "POST", "/api/answers", body)
        assert (answer.status == 403) == (position not in self.given[name])

    @rule(role=st.sampled_from(ROLES), position=st.integers(0, N_ITEMS - 1), data=st.data())
    def look_at_an_item(self, role, position, data):
        allowed = role not in OUTSIDERS and position in self.given.get(role, range(N_ITEMS))
        answer = self.call(role, "GET", f"/api/items/{position}")
        assert (answer.status == 200) == allowed, (role, position, answer.body)

    @rule(
        role=st.sampled_from(ROLES),
        name=st.sampled_from(NAMES),
        position=st.integers(0, N_ITEMS - 1),
        data=st.data(),
    )
    def ask_any_route(self, role, name, position, data):
        method, path, operation = data.draw(st.sampled_from(self.routes))
        query = []
        for parameter in operation.get("parameters", ()):
            schema = {"field": parameter["name"], **parameter["schema"]}
            value = request_body(schema, self.schemas, data.draw, position, name)
            if parameter["in"] == "path":
                path = path.replace(f"{{{parameter['name']}}}", str(value))
            elif value is not None:
                query.append(f"{parameter['name']}={str(value).replace(' ', '+')}")
        body = None
        if "requestBody" in operation:
            (content,) = operation["requestBody"]["content"].values()
            body = request_body(content["schema"], self.schemas, data.draw, position, name)
        elif method != "GET":
            body = {}
        address = f"{path}?{'&'.join(query)}" if query else path
        self.call(role, method, address, body)


def make_roles_project(folder):
    """Items of all kinds: queued, never chosen, sampled, kept and labelled; name → token."""
    content = [{"text": text_of(position)} for position in range(N_ITEMS)]
    make_project(folder, content=content, queued=0, audit=KEPT)
    with Store.open(folder) as store:
        tokens = {name: store.invite(name, role) for name, role in PEOPLE.items()}
        store.revoke("gone")
        make_map(store)
        store.submit([Submission(0, "ham"), Submission(1, "spam")], annotator="Olga")
        probs = np.array([prediction_of(position) for position in range(N_ITEMS)])
        rows = np.stack([probs, 1.0 - probs], axis=1).astype(np.float32)
        written = store_features(store.folder, rows, name="predictions")
        known = PredictionsFile(**asdict(written), answers=store.revision()[0])
        store.update_settings(predictions=known)
        sample = store.batch_positions(begin_measurement(store, N_SAMPLED, queued=True))
        others = [p for p in range(2, 14) if p not in (*sample, *KEPT)]
        store.record_batch("margin", 0, [(p, None, None) for p in others], {}, queued=True)
    return tokens


_quiet = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None}

TestSmall = RolesMachine.TestCase
TestSmall.settings = settings(max_examples=4, stateful_step_count=40, **_quiet)


@pytest.mark.faults
class TestFull(RolesMachine.TestCase):
    settings = settings(max_examples=full_count(200, least=4), stateful_step_count=40, **_quiet)


def test_every_route_of_the_page_is_asked():
    """The machine draws from the page's own description, which has the routes of all roles."""
    machine = RolesMachine()
    try:
        assert {"/api/take", "/api/items/{position}", "/api/export"} <= {
            path for _, path, _ in machine.routes
        }
        seen = machine.call("link", "GET", "/api/items?limit=100")
        shown = {round(float(n), 4) for n in re.findall(r"0\.\d{3,}", seen.body.decode())}
        free = set(range(N_ITEMS)) - machine.measured()
        assert {round(prediction_of(p), 4) for p in free} <= shown, "so a leak would be noticed"
    finally:
        machine.teardown()
