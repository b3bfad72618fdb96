"""What is not Label Studio, or does not answer as it should, is refused in one sentence."""

import json
import socket
import threading
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parbals.errors import InputError
from parbals_label.label_studio import client
from parbals_label.label_studio.client import Client, ServerError

KEY = "0123456789abcdef"


@contextmanager
def server(status, body=b"", **headers):
    """Answers everything alike; the requests' paths and keys are kept."""
    calls = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            calls.append((self.path, self.headers.get("Authorization")))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *_):
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{httpd.server_address[1]}", calls
    finally:
        httpd.shutdown()
        thread.join()
        httpd.server_close()


@pytest.mark.parametrize(
    ("status", "body", "kind", "message"),
    [
        (200, b"<html>hello</html>", InputError, "does not answer as Label Studio"),
        (200, b"[" * 100_000, InputError, "does not answer as Label Studio"),
        (401, b'{"detail": "no"}', InputError, r"does not accept the key \(no\)"),
        (403, b"", InputError, "does not accept the key"),
        (404, b"", InputError, "has nothing at /api/projects/1/"),
        (400, b'{"validation_errors": {"x": ["bad"]}}', InputError, "bad"),
        (500, b"", ServerError, "status 500"),
        (502, b"<html>", ServerError, "status 502"),
        (429, b"", ServerError, "status 429"),
    ],
)
def test_answers(status, body, kind, message):
    with server(status, body) as (url, _), pytest.raises(kind, match=message) as error:
        Client(url, KEY).project(1)
    assert KEY not in str(error.value)


def test_the_key_does_not_follow_a_redirect():
    with server(200, b"{}") as (other, seen), server(302, Location=f"{other}/steal") as (url, _):
        with pytest.raises(InputError, match="redirects requests to"):
            Client(url, KEY).project(1)
        assert seen == []


def test_a_personal_access_token_is_exchanged_and_not_shown():
    answer = {"access": "short-lived", "id": 1, "created_at": "2026-01-01"}
    with server(200, json.dumps(answer).encode()) as (url, seen):
        Client(url, "aa.bb.cc").project(1)
    assert seen == [("/api/token/refresh/", None), ("/api/projects/1/", "Bearer short-lived")]


def test_nobody_there():
    with server(200) as (url, _):
        pass
    with pytest.raises(ServerError, match="does not answer"):
        Client(url, KEY).project(1)


@pytest.mark.parametrize(
    "url", ["localhost:8080", "ftp://x", "http://", "http://kim:secret@x", "http://x/?a=b", ""]
)
def test_addresses(url):
    with pytest.raises(InputError):
        Client(url, KEY)


@pytest.mark.parametrize("key", ["", "  ", "two\nlines", "schlüssel"])
def test_damaged_keys(key):
    with pytest.raises(InputError, match="The key of Label Studio is empty or damaged"):
        Client("http://localhost:8080", key)


@pytest.mark.parametrize(
    "answer", [{}, {"access": "a\r\nX-Other: b"}, {"access": ["a"]}, {"access": ""}]
)
def test_an_access_token_that_is_none_is_refused(answer):
    with (
        server(200, json.dumps(answer).encode()) as (url, _),
        pytest.raises(InputError, match=r"does not answer as Label Studio does \(access"),
    ):
        Client(url, "aa.bb.cc").project(1)


@pytest.mark.parametrize("number", ['"seven"', "1e999", "true", "1.5", "-1", "null", "{}"])
def test_numbers_of_tasks_must_be_numbers(number):
    with (
        server(200, b'{"task_ids": [%s]}' % number.encode()) as (url, _),
        pytest.raises(InputError, match=r"does not answer as Label Studio does \(task_ids"),
    ):
        Client(url, KEY).create_tasks(1, [{"data": {}}])


def test_a_server_that_repeats_a_page_is_left():
    page = {"tasks": [{"id": 1}, {"id": 2}], "total": 10_000}
    with server(200, json.dumps(page).encode()) as (url, seen):
        assert [task["id"] for task in Client(url, KEY).tasks(1)] == [1, 2]
    assert len(seen) == 2


@pytest.mark.parametrize("total", ['"x"', "1e999", "[]"])
def test_a_total_must_be_a_number(total):
    page = b'{"tasks": [{"id": 1}], "total": %s}' % total.encode()
    with (
        server(200, page) as (url, _),
        pytest.raises(InputError, match=r"does not answer as Label Studio does \(total"),
    ):
        list(Client(url, KEY).tasks(1))


def test_more_tasks_than_anybody_has_are_refused():
    page = b'{"tasks": [{"id": 1}], "total": 1000000000000000}'
    with server(200, page) as (url, _), pytest.raises(InputError, match="can be read"):
        list(Client(url, KEY).tasks(1))


def test_an_answer_that_comes_byte_by_byte_ends_at_the_deadline(monkeypatch):
    monkeypatch.setattr(client, "_ANSWER_SECONDS", 0.5)
    listener = socket.create_server(("127.0.0.1", 0))
    stop = threading.Event()

    def drip():
        connection, _ = listener.accept()
        with connection, suppress(OSError):
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            while not stop.wait(0.05):
                connection.sendall(b" ")

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        with pytest.raises(ServerError, match=r"not complete after 0\.5 seconds"):
            Client(f"http://127.0.0.1:{listener.getsockname()[1]}", KEY).project(1)
    finally:
        stop.set()
        thread.join()
        listener.close()


def test_what_a_server_says_stays_on_one_line():
    body = json.dumps({"detail": "no\r\n\x1b[2JAll labels are stored."}).encode()
    with server(400, body) as (url, _), pytest.raises(InputError) as error:
        Client(url, KEY).project(1)
    assert str(error.value).isprintable()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "tasks", "total", "task_ids", "access", "created_at", "file"])
            | st.text(max_size=5),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(answer=JSON, status=st.sampled_from([200, 201, 400, 401, 404, 429, 500]))
@settings(max_examples=100, deadline=None)
def test_whatever_a_server_answers_is_used_or_refused(answer, status):
    """Neither a trace, nor a request for ever: a record, or one of our errors."""

    class Answered(Client):
        def _send(self, *_, **__):
            return status, answer

    calls = [
        lambda there: there.project(1),
        lambda there: list(there.tasks(1)),
        lambda there: there.create_tasks(1, [{"data": {}}]),
        lambda there: there.upload(1, "a.png", b"", "image/png"),
        lambda there: there.has_task(1),
    ]
    for key in (KEY, "aa.bb.cc"):
        for call in calls:
            with suppress(InputError, ServerError):
                call(Answered("http://localhost:8080", key))
