"""Downloads from a real server that cuts connections, sends wrong bytes and refuses: whole files or none."""

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from parbals.datasets.base import Remote
from parbals.datasets.fetch import fetch
from parbals.errors import InputError

CONTENT = bytes(range(256)) * 4_000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """``cuts``: after how many bytes each of the next answers breaks off; other settings say what they do."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.content, self.etag, self.cuts = CONTENT, '"one"', []
        self.status, self.knows_ranges, self.announces_length = 200, True, True
        self.starts = []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/file.bin"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server
        if server.status != 200:
            return self.send_error(server.status)
        start = 0
        asked = self.headers.get("Range")
        is_same = self.headers.get("If-Range", server.etag) == server.etag
        if asked and server.knows_ranges and is_same:
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            if start >= len(server.content):
                return self.send_error(416)
        server.starts.append(start)
        body = server.content[start:]
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(server.content) - 1}/{len(server.content)}")
        if server.announces_length:
            self.send_header("Content-Length", str(len(body)))
        if server.etag:
            self.send_header("ETag", server.etag)
        self.end_headers()
        cut = server.cuts.pop(0) if server.cuts else len(body)
        self.wfile.write(body[:cut])
        self.close_connection = True

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    server = Server()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def remote(server):
    return Remote(server.url, "file.bin", len(CONTENT), SHA256)


def download(remote, folder, progress=None):
    return fetch([remote], folder, progress, timeout=5, pause=0)


def only_the_file(folder):
    return [path.name for path in folder.iterdir()] == ["file.bin"] and (folder / "file.bin").read_bytes() == CONTENT


def test_a_file_arrives_whole_and_progress_is_told(remote, tmp_path):
    seen = []
    folder = tmp_path / "new" / "folder"
    assert download(remote, folder, lambda *report: seen.append(report)) == [folder / "file.bin"]
    assert only_the_file(folder)
    assert seen[0] == ("file.bin", 0, len(CONTENT))
    assert seen[-1] == ("file.bin", len(CONTENT), len(CONTENT))
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)


def test_a_file_that_is_there_is_not_asked_for_again(server, remote, tmp_path):
    download(remote, tmp_path)
    download(remote, tmp_path)
    assert server.starts == [0]


def test_a_file_that_is_there_but_wrong_is_replaced(remote, tmp_path):
    (tmp_path / "file.bin").write_bytes(b"half a file")
    download(remote, tmp_path)
    assert only_the_file(tmp_path)


def test_cut_connections_are_resumed_where_they_broke(server, remote, tmp_path):
    server.cuts = [300_000, 1, 0, 0, 200_000, 7]
    download(remote, tmp_path)
    assert only_the_file(tmp_path)
    assert server.starts == [0, 300_000, 300_001, 300_001, 300_001, 500_001, 500_008]


def test_a_download_that_gives_up_goes_on_at_the_next_call(server, remote, tmp_path):
    server.cuts = [400_000, 0, 0, 0, 0, 0]
    with pytest.raises(InputError, match=r"400,000 bytes that came are kept, and the next call goes on"):
        download(remote, tmp_path)
    assert not (tmp_path / "file.bin").exists()
    download(remote, tmp_path)
    assert only_the_file(tmp_path)
    assert server.starts[-1] == 400_000


def test_an_interrupted_program_goes_on_too(server, remote, tmp_path):
    def stop(file, done, total):
        if done > 500_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download(remote, tmp_path, stop)
    download(remote, tmp_path)
    assert only_the_file(tmp_path)
    assert server.starts[-1] > 0


def test_a_server_without_ranges_starts_again(server, remote, tmp_path):
    server.knows_ranges, server.cuts = False, [300_000]
    download(remote, tmp_path)
    assert only_the_file(tmp_path)
    assert server.starts == [0, 0]


def test_a_file_that_changes_between_two_calls_is_not_mixed(server, tmp_path):
    """Without a checksum only the server's tag tells that the rest belongs to another file."""
    remote = Remote(server.url, "file.bin")
    server.cuts = [400_000, 0, 0, 0, 0, 0]
    server.content = bytes(len(CONTENT))
    with pytest.raises(InputError):
        download(remote, tmp_path)
    server.content, server.etag = CONTENT, '"two"'
    download(remote, tmp_path)
    assert only_the_file(tmp_path)


def test_without_checksum_and_tag_nothing_is_resumed(server, tmp_path):
    server.etag, server.cuts = "", [400_000]
    download(Remote(server.url, "file.bin"), tmp_path)
    assert server.starts == [0, 0]
    assert only_the_file(tmp_path)


def test_a_bad_beginning_left_by_an_earlier_call_is_thrown_away(server, remote, tmp_path):
    server.cuts = [400_000, 0, 0, 0, 0, 0]
    with pytest.raises(InputError):
        download(remote, tmp_path)
    part = tmp_path / ".file.bin.part"
    part.write_bytes(b"\xff" * 400_000)
    download(remote, tmp_path)
    assert only_the_file(tmp_path)
    assert server.starts[-2:] == [400_000, 0]


@pytest.mark.parametrize("content", [CONTENT[:-1] + b"!", CONTENT[:-5], CONTENT + b"more", b""])
def test_corrupt_bytes_are_deleted_and_said(server, remote, tmp_path, content):
    server.content = content
    with pytest.raises(InputError, match=r"arrived corrupt|could not be downloaded"):
        download(remote, tmp_path)
    assert not (tmp_path / "file.bin").exists()


def test_a_server_that_does_not_announce_the_length_cannot_pass_half_a_file(server, remote, tmp_path):
    server.announces_length, server.cuts = False, [1000]
    download(remote, tmp_path)
    assert only_the_file(tmp_path)


@pytest.mark.parametrize("status", [403, 404])
def test_a_refusal_says_what_to_do_by_hand(server, remote, tmp_path, status):
    server.status = status
    with pytest.raises(InputError) as caught:
        download(remote, tmp_path)
    assert f"the server answers {status}" in str(caught.value)
    assert f"download {server.url} in a browser and save it as {tmp_path / 'file.bin'}" in str(caught.value)


def test_a_busy_server_is_asked_again(server, remote, tmp_path):
    server.status = 503
    with pytest.raises(InputError, match="the server answers 503"):
        download(remote, tmp_path)
    server.status = 200
    download(remote, tmp_path)


def test_no_network_is_one_sentence(server, remote, tmp_path):
    server.shutdown()
    server.server_close()
    with pytest.raises(InputError, match=r"127\.0\.0\.1 cannot be reached: .* check the network"):
        download(remote, tmp_path)


@pytest.mark.parametrize(
    ("url", "file"), [("file:///etc/passwd", "x"), ("http://localhost/x", "../x"), ("http://localhost/x", "a/b")]
)
def test_only_web_addresses_and_plain_names(tmp_path, url, file):
    with pytest.raises(InputError, match="cannot be fetched"):
        fetch([Remote(url, file)], tmp_path)


def test_a_folder_that_cannot_be_made_is_said(remote, tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        download(remote, tmp_path / "taken")
