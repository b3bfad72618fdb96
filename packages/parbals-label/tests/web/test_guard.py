"""Who may speak to the page (P7): a wrong token, Host or Origin reads and changes nothing."""

import http.client
import json
import socket
from contextlib import closing
from urllib.parse import urlsplit

import pytest
from page_server import WITHOUT_WORKER, make_project, page, serving
from parbals.errors import ProjectDamagedError
from parbals_label.store.store import Store

ANSWER = {"annotator": "eve", "answers": [{"position": 0, "label": "ham", "request_id": "evil"}]}
ROUTES = [
    ("GET", "/", None),
    ("GET", "/static/index.html", None),
    ("GET", "/static/js/main.js", None),
    ("GET", "/api/project", None),
    ("PATCH", "/api/settings", {"guidelines": "evil"}),
    ("POST", "/api/take", {"annotator": "eve", "n": 1}),
    ("POST", "/api/answers", ANSWER),
    (
        "POST",
        "/api/passes",
        {"annotator": "eve", "position": 0, "kind": "skip", "request_id": "evil"},
    ),
    ("POST", "/api/undo", {"annotator": "eve", "position": 0, "request_id": "evil"}),
    ("POST", "/api/leases", {"annotator": "eve", "positions": [0]}),
    ("POST", "/api/release", {"annotator": "eve", "positions": [0]}),
    ("POST", "/api/release-all", {"of": None}),
    ("POST", "/api/again", {"position": 0}),
    ("POST", "/api/measure", {"n": 3, "keep": True}),
    ("POST", "/api/measure/undo", {}),
    ("POST", "/api/check", {"program": "machine:evil"}),
    ("POST", "/api/pause", {"program": "machine:evil", "paused": True}),
    (
        "POST",
        "/api/bulk",
        {"annotator": "eve", "positions": [0], "label": "spam", "request_id": "evil-bulk"},
    ),
    ("GET", "/api/live", None),
    ("GET", "/api/map", None),
    ("GET", "/api/target", None),
    ("GET", "/api/target/0", None),
    ("GET", "/api/items", None),
    ("GET", "/api/items/0", None),
    ("GET", "/api/media/0", None),
    ("GET", "/api/export", None),
    ("GET", "/api/openapi.json", None),
    ("GET", "/api/me", None),
    ("POST", "/api/leave", {}),
    ("GET", "/api/people", None),
    ("POST", "/api/people", {"name": "eve", "role": "owner"}),
    ("POST", "/api/people/role", {"name": "eve", "role": "owner"}),
    ("POST", "/api/people/revoke", {"name": "eve"}),
    ("GET", "/api/log", None),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server that is attacked; in the end its project is as it was."""
    folder = make_project(tmp_path_factory.mktemp("guarded") / "mail")
    with page(folder) as server:
        yield server
    with Store.open(folder, read_only=True) as store:
        assert store.current_labels() == {}
        assert store.passes() == {}
        assert store.queue_counts().assigned == 0
        assert store.settings.guidelines == ""
        assert store.people() == []
        assert {event.kind for event in store.events()} == {"signed in"}


def secret_free(answer):
    """Nothing of the project is in a refusal."""
    return not any(word in answer.body for word in (b"message number", b"mail", b"spam"))


def test_the_list_above_names_every_route_there_is(server):
    described = server.get("/api/openapi.json").json["paths"]
    known = {(method.upper(), path) for path, methods in described.items() for method in methods}
    tried = {
        (method, path.replace("/0", "/{position}"))
        for method, path, _ in ROUTES
        if path.startswith("/api")
    }
    assert known == tried - {("GET", "/api/openapi.json")}


@pytest.mark.parametrize(("method", "path", "body"), ROUTES)
def test_every_route_needs_the_token(server, method, path, body):
    cookie = f"parbals-{server.port}"
    session = server.visit()
    value = session["Cookie"].partition("=")[2]
    key = session["X-Parbals-Key"]
    wrong = [
        {},
        {"X-Parbals-Key": key},
        {"Cookie": f"{cookie}={server.token}", "X-Parbals-Key": server.token},
        {"Cookie": f"{cookie}={value[:-1]}", "X-Parbals-Key": key},
        {"Cookie": f"parbals-1={value}", "X-Parbals-Key": key},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Bearer {server.token[:-1]}"},
        {"Authorization": f"Bearer {server.token}x"},
        {"Authorization": f"Bearer {server.token.lower()}"},
        {"Authorization": f"Basic {server.token}"},
        {"Authorization": server.token},
        {"Authorization": "Bearer é\x80"},
        {"Cookie": f"{cookie}="},
        {"Cookie": f"{cookie}=wrong"},
        {"Cookie": f"parbals-1={server.token}"},
        {"Cookie": f"x{cookie}={server.token}"},
        {"Cookie": f"a={cookie}={server.token}"},
        {"Cookie": ";;;=;\x01"},
        # A bad bearer is not saved by a good cookie.
        {**session, "Authorization": "Bearer wrong"},
    ]
    # What a server on another port of this machine sees of the session.
    if path.startswith("/api"):
        wrong += [{"Cookie": session["Cookie"]}]
        wrong += [{"Cookie": session["Cookie"], "X-Parbals-Key": value}]
    for headers in wrong:
        ours = {**headers, "Origin": f"http://127.0.0.1:{server.port}"}
        answer = server.call(method, path, body, ours, token=False)
        assert answer.status == 401, headers
        assert secret_free(answer)
        kind = "application/json" if path.startswith("/api") else "text/html"
        assert answer.headers["content-type"].startswith(kind)
        assert "set-cookie" not in answer.headers
    assert server.call(method, f"{path}?token={server.token}", body, token=False).status == (
        200 if path == "/" else 401
    )


def test_an_old_token_is_good_after_a_restart_and_useless_after_a_new_one(tmp_path):
    folder = make_project(tmp_path / "p")
    with page(folder) as server:
        old = server.token
        port = server.port
        session = server.visit()
        assert (folder / "page-token").stat().st_mode & 0o777 == 0o600
        assert server.get("/api/project", token=False, headers=session).status == 200
    with page(folder, port=port) as server:
        assert server.token == old
        assert server.get("/api/project").status == 200
        assert server.get("/api/project", token=False, headers=session).status == 200
    with page(folder, new_token=True, port=port) as server:
        assert server.token != old
        for headers in ({"Authorization": f"Bearer {old}"}, session):
            for method, path, body in ROUTES:
                assert server.call(method, path, body, headers, token=False).status == 401
        assert server.get(f"/?token={old}", token=False).status == 401


def test_the_link_begins_a_session_and_is_in_no_later_address(server):
    typed = {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"}
    # The second is what our own page asks for, the last a browser that does not say who does.
    for headers in (typed, {**typed, "Sec-Fetch-Site": "same-origin"}, {}):
        answer = server.get(f"/?token={server.token}", token=False, headers=headers)
        assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert answer.headers["cache-control"] == "no-store"
        assert "location" not in answer.headers
        cookie = answer.headers["set-cookie"]
        rules = {part.strip() for part in cookie.split(";")}
        assert {"HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=2592000"} <= rules
        assert cookie.startswith(f"parbals-{server.port}=")
        # The browser keeps a session: nothing of the token is in it, nor in anything it is shown.
        assert server.token not in cookie + answer.body.decode() + str(answer.headers)
        assert secret_free(answer)
        going_on = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "navigate"}
        mixed = {"Cookie": f'other=1; {cookie.split(";")[0]}; bad cookie, "x'}
        page = server.get("/", token=False, headers={**going_on, **mixed})
        assert page.status == 200
        assert b"<html" in page.body
        script = server.get("/static/js/enter.js", token=False, headers=mixed)
        assert script.status == 200
        assert b"location.replace(`${BASE}/`)" in script.body
        key = {"X-Parbals-Key": answer.body.split(b"data-key=")[1].split(b">")[0].decode()}
        assert server.get("/api/project", token=False, headers={**mixed, **key}).status == 200


@pytest.mark.parametrize("wildcard", ["0.0.0.0", "::"])
def test_a_server_on_every_address_is_called_by_its_name_and_by_any_address(tmp_path, wildcard):
    if wildcard == "::" and not speaks_ipv6():
        pytest.skip("this machine has no IPv6")
    with page(make_project(tmp_path / "p"), host=wildcard) as server:
        printed = urlsplit(server.link).netloc
        assert printed == f"{socket.gethostname()}:{server.port}"
        assert server.get("/api/project", headers={"Host": printed}).status == 200
        assert (
            server.get("/api/project", headers={"Host": f"evil.example:{server.port}"}).status
            == 421
        )
        # Any address of the machine will do; 127.0.0.2 is one that no rule names.
        with closing(
            http.client.HTTPConnection("127.0.0.2", server.port, timeout=60)
        ) as connection:
            connection.request(
                "GET", "/api/project", headers={"Authorization": f"Bearer {server.token}"}
            )
            assert connection.getresponse().status == 200


def speaks_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::", 0))
    except OSError:
        return False
    return True


def hosts(port):
    """Names the server may be called by, and 30 that it must not answer to."""
    good = [f"127.0.0.1:{port}", f"localhost:{port}", f"LOCALHOST:{port}", f"[::1]:{port}"]
    bad = [
        "", "127.0.0.1", "localhost", f"127.0.0.1:{port + 1}", "127.0.0.1:80",
        f"evil.example:{port}", "evil.example", f"127.0.0.1.evil.example:{port}",
        f"localhost.evil.example:{port}", f"evil-localhost:{port}", f"0.0.0.0:{port}",
        f"127.0.0.2:{port}", f"127.1:{port}", f"2130706433:{port}", f"0x7f000001:{port}",
        f"0177.0.0.1:{port}", f"[::ffff:127.0.0.1]:{port}", f"[::]:{port}", f"::1:{port}", "[::1]",
        f"[::1]:{port}:{port}", f"localhost.:{port}", f"user@localhost:{port}",
        f"localhost:{port}@evil.example", f"localhost:{port}/", f"localhost:{port}#",
        f"localhost:{port},evil.example", f" localhost:{port} x", f"localhost:0{port}",
        f"http://localhost:{port}", f"localhost:+{port}", f"lоcalhost:{port}",
    ]  # fmt: skip
    return good, bad


def test_the_server_answers_only_to_its_own_names(server):
    good, bad = hosts(server.port)
    assert len(bad) >= 30
    for host in good:
        assert server.get("/api/project", headers={"Host": host}).status == 200, host
    for host in bad:
        answer = server.get("/api/project", headers={"Host": host.encode()})
        assert answer.status in (400, 421), host
        assert secret_free(answer)
    for lines in ("", f"Host: localhost:{server.port}\r\nHost: evil.example\r\n", "Host:\r\n"):
        token = f"Authorization: Bearer {server.token}\r\nConnection: close\r\n\r\n"
        received = server.raw(f"GET /api/project HTTP/1.1\r\n{lines}{token}".encode())
        assert received.split(b" ")[1] in (b"400", b"421"), lines


def origins(port):
    """40 forms of Origin and Sec-Fetch headers, and the status a change gets; None: it may pass."""
    own = f"http://127.0.0.1:{port}"
    bad_origins = [
        "null", "", "http://evil.example", "https://evil.example", f"http://evil.example:{port}",
        f"https://127.0.0.1:{port}", "http://127.0.0.1", f"http://127.0.0.1:{port + 1}", f"{own}/",
        f"{own}/x", f"http://127.0.0.1:{port}.evil.example", f"{own}@evil.example",
        f"http://user@127.0.0.1:{port}", f"http://127.0.0.1.evil.example:{port}",
        "http://localhost", f"http://0.0.0.0:{port}", f"127.0.0.1:{port}", f"//127.0.0.1:{port}",
        "file://", "chrome-extension://abc", f"HTTP://127.0.0.1:{port}",
        f"{own} http://evil.example", f"http://evil.example {own}", f"ws://127.0.0.1:{port}",
        f"http://[::ffff:7f00:1]:{port}", "data:", f"http://127.0.0.1:{port}%00", "*",
    ]  # fmt: skip
    cases = [({"Origin": origin}, 403) for origin in bad_origins]
    cases += [
        ({}, 403),
        ({"Sec-Fetch-Site": "none"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Origin": own}, 403),
        ({"Sec-Fetch-Site": "same-site", "Origin": own}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 403),
        ({"Sec-Fetch-Site": "Same-Origin"}, 403),
        ({"Sec-Fetch-Site": "same-origin, cross-site"}, 403),
        ({"Sec-Fetch-Site": "whatever"}, 403),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "http://evil.example"}, 403),
        ({"Sec-Fetch-Site": ""}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, None),
        ({"Origin": own}, None),
        ({"Origin": f"http://localhost:{port}"}, None),
        ({"Sec-Fetch-Site": "same-origin", "Origin": own, "Sec-Fetch-Mode": "cors"}, None),
    ]
    return cases


def test_other_sites_pages_change_nothing_even_with_the_cookie(server):
    session = {k: v for k, v in server.visit().items() if k != "Origin"}
    cases = origins(server.port)
    assert len(cases) >= 40
    for headers, status in cases:
        answer = server.call(
            "POST", "/api/answers", ANSWER if status else {}, {**session, **headers}, token=False
        )
        # Those that may pass meet the check of their empty body.
        assert answer.status == (status or 422), headers
        assert secret_free(answer)


def test_another_site_cannot_sign_a_browser_in_as_somebody_else(server):
    """It may lead to the door; there the page itself asks, and only then a session begins."""
    for site in ("cross-site", "same-site"):
        clicked = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"}
        door = server.get(f"/?token={server.token}", token=False, headers=clicked)
        assert (door.status, door.headers["cache-control"]) == (200, "no-store")
        assert "set-cookie" not in door.headers
        assert b'data-who=""' in door.body
        assert b"data-key" not in door.body
        assert server.token.encode() not in door.body


def test_cookies_that_another_port_has_set_do_not_lock_anybody_out(server):
    session = server.visit()
    mine = session["Cookie"]
    name = mine.partition("=")[0]
    for others in (f"{name}=x; {mine}", f"{mine}; {name}=y", f"{name}=; {name}=a b; {mine}"):
        headers = {**session, "Cookie": others}
        assert server.get("/api/me", token=False, headers=headers).status == 200, others
    many = "; ".join([*(f"{name}={n}" for n in range(500)), mine])
    assert server.get("/api/me", token=False, headers={**session, "Cookie": many}).status == 401


def test_a_password_for_a_proxy_does_not_break_a_session(server):
    headers = {**server.visit(), "Authorization": "Basic b2xnYTp4"}
    assert server.get("/api/me", token=False, headers=headers).status == 200
    alone = {"Authorization": "Basic b2xnYTp4"}
    assert server.get("/api/me", token=False, headers=alone).status == 401


def test_strangers_do_not_hear_where_a_damaged_project_lies(server, monkeypatch):
    def damaged(self, secret):
        raise ProjectDamagedError(f"{server.folder} is damaged: 40 answers were confirmed.")

    monkeypatch.setattr(Store, "person_of", damaged)
    for path in ("/api/me", "/?token=guess", "/"):
        headers = {"Authorization": "Bearer guess"}
        answer = server.get(path, token=False, headers=headers)
        assert (answer.status, answer.error) == (503, "damaged")
        assert b"answers" not in answer.body
        assert str(server.folder).encode() not in answer.body


def test_other_sites_pages_read_nothing_and_a_link_from_them_leads_to_the_door(server):
    cookie = {k: v for k, v in server.visit().items() if k != "Origin"}
    for site in ("cross-site", "same-site"):
        for mode in ("navigate", "no-cors", "cors", "websocket"):
            headers = {**cookie, "Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode}
            for path in ("/api/project", "/api/export", "/api/media/0", "/static/js/main.js"):
                assert server.call("GET", path, headers=headers, token=False).status == 403
            door = server.call("GET", "/", headers=headers, token=False)
            assert door.status == (401 if mode == "navigate" else 403)
            opened = server.call("GET", f"/?token={server.token}", headers=headers, token=False)
            assert opened.status == (200 if mode == "navigate" else 403)
    for headers in (
        {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"},
        {"Sec-Fetch-Site": "same-origin"},
        {},
    ):
        assert (
            server.call("GET", "/api/project", headers={**cookie, **headers}, token=False).status
            == 200
        )


def traversals():
    """60 ways to ask for a file that is not the page's."""
    ups = [
        "..", "%2e%2e", "%2E%2E", ".%2e", "%252e%252e", "..%00", "%c0%ae%c0%ae", "..;", "....",
        "..%5c..", "..\\..",
    ]  # fmt: skip
    files = ["etc/passwd", "app.py", "page-token", "project.sqlite3"]
    roots = ("/static", "/static/js", "/api/media")
    paths = [f"{root}/{up}/{up}/{file}" for root in roots for up in ups[:6] for file in files]
    paths += [f"/static/{up}/app.py" for up in ups] + [f"/static/%2f{file}" for file in files]
    paths += [
        "/static//etc/passwd", "/static/.", "/static/", "/static/js", "/static/js/",
        "/static/./index.html", "/static/index.html/", "/static/.hidden",
        "/static/index.html%00.js", "/static/C:/x.js", "/static/file:/etc/passwd",
        "/api/media/0/../../x", "//etc/passwd", "/api/media/%30%2f..%2f..", "/api/media/-1",
        "/api/media/1e3", "/api/media/٣", "/app.py", "/../page-token",
    ]  # fmt: skip
    return paths


def test_no_path_leads_out_of_the_pages_own_files(server):
    paths = traversals()
    assert len(paths) >= 60
    for path in paths:
        lines = [
            f"GET {path} HTTP/1.1",
            f"Host: 127.0.0.1:{server.port}",
            f"Authorization: Bearer {server.token}",
            "Connection: close\r\n\r\n",
        ]
        result = server.raw("\r\n".join(lines).encode())
        assert result.split(b" ")[1] in (b"404", b"422", b"400"), (path, result[:200])
        assert server.token.encode() not in result
        assert b"root:" not in result


def test_every_answer_tells_browsers_to_trust_it_little(server):
    answers = [
        server.get(path)
        for path in (
            "/",
            "/static/js/main.js",
            "/api/project",
            "/api/none",
            "/none",
            "/api/media/0",
        )
    ]
    answers += [
        server.get("/", token=False),
        server.get("/api/live", token=False),
        server.get("/", headers={"Host": "x"}),
    ]
    answers += [
        server.post("/api/take", b"{"),
        server.call("DELETE", "/api/project"),
        server.get(f"/?token={server.token}"),
    ]
    for answer in answers:
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self';" in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert answer.headers["cache-control"] in ("no-store", "no-cache")
        assert "access-control-allow-origin" not in answer.headers
        assert "server" not in answer.headers
    assert all(
        a.headers["cache-control"] == "no-store"
        for a in answers
        if "json" in a.headers.get("content-type", "")
    )


@pytest.mark.parametrize(
    "method", ["PUT", "DELETE", "OPTIONS", "HEAD", "TRACE", "CONNECT", "BREW", "get"]
)
def test_methods_that_are_not_known_are_refused(server, method):
    answer = server.call(
        method, "/api/project", headers={"Origin": f"http://127.0.0.1:{server.port}"}
    )
    assert answer.status == 405


def test_a_request_to_upgrade_to_a_websocket_gets_no_socket(server):
    lines = [
        "GET /api/live HTTP/1.1", f"Host: 127.0.0.1:{server.port}", "Connection: Upgrade",
        "Upgrade: websocket", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version: 13", "", "",
    ]  # fmt: skip
    assert b" 401 " in server.raw("\r\n".join(lines).encode()).split(b"\r\n")[0]


def test_the_server_never_loads_jax(tmp_path):
    spy = (
        f"import atexit, json, sys\natexit.register(lambda: open({str(tmp_path / 'loaded')!r}, "
        "'w').write(json.dumps(sorted(sys.modules))))\n"
    )
    with serving(make_project(tmp_path / "p"), before=spy + WITHOUT_WORKER) as server:
        for method, path, body in ROUTES:
            assert server.call(method, path, body).status < 500
    loaded = set(json.loads((tmp_path / "loaded").read_text()))
    assert "fastapi" in loaded
    assert not {"jax", "jaxlib", "torch", "sklearn", "pandas", "blackjax"} & loaded
