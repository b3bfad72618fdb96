"""Earlier spellings of commands, which scripts may still use; help and docs show the new ones."""

from collections.abc import Sequence
from difflib import get_close_matches

__all__ = ["NEW_SPELLINGS", "new_spelling"]

NEW_SPELLINGS = {
    "doubts": "labels review",
    "untell": "labels undo",
    "withdraw": "labels remove",
    "history": "labels history",
    "release": "queue release",
    "invite": "team invite",
    "people": "team list",
    "revoke": "team revoke",
    "forget": "team remove",
    "sessions": "team sessions",
    "log": "team log",
    "backup": "backup create",
    "restore": "backup restore",
    "drill": "backup test",
    "salvage": "backup salvage",
    "check": "doctor",
    "data": "bench data",
    "certify": "measure",
}
"""The earlier name of a command and the path to it now."""

_BACKUP_COMMANDS = tuple(
    path.partition(" ")[2] for path in NEW_SPELLINGS.values() if path.startswith("backup ")
)
_HELP_OPTIONS = ("-h", "--help")


def new_spelling(arguments: Sequence[str]) -> list[str]:
    """The arguments of the command line with an earlier spelling replaced by the new one.

    >>> new_spelling(["untell", "spam", "17"])
    ['labels', 'undo', 'spam', '17']
    >>> new_spelling(["backup", "spam", "monday.zip"])
    ['backup', 'create', 'spam', 'monday.zip']
    >>> new_spelling(["backup", "test", "spam"])
    ['backup', 'test', 'spam']
    """
    name, *others = arguments
    if name not in NEW_SPELLINGS or (name == "backup" and not _is_earlier_backup(others)):
        return list(arguments)
    return [*NEW_SPELLINGS[name].split(), *others]


def _is_earlier_backup(arguments: Sequence[str]) -> bool:
    """Whether `parbals backup` is followed by DIR FILE, and not by one of its commands.

    A word that looks like a misspelt command is no DIR.
    """
    if not arguments or arguments[0] in (*_BACKUP_COMMANDS, *_HELP_OPTIONS):
        return False
    return not get_close_matches(arguments[0], _BACKUP_COMMANDS)
