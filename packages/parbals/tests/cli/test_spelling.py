"""Earlier spellings of commands keep working; help shows the new ones."""

import click
import pytest
from parbals.cli.main import parbals
from parbals.cli.spelling import NEW_SPELLINGS, new_spelling


def command_at(path):
    command = parbals
    for name in path.split():
        command = command.get_command(click.Context(command), name)
        assert command is not None, path
    return command


@pytest.mark.parametrize(("old", "new"), NEW_SPELLINGS.items())
def test_every_earlier_spelling_leads_to_a_command(old, new, run):
    assert not command_at(new).hidden
    path = "backup" if old == "backup" else new  # `parbals backup` is also the group
    assert f"Usage: parbals {path} " in run(old, "--help")


def test_earlier_spellings_are_not_in_the_help(run):
    lines = [line.split() for line in run("--help").splitlines()]
    names = {word for words in lines for word in words[:2]}
    assert names & NEW_SPELLINGS.keys() == {"backup"}  # which is a group now


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["backup", "spam", "b.zip"], ["backup", "create", "spam", "b.zip"]),
        (["backup", "--force", "spam", "b.zip"], ["backup", "create", "--force", "spam", "b.zip"]),
        (["backup", "create", "spam", "b.zip"], ["backup", "create", "spam", "b.zip"]),
        (["backup", "restore", "b.zip", "spam"], ["backup", "restore", "b.zip", "spam"]),
        (["backup", "restor", "b.zip", "spam"], ["backup", "restor", "b.zip", "spam"]),
        (["backup", "--help"], ["backup", "--help"]),
        (["backup"], ["backup"]),
        (["status", "log"], ["status", "log"]),
    ],
)
def test_only_the_first_word_is_replaced(arguments, expected):
    assert new_spelling(arguments) == expected


def test_scripts_with_earlier_spellings_still_run(run, project):
    run("backup", project, "b.zip")
    run("restore", "b.zip", "again")
    assert "is sound" in run("check", "again")
    assert "nothing to undo" in str(run("untell", "again", "001", fails=True).exception)
    assert "001" in run("history", "again")
    run("invite", "again", "ada")
    assert "invited ada as annotator." in run("log", "again")
