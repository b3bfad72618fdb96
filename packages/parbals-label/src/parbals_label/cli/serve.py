"""The command that shows the labelling page."""

from pathlib import Path
from typing import Any

import click
from parbals.errors import InputError

from parbals_label.cli.options import PATH, flag, option

__all__ = ["serve"]


@click.command()
@click.argument("folder", metavar="[DIR]", required=False, type=PATH)
@option(
    "--projects DIR",
    "A folder of projects instead of one: all of them at one address, with a list.",
    PATH,
)
@option(
    "--port", "Port to listen on; 0 takes any free one.", click.IntRange(0, 65535), default=8573
)
@option(
    "--host",
    "Address to listen on; with another than this one, other machines can reach the page.",
    default="127.0.0.1",
)
@flag("--no-browser", "Print the link, and open no browser.")
@flag("--new-token", "Make a new link; pages opened with the old one stop working.")
@option(
    "--public-url URL",
    "What people call the page behind a proxy, as https://label.example.",
    to="public",
)
@option(
    "--proxy ADDRESS",
    "Where the proxy's requests come from, as 10.0.0.5 or 10.0.0.0/24; by default this "
    "machine. May be repeated.",
    to="proxies",
    multiple=True,
)
@option(
    "--trusted-user-header NAME",
    "The header in which the proxy names who has logged in; needs --public-url, and they must "
    "be invited.",
    to="user_header",
)
def serve(
    folder: Path | None,
    projects: Path | None,
    no_browser: bool,
    new_token: bool,
    proxies: tuple[str, ...],
    **place: Any,
) -> None:
    """Label in the browser, alone or with several people; end with Ctrl-C.

    \b
    Examples:
      parbals serve spam
      parbals serve spam --no-browser --public-url https://label.example
      parbals serve --projects our-projects
    """
    from parbals_label.server.logs import set_up_logs
    from parbals_label.web.place import LOOPBACK, Place
    from parbals_label.web.serve import run_server

    how: Any = {"place": Place(proxies=proxies or LOOPBACK, **place)}
    how |= {"browser": not no_browser, "new_token": new_token}
    set_up_logs()
    if projects is not None:
        from parbals_label.web.projects import run_projects

        if folder is not None:
            raise InputError("--projects shows a folder of projects: name no other folder.")
        run_projects(projects, **how)
        return
    if folder is None:
        raise InputError("Which project? Say `parbals serve DIR`, or --projects DIR for several.")
    run_server(folder, **how)
