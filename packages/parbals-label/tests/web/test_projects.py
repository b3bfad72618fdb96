"""Several projects at one address: one person's invitation opens one project, and the list."""

import json
import threading

import pytest
from message_projects import run  # noqa: F401
from page_server import WITHOUT_WORKER, Client, make_project, serving
from parbals.errors import InputError
from parbals_label.server import connections
from parbals_label.store.store import Store
from parbals_label.web import projects
from parbals_label.web.address import PageAddress
from parbals_label.web.page_files import known_address, page_token
from parbals_label.web.supervisor import Supervisor
from test_guard import ROUTES


class Host(Client):
    """A folder of projects, served from a thread of the tests without workers."""

    def __init__(self, folder, **options):
        self.token = page_token(folder)
        listener = connections.listen("127.0.0.1", 0)
        self.port = listener.getsockname()[1]
        address = PageAddress(port=self.port, **options)
        self.app = projects.Projects(folder, projects.projects_in(folder), address, self.token)
        self._server = connections.make_server(self.app)
        self._thread = threading.Thread(target=self._server.run, args=([listener],))
        self._thread.start()

    def stop(self):
        self._server.should_exit = True
        self._thread.join()

    def enter(self, name, token):
        """Open a personal link to one project: the headers of its session."""
        path = f"/p/{name}/?token={token}"
        door = self.call("GET", path, token=False)
        assert door.status == 200
        key = door.body.partition(b"data-key=")[2].partition(b" ")[0].partition(b">")[0].decode()
        cookie = door.headers["set-cookie"].split(";")[0]
        return {"Cookie": cookie, "X-Parbals-Key": key, "Origin": f"http://127.0.0.1:{self.port}"}

    def listed(self, headers=None, keys=None):
        origin = {"Origin": f"http://127.0.0.1:{self.port}", **(headers or {})}
        answer = self.post("/api/projects", {"keys": keys or {}}, headers=origin, token=False)
        assert answer.status == 200, answer.body
        return [row["name"] for row in answer.json["projects"]]


@pytest.fixture
def folder(tmp_path):
    for name in ("cats", "dogs"):
        make_project(tmp_path / name)
    return tmp_path


@pytest.fixture
def host(folder, monkeypatch):
    monkeypatch.setattr(Supervisor, "start", lambda self: None)
    host = Host(folder)
    yield host
    host.stop()


def invite(folder, name, role="annotator"):
    with Store.open(folder) as store:
        return store.invite(name, role)


@pytest.mark.parametrize("role", ["annotator", "owner"])
def test_who_is_invited_to_one_project_reaches_nothing_of_the_other(host, folder, role):
    cats = host.enter("cats", invite(folder / "cats", "ada", role))
    invite(folder / "dogs", "ada", "owner")  # the same name, but perhaps another person
    cookie = cats["Cookie"]
    port = host.port
    dogs_cookie = PageAddress(port=port, path="/p/dogs").cookie("127.0.0.1")
    tries = [
        cats,
        {**cats, "Cookie": f"{dogs_cookie}={cookie.partition('=')[2]}"},
        {**cats, "Cookie": f"parbals-{port}={cookie.partition('=')[2]}"},
    ]
    for headers in tries:
        for method, path, body in ROUTES:
            answer = host.call(method, f"/p/dogs{path}", body, headers, token=False)
            assert answer.status == 401, (path, answer.body)
            assert b"message" not in answer.body.replace(b'"message"', b"")
    assert host.call("GET", "/p/cats/api/me", None, cats, token=False).json["name"] == "ada"
    assert host.listed(cats, {"cats": cats["X-Parbals-Key"]}) == ["cats"]
    assert host.listed(cats, {"dogs": cats["X-Parbals-Key"], "cats": "wrong"}) == []
    opened = host.post("/api/open", {"name": "dogs"}, headers=cats, token=False)
    assert opened.status == 403
    with Store.open(folder / "dogs", read_only=True) as store:
        assert store.current_labels() == {}
        assert "signed in" not in {event.kind for event in store.events()}


def test_strangers_see_an_empty_list_and_learn_no_names(host):
    assert host.listed() == []
    assert b"cats" not in host.get("/", token=False).body
    made_up = {"Authorization": "Bearer made-up", "Cookie": f"parbals-{host.port}=made-up"}
    for path in ("", "api/me", "healthz", "readyz", "metrics", "static/js/main.js"):
        for headers in ({}, made_up):
            known = host.get(f"/p/cats/{path}", token=False, headers=headers)
            unknown = host.get(f"/p/nothing/{path}", token=False, headers=headers)
            assert (known.status, known.body) == (401, unknown.body)
            told = [{**one.headers, "date": ""} for one in (known, unknown)]
            assert told[0] == told[1]
    script = [host.get(f"/p/{name}/static/js/enter.js", token=False) for name in ("cats", "none")]
    assert [answer.status for answer in script] == [200, 200]
    assert script[0].body == script[1].body
    assert all(hosted.watch is None for hosted in host.app.projects.values())
    assert host.get("/healthz", token=False).status == 200


def test_a_keys_list_opens_no_project_for_a_stranger(host):
    assert host.listed(keys={"cats": "made-up", "dogs": "made-up"}) == []
    assert all(hosted.watch is None for hosted in host.app.projects.values())


def test_metrics_open_a_project_for_their_token_alone(host, folder):
    token = page_token(folder / "cats", name="page-metrics-token")
    header = {"Authorization": f"Bearer {token}"}
    assert host.get("/p/dogs/metrics", token=False, headers=header).status == 401
    assert host.get("/p/cats/metrics", token=False, headers=header).status == 200


def test_the_servers_own_link_is_the_owner_of_every_project(host, folder):
    session = host.visit()
    assert host.listed(session) == ["cats", "dogs"]
    opened = host.post("/api/open", {"name": "dogs"}, headers=session, token=False)
    cookie = opened.headers["set-cookie"].split(";")[0]
    inside = {**session, "Cookie": cookie, "X-Parbals-Key": opened.json["key"]}
    assert host.get("/p/dogs/api/me", headers=inside, token=False).json["role"] == "owner"
    assert host.get("/p/cats/api/me", headers=inside, token=False).status == 401
    assert host.get("/p/cats/api/project").json["name"] == "cats"  # as a bearer
    link = host.post("/p/dogs/api/people", {"name": "bob"}).json["link"]
    assert link.startswith(f"http://127.0.0.1:{host.port}/p/dogs/?token=")
    later = {**session, "X-Parbals-Key": "wrong"}
    assert host.listed(later) == []
    forged = session["Cookie"].replace("=", "=9", 1)
    assert host.listed({**session, "Cookie": forged}) == []


def test_sessions_of_the_list_are_listed_and_ended(host, folder, run):  # noqa: F811
    first = host.visit()
    second = host.visit()
    rows = json.loads(run("team", "sessions", folder, "--json"))
    assert [(row["name"], row["place"]) for row in rows] == [(None, f"127.0.0.1:{host.port}")] * 2
    secrets = [first["Cookie"].partition("=")[2], first["X-Parbals-Key"]]
    stored = "".join(path.read_text() for path in (folder / "page-sessions").iterdir())
    assert not any(secret in stored for secret in secrets)
    run("team", "sessions", folder, "--end", rows[0]["id"])
    assert sorted([host.listed(first), host.listed(second)]) == [[], ["cats", "dogs"]]
    left = first if host.listed(first) else second
    assert host.post("/api/leave", {}, headers=left, token=False).status == 200
    assert host.listed(left) == []
    assert run("team", "sessions", folder).strip() == "Nobody is signed in."
    assert "There is no session" in str(
        run("team", "sessions", folder, "--end", rows[0]["id"], fails=True).exception
    )


def test_a_new_token_ends_the_sessions_of_the_list(host, folder):
    host.visit()
    projects.Projects(folder, projects.projects_in(folder), PageAddress(port=1), "another token")
    assert list((folder / "page-sessions").iterdir()) == []


def test_a_proxys_word_lists_what_the_name_is_invited_to(folder, monkeypatch):
    monkeypatch.setattr(Supervisor, "start", lambda self: None)
    invite(folder / "dogs", "ada")
    host = Host(folder, public="https://label.example", user_header="X-Remote-User")
    try:
        said = {"X-Remote-User": "ada", "Host": "label.example", "Origin": "https://label.example"}
        assert host.listed(said) == ["dogs"]
        assert host.get("/p/dogs/api/me", headers=said, token=False).status == 200
        assert host.get("/p/cats/api/me", headers=said, token=False).status == 403
    finally:
        host.stop()


def test_a_damaged_project_does_not_stop_the_others(host, folder):
    (folder / "cats" / "project.sqlite3").write_bytes(b"not a database at all" * 100)
    assert host.get("/p/cats/api/project").status == 503
    assert str(folder).encode() not in host.get("/p/cats/api/project", token=False).body
    assert host.get("/p/dogs/api/project").status == 200
    session = host.visit()
    assert host.listed(session) == ["cats", "dogs"]
    said = host.post("/api/open", {"name": "cats"}, headers=session, token=False)
    assert said.status == 503
    assert "salvage" in said.json["error"]["message"]


def test_a_worker_begins_when_somebody_is_let_in(host):
    hosted = host.app.projects
    host.get("/p/cats/api/project", token=False)
    assert not hosted["cats"]._is_started
    host.get("/p/cats/api/project")
    assert hosted["cats"]._is_started
    assert hosted["dogs"].watch is None


def test_a_folder_must_hold_projects_with_names_that_differ(tmp_path):
    with pytest.raises(InputError, match="There is no project in"):
        projects.projects_in(tmp_path)
    with pytest.raises(InputError, match="cannot be read as a folder"):
        projects.projects_in(tmp_path / "nowhere")
    for name in ("Cats", "cats"):
        make_project(tmp_path / name)
    with pytest.raises(InputError, match="'Cats' and 'cats'"):
        projects.projects_in(tmp_path)


def test_the_command_serves_a_folder(folder):
    with serving(f"--projects={folder}", token_in=folder, before=WITHOUT_WORKER) as server:
        session = server.visit()
        answer = server.post("/api/projects", {"keys": {}}, headers=session, token=False)
        assert [row["name"] for row in answer.json["projects"]] == ["cats", "dogs"]
        assert known_address(folder / "cats") == f"http://127.0.0.1:{server.port}/p/cats"
