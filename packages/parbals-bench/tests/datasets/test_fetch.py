"""Downloads from a real server that cuts connections and sends wrong bytes: whole files or none."""

import gc
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pooch.core
import pytest
from click.testing import CliRunner
from parbals.cli.main import parbals
from parbals.errors import InputError
from parbals_bench.datasets.base import Dataset, Origin, Remote
from parbals_bench.datasets.fetch import fetch
from parbals_bench.datasets.table import DATASETS

# requests leaves the socket of a connection that was cut to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
CONTENT = bytes(range(256)) * 2_000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
PAGE = b"\xef\xbb\xbf\n <!DOCTYPE html>\n<title>Sign in</title>"


class Server(ThreadingHTTPServer):
    """``cuts``: after how many bytes each of the next answers breaks off."""

    daemon_threads = True
    content, status = CONTENT, 200

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.cuts, self.n_asked = [], 0

    def remote(self, checksum=None):
        return Remote(f"http://127.0.0.1:{self.server_port}/x", "file.bin", checksum)


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.n_asked += 1
        if self.server.status != 200:
            return self.send_error(self.server.status)
        body = self.server.content
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: self.server.cuts.pop(0) if self.server.cuts else len(body)])

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(pooch.core.time, "sleep", lambda seconds: None)
    gc.freeze()  # what was there before is not looked at below
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()
    gc.collect()
    gc.unfreeze()


@pytest.mark.parametrize("checksum", [SHA256, f"md5:{hashlib.md5(CONTENT).hexdigest()}"])
def test_a_file_arrives_whole_once_and_progress_is_shown(server, tmp_path, checksum):
    shown, folder = [], tmp_path / "new" / "folder"
    remote = server.remote(checksum)
    assert fetch([remote], folder, lambda *one: shown.append(one)) == [folder / "file.bin"]
    assert [path.name for path in folder.iterdir()] == ["file.bin"]
    assert (folder / "file.bin").read_bytes() == CONTENT
    assert shown[-1] == ("file.bin", len(CONTENT), len(CONTENT))
    assert [done for _, done, _ in shown] == sorted(done for _, done, _ in shown)
    fetch([remote], folder)
    assert server.n_asked == 1


def test_a_cut_connection_is_tried_again(server, tmp_path):
    server.cuts = [300_000, 0]
    fetch([server.remote(SHA256)], tmp_path)
    assert (tmp_path / "file.bin").read_bytes() == CONTENT
    assert server.n_asked == 3


def test_a_file_that_is_there_but_wrong_is_replaced(server, tmp_path):
    (tmp_path / "file.bin").write_bytes(b"half a file")
    fetch([server.remote(SHA256)], tmp_path)
    assert (tmp_path / "file.bin").read_bytes() == CONTENT


def test_corrupt_bytes_are_deleted(server, tmp_path):
    server.content = CONTENT[:-1] + b"!"
    with pytest.raises(InputError, match=r"file\.bin arrived corrupt and was deleted"):
        fetch([server.remote(SHA256)], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_refusal_says_what_to_do_by_hand(server, tmp_path):
    server.status = 404
    with pytest.raises(InputError) as caught:
        fetch([server.remote(SHA256)], tmp_path)
    assert "could not be downloaded (404" in str(caught.value)
    place = tmp_path / "file.bin"
    assert f"download {server.remote().url} in a browser and save it as {place}" in str(
        caught.value
    )


def test_no_network_is_one_sentence(server, tmp_path):
    server.cuts = [0, 0, 0]
    with pytest.raises(InputError, match=r"\(no connection to 127\.0\.0\.1:\d+\): check the net"):
        fetch([server.remote(SHA256)], tmp_path)


def test_a_folder_that_cannot_be_made_is_named(server, tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(InputError, match=r"taken cannot be written .*; choose another folder"):
        fetch([server.remote(SHA256)], tmp_path / "taken")


class TestNoPublishedChecksum:
    """Nobody knows the checksum before: that of the first download must do from then on."""

    def test_the_first_download_is_what_later_ones_must_be(self, server, tmp_path):
        path, record = tmp_path / "file.bin", tmp_path / "file.bin.sha256"
        fetch([server.remote()], tmp_path)
        assert record.read_text() == f"{SHA256}  file.bin\n"
        path.write_bytes(CONTENT + b"!")
        fetch([server.remote()], tmp_path)
        assert path.read_bytes() == CONTENT
        path.unlink()
        server.content = b"another file"
        with pytest.raises(InputError, match=r"not the file of the first download .*delete \S*256"):
            fetch([server.remote()], tmp_path)
        assert [one.name for one in tmp_path.iterdir()] == ["file.bin.sha256"]
        record.unlink()
        fetch([server.remote()], tmp_path)
        assert path.read_bytes() == b"another file"

    def test_a_file_saved_by_hand_is_kept(self, server, tmp_path):
        (tmp_path / "file.bin").write_bytes(b"mine")
        fetch([server.remote()], tmp_path)
        assert server.n_asked == 0
        assert hashlib.sha256(b"mine").hexdigest() in (tmp_path / "file.bin.sha256").read_text()

    @pytest.mark.parametrize(("content", "what"), [(PAGE, "a web page"), (b"", "nothing")])
    def test_a_page_to_log_in_is_refused(self, server, tmp_path, content, what):
        server.content = content
        with pytest.raises(InputError, match=f"gave {what}; try again later, or download"):
            fetch([server.remote()], tmp_path)
        assert list(tmp_path.iterdir()) == []

    def test_the_command_says_so(self, server, tmp_path, monkeypatch):
        origin = Origin("mine", "http://page", ("file.bin",), (server.remote(),))
        monkeypatch.setitem(DATASETS, "mine", Dataset("Mine", None, "", origin))
        command = ["data", "fetch", "mine", "--to", str(tmp_path)]
        text = CliRunner().invoke(parbals, command, catch_exceptions=False).stdout
        assert f"its SHA-256 is kept in {tmp_path / 'file.bin.sha256'}" in text
        record = CliRunner().invoke(parbals, [*command, "--json"], catch_exceptions=False).stdout
        assert json.loads(record) == [str(tmp_path / "file.bin")]
