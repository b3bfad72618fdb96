"""Downloads from a real server that cuts connections, sends wrong bytes and refuses: whole files or
none."""

import gzip
import hashlib
import io
import json
import subprocess
import sys
import tarfile
import threading
import zipfile
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from parbals.datasets.base import Remote
from parbals.datasets.fetch import fetch
from parbals.errors import InputError

CONTENT = bytes(range(256)) * 4_000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """``cuts``: after how many bytes each of the next answers breaks off; other settings say what
    they do."""

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
            self.send_header(
                "Content-Range", f"bytes {start}-{len(server.content) - 1}/{len(server.content)}"
            )
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
    return [path.name for path in folder.iterdir()] == ["file.bin"] and (
        folder / "file.bin"
    ).read_bytes() == CONTENT


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
    with pytest.raises(
        InputError, match=r"400,000 bytes that came are kept, and the next call goes on"
    ):
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
    assert (tmp_path / "file.bin").read_bytes() == CONTENT


def test_without_checksum_and_tag_nothing_is_resumed(server, tmp_path):
    server.etag, server.cuts = "", [400_000]
    download(Remote(server.url, "file.bin"), tmp_path)
    assert server.starts == [0, 0]
    assert (tmp_path / "file.bin").read_bytes() == CONTENT


def test_a_bad_beginning_left_by_an_earlier_call_is_thrown_away(server, remote, tmp_path):
    server.cuts = [400_000, 0, 0, 0, 0, 0]
    with pytest.raises(InputError):
        download(remote, tmp_path)
    part = tmp_path / ".file.bin.part"
    part.write_bytes(b"\xff" * 400_000)
    n_before = len(server.starts)
    download(remote, tmp_path)
    assert only_the_file(tmp_path)
    assert server.starts[n_before:] == [0]


def test_a_bad_beginning_that_only_the_whole_tells_is_thrown_away_too(server, remote, tmp_path):
    """A program that was killed has left no digest of the beginning."""
    (tmp_path / ".file.bin.part").write_bytes(b"\xff" * 400_000)
    (tmp_path / ".file.bin.part.json").write_text(
        json.dumps({"url": server.url, "validator": '"one"'})
    )
    download(remote, tmp_path)
    assert only_the_file(tmp_path)
    assert server.starts == [400_000, 0]


@pytest.mark.parametrize("content", [CONTENT[:-1] + b"!", CONTENT[:-5], CONTENT + b"more", b""])
def test_corrupt_bytes_are_deleted_and_said(server, remote, tmp_path, content):
    server.content = content
    with pytest.raises(InputError, match=r"arrived corrupt|could not be downloaded"):
        download(remote, tmp_path)
    assert not (tmp_path / "file.bin").exists()


def test_a_server_that_does_not_announce_the_length_cannot_pass_half_a_file(
    server, remote, tmp_path
):
    server.announces_length, server.cuts = False, [1000]
    download(remote, tmp_path)
    assert only_the_file(tmp_path)


@pytest.mark.parametrize("status", [403, 404])
def test_a_refusal_says_what_to_do_by_hand(server, remote, tmp_path, status):
    server.status = status
    with pytest.raises(InputError) as caught:
        download(remote, tmp_path)
    assert f"the server answers {status}" in str(caught.value)
    assert f"download {server.url} in a browser and save it as {tmp_path / 'file.bin'}" in str(
        caught.value
    )


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
    ("url", "file"),
    [("file:///etc/passwd", "x"), ("http://localhost/x", "../x"), ("http://localhost/x", "a/b")],
)
def test_only_web_addresses_and_plain_names(tmp_path, url, file):
    with pytest.raises(InputError, match="cannot be fetched"):
        fetch([Remote(url, file)], tmp_path)


def test_a_folder_that_cannot_be_made_is_said(remote, tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        download(remote, tmp_path / "taken")


@cache
def packed_tar(content=b"split,y,filename\n"):
    """The same bytes at every call: gzip writes the time into its header."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w:gz") as tar:
        member = tarfile.TarInfo("metadata.csv")
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
    return held.getvalue()


def zipped():
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("x.txt", "text")
    return held.getvalue()


PAGE = b"<html><body>login page</body></html>"
NEWS = b'"3","Wall St. Bears","Reuters - ..."\n'
GOOD = {
    "x.tar.gz": packed_tar(),
    "x.tgz": packed_tar(),
    "x.gz": gzip.compress(b"text"),
    "x.zip": zipped(),
    "x.parquet": b"PAR1....PAR1",
    "x.csv": NEWS,
    "x.bin": b"anything",
}


class TestNoPublishedChecksum:
    """Nobody knows the digest beforehand: the kind of the file must do, and from then on the digest
    it had."""

    def remote(self, server, file="x.tar.gz", content=None):
        server.content = content if content is not None else GOOD[file]
        return Remote(server.url, file)

    @pytest.mark.parametrize("file", GOOD)
    def test_the_right_kind_is_kept_and_its_digest_recorded(self, server, tmp_path, file):
        (path,) = download(self.remote(server, file), tmp_path)
        assert path.read_bytes() == GOOD[file]
        digest = hashlib.sha256(GOOD[file]).hexdigest()
        assert (tmp_path / f"{file}.sha256").read_text() == f"{digest}  {file}\n"
        assert {path.name for path in tmp_path.iterdir()} == {file, f"{file}.sha256"}

    @pytest.mark.skipif(sys.platform != "linux", reason="needs sha256sum")
    def test_other_programs_read_the_record(self, server, tmp_path):
        download(self.remote(server), tmp_path)
        subprocess.run(
            ["sha256sum", "-c", "x.tar.gz.sha256"], cwd=tmp_path, check=True, capture_output=True
        )

    @pytest.mark.parametrize("file", GOOD)
    @pytest.mark.parametrize(
        "page", [PAGE, b"\xef\xbb\xbf\n <!DOCTYPE html>\n<title>Sign in</title>"]
    )
    def test_a_web_page_is_refused(self, server, tmp_path, file, page):
        with pytest.raises(
            InputError, match=r"arrived corrupt \(it is a web page.*\) and was deleted; try again"
        ) as caught:
            download(self.remote(server, file, page), tmp_path)
        assert "\n" not in str(caught.value)
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("file", ["x.tar.gz", "x.tgz", "x.gz", "x.zip", "x.parquet", "x.csv"])
    @pytest.mark.parametrize(
        "content", [b"", b"\0" * 99, b"\x1f\x8b\x08 no gzip", b"PK\x03\x04 no zip \0"]
    )
    def test_another_kind_is_refused(self, server, tmp_path, file, content):
        with pytest.raises(InputError, match="arrived corrupt"):
            download(self.remote(server, file, content), tmp_path)
        assert list(tmp_path.iterdir()) == []

    def test_gzip_that_is_no_archive_is_refused(self, server, tmp_path):
        with pytest.raises(
            InputError, match="it is no gzip-compressed tar archive, but begins with"
        ):
            download(self.remote(server, content=gzip.compress(PAGE)), tmp_path)

    @pytest.mark.parametrize(
        "content", [b"id,title,text\n1,a,b\n", b"Not found\n", b'"7","a","b"\n']
    )
    def test_the_first_line_must_be_one_the_loader_can_use(self, server, tmp_path, content):
        from parbals.datasets import ag_news

        (first, _) = ag_news.SOURCE.remotes
        server.content = content
        with pytest.raises(InputError, match="its first line is"):
            download(Remote(server.url, first.file, first_line=first.first_line), tmp_path)
        for content in (NEWS, b"\xef\xbb\xbf" + NEWS, b"Class Index,Title,Description\n"):
            server.content = content
            download(Remote(server.url, first.file, first_line=first.first_line), tmp_path)
            for path in tmp_path.iterdir():
                path.unlink()

    def test_a_file_that_was_there_before_is_looked_at(self, server, tmp_path):
        """A page that an earlier version of parbals has taken for the archive is replaced."""
        (tmp_path / "x.tar.gz").write_bytes(PAGE)
        download(self.remote(server), tmp_path)
        assert (tmp_path / "x.tar.gz").read_bytes() == GOOD["x.tar.gz"]

    def test_a_file_saved_by_hand_is_kept_and_recorded(self, server, tmp_path):
        (tmp_path / "x.tar.gz").write_bytes(packed_tar(b"other"))
        download(self.remote(server), tmp_path)
        assert server.starts == []
        assert (
            hashlib.sha256(packed_tar(b"other")).hexdigest()
            in (tmp_path / "x.tar.gz.sha256").read_text()
        )

    def test_a_file_that_is_no_longer_what_came_is_fetched_again(self, server, tmp_path):
        remote = self.remote(server)
        download(remote, tmp_path)
        download(remote, tmp_path)
        assert server.starts == [0]
        (tmp_path / "x.tar.gz").write_bytes(GOOD["x.tar.gz"] + b"!")
        download(remote, tmp_path)
        assert (tmp_path / "x.tar.gz").read_bytes() == GOOD["x.tar.gz"]

    def test_another_file_than_the_first_time_is_refused(self, server, tmp_path):
        download(self.remote(server), tmp_path)
        (tmp_path / "x.tar.gz").unlink()
        other = self.remote(server, content=packed_tar(b"other"))
        with pytest.raises(
            InputError,
            match=r"as the first time, and was deleted; if the publisher .*delete .*sha256",
        ):
            download(other, tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["x.tar.gz.sha256"]
        (tmp_path / "x.tar.gz.sha256").unlink()
        download(other, tmp_path)

    def test_a_beginning_that_has_changed_is_not_continued(self, server, tmp_path):
        remote = Remote(server.url, "file.bin")
        server.cuts = [400_000, 0, 0, 0, 0, 0]
        with pytest.raises(InputError):
            download(remote, tmp_path)
        (tmp_path / ".file.bin.part").write_bytes(b"\xff" * 400_000)
        download(remote, tmp_path)
        assert (tmp_path / "file.bin").read_bytes() == CONTENT
        server.cuts = [400_000, 0, 0, 0, 0, 0]
        again = Remote(server.url, "again.bin")
        with pytest.raises(InputError):
            download(again, tmp_path)
        download(again, tmp_path)
        assert server.starts[-1] == 400_000
        assert (tmp_path / "again.bin").read_bytes() == CONTENT

    @pytest.mark.parametrize("as_json", [False, True])
    def test_the_command_says_so(self, server, tmp_path, monkeypatch, as_json):
        from dataclasses import replace

        from click.testing import CliRunner

        from parbals.cli.main import parbals
        from parbals.datasets import iwildcam, table

        source = replace(
            iwildcam.SOURCE, remotes=(self.remote(server, "iwildcam_v2.0.tar.gz", packed_tar()),)
        )
        monkeypatch.setitem(table.DATASETS, "iwildcam", replace(iwildcam.DATASET, source=source))
        asked = [
            "data",
            "fetch",
            "iwildcam",
            "--to",
            str(tmp_path),
            *(["--json"] if as_json else []),
        ]
        result = CliRunner().invoke(parbals, asked, catch_exceptions=False)
        digest = hashlib.sha256(packed_tar()).hexdigest()
        said = result.stderr if as_json else result.stdout
        assert f"no published checksum is known; its SHA-256 is {digest}" in said
        assert f"Next: tar -xzf {tmp_path / 'iwildcam_v2.0.tar.gz'} -C {tmp_path}" in said
        if as_json:
            assert json.loads(result.stdout) == [str(tmp_path / "iwildcam_v2.0.tar.gz")]


def test_every_file_without_a_checksum_has_a_kind_that_can_be_checked():
    from parbals.datasets.table import DATASETS

    remotes = [
        remote for entry in DATASETS.values() if entry.source for remote in entry.source.remotes
    ]
    unknown = [remote for remote in remotes if remote.sha256 is None]
    assert unknown
    assert all(remote.first_line or remote.file.endswith((".tar.gz", ".tgz")) for remote in unknown)
