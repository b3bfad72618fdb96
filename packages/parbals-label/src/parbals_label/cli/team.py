"""The group `parbals team`: people, their links and sessions, and the log of changes."""

from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import click
from parbals.cli.base import Group
from parbals.cli.output import print_result
from parbals.errors import InputError, ProjectError

from parbals_label.cli.options import command_in, flag, open_store, option

__all__ = ["team"]

_MIN_ID_LENGTH = 6
"""Characters of a session's id that must be given: fewer could mean several sessions."""
_DEFAULT_PORT = 8573


@click.group(cls=Group)
def team() -> None:
    """Manage people, their links and the log.

    \b
    Examples:
      parbals team invite spam ada
      parbals team list spam
    """


@command_in(team)
@click.argument("name")
@option(
    "--role",
    "Set what they may do: owner everything, annotator label.  [default: annotator, or as before]",
    click.Choice(["owner", "annotator"]),
)
@option("--public-url URL", "Start the link with this address.  [default: that of the last page]")
@option(
    "--days N",
    "End the link and its sessions after this many days.  [default: never]",
    click.FloatRange(0, 36_500, min_open=True),
)
def invite(
    folder: Path,
    name: str,
    role: str | None,
    public_url: str | None,
    days: float | None,
    as_json: bool,
) -> None:
    """Invite a person: print a link of their own.

    Whoever has the link labels under their name, so send it to nobody else. It works at once, also
    on an open page. Inviting somebody again makes a new link and ends the old one. With `serve
    --trusted-user-header` no link is needed, and NAME is the proxy's name for the person.

    \b
    Examples:
      parbals team invite spam ada
      parbals team invite spam "Grace Hopper" --role owner
      parbals team invite spam bob --days 14
    """
    from parbals_label.web.address import PageAddress, public_origin
    from parbals_label.web.page_files import known_address

    origin = public_origin(public_url) if public_url else None
    with open_store(folder) as store:
        # The file of the address is read only once the folder is known to hold a project.
        origin = origin or known_address(folder)
        earlier = store.person_named(name)
        if role is None:
            role = earlier.role if earlier else "annotator"
        is_first = not any(person.invited for person in store.people())
        token = store.invite(name, role, days)
        person = store.person_of(token)
    assert person is not None
    link = f"{origin or PageAddress(port=_DEFAULT_PORT).origin}/?token={token}"
    lines = [f"{person.name}, {role}: {link}"]
    if earlier is not None:
        lines.append(f"The earlier link of {person.name} no longer works.")
    if origin is None:
        lines.append(
            "Start the page (parbals serve) before opening the link; if the page has another "
            "address, put that into the link."
        )
    if is_first:
        lines.append(
            "The link that `parbals serve` prints is now for owners; if others have it, run "
            "`parbals serve` once with --new-token."
        )
    print_result(as_json, {"name": person.name, "role": role, "link": link}, "\n".join(lines))


@command_in(team, "list")
def list_(folder: Path, as_json: bool) -> None:
    """List people, also past ones, and their numbers of labels.

    \b
    Example:
      parbals team list spam
    """
    from parbals_label.store.names import name_key

    with open_store(folder, read_only=True) as store:
        people = store.people()
        n_labels = {name_key(annotator.name): annotator.answers for annotator in store.annotators()}
    rows = []
    lines = []
    for person in people:
        count = n_labels.get(name_key(person.name), 0)
        rows.append({**asdict(person), "labels": count})
        role = person.role if person.invited else "ended"
        line = f"{person.name:<24} {role:<10} {count:>6,} labels  since {person.created[:10]}"
        if person.expires:
            line += f" until {_local_time(person.expires)}"
        lines.append(line)
    nobody = f"Nobody has a link of their own; `parbals team invite {folder} NAME` gives one."
    print_result(as_json, rows, "\n".join(lines) or nobody)


@command_in(team)
@click.argument("name")
def revoke(folder: Path, name: str, as_json: bool) -> None:
    """Revoke a person's link; their labels stay.

    Their sessions end, and an open page stops within a second.

    \b
    Example:
      parbals team revoke spam ada
    """
    with open_store(folder) as store:
        stored_name = store.revoke(name)
    record = {"name": stored_name, "invited": False}
    print_result(as_json, record, f"The link of {stored_name} no longer works.")


@command_in(team)
@click.argument("name")
@flag("--yes", "Do not ask for confirmation.")
def remove(folder: Path, name: str, yes: bool, as_json: bool) -> None:
    """Remove a person's name; their labels stay.

    This cannot be undone. The labels stay under a number. Link and sessions end, and log and
    journal are rewritten without the name. Comments, and earlier backups and exports, are not
    changed. Close the page first.

    \b
    Example:
      parbals team remove spam ada --yes
    """
    from parbals_label.files import locked
    from parbals_label.store.forget import forget_person

    if not yes:
        click.confirm(f"Remove the name {name!r} from {folder} for good?", abort=True, err=True)
    page_is_open = ProjectError(f"The page of {folder} is open; stop it first.")
    with open_store(folder) as store, locked(folder / "page.lock", page_is_open):
        numbers = list(forget_person(store, name).values())
    text = f"The name is gone; their labels are those of {', '.join(numbers)}."
    print_result(as_json, {"now": numbers}, text)


@command_in(team)
@option("--end ID", "End the session with this id; its link still works.")
def sessions(folder: Path, end: str | None, as_json: bool) -> None:
    """List the browsers that are signed in, or end a session.

    For a folder of projects (`parbals serve --projects`) these are the browsers that opened the
    list with the server's own link.

    \b
    Examples:
      parbals team sessions spam
      parbals team sessions spam --end 3f1c9a0b77
    """
    from parbals_label.store.names import PAGE_LINK
    from parbals_label.web.list_sessions import ListSessions

    list_sessions = ListSessions(folder)
    if list_sessions.exists:
        _end_session(folder, end, list_sessions.end_by_id)
        rows = list_sessions.rows()
    else:
        with open_store(folder, read_only=end is None) as store:
            _end_session(folder, end, store.end_sessions)
            rows = store.sessions()
    lines = [
        f"{row.id}  {row.name or PAGE_LINK:<24} {row.place:<24} since "
        f"{_local_time(row.created)} until {_local_time(row.expires)}"
        for row in rows
    ]
    print_result(as_json, [asdict(row) for row in rows], "\n".join(lines) or "Nobody is signed in.")


def _end_session(folder: Path, prefix: str | None, end: Callable[[str], int]) -> None:
    """End the sessions with this id; None ends none."""
    if prefix is not None and not (len(prefix) >= _MIN_ID_LENGTH and end(prefix)):
        raise InputError(
            f"There is no session {prefix!r}; `parbals team sessions {folder}` lists them."
        )


def _local_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).isoformat(" ", "minutes")


@command_in(team)
def log(folder: Path, as_json: bool) -> None:
    """List who changed what and when.

    Settings, people, exports and changes of other people's labels are logged. Lines are added and
    never changed. Times are in UTC; --json prints all details. `parbals labels
    history` lists the labels.

    \b
    Examples:
      parbals team log spam
      parbals team log spam --json
    """
    from parbals_label.project.history import log_rows
    from parbals_label.project.log_lines import log_line

    with open_store(folder, read_only=True) as store:
        rows = log_rows(store)
    print_result(as_json, rows, "\n".join(map(log_line, rows)) or "Nothing was changed yet.")
