"""Either side may stop at any moment: no task is made twice and no label is lost."""

import threading
from threading import Event

import pytest
from parbals_label.label_studio.client import Client, ServerError
from parbals_label.label_studio.sync import Rules, keep_supplied
from parbals_label.store.store import Store
from studio import CONFIG, right, until

pytestmark = pytest.mark.label_studio


def items_of(tasks):
    return [task["data"]["parbals_item"] for task in tasks]


def n_labelled(folder):
    with Store.open(folder, read_only=True) as store:
        return store.n_labelled


@pytest.mark.parametrize("n_there", [0, 6])
def test_we_stop_around_creating_tasks(admin, folder, supply, monkeypatch, n_there):
    """Before they are created, and before anything else is done with them."""
    create = Client.create_tasks

    def interrupt(*arguments):
        if n_there:
            create(*arguments)
        raise KeyboardInterrupt

    project = admin.new_project("Killed", CONFIG)
    with monkeypatch.context() as patched:
        patched.setattr(Client, "create_tasks", interrupt)
        with pytest.raises(KeyboardInterrupt):
            supply(folder, project)
    assert len(admin.tasks(project)) == n_there
    with Store.open(folder) as store:
        leased = [item.id for item in store.items(store.pending())]
    after = supply(folder, project)
    assert after.result.created == 6 - n_there
    assert items_of(admin.tasks(project)) == leased


def test_the_answer_to_creating_tasks_is_lost(studio, admin, folder, supply, monkeypatch):
    project = admin.new_project("Lost answer", CONFIG)
    create = Client.create_tasks

    def create_and_die(*arguments, **more):
        create(*arguments, **more)
        raise ServerError("the line is cut")

    with monkeypatch.context() as patched:
        patched.setattr(Client, "create_tasks", create_and_die)
        with pytest.raises(ServerError):
            supply(folder, project)
    studio.stop()
    with pytest.raises(ServerError, match="does not answer"):
        supply(folder, project)
    studio.start()
    assert supply(folder, project).result.created == 0
    assert len(items_of(admin.tasks(project))) == 6


def test_a_run_outlives_the_server(studio, admin, people, folder, key):
    project = admin.new_project("Restart", CONFIG)
    messages = []
    stop = Event()
    ended = []

    def run():
        with Store.open(folder) as store:
            rules = Rules(batch_size=4, every=0.3)
            client = Client(studio.url, key)
            ended.append(keep_supplied(store, client, project, rules, stop, say=messages.append))

    thread = threading.Thread(target=run)
    thread.start()
    try:
        first = until(lambda: admin.tasks(project))
        people[0].annotate(first[0]["id"], right(first[0]))
        until(lambda: any("1 new" in sentence for sentence in messages))
        studio.stop()
        until(lambda: any("does not answer" in sentence for sentence in messages))
        studio.start()
        until(lambda: any("answers again" in sentence for sentence in messages))
        for task in first[1:]:
            people[1].annotate(task["id"], right(task))
        until(lambda: len(admin.tasks(project)) >= 8 and n_labelled(folder) == 4)
    finally:
        stop.set()
        thread.join(120)
    (result,) = ended
    assert (result.ended, result.labels) == ("interrupted", 4)
    names = items_of(admin.tasks(project))
    assert len(set(names)) == len(names)
    with Store.open(folder) as store:
        who = {name for by in store.current_labels().values() for name in by}
        assert who == {"kim@example.com", "lee@example.com"}


def test_two_runs_at_once_are_refused(admin, folder, supply, studio, key):
    from parbals.errors import ProjectError
    from parbals_label.files import sole_run
    from parbals_label.label_studio.responses import Project
    from parbals_label.label_studio.tasks import project_uid

    project = admin.new_project("Two runs", CONFIG)
    uid = project_uid(Project(**admin.call("GET", f"projects/{project}/")))
    with (
        sole_run(folder, "label-studio", uid, ""),
        pytest.raises(ProjectError, match="Another process"),
    ):
        supply(folder, project)
    assert admin.tasks(project) == []
