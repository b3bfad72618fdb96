"""The desk: writes that wait together share a commit, and each caller hears only of its own."""

import asyncio
import threading

import pytest
from page_server import make_project
from parbals.errors import InputError, ProjectError
from parbals_label.server.desk import BusyError, Desk
from parbals_label.store.records import Submission
from parbals_label.store.store import Store


@pytest.fixture
def desk(project):
    desk = Desk(project)
    desk.start()
    yield desk
    desk.stop()


def submit(position, label="ham"):
    return lambda store: store.submit([Submission(position, label)], annotator="ann").new


async def while_busy(desk, *actions):
    """Let the actions pile up behind one that takes its time; what became of each."""
    gate = threading.Event()
    begun = threading.Event()
    first = asyncio.create_task(desk.write(lambda store: begun.set() or gate.wait(300)))
    await asyncio.to_thread(begun.wait, 300)
    others = [asyncio.create_task(desk.write(action)) for action in actions]
    await asyncio.sleep(0.05)  # each has said what it wants
    gate.set()
    await first
    return await asyncio.gather(*others, return_exceptions=True)


def test_writes_that_wait_together_share_one_commit(desk, project, monkeypatch):
    commits = []
    together = Store.transaction
    monkeypatch.setattr(Store, "transaction", lambda store: commits.append(1) or together(store))
    assert asyncio.run(while_busy(desk, *(submit(n) for n in range(30)))) == [1] * 30
    assert len(commits) == 1
    with Store.open(project, read_only=True) as store:
        assert len(store.current_labels()) == 30
        assert store.check() == []


def test_a_refused_write_leaves_the_others_that_wait_with_it(desk, project):
    one, bad, two = asyncio.run(while_busy(desk, submit(0), submit(1, "eggs"), submit(2)))
    assert (one, two) == (1, 1)
    assert isinstance(bad, InputError)
    with Store.open(project, read_only=True) as store:
        assert set(store.current_labels()) == {0, 2}


def test_a_write_that_fails_for_another_reason_leaves_the_others_as_well(desk, project):
    def fails(store):
        store.submit([Submission(5, "ham")], annotator="ann")
        raise ProjectError("The disk is full.")

    one, bad, two = asyncio.run(while_busy(desk, submit(0), fails, submit(2)))
    assert (one, two) == (1, 1)
    assert isinstance(bad, ProjectError)
    with Store.open(project, read_only=True) as store:
        assert {0, 2} <= set(store.current_labels())
        assert store.check() == []


def test_somebody_who_went_away_does_not_hold_up_the_others(desk):
    async def leave():
        gate = threading.Event()
        first = asyncio.create_task(desk.write(lambda store: gate.wait(300)))
        gone = asyncio.create_task(desk.write(submit(1)))
        stays = asyncio.create_task(desk.write(submit(2)))
        await asyncio.sleep(0.05)
        gone.cancel()
        gate.set()
        await first
        return await stays

    assert asyncio.run(leave()) == 1


def test_too_many_that_wait_are_turned_away(desk, monkeypatch):
    monkeypatch.setattr("parbals_label.server.desk._MAX_QUEUED", 5)
    results = asyncio.run(while_busy(desk, *(submit(n) for n in range(10))))
    assert sum(isinstance(result, BusyError) for result in results) == 4
    assert results.count(1) == 6


def test_a_project_that_cannot_be_opened_is_told_on_starting(tmp_path):
    desk = Desk(tmp_path)
    with pytest.raises(ProjectError, match="There is no project"):
        desk.start()
    desk.stop()


def test_reading_goes_on_while_something_slow_is_read_and_written(tmp_path):
    desk = Desk(make_project(tmp_path / "p"))
    desk.start()

    async def look():
        gate = threading.Event()
        slow = [
            asyncio.create_task(call(lambda store: gate.wait(300)))
            for call in (desk.write, desk.read_slowly)
        ]
        await asyncio.sleep(0.05)
        n_items = await desk.read(lambda store: store.n_items)
        gate.set()
        await asyncio.gather(*slow)
        return n_items

    try:
        assert asyncio.run(look()) == 40
    finally:
        desk.stop()
