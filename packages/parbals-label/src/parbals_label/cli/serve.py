"""The command `parbals serve`: the labelling page."""

from pathlib import Path
from typing import Any

import click
from parbals.cli.base import Command
from parbals.errors import InputError

from parbals_label.cli.options import PATH, flag, option

__all__ = ["serve"]

_LOG_LEVELS = ("debug", "info", "warning", "error")


@click.command(cls=Command)
@click.argument("folder", metavar="[DIR]", required=False, type=PATH)
@option("--projects DIR", "Serve all projects in this folder at one address, with a list.", PATH)
@option(
    "--port N", "Listen on this port; 0 takes any free one.", click.IntRange(0, 65535), default=8573
)
@option(
    "--host ADDRESS",
    "Listen on this address; other machines can reach any but the default.",
    default="127.0.0.1",
)
@flag("--no-browser", "Print the link without opening a browser.")
@flag("--new-token", "Make a new link; pages opened with the old one stop working.")
@option(
    "--public-url URL",
    "Set the address of the page behind a proxy, such as https://label.example.",
    argument="public",
)
@option(
    "--proxy ADDRESS",
    "Trust the proxy at this address, such as 10.0.0.5 or 10.0.0.0/24; can be repeated.  "
    "[default: this machine]",
    argument="proxies",
    multiple=True,
    rare=True,
)
@option(
    "--trusted-user-header NAME",
    "Take the name of a logged-in person from this header of the proxy; needs --public-url and "
    "invitations.",
    argument="user_header",
)
@option(
    "--log-level",
    "Log events of this level and above to the error stream; info logs every request.",
    click.Choice(_LOG_LEVELS),
    default="warning",
)
def serve(
    folder: Path | None,
    projects: Path | None,
    no_browser: bool,
    new_token: bool,
    proxies: tuple[str, ...],
    log_level: str,
    **options: Any,
) -> None:
    """Open the labelling page in the browser.

    One person or many can label at the same time. Ctrl-C stops the page.

    \b
    Examples:
      parbals serve spam
      parbals serve spam --no-browser --public-url https://label.example
      parbals serve spam --log-level info
      parbals serve --projects our-projects
    """
    from parbals_label.server.logs import set_up_logs
    from parbals_label.web.address import LOOPBACK, PageAddress
    from parbals_label.web.serve import run_server

    set_up_logs(log_level)
    server_options: dict[str, Any] = {
        "address": PageAddress(proxies=proxies or LOOPBACK, **options),
        "browser": not no_browser,
        "new_token": new_token,
    }
    if projects is not None:
        from parbals_label.web.projects import run_projects

        if folder is not None:
            raise InputError("--projects shows a folder of projects: name no other folder.")
        run_projects(projects, **server_options)
        return
    if folder is None:
        raise InputError("Which project? Say `parbals serve DIR`, or --projects DIR for several.")
    run_server(folder, **server_options)
