"""Batches go out as tasks, labels come in, whatever happens in between; on a real server."""

import pytest
from parbals.errors import InputError
from parbals_label.store.store import Store
from studio import CONFIG, right

pytestmark = pytest.mark.label_studio


def items_of(tasks):
    return [task["data"]["parbals_item"] for task in tasks]


def test_a_batch_goes_out_and_labels_come_in(admin, people, folder, supply):
    project = admin.new_project("One batch")
    first = supply(folder, project)
    tasks = admin.tasks(project)
    assert (first.result.created, len(tasks), len(set(items_of(tasks)))) == (6, 6, 6)
    assert [task["data"]["parbals_rank"] for task in tasks] == [1, 2, 3, 4, 5, 6]
    assert admin.call("GET", f"projects/{project}/next")["id"] == tasks[0]["id"]
    kim, lee = people
    for task in tasks[:4]:
        kim.annotate(task["id"], right(task))
    lee.annotate(tasks[0]["id"], "ham")
    second = supply(folder, project)
    assert (second.result.labels, second.result.created) == (5, 6)
    assert second.labels[tasks[1]["data"]["parbals_item"]] == {"kim@example.com": right(tasks[1])}
    assert second.labels[tasks[0]["data"]["parbals_item"]]["lee@example.com"] == "ham"
    later = admin.tasks(project)[6:]
    assert not set(items_of(later)) & set(items_of(tasks))  # two of them are still out
    assert not any(task["predictions"] for task in later), "a guess that is seen sways"
    third = supply(folder, project)  # nothing new: nothing happens
    assert (third.result.labels, third.result.created, third.said) == (0, 0, [])


def test_the_interface_is_made_where_there_is_none(admin, folder, supply):
    project = admin.new_project("Empty")
    made = supply(folder, project, n=2)
    assert "no labelling interface" in made.said[0]
    parsed = admin.call("GET", f"projects/{project}/")["parsed_label_config"]["label"]
    assert parsed["labels"] == ["ham", "spam"]
    assert parsed["inputs"][0]["value"] == "message"


def test_what_is_changed_taken_back_skipped_and_deleted(admin, people, folder, supply):
    project = admin.new_project("Second thoughts", CONFIG)
    supply(folder, project)
    tasks = admin.tasks(project)
    changed, removed, skipped, gone, deleted = [task["id"] for task in tasks[:5]]
    kim = people[0]
    first = kim.annotate(changed, "ham")
    second = kim.annotate(removed, "ham")
    kim.annotate(deleted, "spam")
    assert supply(folder, project).result.labels == 3
    kim.change(first, "spam")
    kim.delete("annotations", second)
    kim.annotate(skipped, None)
    admin.delete("tasks", gone)
    admin.delete("tasks", deleted)  # its label stays
    later = supply(folder, project)
    counts = later.result
    assert (counts.labels, counts.revised, counts.withdrawn, counts.passed) == (0, 1, 1, 1)
    names = items_of(tasks)
    assert later.labels == {
        names[0]: {"kim@example.com": "spam"},
        names[4]: {"kim@example.com": "spam"},
    }
    assert any("deleted" in sentence for sentence in later.said)
    with Store.open(folder) as store:
        gone_at, skipped_at = store.position_of([names[3], names[2]])
        assert gone_at not in store.pending()
        assert store.passes()[skipped_at] == {"kim@example.com": "skip"}
        assert list(store.passes()[gone_at]) != ["kim@example.com"]
    for _ in range(3):
        for task in admin.tasks(project):
            if not task["annotations"]:
                kim.annotate(task["id"], right(task))
        supply(folder, project)
    assert names[3] not in items_of(admin.tasks(project))  # a deleted task is not made again
    assert len(set(items_of(admin.tasks(project)))) == len(admin.tasks(project))


def test_a_changed_label_set(admin, people, folder, supply):
    project = admin.new_project("Labels", CONFIG)
    supply(folder, project)
    tasks = admin.tasks(project)
    kim = people[0]
    kim.annotate(tasks[0]["id"], "ham")
    supply(folder, project)
    config = CONFIG.replace(
        '<Choice value="spam"/>', '<Choice value="SPAM"/><Choice value="news"/>'
    )
    admin.call("PATCH", f"projects/{project}/", json={"label_config": config})
    kim.annotate(tasks[1]["id"], "news")
    kim.annotate(tasks[2]["id"], "SPAM")
    told = supply(folder, project)
    assert told.result.labels == 1  # a choice means a class whatever its capitals
    assert any("'news'" in sentence and "--add-class" in sentence for sentence in told.said)
    names = items_of(tasks)
    assert told.labels == {
        names[0]: {"kim@example.com": "ham"},
        names[2]: {"kim@example.com": "spam"},
    }
    with Store.open(folder) as store:
        store.update_settings(classes=["ham", "spam", "news"])
    again = supply(folder, project)
    assert again.labels[names[1]] == {"kim@example.com": "news"}
    admin.call("PATCH", f"projects/{project}/", json={"label_config": "<View></View>"})
    assert supply(folder, project).labels == again.labels  # no label hangs on the interface
    parsed = admin.call("GET", f"projects/{project}/")["parsed_label_config"]["label"]
    assert parsed["labels"] == ["ham", "spam", "news"]


@pytest.mark.parametrize("which", ["legacy", "wrong legacy", "wrong token"])
def test_keys(studio, admin, folder, supply, which, key):
    from studio import LEGACY

    project = admin.new_project("Keys", CONFIG)
    wrong = {"wrong legacy": "f" * 40, "wrong token": key[:-4] + "AAAA"}
    if which == "legacy":
        with pytest.raises(InputError, match="legacy token authentication has been disabled"):
            supply(folder, project, key=LEGACY)
        admin.allow_legacy(True)
        try:
            assert supply(folder, project, key=LEGACY).result.created == 6
        finally:
            admin.allow_legacy(False)
        return
    with pytest.raises(InputError, match="does not accept the key"):
        supply(folder, project, key=wrong[which])
    assert admin.tasks(project) == []
    with Store.open(folder) as store:
        assert store.pending() == []


def test_a_project_that_is_not_there(folder, supply):
    with pytest.raises(InputError, match="has no project 987654"):
        supply(folder, 987654)


def test_two_answers_are_wanted(admin, people, folder, supply):
    with Store.open(folder) as store:
        store.update_settings(answers_wanted=2)
    project = admin.new_project("Two opinions", CONFIG)
    supply(folder, project, n=2)
    kim, lee = people
    tasks = admin.tasks(project)
    for task in tasks:
        kim.annotate(task["id"], "ham")
    assert supply(folder, project, n=2).result.created == 0  # they are still open
    offered = lee.call("GET", f"projects/{project}/next")["id"]
    assert offered in [task["id"] for task in tasks]
    for task in tasks:
        lee.annotate(task["id"], "spam")
    assert supply(folder, project, n=2).result.created == 2
    assert len(admin.tasks(project)) == 4
