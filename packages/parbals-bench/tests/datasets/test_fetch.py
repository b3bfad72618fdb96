"""Downloads from a real server: complete files, or none."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from parbals.errors import InputError
from parbals_bench.datasets.base import Origin
from parbals_bench.datasets.fetch import fetch_files

CONTENT = bytes(range(256)) * 2_000


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.n_requests += 1
        if self.path == "/missing":
            self.send_error(404)
            return
        self.send_response(200)
        kind = "text/html" if self.path == "/page" else "application/octet-stream"
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT[:1000] if self.path == "/cut" else CONTENT)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.n_requests = 0
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def origin(server, path):
    address = f"http://127.0.0.1:{server.server_port}{path}"
    return Origin("letters", "https://page.example", ("letters.bin",), (address,))


def test_a_file_is_downloaded_once(server, tmp_path):
    calls = []
    folder = tmp_path / "letters"
    for _ in range(2):
        paths = fetch_files(origin(server, "/letters"), folder, lambda *state: calls.append(state))
        assert paths == [folder / "letters.bin"]
        assert paths[0].read_bytes() == CONTENT
    assert server.n_requests == 1
    assert calls[-1] == ("letters.bin", len(CONTENT), len(CONTENT))


@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        ("/cut", "was cut off after 1,000 of 512,000 bytes"),
        ("/page", "is a web page and no file"),
        ("/missing", r"could not be downloaded \(.*Not Found\)"),
    ],
)
def test_what_is_not_the_file_leaves_nothing(server, tmp_path, path, complaint):
    with pytest.raises(InputError, match=complaint) as refused:
        fetch_files(origin(server, path), tmp_path)
    assert str(tmp_path / "letters.bin") in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_without_a_network_the_message_names_address_and_place(tmp_path):
    unreachable = Origin("letters", "page", ("a.bin",), ("http://127.0.0.1:1/a.bin",))
    with pytest.raises(InputError, match=r"a\.bin could not be downloaded .* save it as"):
        fetch_files(unreachable, tmp_path)
