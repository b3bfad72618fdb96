"""A proxy that lets everybody in under any name is noticed; one that asks for a login is not."""

import http.client
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from page_server import make_project, page
from parbals_label.web.address import PageAddress
from parbals_label.web.proxy_check import proxy_is_open

HEADER = "X-Remote-User"


class Proxy(BaseHTTPRequestHandler):
    """``server.kind``: "open" passes the header on, "clearing" removes it, "login" asks first."""

    def do_GET(self):
        if self.server.kind == "login":
            return self.answer(401, b"Who are you?")
        if self.server.kind == "page":
            return self.answer(200, b"<html>Log in</html>")
        if self.server.kind == "redirect":
            return self.answer(302, b"", Location="/login")
        headers = {"Host": self.headers["Host"]}
        if self.server.kind == "open":
            headers[HEADER] = self.headers[HEADER]
        connection = http.client.HTTPConnection("127.0.0.1", self.server.behind, timeout=30)
        connection.request("GET", self.path, headers=headers)
        response = connection.getresponse()
        body = response.read()
        connection.close()
        return self.answer(response.status, body)

    def answer(self, status, body, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextmanager
def proxy(kind):
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    httpd.kind = kind
    httpd.behind = 0
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield httpd
    finally:
        httpd.shutdown()
        thread.join()
        httpd.server_close()


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("open", True), ("clearing", False), ("login", False), ("page", False), ("redirect", False)],
)
def test_a_stranger_with_a_made_up_name(tmp_path, kind, expected):
    folder = make_project(tmp_path / "p")
    with proxy(kind) as httpd:
        public = f"http://127.0.0.1:{httpd.server_address[1]}"
        with page(folder, public=public, user_header=HEADER) as server:
            httpd.behind = server.port
            address = PageAddress(port=server.port, public=public, user_header=HEADER)
            assert proxy_is_open(address) is expected


def test_a_proxy_that_does_not_run_yet_says_nothing():
    address = PageAddress(port=1, public="http://127.0.0.1:9", user_header=HEADER)
    assert proxy_is_open(address) is None
