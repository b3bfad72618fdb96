"""The command that shows the labelling page."""

from pathlib import Path

import click
from parbals.errors import InputError

from parbals_label.server.logs import FORMATS, LEVELS

__all__ = ["serve"]


@click.command()
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
@click.option(
    "--projects",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="A folder of projects instead of one: all of them at one address, with a list.",
)
@click.option(
    "--port",
    default=8573,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port to listen on; 0 takes any free one.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on; with another than this one, other machines can reach the page.",
)
@click.option("--no-browser", is_flag=True, help="Print the link, and open no browser.")
@click.option(
    "--new-token", is_flag=True, help="Make a new link; pages opened with the old one stop working."
)
@click.option(
    "--public-url",
    metavar="URL",
    help="What people call the page behind a proxy, as https://label.example.",
)
@click.option(
    "--proxy",
    "proxies",
    multiple=True,
    metavar="ADDRESS",
    help="Where the proxy's requests come from, as 10.0.0.5 or 10.0.0.0/24; by default this "
    "machine. May be repeated.",
)
@click.option(
    "--trusted-user-header",
    "user_header",
    metavar="NAME",
    help="The header in which the proxy names who has logged in; needs --public-url, and they must "
    "be invited.",
)
@click.option(
    "--log-format",
    default="text",
    show_default=True,
    type=click.Choice(FORMATS),
    help="What the lines on the error stream look like.",
)
@click.option(
    "--log-level",
    default="warning",
    show_default=True,
    type=click.Choice(LEVELS),
    help="The least that is worth a line; info has one for every request.",
)
def serve(
    folder: Path | None,
    projects: Path | None,
    port: int,
    host: str,
    no_browser: bool,
    new_token: bool,
    public_url: str | None,
    proxies: tuple[str, ...],
    user_header: str | None,
    log_format: str,
    log_level: str,
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

    place = Place(
        host=host,
        port=port,
        public=public_url,
        user_header=user_header,
        proxies=proxies or LOOPBACK,
    )
    set_up_logs(log_format, log_level)
    if projects is not None:
        from parbals_label.web.projects import run_projects

        if folder is not None:
            raise InputError("--projects shows a folder of projects: name no other folder.")
        run_projects(projects, place=place, browser=not no_browser, new_token=new_token)
        return
    if folder is None:
        raise InputError("Which project? Say `parbals serve DIR`, or --projects DIR for several.")
    run_server(folder, place=place, browser=not no_browser, new_token=new_token)
