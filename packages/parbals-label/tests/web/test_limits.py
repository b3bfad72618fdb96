"""What one person, or one program, can do to everybody else's page: not much."""

import http.client
import json
import logging
import resource
import socket
from contextlib import ExitStack, contextmanager

import pytest
from page_server import WITHOUT_WORKER, make_project, page, serving, wait_for
from parbals_label.server import connections
from parbals_label.server.desk import BusyError
from parbals_label.server.logs import RateLimitFilter
from parbals_label.server.rate_limits import RateLimiter, TokenBuckets
from parbals_label.store.store import Store

HALF = b"POST /api/answers HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: appl"
HALF_A_BODY = (
    "POST /api/answers HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n"
    'Content-Type: application/json\r\nContent-Length: 90\r\n\r\n{{"annotator":'
)
USUAL_FILES = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024));"


@contextmanager
def more_files(n):
    """This process may have so many files open; the server's limit is its own."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, n), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def take_soon(server, annotator):
    """Status of a request that may not wait longer than a few seconds."""
    link = http.client.HTTPConnection("localhost", server.port, timeout=5)
    head = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
    try:
        link.request("POST", "/api/take", json.dumps({"annotator": annotator}), head)
        return link.getresponse().status
    finally:
        link.close()


def is_open(link):
    """Whether the server has not hung up, whatever it said before."""
    try:
        while link.recv(65536):
            pass
    except TimeoutError:
        return True
    except ConnectionError:
        pass
    return False


def crowd(server, sent):
    """1,100 connections that send something and then keep the server waiting; who makes room?"""
    with ExitStack() as held:
        links = []
        for number in range(1_100):
            link = socket.create_connection(("127.0.0.1", server.port), timeout=5)
            links.append(held.enter_context(link))
            link.sendall(sent)
            if number % 100 == 99:
                assert take_soon(server, "ann") == 200
        assert take_soon(server, "a newcomer") == 200
        for link in links[:500]:
            assert not is_open(link), "those that waited longest made room"


@pytest.mark.parametrize(
    "half",
    [
        HALF.decode(),
        pytest.param(HALF_A_BODY, marks=pytest.mark.full),
        pytest.param("", marks=pytest.mark.full),
    ],
    ids=["head", "body", "nothing"],
)
def test_eleven_hundred_half_open_requests_do_not_lock_anybody_out(tmp_path, half):
    folder = make_project(tmp_path / "p")
    with more_files(2048), serving(folder, before=USUAL_FILES + WITHOUT_WORKER) as server:
        crowd(server, half.format(port=server.port, token=server.token).encode())


def not_reading(server, position):
    """A connection that asks for an item, and reads one byte of it."""
    link = socket.socket()
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    link.settimeout(20)
    link.connect(("127.0.0.1", server.port))
    ask = f"GET /api/items/{position} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
    link.sendall(f"{ask}Authorization: Bearer {server.token}\r\n\r\n".encode())
    assert link.recv(1) == b"H"
    return link


def test_who_does_not_read_what_they_asked_for_makes_room(tmp_path, monkeypatch):
    monkeypatch.setattr(connections, "_affordable_connections", lambda: 6)
    texts = [{"text": "a" * (1 if n < 39 else 6_000_000)} for n in range(40)]
    with page(make_project(tmp_path / "p", content=texts)) as server, ExitStack() as held:
        links = [held.enter_context(not_reading(server, 39)) for _ in range(9)]
        links[-1].sendall(b"GET / HTTP/1.1\r\n")  # asking again does not help
        assert take_soon(server, "a newcomer") == 200
        assert not any(is_open(link) for link in links[:3])
        assert len(server.connections) <= 6


def test_an_answer_must_be_read_in_time(tmp_path, monkeypatch):
    monkeypatch.setattr(connections, "READ_SECONDS", 0.3)
    folder = make_project(tmp_path / "p", content=[{"text": "a" * 6_000_000}], queued=1)
    with page(folder) as server, not_reading(server, 0) as link:
        wait_for(lambda: not server.connections)
        assert not is_open(link)


def test_the_head_of_a_request_must_arrive_in_time(tmp_path, monkeypatch):
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.3)
    with page(make_project(tmp_path / "p")) as server, ExitStack() as held:

        def connect(data):
            link = socket.create_connection(("127.0.0.1", server.port), timeout=20)
            link.sendall(data)
            return held.enter_context(link)

        assert not is_open(connect(HALF))
        assert not is_open(connect(b"")), "nor may it say nothing at all"
        whole = f"GET /api/live HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
        whole += f"Authorization: Bearer {server.token}\r\n\r\n"
        link = connect(whole.encode())
        assert link.recv(65536).startswith(b"HTTP/1.1 200")
        link.settimeout(1.0)
        assert is_open(link), "who was answered may ask again later"
        link.settimeout(20)
        link.sendall(b"G")
        while link.recv(65536):  # the rest of the answer, and then nothing
            pass


def test_with_too_many_connections_those_that_never_asked_go_first(tmp_path, monkeypatch):
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 20)
    with page(make_project(tmp_path / "p")) as server, ExitStack() as held:
        asked = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        head = {"Authorization": f"Bearer {server.token}"}
        asked.request("GET", "/api/live", headers=head)
        asked.getresponse().read()
        first = asked.sock
        for _ in range(60):
            link = socket.create_connection(("127.0.0.1", server.port), timeout=20)
            held.enter_context(link).sendall(HALF)
        assert server.take("ann") == [0]
        asked.request("GET", "/api/live", headers=head)
        assert asked.getresponse().status == 200
        assert asked.sock is first, "it was not cut off"
        asked.close()


def test_invented_names_leave_items_for_a_newcomer(tmp_path):
    folder = make_project(tmp_path / "p", n_items=500)
    with page(folder) as server:
        for number in range(60):
            assert len(server.take(f"name {number}", 10)) == 10
        live = server.get("/api/live").json
        assert live["out"] + live["queued"] <= 200
        assert len(server.take("ann", 3)) == 3


def test_a_person_who_asks_too_fast_waits_and_nobody_else_does(tmp_path):
    now = [0.0]
    rate_limiter = RateLimiter(lambda: now[0])
    for _ in range(2_000):
        rate_limiter.admit("ann")
    with pytest.raises(BusyError, match="ann may send 2,000 requests in 100 seconds"):
        rate_limiter.admit("ann")
    rate_limiter.admit("bob")
    now[0] += 0.1
    rate_limiter.admit("ann")
    buckets = TokenBuckets(10, 1.0, lambda: now[0])
    assert all(buckets.take(number) for number in range(20_000))
    assert len(buckets.left) == 10_000
    with page(make_project(tmp_path / "p")) as server:
        rate_limiter = server.guard.door.rate_limiter
        rate_limiter.admit("ann", answers=300)
        answer = server.label("ann", 0)
        assert (answer.status, answer.error) == (429, "busy")
        assert answer.headers["retry-after"] == "1"
        assert server.label("bob", 0).status == 200
        assert set(server.get("/api/items/0").json["answers"]) == {"bob"}


def test_answers_and_bytes_have_a_limit_for_one_person_and_for_everybody():
    now = [0.0]
    rate_limiter = RateLimiter(lambda: now[0])
    rate_limiter.admit("ann", answers=100)
    rate_limiter.admit("ann", answers=200)
    with pytest.raises(BusyError, match="ann may send 300 answers in 100 seconds"):
        rate_limiter.admit("ann", answers=1)
    rate_limiter.admit("bob", answers=1)
    now[0] += 1.0  # three answers a second, for hours
    rate_limiter.admit("ann", answers=3)
    refused = {}
    for kind, names, more in (
        ("a day", ["ann"], {"answers": 100}),
        ("bytes", ["ann"], {"answers": 1, "n_bytes": 900_000}),
        ("together", [f"name {n}" for n in range(100)], {"answers": 1, "n_bytes": 900_000}),
    ):
        rate_limiter = RateLimiter(lambda: now[0])
        try:
            for number in range(1_000):
                now[0] += 60.0 if kind == "a day" else 0.0
                rate_limiter.admit(names[number % len(names)], **more)
        except BusyError as error:
            refused[kind] = (number, str(error))
    assert refused["a day"][0] >= 200
    assert "ann may send 20,000 answers a day" in refused["a day"][1]
    assert "ann may send 2,000,000 bytes of text in 600 seconds" in refused["bytes"][1]
    assert "everybody together may send 50,000,000 bytes of text" in refused["together"][1]


def test_bad_requests_do_not_fill_the_log(tmp_path, capfd):
    with page(make_project(tmp_path / "p")) as server:
        for _ in range(50):
            assert server.raw(b"nonsense\r\n\r\n").startswith(b"HTTP/1.1 400")
    assert capfd.readouterr().err.count("Invalid HTTP request") <= 10


def test_a_message_that_is_said_often_tells_how_often():
    now = [0.0]
    rate_limit = RateLimitFilter(10, 1 / 6, lambda: now[0])

    def say(text, *values):
        record = logging.LogRecord("x", logging.WARNING, "", 0, text, values, None)
        return record.left_out if rate_limit.filter(record) else None

    assert [say("bad %s", n) for n in range(30)] == [0] * 10 + [None] * 20
    assert say("something else") == 0
    now[0] = 60.0
    assert say("bad %s", "again") == 20
    assert say("bad %s", "and again") == 0


def test_the_owner_gives_back_what_is_out_with_one_person_or_with_all(tmp_path):
    folder = make_project(tmp_path / "p")
    with page(folder) as server:
        assert server.take("ann", 2) == [0, 1]
        assert server.take("bob", 2) == [2, 3]
        assert server.post("/api/release-all", {"of": "ann"}).json == {"released": 2}
        assert server.take("cyd", 2) == [0, 1]
        assert server.post("/api/release-all", {}).json == {"released": 4}
        assert server.mine("bob", [2, 3]) == []
    with Store.open(folder, read_only=True) as store:
        given = [event.detail for event in store.events() if event.kind == "items given back"]
    assert given == [{"name": "ann", "count": 2}, {"name": None, "count": 4}]
