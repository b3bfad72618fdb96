"""Health, metrics and logs: what an operator sees, and that nobody else does."""

import logging
import os
import signal
import sqlite3
from contextlib import closing

import pytest
from page_server import make_project, page, serving, wait_for, workers_of
from parbals.cli.main import main
from parbals.errors import ProjectError
from parbals_label.server.logs import RateLimitFilter, set_up_logs
from parbals_label.store.store import Store
from parbals_label.web import health
from parbals_label.web.supervisor import Supervisor
from prometheus_client.parser import text_string_to_metric_families


def metrics(server, token=None):
    """{(name, labels): value}, read as Prometheus does."""
    token = token or (server.folder / "page-metrics-token").read_text("ascii").strip()
    headers = {"Authorization": f"Bearer {token}", "Host": "10.0.0.7:9090"}
    answer = server.get("/metrics", token=False, headers=headers)
    assert answer.status == 200, answer.body
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = text_string_to_metric_families(answer.body.decode())
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in families
        for sample in family.samples
    }


def test_health_needs_no_token_and_says_one_word(server):
    for headers in ({}, {"Host": "10.0.0.7"}, {"Origin": "https://elsewhere.example"}):
        answer = server.get("/healthz", token=False, headers=headers)
        assert (answer.status, answer.body) == (200, b"ok\n")
    head = server.call("HEAD", "/healthz", token=False)
    assert (head.status, head.body) == (200, b"")
    assert server.get("/healthz/", token=False).status == 401


def test_health_is_bad_while_the_project_cannot_be_read(project, tmp_path):
    with page(project) as server:
        (project / "project.sqlite3").rename(tmp_path / "away")
        logging.getLogger("parbals.web").setLevel(logging.CRITICAL)
        try:
            answer = server.get("/healthz", token=False)
        finally:
            logging.getLogger("parbals.web").setLevel(logging.NOTSET)
        assert (answer.status, answer.body) == (503, b"unavailable\n")
        (tmp_path / "away").rename(project / "project.sqlite3")
        assert server.get("/healthz", token=False).status == 200


def test_metrics_open_with_their_own_token_alone(server):
    own = (server.folder / "page-metrics-token").read_text("ascii").strip()
    assert own != server.token
    for headers in ({}, {"Authorization": f"Bearer {server.token}"}, {"Authorization": own}):
        answer = server.get("/metrics", token=False, headers=headers)
        assert answer.status == 401
        assert b"parbals_" not in answer.body
    headers = {"Authorization": f"Bearer {own}"}
    assert server.get("/api/project", token=False, headers=headers).status == 401


def test_metrics_count_what_happened(project):
    with page(project) as server:
        (first, second) = server.take("ann", 2)
        assert server.label("ann", first).status == 200
        assert server.skip("ann", second).status == 200
        assert server.get("/api/nowhere", token=False).status == 401
        with Store.open(project) as store:
            store.save_report({}, 1)
        seen = metrics(server)
    assert seen["parbals_items", "labelled"] == 1
    assert seen["parbals_items", "passed"] == 1
    assert seen["parbals_items", "unlabelled"] == 38
    assert seen["parbals_answers_total",] == seen["parbals_passes_total",] == 1
    assert seen["parbals_queue_items", "waiting"] == 19  # others may label what one has passed
    assert 0 <= seen["parbals_report_age_seconds",] < 600
    assert seen["parbals_worker_restarts_total",] == 0
    assert seen["parbals_requests_total", "200", "answers"] == 1
    assert seen["parbals_requests_total", "401", "refused"] == 1
    assert seen["parbals_request_seconds_count", "answers"] == 1
    assert seen["parbals_request_seconds_bucket", "+Inf", "answers"] == 1
    assert seen["parbals_request_seconds_sum", "answers"] > 0


def test_addresses_that_nobody_knows_make_no_metrics(server):
    for number in range(20):
        server.get(f"/api/{number}")
        server.get(f"/static/{number}")
    routes = {key[-1] for key in metrics(server) if key[0] == "parbals_request_seconds_count"}
    assert not any(any(letter.isdigit() for letter in route) for route in routes), routes


@pytest.fixture
def written(capsys):
    """``written(level)()``: the lines logged since; as it was at the end."""
    kept = {
        name: (list(log.handlers), log.propagate, log.level)
        for name in ("parbals", "uvicorn", "asyncio")
        for log in [logging.getLogger(name)]
    }

    def start(level="warning"):
        set_up_logs(level)
        return lambda: capsys.readouterr().err.splitlines()

    yield start
    logging.getLogger("parbals.test").filters = []
    logging.getLogger("parbals.requests").filters = []
    for name, (handlers, propagate, level) in kept.items():
        log = logging.getLogger(name)
        log.handlers = handlers
        log.propagate = propagate
        log.setLevel(level)


def test_requests_are_logged_at_level_info_without_tokens_and_names(written, project):
    read = written("info")
    with page(project) as server:
        assert server.get("/api/project").status == 200
        server.get("/?token=a-secret", token=False)
    lines = [line for line in read() if line.startswith("INFO: request (")]
    assert any("(method='GET', path='/api/project', status=200, ms=" in line for line in lines)
    assert any("path='/'" in line for line in lines)
    assert not any("secret" in line or "127.0.0.1" in line for line in lines)
    read = written("warning")
    with page(project) as server:
        server.get("/api/project")
    assert not any("INFO" in line for line in read())


def test_a_line_break_in_a_message_forges_no_line_and_a_fault_has_its_trace(written):
    read = written()
    try:
        raise ValueError("two")
    except ValueError:
        logging.getLogger("parbals.test").exception("broken\nINFO: forged")
    first, *trace = read()
    assert first == "ERROR: broken INFO: forged"
    assert trace[-1] == "ValueError: two"


def test_logs_say_facts_and_keep_to_their_level(written):
    read = written()
    log = logging.getLogger("parbals.web")
    log.info("nothing")
    log.warning("ended", extra={"facts": {"code": -9}})
    assert read() == ["WARNING: ended (code=-9)"]


def test_logs_cannot_fill_the_disk(written):
    now = [0.0]
    read = written()
    log = logging.getLogger("parbals.test")
    log.filters = [RateLimitFilter(1000, 20.0, lambda: now[0])]
    for _ in range(1500):
        log.warning("request")
    assert len(read()) == 1000
    now[0] = 0.06
    log.warning("request")
    assert read()[-1] == "WARNING: request (left_out=500)"


@pytest.mark.full
def test_a_worker_that_is_killed_is_logged_with_its_reason_and_counted(tmp_path):
    folder = make_project(tmp_path / "p")
    with serving(folder) as server:
        (worker,) = wait_for(lambda: workers_of(server))
        os.kill(worker, signal.SIGKILL)
        wait_for(lambda: metrics(server)["parbals_worker_restarts_total",] == 1)
        line = server.process.stderr.readline()
    assert line.startswith("WARNING: The worker process has stopped")
    assert "code=-9, reason='SIGKILL" in line
    assert "times=1" in line


def ready(server):
    """The word and status of ``/readyz``, tried anew."""
    server.watch._checked_until = 0.0
    answer = server.get("/readyz", token=False)
    return answer.status, answer.body.decode().strip()


def test_readiness_is_whether_a_label_could_be_stored_now(project, monkeypatch):
    with page(project) as server:
        assert ready(server) == (200, "ready")
        with closing(sqlite3.connect(project / "project.sqlite3")) as other:
            monkeypatch.setattr(health, "_TIMEOUT_SECONDS", 0.2)
            other.execute("BEGIN IMMEDIATE")
            assert ready(server) == (503, "unavailable")
            assert server.get("/healthz", token=False).status == 200  # it can be read
            other.rollback()
        monkeypatch.undo()
        assert ready(server) == (200, "ready")

        def full(store):
            raise ProjectError(f"The disk of {project} is full.")

        monkeypatch.setattr(Store, "probe", full)
        assert ready(server) == (503, "unavailable")
        assert metrics(server)["parbals_writes_failed_total",] == 1
        assert server.get("/readyz", token=False).status == 503
        assert metrics(server)["parbals_writes_failed_total",] == 1  # not tried for everybody
        assert metrics(server)["parbals_disk_free_bytes",] > 0


def test_readiness_names_a_worker_that_is_silent_or_has_failed(project, monkeypatch):
    with page(project) as server:
        worker = server.session.supervisor
        assert ready(server) == (200, "ready")
        monkeypatch.setattr(Supervisor, "silent_seconds", 61.0)
        assert ready(server) == (200, "ready, worker silent")
        monkeypatch.setattr(worker, "state", "failed")
        assert ready(server) == (200, "ready, worker failed")


def test_the_answer_of_a_full_disk_names_no_folder(project, monkeypatch):
    def full(store, *_, **__):
        raise ProjectError(f"{store.folder}/project.sqlite3 is on a disk that is full.")

    with page(project) as server:
        monkeypatch.setattr(Store, "submit", full)
        answer = server.label("ann", 0)
    assert answer.status == 503
    assert answer.json["error"]["message"] == "project.sqlite3 is on a disk that is full."


def test_a_journal_that_cannot_be_written_is_logged_counted_and_shown(written, project):
    read = written()
    with Store.open(project) as store:
        link = store.invite("eve")
    with page(project) as server:
        assert server.label("ann", 0).status == 200
        journal = project / "project.journal"
        kept = journal.rename(project / "kept")
        journal.mkdir()  # root may write to what nobody may
        assert server.label("ann", 1).status == 200
        assert server.label("ann", 2).status == 200
        assert metrics(server)["parbals_journal_rows_behind",] == 2
        assert ready(server) == (200, "ready, journal behind")
        assert "project.journal cannot be written" in server.get("/api/live").json["trouble"]
        eve = {"Authorization": f"Bearer {link}"}
        assert "trouble" not in server.get("/api/live", headers=eve, token=False).json
        assert any("labels are stored in the database only" in line for line in read())
        journal.rmdir()
        kept.rename(journal)
        assert server.label("ann", 3).status == 200
        assert metrics(server)["parbals_journal_rows_behind",] == 0
        assert "trouble" not in server.get("/api/live").json
    answers = journal.read_text().count('{"answer"')
    assert answers == 4


def test_backups_are_logged_and_their_age_is_told(project, tmp_path):
    with pytest.raises(SystemExit):
        main(["backup", "create", str(project), str(tmp_path / "b.zip")])
    with page(project) as server:
        assert 0 <= metrics(server)["parbals_backup_age_seconds",] < 600
    with Store.open(project, read_only=True) as store:
        (event,) = store.events()
    assert (event.kind, event.detail["answers"]) == ("backed up", 0)
