"""The commands of a team: who has a link of their own, and who changed what."""

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import click
from parbals.cli.output import say
from parbals.errors import InputError, ProjectError

from parbals_label.cli.options import NO_REPORT, command, flag, opened, option, renewed

__all__ = ["COMMANDS"]

_FEW_LETTERS = 6
"""Of a session's id: fewer could mean several."""


@command
@click.argument("name")
@option(
    "--role",
    "What they may do: an owner everything, an annotator label.  [default: annotator, or what "
    "they are]",
    click.Choice(["owner", "annotator"]),
)
@option("--public-url URL", "What people call the page; by default where it was shown last.")
@option(
    "--days N",
    "The link ends after so many days, with the sessions begun by it; by default never.",
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
    """Give a person a link of their own, which is their name; send it to nobody else.

    A page that is open takes it at once. Inviting somebody again makes a new link, and the old one
    stops working; with `serve --trusted-user-header` no link is needed, and NAME is what the proxy
    calls them.

    \b
    Examples:
      parbals invite spam ada
      parbals invite spam "Grace Hopper" --role owner
      parbals invite spam bob --days 14
    """
    from parbals_label.web.place import Place, known_address, public_origin

    origin = public_origin(public_url) if public_url else None
    with opened(folder) as store:
        origin = origin or known_address(folder)  # a plain file, now that the folder was looked at
        before = store.person_named(name)
        role = role or (before.role if before else "annotator")
        is_first = not any(person.invited for person in store.people())
        token = store.invite(name, role, days)
        person = store.person_of(token)
    assert person is not None
    link = f"{origin or Place(port=8573).origin}/?token={token}"
    lines = [f"{person.name}, {role}: {link}"]
    if origin is None:
        lines.append(
            "Start the page (parbals serve) before the link is opened; if its address is another "
            "one, put that into the link."
        )
    if is_first:
        lines.append(
            "The link that `parbals serve` prints makes an owner from now on; if others have it, "
            "start once with --new-token."
        )
    say(as_json, {"name": person.name, "role": role, "link": link}, "\n".join(lines))


@command
def people(folder: Path, as_json: bool) -> None:
    """Who has a link of their own, who had one, and how much they have labelled.

    \b
    Example:
      parbals people spam
    """
    from parbals_label.store.people import name_key

    with opened(folder, read_only=True) as store:
        everybody = store.people()
        labels = {name_key(one.name): one.answers for one in store.annotators()}
    rows = [{**asdict(one), "labels": labels.get(name_key(one.name), 0)} for one in everybody]
    lines = [
        f"{row['name']:<24} {row['role'] if row['invited'] else 'ended':<10} "
        f"{row['labels']:>6,} labels  since {str(row['created'])[:10]}"
        + (f" until {_date(row['expires'])}" if row["expires"] else "")
        for row in rows
    ]
    nobody = "Nobody has a link of their own; `parbals invite DIR NAME` gives one."
    say(as_json, rows, "\n".join(lines) or nobody)


@command
@click.argument("name")
def revoke(folder: Path, name: str, as_json: bool) -> None:
    """End a person's link and the sessions begun with it; their labels stay.

    A page that is open stops within a second.

    \b
    Example:
      parbals revoke spam ada
    """
    with opened(folder) as store:
        kept = store.revoke(name)
    say(as_json, {"name": kept, "invited": False}, f"The link of {kept} no longer works.")


@command
@option("--end ID", "End the session with this id; its link goes on working.")
def sessions(folder: Path, end: str | None, as_json: bool) -> None:
    """The browsers that are signed in: whose, since when, until when; and end one.

    \b
    Examples:
      parbals sessions spam
      parbals sessions spam --end 3f1c9a0b77
    """
    with opened(folder, read_only=end is None) as store:
        if end is not None and not (len(end) >= _FEW_LETTERS and store.end_sessions(end)):
            raise InputError(
                f"There is no session {end!r}; `parbals sessions {folder}` lists them."
            )
        rows = store.sessions()
    own = "the page's link"
    lines = [
        f"{row.id}  {row.name or own:<24} {row.place:<24} since {_date(row.created)} until "
        f"{_date(row.expires)}"
        for row in rows
    ]
    say(as_json, [asdict(row) for row in rows], "\n".join(lines) or "Nobody is signed in.")


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).isoformat(" ", "minutes")


@command
@click.argument("name")
@flag("--yes", "Do not ask.")
def forget(folder: Path, name: str, yes: bool, as_json: bool) -> None:
    """Remove a person: their name leaves the project, their labels stay under a number.

    It cannot be undone. Link and sessions end, and the log and the journal are written again
    without the name; comments, and backups and exports made before, are not touched. The page must
    not be open.

    \b
    Example:
      parbals forget spam ada --yes
    """
    from parbals_label.files import locked
    from parbals_label.store.forget import forget_person

    if not yes:
        click.confirm(f"Remove the name {name!r} from {folder} for good?", abort=True, err=True)
    busy = ProjectError(f"The page of {folder} is open; stop it first.")
    with opened(folder) as store, locked(folder / "page.lock", busy):
        numbers = forget_person(store, name)
    record = {"now": list(numbers.values())}
    say(as_json, record, f"The name is gone; their labels are those of {', '.join(record['now'])}.")


@command
@option("--annotator NAME", "Whose labels and skips.", required=True)
@option(
    "--since TIME",
    "Only what they said since then: 2026-11-16, or 2026-11-16T14:30 by this machine's clock.",
)
@NO_REPORT
def withdraw(
    folder: Path, annotator: str, since: str | None, no_report: bool, as_json: bool
) -> None:
    """Take back one person's labels and skips, all at once; history keeps them.

    Their items are free again, and report and predictions are made again without them. `parbals
    revoke` ends their link; a page that is open goes on.

    \b
    Examples:
      parbals withdraw spam --annotator eve
      parbals withdraw spam --annotator eve --since 2026-11-16T14:30
    """
    from parbals_label.store.people import name_key

    start = "" if since is None else _moment(since)
    with opened(folder) as store:
        names = {name_key(name): name for name in reversed(store.names())}
        names |= {name: name for name in store.names()}
        name = names.get(annotator) or names.get(name_key(annotator))
        if name is None:
            raise InputError(f"{annotator!r} has neither labelled nor skipped anything.")
        labels, passes = store.withdraw_all(name, start)
        if store.n_labelled and not no_report:
            renewed(store)
        elif not store.n_labelled:  # what was computed rests on labels that are gone
            store.update_settings(predictions=None)
            store.save_report({}, 0)
    record = {"annotator": name, "labels": labels, "passes": passes}
    say(as_json, record, f"{labels:,} labels and {passes:,} skips of {name} were taken back.")


def _moment(text: str) -> str:
    """A time as it is stored: in UTC."""
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"{text!r} is not a time; say 2026-11-16 or 2026-11-16T14:30.") from None
    return given.astimezone(UTC).isoformat(timespec="milliseconds")


@command
def log(folder: Path, as_json: bool) -> None:
    """Who changed what, when and from where: settings, people, exports, others' labels.

    Rows are added and never changed; `parbals history` has the labels.

    \b
    Example:
      parbals log spam --json
    """
    from parbals_label.project.history import log_rows, log_text

    with opened(folder, read_only=True) as store:
        rows = log_rows(store)
    say(as_json, rows, "\n".join(map(log_text, rows)) or "Nothing was changed yet.")


COMMANDS = (invite, people, sessions, revoke, forget, withdraw, log)
