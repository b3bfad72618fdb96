"""Downloads that take long, and those that nobody waits for."""

import asyncio
import tempfile
import threading

import pytest
from fastapi import FastAPI
from page_server import make_project
from parbals_label.web import downloads, viewing
from parbals_label.web.door import Visitor
from parbals_label.web.session import Session


@pytest.fixture
def page(tmp_path, monkeypatch):
    """An open page without a server, whose temporary files go to a folder of their own."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    page = Session(make_project(tmp_path / "mail"))
    page.open()
    yield page
    page.close()


def app_of(page):
    app = FastAPI()
    app.include_router(viewing.viewing_routes(page))
    return app


async def ask(app, path, stays=True):
    """One request; a client that does not stay is gone as soon as it has asked.

    Returns (status, headers, body).
    """
    path, _, query = path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.0"},
        "http_version": "1.1",
    }
    scope |= {
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [],
        "state": {"visitor": Visitor(None, "owner")},
    }
    asked, sent = False, []

    async def receive():
        nonlocal asked
        if not asked:
            asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        if stays:
            await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)
        await asyncio.sleep(0)

    await app(scope, receive, send)
    body = b"".join(message.get("body", b"") for message in sent)
    return sent[0]["status"], dict(sent[0]["headers"]), body


@pytest.mark.parametrize("fmt", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("stays", [True, False])
def test_no_export_stays_behind(page, tmp_path, fmt, stays):
    status, headers, body = asyncio.run(ask(app_of(page), f"/api/export?format={fmt}", stays))
    assert status == 200
    assert list((tmp_path / "temporary").iterdir()) == []
    if stays:
        assert len(body) == int(headers[b"content-length"]) > 0


def test_a_file_being_sent_has_no_name_any_more(page, tmp_path, monkeypatch):
    made = []
    write = downloads._write
    monkeypatch.setattr(downloads, "_write", lambda *given: made.append(write(*given)) or made[0])
    asyncio.run(ask(app_of(page), "/api/export", stays=False))
    assert list((tmp_path / "temporary").iterdir()) == []
    assert made[0].closed


def slow(monkeypatch):
    """Exports begin, say so, and go on when they may."""
    begun, may = threading.Event(), threading.Event()
    write = downloads.write_export

    def waiting(path, records, *rest):
        begun.set()
        assert may.wait(300)
        return write(path, records, *rest)

    monkeypatch.setattr(downloads, "write_export", waiting)
    return begun, may


def test_the_map_and_the_lists_do_not_wait_for_an_export(page, monkeypatch):
    begun, may = slow(monkeypatch)

    async def story():
        app = app_of(page)
        export = asyncio.create_task(ask(app, "/api/export"))
        await asyncio.to_thread(begun.wait, 300)
        try:
            found = [
                await asyncio.wait_for(ask(app, path), 300) for path in ("/api/items", "/api/map")
            ]
            assert not export.done()
        finally:
            may.set()
        return found, await export

    found, exported = asyncio.run(story())
    assert [status for status, _, _ in found] == [200, 200]
    assert exported[0] == 200
    assert exported[2].count(b"\r\n") == 41


def test_an_export_that_nobody_waits_for_is_given_up(page, tmp_path, monkeypatch):
    begun, may = slow(monkeypatch)
    monkeypatch.setattr(downloads, "_LOOK_SECONDS", 0.05)
    read = []
    every = downloads.export_records
    monkeypatch.setattr(
        downloads,
        "export_records",
        lambda *given: (read.append(1) or record for record in every(*given)),
    )

    async def story():
        export = asyncio.create_task(ask(app_of(page), "/api/export", stays=False))
        await asyncio.to_thread(begun.wait, 300)
        await asyncio.sleep(3 * downloads._LOOK_SECONDS)  # it is looked whether somebody is there
        may.set()
        with pytest.raises(downloads.ProjectError, match="Nobody waits"):
            await export

    asyncio.run(story())
    assert len(read) == 1
    assert list((tmp_path / "temporary").iterdir()) == []
