"""Files are written whole or not at all; missing packages are named."""

import re
import stat
import subprocess
import sys

import pytest
from parbals.errors import MissingDependencyError
from parbals.files import TEMPORARY_SUFFIX, need, replacing, sync_folder
from parbals.installing import install_command


def run(code, *arguments):
    command = [sys.executable, "-c", code, *(str(argument) for argument in arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


class TestReplacing:
    def test_the_name_is_taken_when_the_block_ends_and_not_before(self, tmp_path):
        path = tmp_path / "a"
        path.write_bytes(b"old")
        with replacing(path) as file:
            file.write(b"new")
            file.flush()
            assert path.read_bytes() == b"old"
        assert path.read_bytes() == b"new"
        assert list(tmp_path.iterdir()) == [path]

    @pytest.mark.parametrize("trouble", [ValueError, KeyboardInterrupt])
    def test_trouble_inside_leaves_what_was_there(self, tmp_path, trouble):
        path = tmp_path / "a"
        path.write_bytes(b"old")

        def interrupted():
            with replacing(path) as file:
                file.write(b"half")
                raise trouble

        with pytest.raises(trouble):
            interrupted()
        assert path.read_bytes() == b"old"
        assert list(tmp_path.iterdir()) == [path]

    def test_a_killed_process_leaves_the_old_file_and_a_temporary_one(self, tmp_path):
        path = tmp_path / "a"
        path.write_bytes(b"old")
        killed = run(
            "import os, pathlib, signal, sys; from parbals.files import replacing\n"
            "with replacing(pathlib.Path(sys.argv[1])) as file:\n"
            "    file.write(b'half'); file.flush(); os.kill(os.getpid(), signal.SIGKILL)",
            path,
        )
        assert killed.returncode < 0
        assert path.read_bytes() == b"old"
        (left,) = set(tmp_path.iterdir()) - {path}
        assert left.name.endswith(TEMPORARY_SUFFIX)

    def test_permissions_are_kept(self, tmp_path):
        path = tmp_path / "a"
        path.write_bytes(b"old")
        path.chmod(0o640)
        with replacing(path) as file:
            file.write(b"new")
        assert stat.S_IMODE(path.stat().st_mode) == 0o640

    def test_a_folder_can_be_synced(self, tmp_path):
        sync_folder(tmp_path)


class TestNeed:
    def test_one_name_gives_a_module_and_several_a_list(self):
        assert need("json", "Reading", "x").loads("1") == 1
        assert [module.__name__ for module in need("json csv", "Reading", "x")] == ["json", "csv"]

    def test_a_missing_package_is_named_with_the_command_that_brings_it(self):
        command = re.escape(install_command("parbals[x]"))
        message = f"^The encoder needs packages that are not installed: {command}$"
        with pytest.raises(MissingDependencyError, match=message):
            need("json no_such_package", "The encoder", "parbals[x]")

    def test_a_package_that_misses_one_of_its_own_says_which(self, monkeypatch, tmp_path):
        (tmp_path / "hungry.py").write_text("import no_such_package")
        monkeypatch.syspath_prepend(tmp_path)
        with pytest.raises(MissingDependencyError, match=r"\(No module named 'no_such_package'\)"):
            need("hungry", "The encoder", "parbals[x]")

    def test_packages_that_do_not_fit_each_other_are_told_apart(self, monkeypatch, tmp_path):
        """As torchvision built for another torch: it is there, but raises while it is imported."""
        (tmp_path / "unfit.py").write_text("raise RuntimeError('no operator.\\nmore')")
        monkeypatch.syspath_prepend(tmp_path)
        command = re.escape(install_command("parbals[x]", upgrade=True))
        message = rf"cannot be loaded \(no operator\); .* {command}$"
        with pytest.raises(MissingDependencyError, match=message):
            need("unfit", "The encoder", "parbals[x]")
