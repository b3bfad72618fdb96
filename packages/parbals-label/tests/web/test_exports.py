"""Downloads that take long, and those that nobody waits for."""

import asyncio
import tempfile
import threading

import pytest
from fastapi import FastAPI
from page_server import make_project
from parbals.errors import InputError, ProjectError
from parbals_label.web import viewing
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


async def ask(app, path, leaves=None, headers=()):
    """One request; the client leaves when that event is set. Returns (status, headers, body)."""
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
        "headers": list(headers),
        "state": {"visitor": Visitor(None, "owner")},
    }
    asked = False
    sent = []

    async def receive():
        nonlocal asked
        if not asked:
            asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await (leaves or asyncio.Event()).wait()
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)
        await asyncio.sleep(0)

    await app(scope, receive, send)
    body = b"".join(message.get("body", b"") for message in sent)
    return sent[0]["status"], dict(sent[0]["headers"]), body


@pytest.mark.parametrize("fmt", ["csv", "jsonl", "parquet"])
def test_no_export_stays_behind(page, tmp_path, fmt):
    status, headers, body = asyncio.run(ask(app_of(page), f"/api/export?format={fmt}"))
    assert status == 200
    assert len(body) == int(headers[b"content-length"]) > 0
    name = f'attachment; filename="mail-labels.{fmt}"'
    assert headers[b"content-disposition"].decode() == name
    assert list((tmp_path / "temporary").iterdir()) == []


def test_nor_does_one_whose_answer_is_cut_off(page, tmp_path, monkeypatch):
    sent = []

    async def cut_off(self, scope, receive, send):
        sent.append(list((tmp_path / "temporary").iterdir()))
        raise asyncio.CancelledError

    monkeypatch.setattr(viewing.FileResponse, "__call__", cut_off)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(ask(app_of(page), "/api/export"))
    assert [len(folders) for folders in sent] == [1]
    assert list((tmp_path / "temporary").iterdir()) == []


def test_nobody_gets_a_part_of_an_export(page):
    part = [(b"range", b"bytes=0-3")]
    status, headers, body = asyncio.run(ask(app_of(page), "/api/export", headers=part))
    assert (status, len(body)) == (200, int(headers[b"content-length"]))
    assert body.count(b"\r\n") == 41


def test_an_export_that_cannot_be_written_is_refused(page, tmp_path):
    (tmp_path / "temporary").rmdir()
    with pytest.raises(InputError, match="The export could not be written"):
        asyncio.run(ask(app_of(page), "/api/export"))


def slow(monkeypatch):
    """Exports begin, say so, and go on when they may."""
    begun = threading.Event()
    may = threading.Event()
    write = viewing.write_export

    def waiting(path, records, *rest):
        begun.set()
        assert may.wait(300)
        return write(path, records, *rest)

    monkeypatch.setattr(viewing, "write_export", waiting)
    return begun, may


def test_the_map_and_the_lists_do_not_wait_for_an_export(page, monkeypatch):
    begun, may = slow(monkeypatch)

    async def story():
        app = app_of(page)
        export = asyncio.create_task(ask(app, "/api/export"))
        await asyncio.to_thread(begun.wait, 300)
        try:
            results = [
                await asyncio.wait_for(ask(app, path), 300) for path in ("/api/items", "/api/map")
            ]
            assert not export.done()
        finally:
            may.set()
        return results, await export

    result, exported = asyncio.run(story())
    assert [status for status, _, _ in result] == [200, 200]
    assert exported[0] == 200
    assert exported[2].count(b"\r\n") == 41


def test_an_export_that_nobody_waits_for_is_given_up(page, tmp_path, monkeypatch):
    begun, may = slow(monkeypatch)
    read = []
    every = viewing.export_records
    monkeypatch.setattr(
        viewing,
        "export_records",
        lambda *given: (read.append(1) or record for record in every(*given)),
    )

    async def story():
        leaves = asyncio.Event()
        export = asyncio.create_task(ask(app_of(page), "/api/export", leaves))
        await asyncio.to_thread(begun.wait, 300)
        leaves.set()
        await asyncio.sleep(0.05)  # the server hears of it
        may.set()
        with pytest.raises(ProjectError, match="export was aborted"):
            await export

    asyncio.run(story())
    assert len(read) == 1
    assert list((tmp_path / "temporary").iterdir()) == []
