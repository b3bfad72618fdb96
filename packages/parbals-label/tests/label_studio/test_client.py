"""What is not Label Studio, or does not answer as it should, is refused in one sentence."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from parbals.errors import InputError
from parbals_label.label_studio.client import Client, ServerError

KEY = "0123456789abcdef"


@contextmanager
def server(status, body=b"", **headers):
    """Answers everything alike; the requests' paths and keys are kept."""
    seen = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append((self.path, self.headers.get("Authorization")))
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
        yield f"http://127.0.0.1:{httpd.server_address[1]}", seen
    finally:
        httpd.shutdown()
        thread.join()
        httpd.server_close()


@pytest.mark.parametrize(
    ("status", "body", "kind", "said"),
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
def test_answers(status, body, kind, said):
    with server(status, body) as (url, _), pytest.raises(kind, match=said) as error:
        Client(url, KEY).project(1)
    assert KEY not in str(error.value)


def test_the_key_does_not_follow_a_redirect():
    with server(200, b"{}") as (other, seen), server(302, Location=f"{other}/steal") as (url, _):
        with pytest.raises(InputError, match="redirects requests to"):
            Client(url, KEY).project(1)
        assert seen == []


def test_a_personal_access_token_is_exchanged_and_not_shown():
    with server(200, json.dumps({"access": "short-lived"}).encode()) as (url, seen):
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
