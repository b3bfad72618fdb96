"""A request ends at its deadline, wherever the server begins to send a byte at a time."""

import socket
import threading
import urllib.request
from contextlib import contextmanager, suppress
from http.client import HTTPException

import pytest
from chat_server import KEY, chat_server
from parbals_label.machines.llm.endpoint import Endpoint, EndpointError
from parbals_label.opener import Deadline, is_local, opener_without_redirects

BEGINNINGS = {
    "in the status line": b"HTTP/1.1 ",
    "in the headers": b"HTTP/1.1 200 OK\r\nX-Slow: ",
    "in the body": b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n",
    "in the body of an error": b"HTTP/1.1 503 Busy\r\nContent-Length: 60000\r\n\r\n",
}
TLS_RECORD = b"\x16\x03\x03\x3e\x80"
"""The header of a record of 16,000 bytes: the handshake waits until all of them are there."""


@contextmanager
def dripping(beginning):
    """A server that sends this at once, and then a byte at a time; yields its port."""
    listener = socket.create_server(("127.0.0.1", 0))
    stop = threading.Event()

    def drip():
        connection, _ = listener.accept()
        with connection, suppress(OSError):
            connection.recv(65536)
            connection.sendall(beginning)
            while not stop.wait(0.02):
                connection.sendall(b"1")

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        stop.set()
        thread.join()
        listener.close()


@pytest.mark.parametrize("where", BEGINNINGS)
def test_a_chat_endpoint_that_drips_is_given_up(where):
    with dripping(BEGINNINGS[where]) as port:
        endpoint = Endpoint(f"http://127.0.0.1:{port}/v1", timeout=0.4)
        with pytest.raises(EndpointError, match=r"did not answer within 0\.4 s") as error:
            endpoint.complete({})
    assert error.value.retry


# Python closes the socket of a handshake that failed when it is collected, not before.
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_handshake_that_drips_is_given_up():
    with dripping(TLS_RECORD) as port, Deadline(0.4) as deadline:
        request = urllib.request.Request(f"https://127.0.0.1:{port}/")
        with pytest.raises((OSError, HTTPException)):
            deadline.open(opener_without_redirects(), request, timeout=60.0)
        assert deadline.has_passed


def test_a_deadline_that_has_passed_cuts_connections_made_later():
    first, second = socket.socketpair()
    with first, second, Deadline(0.0) as deadline:
        while not deadline.has_passed:
            pass
        deadline.watch(first)
        assert second.recv(1) == b""


def test_requests_to_this_machine_take_no_proxy(monkeypatch):
    """It would see the key; the environment names it for other machines."""
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with chat_server() as server, chat_server() as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        for host in ("127.0.0.1", "localhost"):
            url = server.url.replace("127.0.0.1", host)
            with pytest.raises(EndpointError, match="answered 404"):
                Endpoint(url.replace("/v1", "/v2"), KEY, timeout=5.0).complete({})
        assert (len(server.seen), proxy.seen) == (2, [])
        with pytest.raises(EndpointError):
            Endpoint("http://elsewhere.invalid/v2", timeout=5.0).complete({})
        assert len(proxy.seen) == 1


@pytest.mark.parametrize(
    ("host", "is_here"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("10.0.0.1", False),
        ("0.0.0.0", False),
        ("", False),
        (None, False),
    ],
)
def test_local_hosts_are_this_machine_alone(host, is_here):
    assert is_local(host) == is_here
