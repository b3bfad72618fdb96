"""`parbals team` and `parbals labels remove`."""

import json
import shutil

import pytest
from parbals.cli.main import main
from parbals.errors import ProjectError
from parbals_label.files import locked
from parbals_label.store.records import Submission
from parbals_label.store.store import Store
from parbals_label.web.address import PageAddress
from parbals_label.web.page_files import remember_address


@pytest.fixture
def folder(tmp_path):
    with Store.create(tmp_path / "p", classes=["ham", "spam"], settings={}) as store:
        store.add_items([("a", {"text": "hello"}), ("b", {"text": "bye"})])
    return tmp_path / "p"


@pytest.fixture
def run(capsys):
    def run(*arguments, code=0):
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        output = capsys.readouterr()
        assert end.value.code == code, output.err
        return output.out if code == 0 else output.err

    return run


def person_of(folder, link):
    with Store.open(folder, read_only=True) as store:
        return store.person_of(link.split("token=")[1])


def test_invite_prints_a_link_for_the_page_as_it_was_shown_last(folder, run):
    first = run("team", "invite", folder, "Ada")
    assert first.startswith("Ada, annotator: http://127.0.0.1:8573/?token=")
    assert "Start the page (parbals serve) before opening the link" in first
    assert "is now for owners" in first
    remember_address(folder, PageAddress(public="https://label.example"))
    second = run("team", "invite", folder, "Olga", "--role", "owner")
    assert second.startswith("Olga, owner: https://label.example/?token=")
    assert len(second.splitlines()) == 1
    again = run("team", "invite", folder, "olga")
    assert again.splitlines()[1] == "The earlier link of Olga no longer works."
    shown = json.loads(
        run("team", "invite", folder, "ada", "--public-url", "http://lab:80/", "--json")
    )
    assert (shown["name"], shown["role"]) == ("Ada", "annotator")
    assert shown["link"].startswith("http://lab/?token=")
    assert person_of(folder, shown["link"]).name == "Ada"
    assert person_of(folder, first.split()[2]) is None
    assert json.loads(run("team", "invite", folder, "olga", "--json"))["role"] == "owner"


@pytest.mark.parametrize("address", ["javascript:alert(1)", "\x1b[31mhttp://x", "http://x/y", ""])
def test_an_address_that_somebody_put_into_the_folder_is_checked(folder, run, address):
    remember_address(folder, PageAddress(public="https://label.example"))
    (folder / "page-address").write_text(address)
    assert "http://127.0.0.1:8573/?token=" in run("team", "invite", folder, "Ada")


def test_the_address_in_a_copied_folder_is_ignored(folder, run, tmp_path):
    """A link printed for it would go to whoever sent the folder."""
    remember_address(folder, PageAddress(public="https://evil.example"))
    shutil.copytree(folder, tmp_path / "sent")
    assert "https://evil.example" in run("team", "invite", folder, "Ada")
    assert "http://127.0.0.1:8573/?token=" in run("team", "invite", tmp_path / "sent", "Ada")


@pytest.mark.parametrize("name", ["\u0410d\u0430", "\u0391da", "Bi11", "O\u2010Neil"])
def test_names_that_look_like_somebody_elses_are_refused(folder, run, name):
    for known in ("Ada", "Bill", "O-Neil"):
        run("team", "invite", folder, known)
    assert "looks like" in run("team", "invite", folder, name, code=2)
    run("team", "invite", folder, "Ad\u00e1")  # an accent is seen


def test_people_are_listed_and_their_links_revoked(folder, run):
    assert "Nobody has a link of their own" in run("team", "list", folder)
    link = json.loads(run("team", "invite", folder, "Ada", "--json"))["link"]
    run("team", "invite", folder, "Olga", "--role", "owner")
    with Store.open(folder) as store:
        store.submit([Submission(0, "ham")], annotator="Ada")
    lines = run("team", "list", folder).splitlines()
    assert [line.split()[:3] for line in lines] == [
        ["Ada", "annotator", "1"],
        ["Olga", "owner", "0"],
    ]
    assert run("team", "revoke", folder, "ADA") == "The link of Ada no longer works.\n"
    assert person_of(folder, link) is None
    rows = json.loads(run("team", "list", folder, "--json"))
    assert [(row["name"], row["invited"], row["labels"]) for row in rows] == [
        ("Ada", False, 1),
        ("Olga", True, 0),
    ]
    assert "'Ada' has no link" in run("team", "revoke", folder, "Ada", code=2)
    assert "programs use" in run("team", "invite", folder, "machine:x", code=2)


def test_the_log_lists_who_changed_what(folder, run):
    assert run("team", "log", folder) == "Nothing was changed yet.\n"
    run("edit", folder, "--guidelines", "read all", "--add-class", "other")
    run("team", "invite", folder, "Ada")
    run("team", "invite", folder, "Ada", "--role", "owner")
    run("team", "revoke", folder, "Ada")
    run("export", folder, "--out", folder.parent / "labels.csv")
    rows = json.loads(run("team", "log", folder, "--json"))
    assert [row["what"] for row in rows] == [
        "settings changed", "invited", "new link", "role changed", "link revoked", "exported",
    ]  # fmt: skip
    assert {row["origin"] for row in rows} == {"this machine"}
    assert all(row["who"] and row["created"] and row["number"] for row in rows)
    assert rows[3]["detail"] == {"name": "Ada", "role": ["annotator", "owner"]}
    lines = run("team", "log", folder).splitlines()
    assert lines[3].endswith("(this machine) changed the role of Ada from annotator to owner.")
    assert lines[5].endswith("exported items as csv.")
    assert "token" not in json.dumps(rows)


def test_a_read_only_project_is_exported_without_a_log_entry(folder, run, monkeypatch):
    (folder / "project.sqlite3").chmod(0o400)
    opened = Store.open

    def refuse(path, *, read_only=False):
        from parbals.errors import ProjectError

        if not read_only:
            raise ProjectError("read-only")
        return opened(path, read_only=True)

    monkeypatch.setattr(Store, "open", refuse)
    assert "2 items in" in run("export", folder, "--out", folder.parent / "labels.csv")
    assert run("team", "log", folder) == "Nothing was changed yet.\n"


def test_all_labels_of_one_annotator_are_removed(folder, run):
    with Store.open(folder) as store:
        store.submit([Submission(0, "ham"), Submission(1, "spam")], annotator="Eve")
        store.submit([Submission(0, "spam")], annotator="Ada")
    output = run("labels", "remove", folder, "--annotator", "eve", "--no-report")
    assert output == "2 labels and 0 skips by Eve were removed.\n"
    with Store.open(folder, read_only=True) as store:
        assert store.current_labels() == {0: {"Ada": "spam"}}
    assert "removed 2 labels and 0 skips by Eve." in run("team", "log", folder)
    later = json.loads(
        run("labels", "remove", folder, "--annotator", "Eve", "--since", "2100-01-01", "--json",
            "--no-report")
    )  # fmt: skip
    assert later["labels"] == 0
    assert "neither labelled nor skipped" in run(
        "labels", "remove", folder, "--annotator", "x", code=2
    )
    assert "is not a time" in run(
        "labels", "remove", folder, "--annotator", "Eve", "--since", "x", code=2
    )


def test_results_are_recomputed_without_removed_labels(project, run):
    with Store.open(project) as store:
        store.submit([Submission(n, "ham") for n in range(4)], annotator="ada")
        store.submit([Submission(n, "spam") for n in range(4, 12)], annotator="eve")
    run("export", project, "--renew", "--out", project.parent / "labels.csv")
    with Store.open(project, read_only=True) as store:
        before = store.settings.predictions
        assert store.latest_report().n_labels == 12
    run("labels", "remove", project, "--annotator", "eve")
    with Store.open(project, read_only=True) as store:
        assert store.latest_report().n_labels == 6  # those that came with the data
        assert store.settings.predictions.digest != before.digest
    for name in ("ada", "import"):
        run("labels", "remove", project, "--annotator", name)
    with Store.open(project, read_only=True) as store:
        assert store.settings.predictions is None
    assert "No report yet" in run("status", project)


def test_comments_and_names_cannot_forge_lines_of_the_history(folder, run):
    forged = "fine\n2026-01-01 00:00:00  Olga: b → spam\x1b[2K"
    with Store.open(folder) as store:
        store.submit([Submission(0, "ham", comment=forged)], annotator="Eve\nOlga")
        with store.acting_as("Eve\nOlga", "10.0.0.1\n\x1b"):
            store.log("exported", format="csv\nnothing")
    for command in (("labels", "history"), ("team", "log")):
        (line,) = run(*command, folder).splitlines()
        assert "\x1b" not in line
    assert "\x1b" not in run("status", folder)


def test_a_person_is_removed_and_their_labels_stay_under_a_number(folder, run):
    run("team", "invite", folder, "Grace Hopper")
    run("team", "invite", folder, "Ada", "--days", "3")
    with Store.open(folder) as store:
        store.submit([Submission(0, "ham", "r:Grace Hopper")], annotator="Grace Hopper")
        store.submit([Submission(0, "spam")], annotator="Grace Hopper", revise=True)
        store.pass_over(1, "skip", annotator="Grace Hopper")
        store.submit([Submission(1, "ham")], annotator="Ada")
        with store.acting_as("Grace Hopper", "10.0.0.1"):
            store.log("label taken back", name="Grace Hopper", item="a", was="ham")
    output = run("team", "remove", folder, "grace hopper", "--yes")
    assert output == "The name is gone; their labels are those of person 1.\n"
    for path in folder.iterdir():
        assert b"Grace" not in path.read_bytes(), path.name
    with Store.open(folder) as store:
        assert store.check() == []
        assert store.current_labels() == {0: {"person 1": "spam"}, 1: {"Ada": "ham"}}
        assert store.passes() == {1: {"person 1": "skip"}}
        assert [answer.label for answer in store.history(0)] == ["ham", "spam"]
        people = [(person.name, person.invited) for person in store.people()]
        assert people == [("Ada", True), ("person 1", False)]
        assert len([*Store.salvage(folder)]) == 3
        with pytest.raises(ProjectError, match="kept as they were given"):
            store._db.rows("UPDATE answers SET label = 'ham'")
    assert "person 1 (10.0.0.1)" in run("team", "log", folder)
    assert "Nobody called" in run("team", "remove", folder, "Grace Hopper", "--yes", code=2)
    run("team", "invite", folder, "Grace Hopper")  # who may come back, as somebody new
    with locked(folder / "page.lock", ProjectError("")):
        assert "is open; stop it first" in run("team", "remove", folder, "Ada", "--yes", code=3)


def test_labels_in_files_still_measure_the_error_once_their_annotator_is_removed(folder, run):
    run("team", "invite", folder, "Grace")
    with Store.open(folder) as store:
        store.submit([Submission(0, "ham")], annotator="Grace")
        store.submit([Submission(1, "ham")], annotator="grace")  # the same person
        store.submit([Submission(1, "ham")], annotator="Eve")  # whom nobody invited
    run("team", "remove", folder, "Grace", "--yes")
    with Store.open(folder) as store:
        counted = [(a.position, a.annotator) for a in store.counted_answers([0, 1])]
        assert sorted(counted) == [(0, "person 1"), (1, "person 2")]
        assert not any(person.invited for person in store.people())
    run("team", "invite", folder, "person 3")  # nobody's number is given to somebody else
    with Store.open(folder) as store:
        store.submit([Submission(0, "ham")], annotator="Ada")
    assert "those of person 4." in run("team", "remove", folder, "Ada", "--yes")


def test_a_link_may_expire(folder, run):
    run("team", "invite", folder, "Ada", "--days", "2")
    (line,) = run("team", "list", folder).splitlines()
    assert "until" in line
    assert "invited Ada as annotator for 2 days." in run("team", "log", folder)
    assert run("team", "sessions", folder) == "Nobody is signed in.\n"
    assert "There is no session" in run("team", "sessions", folder, "--end", "", code=2)
