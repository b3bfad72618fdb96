"""Killed servers, full disks, vanished files: nothing confirmed is lost, and the page goes on."""

import http.client
import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing

import pytest
from dose import small_and_full
from page_server import (
    SERVE,
    WITHOUT_WORKER,
    Server,
    make_project,
    page,
    serving,
    wait_for,
    workers_of,
)
from parbals_label.store.store import Store
from parbals_label.web.supervisor import Supervisor

FILE = "project.sqlite3"


def has_ended(process):
    try:
        with open(f"/proc/{process}/stat") as status:
            return status.read().split()[2] == "Z"  # nobody waits for it
    except OSError:
        return True


@pytest.mark.parametrize("kills", small_and_full(1, 60))
def test_a_server_killed_while_people_label_loses_no_confirmed_label_and_doubles_none(
    tmp_path, kills
):
    chance = random.Random(kills)
    folder = make_project(tmp_path / "p", n_items=1000, queued=0)
    confirmed = set()
    sent = {}
    for kill in range(kills):
        server = Server(folder)
        (worker,) = wait_for(lambda server=server: workers_of(server))
        stop = threading.Event()

        def submit(person, server=server, kill=kill, stop=stop):
            number = 0
            while not stop.is_set():
                request = f"{kill}-{person}-{number}"
                position = random.Random(request).randrange(1000)
                sent[request] = (f"person {person}-{kill}-{number}", position)
                try:
                    if server.label(sent[request][0], position, "ham", request).status == 200:
                        confirmed.add(request)
                except (OSError, http.client.HTTPException):
                    return
                number += 1

        people = [threading.Thread(target=submit, args=(person,)) for person in range(4)]
        for person in people:
            person.start()
        wait_for(lambda enough=20 * (kill + 1): len(confirmed) > enough)
        time.sleep(0.2 * chance.random())
        server.kill()
        stop.set()
        for person in people:
            person.join()
        wait_for(lambda worker=worker: has_ended(worker))  # whose server was killed
        with Store.open(folder) as store:
            assert store.check() == []
            kept = {
                answer.request for n in {p for _, p in sent.values()} for answer in store.history(n)
            }
        assert confirmed <= kept
    assert confirmed
    with page(folder) as server:
        before = server.get("/api/live").json["answers"]
        replayed = random.Random(0).sample(sorted(confirmed), min(len(confirmed), 100))
        for request in replayed:
            name, position = sent[request]
            assert (
                server.label(name, position, "ham", request).json["stored"][0]["outcome"]
                == "repeated"
            )
        assert server.get("/api/live").json["answers"] == before


@pytest.mark.full  # by SIGTERM also where secrets are looked for in the list of processes
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_sigterm_end_the_server_and_its_worker(number, project):
    server = Server(project)
    (worker,) = wait_for(lambda: workers_of(server))
    code, out, errors = server.stop(number)
    assert (code, errors) == (0, "")
    assert "every confirmed label is stored" in out
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)


@pytest.mark.full
def test_a_worker_ends_by_sigterm_as_it_does_when_its_input_ends(project):
    worker = subprocess.Popen(
        Supervisor(project, lambda: None).command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    wait_for(lambda: b"idle" in worker.stdout.readline())
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(300) == 0
    worker.communicate()
    with Store.open(project) as store:
        assert store.check() == []


def test_a_project_file_that_vanishes_is_told_and_work_goes_on_when_it_is_back(project, tmp_path):
    with page(project) as server:
        assert server.label("ann", 0).status == 200
        for name in (FILE, f"{FILE}-wal", f"{FILE}-shm"):
            if (project / name).exists():
                (project / name).rename(tmp_path / name)
        refused = server.label("ann", 1)
        assert (refused.status, refused.error) == (503, "project")
        assert "There is no project" in refused.json["error"]["message"]
        assert server.get("/api/project").status == 503
        for path in tmp_path.glob(f"{FILE}*"):
            path.rename(project / path.name)
        assert server.label("ann", 1).status == 200
        assert server.get("/api/items?state=labelled").json["total"] == 2


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="limits of a process are Linux's")
@pytest.mark.parametrize("rounds", small_and_full(1, 10))
def test_a_full_disk_confirms_nothing_that_is_not_stored_and_work_goes_on_later(tmp_path, rounds):
    no_limit = resource.RLIM_INFINITY
    for number in range(rounds):
        folder = make_project(tmp_path / f"p{number}", n_items=60, queued=20)
        with serving(folder, before=WITHOUT_WORKER) as server:

            def limit(size, process=server.process.pid):
                resource.prlimit(process, resource.RLIMIT_FSIZE, (size, no_limit))

            def label(positions, server=server):
                return [server.label("ann", position) for position in positions]

            assert {answer.status for answer in label(range(20))} == {200}
            limit(20_000 + 5_000 * number)
            refused = label(range(20, 40))
            assert {(answer.status, answer.error) for answer in refused} == {(503, "project")}
            assert server.get("/api/items?state=labelled").json["total"] == 20
            limit(no_limit)
            assert {answer.status for answer in label(range(20, 60))} == {200}
        with Store.open(folder) as store:
            assert store.check() == []
            assert set(store.current_labels()) == set(range(60))


@pytest.mark.full
@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
def test_a_folder_that_cannot_be_written_is_refused_in_one_sentence(tmp_path):
    folder = make_project(tmp_path / "p")
    if os.getuid() == 0:
        for parent in (tmp_path, *tmp_path.parents):
            if parent.stat().st_uid == 0 and not parent.stat().st_mode & 0o001:
                parent.chmod(parent.stat().st_mode | 0o011)
    for path in folder.iterdir():
        path.chmod(0o444)
    folder.chmod(0o555)
    loaded = "import os, parbals_label.web.serve"  # which a nobody may not be able to read
    code = f"{loaded}\nif os.getuid() == 0: os.setuid(65534)\n{SERVE}"
    try:
        process = subprocess.run(
            [sys.executable, "-c", code, str(folder), "--no-browser", "--port", "0"],
            capture_output=True,
            text=True,
        )
    finally:
        folder.chmod(0o755)
    assert process.returncode != 0
    assert process.stderr.startswith("parbals: ")
    assert len(process.stderr.splitlines()) == 1
    assert "http://" not in process.stdout


def test_a_project_kept_busy_by_another_program_delays_answers_but_shows_no_lock_error(project):
    with (
        page(project) as server,
        closing(sqlite3.connect(project / FILE, isolation_level=None)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        answers = []
        waiting = threading.Thread(target=lambda: answers.append(server.label("ann", 0)))
        waiting.start()
        assert server.get("/api/items/1").status == 200, "reading goes on"
        time.sleep(0.3)
        assert not answers
        other.execute("ROLLBACK")
        waiting.join()
        assert answers[0].status == 200
