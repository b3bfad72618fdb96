"""A team: every route for everybody who may come, what each may see and do, and what is logged."""

import json
import time

import pytest
from page_server import WITHOUT_WORKER, make_project, page, serving, wait_for
from parbals.cli.main import main
from parbals_label.store.records import Submission
from parbals_label.store.store import Store
from test_guard import ROUTES

OWNERS_ONLY = {
    ("PATCH", "/api/settings"), ("GET", "/api/map"), ("GET", "/api/export"),
    ("GET", "/api/people"), ("POST", "/api/people"), ("POST", "/api/people/role"),
    ("POST", "/api/people/revoke"), ("GET", "/api/log"), ("POST", "/api/release-all"),
    ("POST", "/api/again"), ("POST", "/api/bulk"), ("POST", "/api/measure"),
    ("POST", "/api/measure/undo"),
    ("POST", "/api/check"), ("POST", "/api/pause"), ("GET", "/api/target"),
    ("GET", "/api/target/0"),
}  # fmt: skip
THEIR_ITEMS = {
    ("GET", "/api/items/0"), ("GET", "/api/media/0"), ("POST", "/api/answers"),
    ("POST", "/api/passes"), ("POST", "/api/undo"), ("POST", "/api/leases"),
    ("POST", "/api/release"),
}  # fmt: skip
"""Routes that name an item."""


@pytest.fixture
def team(tmp_path):
    """A server of a project with an owner, Olga, and two annotators, eve and Ada."""
    folder = make_project(tmp_path / "mail")
    with Store.open(folder) as store:
        roles = {"Olga": "owner", "eve": "annotator", "Ada": "annotator"}
        links = {name: store.invite(name, role) for name, role in roles.items()}
    with page(folder) as server:
        server.links = links
        yield server


def state_of(folder):
    """Everything that a request could have changed."""
    with Store.open(folder, read_only=True) as store:
        return (
            store.settings, store.current_labels(), store.passes(), store.queued(), store.people(),
            store.events(),
        )  # fmt: skip


def fitting(path, body, name):
    """The body that a route is tried with elsewhere, so that it can be done: by somebody, once."""
    if body and "annotator" in body:
        body = {**body, "annotator": name}
    if path == "/api/passes":
        body |= {"position": 1, "request_id": "pass"}
    if path == "/api/undo":
        body |= {"request_id": "undo"}
    return body


@pytest.mark.parametrize("kind", ["none", "expired", "revoked", "signed out", "other port"])
def test_without_a_session_that_is_good_no_route_answers(team, kind):
    if kind == "expired":
        team.guard.door.session_seconds = 0.05
        headers = team.visit(team.links["Olga"])
        time.sleep(0.1)
    elif kind == "revoked":
        headers = team.visit(team.links["Olga"])
        assert team.get("/api/log", token=False, headers=headers).status == 200
        with Store.open(team.folder) as store:  # as the command does, in another process
            store.revoke("olga")
        wait_for(lambda: team.get("/", token=False, headers=headers).status == 401, 10)
    elif kind == "signed out":
        headers = team.visit(team.links["Olga"])
        assert team.post("/api/leave", {}, token=False, headers=headers).status == 200
    elif kind == "other port":
        # The project was shown on another port before, in the same browser.
        with Store.open(team.folder) as store:
            place = f"127.0.0.1:{team.port + 1}"
            cookie, key = store.start_session(team.links["Olga"], place, 60)
        own = f"127.0.0.1:{team.port}"
        cookies = "; ".join(f"parbals-{team.port + n}={cookie}" for n in range(2))
        headers = {"Cookie": cookies, "X-Parbals-Key": key, "Host": own, "Origin": f"http://{own}"}
    else:
        headers = {"Origin": f"http://127.0.0.1:{team.port}"}
    before = state_of(team.folder)
    for method, path, body in ROUTES:
        answer = team.call(method, path, body, headers, token=False)
        assert answer.status == 401, (method, path)
        assert b"message number" not in answer.body
    assert state_of(team.folder) == before


@pytest.mark.parametrize("way", ["session", "bearer"])
def test_an_annotator_labels_and_nothing_else(team, way):
    link = team.links["eve"]
    headers = team.visit(link) if way == "session" else {"Authorization": f"Bearer {link}"}
    before = state_of(team.folder)
    for method, path, body in ROUTES:
        if (method, path) in OWNERS_ONLY | THEIR_ITEMS:
            answer = team.call(method, path, body, headers, token=False)
            assert (answer.status, answer.error) == (403, "role"), (method, path)
    assert state_of(team.folder) == before
    assert len(taken := team.post("/api/take", {"annotator": "eve", "n": 2}, headers=headers,
                                  token=False).json["items"]) == 2  # fmt: skip
    assert [item["position"] for item in taken] == [0, 1]
    for method, path, body in ROUTES:
        if (method, path) not in OWNERS_ONLY | {("POST", "/api/leave"), ("GET", "/api/media/0")}:
            body = fitting(path, body, "eve")
            assert team.call(method, path, body, headers, token=False).status == 200, (method, path)
    with Store.open(team.folder, read_only=True) as store:
        assert store.annotator_names() == ["eve"]
    # Item 0 is one that they have had; it has no image.
    assert team.call("GET", "/api/media/0", headers=headers, token=False).status == 404


def test_no_route_tells_or_takes_anything_of_an_item_that_was_never_given(team):
    """An annotator with an item of the queue, one that nobody chose, and one that Ada has."""
    headers = {"Authorization": f"Bearer {team.links['eve']}"}
    ada = {"Authorization": f"Bearer {team.links['Ada']}"}
    taken = team.post("/api/take", {"annotator": "Ada", "n": 1}, headers=ada, token=False)
    (held,) = [item["position"] for item in taken.json["items"]]
    bodies = {
        "/api/answers": lambda p: {"answers": [{"position": p, "label": "ham", "request_id": "r"}]},
        "/api/passes": lambda p: {"position": p, "kind": "skip", "request_id": "r"},
        "/api/undo": lambda p: {"position": p, "request_id": "r"},
        "/api/leases": lambda p: {"positions": [p]},
        "/api/release": lambda p: {"positions": [p]},
    }
    named = {path for method, path in THEIR_ITEMS if method == "POST"}
    assert named == bodies.keys()
    before = state_of(team.folder)
    for position in (held, 5, 39):
        for path, body in bodies.items():
            sent = {"annotator": "eve", **body(position)}
            answer = team.post(path, sent, headers=headers, token=False)
            assert (answer.status, answer.error) == (403, "role"), (path, position)
            assert f"m{position:03d}".encode() not in answer.body
        for path in ("items", "media"):
            answer = team.get(f"/api/{path}/{position}", headers=headers, token=False)
            assert answer.status == 403, (path, position)
    assert state_of(team.folder) == before
    # What was given once may be answered after somebody else has got it.
    mine = {"annotator": "eve", "n": 1}
    taken = team.post("/api/take", mine, headers=headers, token=False).json["items"]
    with Store.open(team.folder) as store:
        store.release_all()
    late = {"annotator": "eve", **bodies["/api/answers"](taken[0]["position"])}
    assert team.post("/api/answers", late, headers=headers, token=False).status == 200


def test_one_annotator_who_skips_everything_ends_nothing(team):
    """What eve skips goes to Ada, who can label the whole project."""
    eve, ada = ({"headers": {"Authorization": f"Bearer {team.links[name]}"}, "token": False}
                for name in ("eve", "Ada"))  # fmt: skip

    def given(name, who):
        answer = team.post("/api/take", {"annotator": name, "n": 10}, **who).json
        return [item["position"] for item in answer["items"]], answer["queue"]

    skipped = set()
    while positions := given("eve", eve)[0]:
        for position in positions:
            skipped.add(position)
            body = {"annotator": "eve", "position": position, "kind": "skip"}
            sent = team.post("/api/passes", {**body, "request_id": f"s{position}"}, **eve)
            assert sent.status == 200
    assert len(skipped) == 40
    labelled = set()
    while positions := given("Ada", ada)[0]:
        labelled |= set(positions)
        assert team.get("/api/live", **ada).json["queue"]["state"] != "finished"
        answers = [{"position": p, "label": "ham", "request_id": f"a{p}"} for p in positions]
        body = {"annotator": "Ada", "answers": answers}
        assert team.post("/api/answers", body, **ada).status == 200
    assert labelled == skipped


@pytest.mark.parametrize("who", ["owner", "page's link"])
def test_an_owner_may_do_everything(team, who):
    link = team.links["Olga"] if who == "owner" else team.token
    headers = team.visit(link)
    name = "Olga" if who == "owner" else "Otto"
    for method, path, body in ROUTES:
        if (method, path) == ("POST", "/api/leave"):
            continue
        answer = team.call(method, path, fitting(path, body, name), headers, token=False)
        # The item is a text, no program has answered, and there is no target set.
        refusals = {
            "/api/media/0": 404,
            "/api/check": 422,
            "/api/measure/undo": 422,
            "/api/pause": 422,
            "/api/target/0": 404,
        }
        assert answer.status == refusals.get(path, 200), (method, path)


def test_nobody_labels_under_another_name(team):
    answer = {"position": 1, "label": "ham", "request_id": "r"}
    bodies = {
        "/api/take": {"n": 1},
        "/api/answers": {"answers": [answer]},
        "/api/passes": {"position": 1, "kind": "skip", "request_id": "r"},
        "/api/undo": {"position": 1, "request_id": "r"},
        "/api/leases": {"positions": [1]},
        "/api/release": {"positions": [1]},
    }
    cases = [
        (team.links["eve"], "Ada"), (team.links["eve"], "Eva"), (team.links["Olga"], "Ada"),
        (team.token, "Ada"), (team.token, "ADA"), (team.token, "Ａda"), (team.token, "machine:x"),
    ]  # fmt: skip
    before = state_of(team.folder)
    for link, name in cases:
        for path, body in bodies.items():
            headers = {"Authorization": f"Bearer {link}"}
            sent = team.post(path, {"annotator": name, **body}, headers=headers, token=False)
            assert sent.status == (422 if name.startswith("machine:") else 403), (name, path)
    assert state_of(team.folder) == before
    mine = {"Authorization": f"Bearer {team.links['eve']}"}
    taken = team.post("/api/take", {"annotator": "Eve", "n": 2}, headers=mine, token=False)
    assert [item["position"] for item in taken.json["items"]] == [0, 1]
    spelt = {"annotator": "ＥVE", "answers": [answer]}  # the same name, spelt as it is kept
    assert team.post("/api/answers", spelt, headers=mine, token=False).status == 200
    with Store.open(team.folder, read_only=True) as store:
        assert store.current_labels() == {1: {"eve": "ham"}}


def test_an_annotator_sees_their_own_answers_and_progress_alone(team):
    with Store.open(team.folder) as store:
        store.submit([Submission(0, "spam"), Submission(1, "ham")], annotator="Ada")
        store.submit([Submission(0, "ham", comment="sure")], annotator="eve")
        store.pass_over(2, "unsure", annotator="eve")
        store.pass_over(2, "skip", annotator="Ada")
    eve = {"headers": {"Authorization": f"Bearer {team.links['eve']}"}, "token": False}
    everything = [
        team.get(path, **eve)
        for path in (
            "/api/items", "/api/items?state=labelled&annotator=Ada", "/api/items?state=disagree",
            "/api/items?state=unlabelled", "/api/items/0", "/api/items/2", "/api/live",
            "/api/project", "/api/me",
        )
    ]  # fmt: skip
    assert all(answer.status == 200 and b"Ada" not in answer.body for answer in everything)
    assert [item["position"] for item in everything[0].json["items"]] == [0, 2]
    assert everything[0].json["items"][0]["label"] == "ham"
    assert [item["position"] for item in everything[1].json["items"]] == [0]
    assert everything[2].json["items"] == []
    (step,) = everything[4].json["history"]
    assert (step["label"], step["comment"]) == ("ham", "sure")
    assert everything[5].json["passes"] == {"eve": "unsure"}
    live = everything[6].json
    assert (live["labelled"], live["n_items"]) == (2, 40)
    assert [(one["name"], one["answers"]) for one in live["annotators"]] == [("eve", 1)]
    assert not {"agreement", "report", "history", "class_balance", "advice"} & set(live)
    assert everything[8].json == {"name": "eve", "role": "annotator", "spelt": None}
    assert team.get("/api/items/1", **eve).status == 403
    # An owner sees all of it.
    olga = {"headers": {"Authorization": f"Bearer {team.links['Olga']}"}, "token": False}
    assert team.get("/api/items", **olga).json["total"] == 40
    assert set(team.get("/api/items/0", **olga).json["answers"]) == {"Ada", "eve"}
    assert team.get("/api/live", **olga).json["agreement"]["n_items"] == 1


def test_what_owners_do_is_logged_with_who_and_from_where(team):
    with Store.open(team.folder) as store:
        store.submit([Submission(0, "spam")], annotator="Ada")
        known = len(store.events())
    olga = team.visit(team.links["Olga"])
    known += 1  # they have signed in

    def do(method, path, body=None):
        answer = team.call(method, path, body, olga, token=False)
        assert answer.status == 200, answer.body
        return answer

    do("PATCH", "/api/settings", {"guidelines": "read all", "lease_minutes": 5, "goal_error": 0.1})
    do("PATCH", "/api/settings", {"guidelines": "read all"})  # changes nothing
    undo = {"annotator": "Ada", "position": 0, "request_id": "u", "as_owner": True}
    assert do("POST", "/api/undo", undo).json["was"] == {"label": "spam"}
    do("POST", "/api/undo", undo)  # a retry takes back nothing, and adds no row
    do("GET", "/api/export?format=jsonl&labelled_only=true")
    link = do("POST", "/api/people", {"name": "Bob"}).json["link"]
    do("POST", "/api/people/role", {"name": "bob", "role": "owner"})
    do("POST", "/api/people/revoke", {"name": "Bob"})
    assert team.take("Otto", 2)
    assert do("POST", "/api/release-all", {"of": "Otto"}).json == {"released": 2}
    team.post("/api/people", {"name": "Cleo"})  # by the page's link
    with Store.open(team.folder, read_only=True) as store:
        rows = store.events()[known:]
        assert store.current_labels() == {}
    assert [row.kind for row in rows] == [
        "settings changed", "label taken back", "exported", "invited", "role changed",
        "link revoked", "items given back", "invited",
    ]  # fmt: skip
    assert [row.who for row in rows] == ["Olga"] * 7 + ["the page's link"]
    assert {row.origin for row in rows} == {"127.0.0.1"}
    assert set(rows[0].detail) == {"guidelines", "lease_minutes", "goal_error"}
    assert rows[1].detail == {"name": "Ada", "item": "m000", "was": "spam"}
    shown = do("GET", "/api/log").json["rows"]
    assert [row["number"] for row in shown] == [row.event for row in reversed(rows)] + [4, 3, 2, 1]
    older = do("GET", f"/api/log?before={rows[1].event}").json["rows"]
    assert [row["what"] for row in older] == ["settings changed", "signed in", *["invited"] * 3]
    assert "goal error: none → 0.1" in older[0]["sentence"]
    # A link is shown once, and works only until it is revoked; no row holds it.
    token = link.split("token=")[1]
    assert team.get(f"/?token={token}", token=False).status == 401
    assert token not in json.dumps(shown)


def test_a_page_without_invitations_is_what_it_was(server):
    """One link, any name; but Ada and ada are one person."""
    assert server.get("/api/me").json == {"name": None, "role": "owner", "spelt": None}
    assert server.label("Ada", 3).status == 200
    assert server.label("Grace", 4, "spam").status == 200
    assert server.get("/api/me?name=%20ADA").json["spelt"] == "Ada"
    assert server.label("ａda", 5).status == 200
    with Store.open(server.folder, read_only=True) as store:
        assert store.annotator_names() == ["Ada", "Grace"]
        assert store.people() == store.events() == []
    refused = server.get("/api/me?name=machine:x")
    assert (refused.status, refused.error) == (422, "invalid")


def test_names_that_were_two_before_stay_two(tmp_path):
    folder = make_project(tmp_path / "mail")
    with Store.open(folder) as store:
        store.submit([Submission(0, "ham")], annotator="Ada")
        store.submit([Submission(1, "ham")], annotator="ada")
    with page(folder) as server:
        for name in ("Ada", "ada", "ADA"):
            assert server.label(name, 2, request=name).status == 200
    with Store.open(folder, read_only=True) as store:
        assert store.current_labels()[2] == {"Ada": "ham", "ada": "ham"}


def test_a_link_that_is_made_while_the_page_is_shown_works_at_once(team):
    with Store.open(team.folder) as store:
        link = store.invite("Zoe")
    assert team.get("/api/me", token=False, headers=team.visit(link)).json["name"] == "Zoe"


def test_a_new_role_counts_for_sessions_that_are_open(team):
    eve = team.visit(team.links["eve"])
    olga = team.visit(team.links["Olga"])
    assert team.get("/api/people", token=False, headers=eve).status == 403
    promoted = {"name": "eve", "role": "owner"}
    assert team.post("/api/people/role", promoted, token=False, headers=olga).status == 200
    assert team.get("/api/people", token=False, headers=eve).status == 200


def test_no_secret_is_written_anywhere_but_in_the_link_itself(tmp_path):
    folder = make_project(tmp_path / "mail")
    server_out = {}
    with serving(folder, before=WITHOUT_WORKER) as server:
        session = server.visit()
        link = server.post("/api/people", {"name": "Ada"}).json["link"]
        assert link.startswith(f"http://127.0.0.1:{server.port}/?token=")
        secrets = [session["Cookie"].split("=")[1], session["X-Parbals-Key"], link.split("=")[1]]
        answers = [
            server.call(method, path, body, {**session, "Origin": f"http://{session['Host']}"})
            for method, path, body in ROUTES
        ]
        answers += [server.get(f"/?token={word}", token=False) for word in ("wrong", secrets[0])]
        for answer in answers:
            text = answer.body + str(answer.headers).encode()
            assert answer.headers["referrer-policy"] == "no-referrer"
            assert not any(secret.encode() in text for secret in (*secrets, server.token))
        stop = server.stop

        def keep():
            server_out["all"] = stop()
            return server_out["all"]

        server.stop = keep
    _, out, errors = server_out["all"]
    # The link was on the first line, which the helper has read.
    assert not any(secret in out + errors for secret in (*secrets, server.token))
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert server.token.encode() in files.pop("page-token")
    assert not any(
        secret.encode() in data for secret in (*secrets, server.token) for data in files.values()
    )


def test_signing_in_is_logged_and_a_session_can_be_ended(team, capsys):
    olga = team.visit(team.links["Olga"])
    eve = team.visit(team.links["eve"])
    team.visit()
    with Store.open(team.folder, read_only=True) as store:
        rows = [(e.who, e.origin) for e in store.events() if e.kind == "signed in"]
        listed = store.sessions()
    assert rows == [(who, "127.0.0.1") for who in ("Olga", "eve", "the page's link")]
    assert [row.name for row in listed] == [None, "eve", "Olga"]
    with pytest.raises(SystemExit):
        main(["team", "sessions", str(team.folder), "--end", listed[1].id])
    said = capsys.readouterr().out
    assert "Olga" in said
    assert "eve" not in said
    for secret in (olga["Cookie"].partition("=")[2], olga["X-Parbals-Key"]):
        assert secret not in said
    wait_for(lambda: team.get("/api/me", token=False, headers=eve).status == 401, 10)
    assert team.get("/api/me", token=False, headers=olga).status == 200
    assert team.get("/api/me", token=False, headers=team.visit(team.links["eve"])).status == 200


def test_a_link_ends_after_its_days_with_its_sessions(team):
    with Store.open(team.folder) as store:
        link = store.invite("Zoe", days=1.5 / 86_400)
        for_long = store.invite("Yan", days=30)
    zoe = team.visit(link)
    assert team.get("/api/me", token=False, headers=zoe).status == 200
    wait_for(lambda: team.get("/api/me", token=False, headers=zoe).status == 401, 20)
    assert team.get(f"/?token={link}", token=False).status == 401
    bearer = {"Authorization": f"Bearer {link}"}
    assert team.get("/api/me", token=False, headers=bearer).status == 401
    assert team.get("/api/me", token=False, headers=team.visit(for_long)).status == 200
