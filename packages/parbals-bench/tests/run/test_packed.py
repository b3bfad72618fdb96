"""One file instead of a folder: nothing is lost, damage is noticed, nothing is unpacked."""

import io
import lzma
import shutil
import subprocess
import tarfile
from dataclasses import replace

import pytest
from bench_helpers import TINY_SUITE, folder_of, pack, record_of, runs_of
from click.testing import CliRunner
from parbals.errors import InputError
from parbals_bench.cli.bench import bench
from parbals_bench.run.folder import ResultsFiles
from parbals_bench.run.spec import Settings


def call(*arguments):
    return CliRunner().invoke(bench, [str(part) for part in arguments])


@pytest.fixture
def folder(tmp_path):
    runs = [
        *runs_of("airline", seeds=[2, 0, 1]),
        *runs_of("ag-news", "20+3x7", "bald", positive="Sci/Tech"),
        *runs_of("yelp", "5+2x1", "power-bald", options={"beta": 2.0}, settings=Settings(100)),
    ]
    records = [record_of(run, 0.8 + 0.01 * run.seed) for run in runs]
    records[1] = replace(records[1], notes=("a doubt — with ünicode\n and a second line",))
    return folder_of(tmp_path / "results", records)


def test_everything_comes_back(tmp_path, folder):
    pack(folder, tmp_path / "results.tar.xz")
    packed = ResultsFiles(tmp_path / "results.tar.xz")
    assert packed.records() == folder.records()
    assert packed.suite_text() == TINY_SUITE


@pytest.mark.skipif(shutil.which("tar") is None, reason="there is no tar here")
def test_what_tar_makes_of_a_folder_is_read(tmp_path, folder):
    (folder.path / ".lock").unlink()
    command = ["tar", "-cJf", str(tmp_path / "theirs.tar.xz"), "-C", str(folder.path), "."]
    subprocess.run(command, check=True)
    assert ResultsFiles(tmp_path / "theirs.tar.xz").records() == folder.records()


def test_status_and_report_read_it_like_a_folder(tmp_path):
    records = [
        record_of(run, 0.8 + 0.01 * run.seed)
        for name in ("random", "confidence")
        for run in runs_of("breast-cancer", "10+2x3", name, settings=Settings(40, 20, 32, 2))
    ]
    packed = tmp_path / "results.tar.xz"
    pack(folder_of(tmp_path / "results", records), packed)
    texts = [call("status", source).output for source in (tmp_path / "results", packed)]
    assert "6 of 9 runs are done" in texts[0]
    assert texts[0] == texts[1]
    assert call("report", packed).exit_code == 0
    assert (tmp_path / "results-report" / "report.html").is_file()


def test_damage_is_noticed_wherever_it_is(tmp_path, folder):
    file = tmp_path / "packed.tar.xz"
    pack(folder, file)
    whole = file.read_bytes()
    for place in range(0, len(whole), max(1, len(whole) // 40)):
        changed = whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]
        for content in (changed, whole[:place]):
            file.write_bytes(content)
            with pytest.raises(InputError, match="not a file of packed results"):
                ResultsFiles(file)


class TestFilesOfOthers:
    """Whole .xz files that somebody else has made: one sentence."""

    def refused(self, path, content):
        path.write_bytes(lzma.compress(content, preset=0))
        with pytest.raises(InputError) as caught:
            ResultsFiles(path)
        message = str(caught.value)
        assert "not a file of packed results (" in message
        assert "\n" not in message
        return message

    def archive(self, *members):
        """A tar of a suite and of members (name, type, link, size, content)."""
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w") as archive:
            first = ("suite.toml", tarfile.REGTYPE, "", len(TINY_SUITE), TINY_SUITE.encode())
            for name, kind, link, size, content in (first, *members):
                member = tarfile.TarInfo(name)
                member.type = kind
                member.linkname = link
                member.size = size
                archive.addfile(member, io.BytesIO(content) if content else None)
        return stream.getvalue()

    @pytest.mark.parametrize(
        ("name", "kind", "link"),
        [
            ("/etc/passwd", tarfile.REGTYPE, ""),
            ("../outside.jsonl", tarfile.REGTYPE, ""),
            ("runs/../../outside.jsonl", tarfile.REGTYPE, ""),
            ("runs/a.jsonl", tarfile.SYMTYPE, "/etc/passwd"),
            ("runs/a.jsonl", tarfile.LNKTYPE, "suite.toml"),
            ("runs/a.jsonl", tarfile.FIFOTYPE, ""),
            ("runs/a.py", tarfile.REGTYPE, ""),
            ("elsewhere", tarfile.DIRTYPE, ""),
        ],
    )
    def test_nothing_but_the_files_of_a_results_folder_is_read(self, tmp_path, name, kind, link):
        (tmp_path / "made.xz").write_bytes(lzma.compress(self.archive((name, kind, link, 0, b""))))
        assert ResultsFiles(tmp_path / "made.xz").lines() == {}

    @pytest.mark.parametrize("content", [b"", b"text", b"{", b"[" * 100_000, b'{"format": 1}\n'])
    def test_other_contents(self, tmp_path, content):
        self.refused(tmp_path / "made.xz", content)
        (tmp_path / "plain").write_bytes(content)
        with pytest.raises(InputError, match="not a file of packed results"):
            ResultsFiles(tmp_path / "plain")

    def test_lines_are_checked_like_those_of_a_folder(self, tmp_path):
        content = self.archive(("runs/a.jsonl", tarfile.REGTYPE, "", 3, b"{}\n"))
        (tmp_path / "made.tar.xz").write_bytes(lzma.compress(content))
        records, (damage,) = ResultsFiles(tmp_path / "made.tar.xz").read()
        assert records == []
        assert "a.jsonl, line 1" in str(damage)
