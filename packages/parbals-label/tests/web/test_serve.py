"""Starting the server: what stops it, in one sentence, and what its options change."""

import os
import signal
import socket
import stat
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner
from page_server import Server, make_project, wait_for, workers_of
from parbals.errors import InputError, ProjectDamagedError, ProjectError
from parbals_label.cli.serve import serve
from parbals_label.files import locked
from parbals_label.store.records import Submission
from parbals_label.store.store import Store
from parbals_label.web import serve as server_module
from parbals_label.web.address import PageAddress
from parbals_label.web.serve import run_server

OPTIONS = {"address": PageAddress(), "browser": False, "new_token": False}


def test_a_second_server_on_the_same_project_is_refused(project):
    with (
        locked(project / "page.lock", ProjectError("held")),
        pytest.raises(ProjectError, match="Another server already serves the project"),
    ):
        run_server(project, **OPTIONS)


def test_a_port_in_use_is_told_and_leaves_no_token(project):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(InputError, match="choose another with --port"):
            run_server(project, **OPTIONS | {"address": PageAddress(port=taken.getsockname()[1])})
    assert not (project / "page-token").exists()


def test_an_address_of_another_machine_is_refused(project):
    with pytest.raises(InputError, match="not an address of this machine"):
        run_server(project, **OPTIONS | {"address": PageAddress(host="no such name")})


def test_a_project_without_items_is_refused(tmp_path):
    Store.create(tmp_path / "p", classes=["a", "b"], settings={}).close()
    with pytest.raises(InputError, match="has no items yet"):
        run_server(tmp_path / "p", **OPTIONS)


def test_a_damaged_project_is_refused_before_anything_starts(project):
    with Store.open(project) as store:
        store.submit([Submission(0, "ham")], annotator="ann")
    file = project / "project.sqlite3"
    file.write_bytes(file.read_bytes().replace(b"hamperson", b"HAMperson"))
    with pytest.raises(ProjectDamagedError, match="does not pass its checksum"):
        run_server(project, **OPTIONS)


def test_options_are_remembered_and_the_link_is_kept_until_a_new_one_is_wanted(
    tmp_path, monkeypatch
):
    folder = make_project(tmp_path / "p")
    opened = []
    monkeypatch.setattr(server_module, "run_listening", lambda server, at, announce: announce())
    monkeypatch.setattr(server_module, "open_browser", lambda *given: opened.append(given))

    def start(*options):
        result = CliRunner().invoke(serve, [str(folder), "--no-browser", "--port", "0", *options])
        assert result.exit_code == 0, result.output
        assert "every confirmed label is stored" in result.output
        link = result.output.splitlines()[0].removeprefix("The labelling page: ")
        origin, _, token = link.partition("/?token=")
        assert origin.startswith("http://127.0.0.1:")
        assert (folder / "page-address").read_text() == f"{origin}\n"
        assert not opened
        return token

    first = start()
    assert start() == first
    assert start("--new-token") != first


def test_no_secret_stands_in_the_list_of_processes(project, tmp_path, monkeypatch):
    """Every user of a machine sees the arguments of every program."""
    browser = tmp_path / "browser"
    browser.write_text(
        f'#!/bin/sh\necho "$1" > {tmp_path}/opened.part\n'
        f"mv {tmp_path}/opened.part {tmp_path}/opened\nexec sleep 8 >/dev/null 2>&1\n"
    )
    browser.chmod(0o700)
    monkeypatch.setenv("BROWSER", f"{browser} %s &")
    server = Server(project, browser=True)
    try:
        opened = wait_for(
            lambda: (tmp_path / "opened").exists() and (tmp_path / "opened").read_text().strip(), 60
        )
        for process in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                assert server.token.encode() not in process.read_bytes()
            except OSError:
                continue  # it has ended
        page = Path(urlsplit(opened).path)
        assert page == project / "page-open.html"
        assert stat.S_IMODE(page.stat().st_mode) == 0o600
        assert f"url={server.link}" in page.read_text()
        (worker,) = wait_for(lambda: workers_of(server))
    finally:
        code, out, errors = server.stop(signal.SIGTERM)
    assert (code, errors) == (0, "")
    assert "every confirmed label is stored" in out
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)
    assert not page.exists()
    assert os.listdir(project).count("page-token") == 1
