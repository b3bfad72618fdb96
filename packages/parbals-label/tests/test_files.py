"""Files: a link, standard output, a full disk; held by one process at a time; the cache folder."""

import os
import subprocess
import sys
import types
from pathlib import Path

import parbals.files
import pytest
from parbals.errors import InputError, ProjectError
from parbals_label.files import cache_folder, locked, whole_file
from parbals_label.store.records import Submission
from parbals_label.store.store import Store


def run(code, *arguments):
    command = [sys.executable, "-c", code, *(str(argument) for argument in arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


class TestWholeFile:
    def test_a_link_stays_a_link(self, tmp_path):
        (tmp_path / "real").write_bytes(b"old")
        (tmp_path / "link").symlink_to("real")
        with whole_file(tmp_path / "link") as file:
            file.write(b"new")
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "real").read_bytes() == b"new"

    def test_a_dash_is_standard_output_and_appears_whole(self, capfdbinary):
        with whole_file("-") as file:
            file.write(b"one")
            assert capfdbinary.readouterr().out == b""
            file.write(b"two")
        assert capfdbinary.readouterr().out == b"onetwo"

    def test_what_is_not_a_file_is_never_replaced(self, tmp_path):
        for place in (tmp_path, os.devnull):
            with pytest.raises(InputError, match="is not a file"), whole_file(place):
                pass
        assert not Path(os.devnull).is_file()

    def test_a_full_disk_is_one_sentence_and_changes_nothing(self, tmp_path):
        path = tmp_path / "a"
        path.write_bytes(b"old")
        full = run(
            "import resource, signal, sys; from parbals_label.files import whole_file\n"
            "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))\n"
            "try:\n"
            "    with whole_file(sys.argv[1]) as file: file.write(b'x' * 20_000)\n"
            "except Exception as error: print(type(error).__name__, error)",
            path,
        )
        assert full.stdout.startswith("InputError")
        assert "could not be written (File too large)" in full.stdout
        assert path.read_bytes() == b"old"
        assert list(tmp_path.iterdir()) == [path]

    def test_a_folder_that_is_not_there_is_one_sentence(self, tmp_path):
        with pytest.raises(InputError, match="No such file"), whole_file(tmp_path / "no" / "a"):
            pass


class TestLocked:
    BUSY = ProjectError("in use")
    HOLD = (
        "import sys; from pathlib import Path; from parbals_label.files import locked\n"
        "with locked(Path(sys.argv[1]), RuntimeError()):\n"
        "    print('held', flush=True); sys.stdin.read()"
    )

    def test_one_process_at_a_time_and_free_again_when_it_dies(self, tmp_path):
        path = tmp_path / "lock"
        command = [sys.executable, "-c", self.HOLD, str(path)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen(command, **pipes) as other:
            assert other.stdout.readline() == b"held\n"
            with pytest.raises(ProjectError, match="in use"), locked(path, self.BUSY):
                pass
            other.kill()
            other.wait()
            with locked(path, self.BUSY):
                pass
        assert path.exists()

    def test_a_second_holder_in_the_same_process_is_refused_too(self, tmp_path):
        def hold_twice():
            with locked(tmp_path / "lock", self.BUSY), locked(tmp_path / "lock", self.BUSY):
                pass

        with pytest.raises(ProjectError, match="in use"):
            hold_twice()
        with locked(tmp_path / "lock", self.BUSY):
            pass

    def test_what_the_system_refuses_is_raised_as_it_is(self, tmp_path):
        with pytest.raises(FileNotFoundError), locked(tmp_path / "no" / "lock", self.BUSY):
            pass


def test_the_cache_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.delenv("PARBALS_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_folder() == Path.home() / ".cache" / "parbals"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "parbals"
    monkeypatch.setenv("PARBALS_CACHE_DIR", "~/own")
    assert cache_folder() == Path.home() / "own"


class TestOtherSystems:
    """Windows and macOS by simulation: what Linux has and they have not is left out, not needed."""

    def test_a_folder_that_cannot_be_opened_is_not_needed(self, tmp_path, monkeypatch):
        opened = []
        monkeypatch.setattr(parbals.files.os, "name", "nt")
        monkeypatch.setattr(parbals.files.os, "open", lambda *some: opened.append(some))
        parbals.files.sync_folder(tmp_path)
        assert opened == []

    def test_the_lock_is_that_of_windows(self, tmp_path, monkeypatch):
        held = []

        def locking(number, mode, count):
            if held:
                raise OSError("held")
            held.append((mode, count))

        system = types.SimpleNamespace(locking=locking, LK_NBLCK=2)
        monkeypatch.setitem(sys.modules, "msvcrt", system)
        monkeypatch.setattr(sys, "platform", "win32")
        with locked(tmp_path / "lock", ProjectError("busy")):
            assert held == [(2, 1)]
            with (
                pytest.raises(ProjectError, match="busy"),
                locked(tmp_path / "lock", ProjectError("busy")),
            ):
                pass

    @pytest.mark.parametrize(
        "missing", [("nice",), ("sched_setscheduler",), ("nice", "SCHED_IDLE")]
    )
    def test_a_worker_gives_way_as_far_as_it_can(self, monkeypatch, missing):
        from parbals_label.web import worker

        called = []
        monkeypatch.setattr(os, "nice", lambda n: called.append("nice"))
        monkeypatch.setattr(os, "sched_setscheduler", lambda *some: called.append("idle"))
        for name in missing:
            monkeypatch.delattr(os, name)
        worker._lower_priority()
        kept = {"nice": "nice" not in missing, "idle": missing == ("nice",)}
        assert called == [name for name, there in kept.items() if there]

    def test_an_answer_is_forced_to_disk_without_fdatasync(self, tmp_path, monkeypatch):
        synced = []
        monkeypatch.delattr(os, "fdatasync", raising=False)
        monkeypatch.setattr(os, "fsync", lambda number: synced.append(number))
        with Store.create(tmp_path / "p", classes=["a", "b"], settings={}) as store:
            store.add_items([("1", {"text": "x"})])
            before = len(synced)
            store.submit([Submission(0, "a")], annotator="ann")
            assert len(synced) > before
