"""Endpoints over real connections: what is sent, what is kept, what is tried again, and what is
refused."""

import re
import socket
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from local_server import labels, respond, serving

from parbals.errors import InputError
from parbals.machines.endpoints import Endpoint, check_url, url_name


@pytest.fixture
def ask(label):
    """Label with an endpoint that answers so; returns what happened and the requests."""

    def run(answer, path="/label", token=None, timeout=10.0, **rules):
        with serving(answer) as server:
            found = label(Endpoint(server.url + path, timeout, token), timeout=timeout, **rules)
            found.requests = server.seen
        return found

    return run


def good(handler, request, number):
    respond(handler, body=labels(request.lines))


def test_a_batch_is_posted_as_json_lines(ask):
    found = ask(good, path="/label?model=a", token="secret", batch_size=6)
    assert (found.result.stored, found.result.ended, found.said) == (12, "done", [])
    first = found.requests[0]
    assert first.path == "/label?model=a"
    assert first.headers["Content-Type"] == "application/x-ndjson"
    assert first.headers["Authorization"] == "Bearer secret"
    assert set(first.lines[0]) == {"id", "position", "classes", "content"}
    assert [len(request.lines) for request in found.requests] == [6, 6]
    assert not any("secret" in str(answer) for answer in found.answers)


def test_a_chunked_response_is_read_as_it_comes(ask):
    def answer(handler, request, number):
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        body = labels(request.lines)
        for start in range(0, len(body), 7):
            part = body[start : start + 7]
            handler.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
        handler.wfile.write(b"0\r\n\r\n")

    assert ask(answer).result.stored == 12


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_respected(ask, status):
    moments = []

    def answer(handler, request, number):
        moments.append(time.monotonic())
        if number == 1:
            respond(handler, status, retry_after=1)
        else:
            good(handler, request, number)

    found = ask(answer, budget=4)
    assert found.result.stored == 4
    assert moments[1] - moments[0] >= 1.0  # the wait is a promise to the other side; its end is not


def test_a_date_to_retry_after_is_understood(ask):
    def answer(handler, request, number):
        later = format_datetime(datetime.now(UTC) + timedelta(hours=2), usegmt=True)
        respond(handler, 503, retry_after=later)

    found = ask(answer)
    assert (found.result.ended, len(found.requests)) == ("failed", 1)
    assert re.search(
        r"wants 7,(1\d\d|200) s of rest, more than the 600 s it gets", found.result.fault
    )


@pytest.mark.parametrize("status", [408, 500, 502, 504])
def test_passing_trouble_is_tried_again(ask, status):
    def answer(handler, request, number):
        respond(handler, status) if number == 1 else good(handler, request, number)

    assert ask(answer, budget=4).result.stored == 4


@pytest.mark.parametrize("status", [400, 401, 404, 413])
def test_a_refusal_ends_the_run_at_once_and_says_why(ask, status):
    found = ask(
        lambda handler, request, number: respond(
            handler, status, b'{"error": "no\x1b[31m such key"}'
        )
    )
    assert (found.result.ended, found.result.batches, len(found.requests)) == ("failed", 1, 1)
    assert f"it answered {status}" in found.result.fault
    assert "such key" in found.result.fault
    assert found.result.fault.isprintable()
    assert (found.answers, found.out) == ([], [])


def test_a_redirect_on_the_same_host_is_followed(ask):
    def answer(handler, request, number):
        if request.path == "/label":
            respond(handler, 308, location="/v2/label")
        else:
            good(handler, request, number)

    assert ask(answer, budget=4).result.stored == 4


def test_a_redirect_to_another_host_is_not_followed(ask):
    with serving(good) as other:
        found = ask(
            lambda handler, request, number: respond(handler, 307, location=other.url),
            token="secret",
        )
        assert other.seen == []
    assert found.result.ended == "failed"
    assert "another host" in found.result.fault


@pytest.mark.parametrize(
    ("status", "target"), [(302, "/label"), (303, "/x"), (307, "http://[bad"), (308, "")]
)
def test_other_redirects_are_refused(ask, status, target):
    found = ask(lambda handler, request, number: respond(handler, status, location=target))
    assert (found.result.ended, len(found.requests)) == ("failed", 1)


def test_redirects_in_a_circle_end(ask):
    found = ask(lambda handler, request, number: respond(handler, 307, location="/label"))
    assert (found.result.fault, len(found.requests)) == ("it redirected more than 3 times", 4)


def test_a_response_that_breaks_off_keeps_what_came(ask):
    def answer(handler, request, number):
        body = labels(request.lines)
        if number > 1:
            return respond(handler, body=body)
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body[: len(body) // 2 + 5])

    found = ask(answer, budget=4)
    assert found.result.stored == 4
    assert len(found.requests[1].lines) == 2  # the half line is asked about again


def test_a_chunked_response_that_breaks_off_keeps_what_came(ask):
    def answer(handler, request, number):
        if number > 1:
            return good(handler, request, number)
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        part = labels(request.lines[:3])
        handler.wfile.write(b"%x\r\n%b\r\n40\r\nabc" % (len(part), part))

    found = ask(answer, budget=4)
    assert found.result.stored == 4
    assert len(found.requests[1].lines) == 1


def test_silence_is_not_waited_for(ask):
    found = ask(
        lambda handler, request, number: time.sleep(1.5), timeout=0.3, retries=0, batch_size=2
    )
    assert (found.result.ended, found.result.failed) == ("failed", 4)
    assert "0.3 s" in found.result.fault


def test_a_response_without_end_is_cut_off(ask):
    def answer(handler, request, number):
        handler.send_response(200)
        handler.end_headers()
        try:
            while True:
                handler.wfile.write(b"x" * 65_536)
        except OSError:
            pass

    found = ask(answer, retries=0, batch_size=2)
    assert found.result.ended == "failed"
    assert "it wrote more than" in found.result.fault


@pytest.mark.parametrize(
    "body",
    [b"<html>busy</html>", b"\xff\xfe", b'{"id": "001", "label": "Ham"}', b"null", b"[]", b""],
)
def test_nonsense_with_status_200_is_never_stored(ask, body):
    found = ask(lambda handler, request, number: respond(handler, body=body), retries=0)
    assert (found.result.ended, found.answers, found.out) == ("failed", [], [])


def test_a_compressed_response_is_refused(ask):
    found = ask(
        lambda handler, request, number: respond(handler, body=b"\x1f\x8b", content_encoding="gzip")
    )
    assert "compressed" in found.result.fault


def test_what_is_not_http_is_told(label):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        import threading

        def greet():
            for _ in range(2):
                connection, _ = listener.accept()
                with connection:
                    connection.sendall(b"220 mail ready\r\n")
                    connection.recv(1 << 20)

        thread = threading.Thread(target=greet, daemon=True)
        thread.start()
        found = label(Endpoint(f"http://127.0.0.1:{port}/", 5.0), retries=0)
        thread.join()
    assert "the connection failed" in found.result.fault


def test_a_connection_refused_is_tried_again_and_then_told(label):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    found = label(Endpoint(f"http://127.0.0.1:{port}/", 5.0))
    assert (found.result.ended, found.result.failed, found.out) == ("failed", 8, [])
    assert found.result.fault == "the connection failed (Connection refused)"


def test_a_server_that_comes_back_is_found_again(ask):
    def answer(handler, request, number):
        if number % 2:
            handler.connection.shutdown(socket.SHUT_RDWR)
        else:
            good(handler, request, number)

    assert ask(answer).result.stored == 12


@pytest.mark.parametrize(
    "url",
    ["", "localhost:8000", "ftp://host/x", "http://", "http:///x", "http://host:99999/", "http://host:0/", "file:///etc",
     "http://user:pass@host/", "http://host/a b", "http://höst/", "http://host/\r\nX: y", "http://[::1/"],
)  # fmt: skip
def test_addresses_that_cannot_be_used_are_refused(url):
    with pytest.raises(InputError):
        check_url(url)


def test_names_are_host_and_port():
    assert url_name(check_url("http://127.0.0.1:8000/label?x=1")) == "127.0.0.1:8000"
    assert url_name(check_url("https://llm.example/label")) == "llm.example"
