"""Bodies that are too large, too slow, cut short, or not JSON are refused, never mistaken."""

import json
import random
import socket
import time

import pytest
from dose import small_and_full
from page_server import make_project, page
from parbals_label.store.store import Store


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = make_project(tmp_path_factory.mktemp("bodies") / "mail")
    with page(folder) as server:
        yield server
    with Store.open(folder, read_only=True) as store:
        assert store.current_labels() == {}


def head(server, *lines, path="/api/take"):
    """The head of a request, as bytes."""
    first = [
        f"POST {path} HTTP/1.1",
        f"Host: 127.0.0.1:{server.port}",
        f"Authorization: Bearer {server.token}",
    ]
    return "\r\n".join([*first, *lines, "", ""]).encode()


def status(received):
    return int(received.split(b" ")[1])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"nonsense",
        b'{"annotator": NaN}',
        b'{"annotator": "a", "n": Infinity}',
        b'{"annotator": "a", "n": -Infinity}',
        b'{"annotator": "a"} x',
        b"\xff\xfe{\x00}\x00",
        b"\xef\xbb\xbf{}",
        b'{"annotator": "\xff"}',
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b"[" * 400_000 + b"]" * 400_000,
        b'{"n": ' + b"9" * 10_000 + b"}",
        b"\x00",
    ],
    ids=lambda body: repr(body[:20]),
)
def test_what_is_not_json_is_refused(server, body):
    answer = server.post("/api/take", body)
    assert answer.status in (400, 422)
    assert answer.json["error"]["message"]


def test_json_is_utf_8_and_nothing_else(server):
    for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32-le", "latin-1"):
        answer = server.post("/api/take", '{"annotator": "Zoë"}'.encode(encoding))
        assert (answer.status, answer.error) == (400, "json"), encoding
    assert server.post("/api/take", '{"annotator": "Zoë"}'.encode()).status == 200


def test_text_that_is_not_unicode_is_refused(server):
    for text in (r'"\ud800"', r'"a\udfffb"'):
        answer = server.post("/api/take", f'{{"annotator": {text}}}'.encode())
        assert answer.status == 422
        answer = f'{{"position": 0, "label": {text}, "request_id": "r"}}'
        answers = f'{{"annotator": "a", "answers": [{answer}]}}'
        assert server.post("/api/answers", answers.encode()).status == 422


OTHER_TYPES = [
    "", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
    "application/xml", "application/json; charset=utf-16", "text/json", "application/jsonx",
    "application/json, text/plain",
]  # fmt: skip


@pytest.mark.parametrize("kind", OTHER_TYPES)
def test_other_types_than_json_are_refused(server, kind):
    assert (
        server.post("/api/take", {"annotator": "a"}, headers={"Content-Type": kind}).status == 415
    )


def test_json_may_say_that_it_is_utf_8_and_may_not_be_compressed(server):
    for kind in ("application/json; charset=utf-8", 'Application/JSON;charset="UTF-8"'):
        assert (
            server.post(
                "/api/leases", {"annotator": "a", "positions": []}, headers={"Content-Type": kind}
            ).status
            == 200
        )
    assert (
        server.post("/api/take", {"annotator": "a"}, headers={"Content-Encoding": "gzip"}).status
        == 415
    )


def test_large_bodies_are_refused_whether_or_not_they_say_so(server):
    assert server.post("/api/take", b'{"annotator": "' + b"a" * 999_000 + b'"}').status == 422, (
        "within the limit"
    )
    refused = server.raw(head(server, "Content-Type: application/json", "Content-Length: 1000001"))
    assert status(refused) == 413
    huge = server.raw(head(server, "Content-Type: application/json", f"Content-Length: {10**18}"))
    assert status(huge) == 413
    piece = b"10000\r\n" + b" " * 65536 + b"\r\n"
    start = head(server, "Content-Type: application/json", "Transfer-Encoding: chunked")
    with socket.create_connection(("127.0.0.1", server.port), timeout=300) as link:
        link.sendall(start)
        received = b""
        try:
            for _ in range(200):
                link.sendall(piece)
            received = link.recv(65536)
        except (BrokenPipeError, ConnectionResetError):
            received = received or b"HTTP/1.1 413"  # closed on us in the middle
    assert status(received) == 413


def test_who_sends_a_refused_body_to_its_end_reads_the_refusal(server):
    """As proxies do; a connection closed under them would lose it."""
    start = head(server, "Content-Type: application/json", "Content-Length: 3000000")
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as link:
        for part in (start, *[b" " * 100_000] * 30):
            link.sendall(part)
            time.sleep(0.005)
        received = b"".join(iter(lambda: link.recv(65536), b""))
    assert status(received) == 413
    assert received.endswith(b"}}")


def test_chunked_bodies_are_read_like_others(server):
    body = json.dumps({"annotator": "a", "positions": []}).encode()
    start = head(
        server,
        "Content-Type: application/json",
        "Transfer-Encoding: chunked",
        "Connection: close",
        path="/api/leases",
    )
    chunks = b"".join(
        b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:5], body[5:6], body[6:])
    )
    assert status(server.raw(start + chunks + b"0\r\n\r\n")) == 200
    for bad in (b"zz\r\nx\r\n", b"-1\r\nx\r\n", b"5\r\nab\r\n0\r\n\r\n"):
        received = server.raw(start + bad, timeout=1)
        assert received == b"" or status(received) == 400


def test_bodies_and_heads_that_contradict_themselves_are_refused(server):
    json_type = "Content-Type: application/json"
    body = b'{"annotator":"a","positions":[]}'
    for lines in (
        ["Content-Length: -5"],
        ["Content-Length: 1, 2"],
        ["Content-Length: abc"],
        ["Content-Length: 3", "Content-Length: 30"],
        ["Transfer-Encoding: gzip"],
        ["Transfer-Encoding: chunked, gzip"],
    ):
        received = server.raw(head(server, json_type, *lines) + body)
        assert status(received) in (400, 413, 501), lines
    smuggled = (
        head(server, json_type, "Content-Length: 0", "Transfer-Encoding: chunked")
        + b"0\r\n\r\nGET / HTTP/1.1\r\n\r\n"
    )
    assert b" 200 " not in server.raw(smuggled)
    assert server.call("GET", "/api/project", b"{}").status == 400, "a GET takes no body"
    assert status(server.raw(b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n")) == 400
    assert status(server.raw(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03") or b"x 400") == 400, (
        "TLS"
    )


def test_a_body_that_is_cut_short_changes_nothing(server):
    body = json.dumps(
        {"annotator": "cut", "answers": [{"position": 0, "label": "ham", "request_id": "c"}]}
    ).encode()
    lines = ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    for length in (0, 1, len(body) // 2, len(body) - 1):
        with socket.create_connection(("127.0.0.1", server.port), timeout=300) as link:
            link.sendall(head(server, *lines, path="/api/answers") + body[:length])
    assert server.get("/api/items/0").json["label"] is None


def test_a_slow_body_is_given_up_and_holds_nobody_else(server, monkeypatch):
    monkeypatch.setattr(server.guard, "body_seconds", 1.0)
    with socket.create_connection(("127.0.0.1", server.port), timeout=300) as slow:
        slow.sendall(head(server, "Content-Type: application/json", "Content-Length: 1000") + b" ")
        assert server.get("/api/project").status == 200
        assert status(slow.recv(65536)) == 408


@pytest.mark.parametrize("requests", small_and_full(60, 2000))
def test_random_bytes_get_an_answer_or_none_but_never_a_crash(server, requests):
    chance = random.Random(requests)
    good = (
        head(server, "Content-Type: application/json", "Content-Length: 32")
        + b'{"annotator":"a","positions":[]}'
    )
    for number in range(requests):
        data = bytearray(good)
        for _ in range(chance.randrange(1, 6)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        with socket.create_connection(("127.0.0.1", server.port), timeout=300) as link:
            link.sendall(bytes(data) if number % 3 else chance.randbytes(200))
            link.shutdown(socket.SHUT_WR)
            received = b""
            while part := link.recv(65536):
                received += part
        assert b" 500 " not in received[:20]
    assert server.get("/api/project").status == 200
