"""The address of the page: the hosts it answers to, its public URL, and its proxy.

Also the page's files in the project's folder: its token, its last URL, and a file that opens it.
"""

import ipaddress
import os
import re
import secrets
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from urllib.parse import urlsplit
from zlib import crc32

from parbals.errors import InputError
from parbals.files import replacing

__all__ = [
    "LOOPBACK",
    "PageAddress",
    "bracketed",
    "is_copied",
    "known_address",
    "opening_file",
    "page_token",
    "parse_ip",
    "public_origin",
    "remember_address",
]

LOOPBACK = ("127.0.0.1", "::1")
_PATH = re.compile(r"(/p/[A-Za-z0-9._~%-]+)?")
_HEADER = re.compile(r"[a-z][a-z0-9-]{0,60}")
_DEFAULT_PORTS = {"http": 80, "https": 443}
_MARKS = "page-marks"
"""The file that lists the page's files with their inodes, so that copies of them are recognised."""
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True)
class PageAddress:
    """Where a server listens, and the URL that people open.

    Attributes:
        host, port: the IP address or name, and the port that it listens on.
        public: the origin of a reverse proxy, such as https://label.example.
        user_header: the header in which the proxy names the user; trusted from ``proxies`` only.
        proxies: IP addresses or networks of the proxy.
        path: the path of a project's page, such as /p/spam; "" if only one project is served.
        names: host names that requests may use.

    >>> PageAddress(port=8573).link("secret")
    'http://127.0.0.1:8573/?token=secret'
    """

    host: str = "127.0.0.1"
    port: int = 0
    public: str | None = None
    user_header: str | None = None
    proxies: tuple[str, ...] = LOOPBACK
    path: str = ""
    names: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        hosts = (*LOOPBACK, "localhost", _display_host(self.host))
        names = frozenset(bracketed(host.lower()) for host in hosts)
        object.__setattr__(self, "names", names)
        if self.public is not None:
            object.__setattr__(self, "public", public_origin(self.public))
        if self.user_header is not None:
            if self.public is None:
                raise InputError(
                    "--trusted-user-header is trusted from a proxy only; give the address of the "
                    "proxy with --public-url."
                )
            if _HEADER.fullmatch(self.user_header.lower()) is None:
                raise InputError(f"{self.user_header!r} is not the name of an HTTP header.")
            object.__setattr__(self, "user_header", self.user_header.lower())
        networks = tuple(str(_network(proxy)) for proxy in self.proxies)
        object.__setattr__(self, "proxies", networks)

    @property
    def origin(self) -> str:
        """The origin that people open: scheme, host and port."""
        if self.public is not None:
            return self.public
        return f"http://{bracketed(_display_host(self.host))}:{self.port}"

    def is_https(self, host: str) -> bool:
        """Whether a request with this Host header came over HTTPS, through the proxy."""
        return self._is_public(host) and self.origin.startswith("https")

    def cookie(self, host: str) -> str:
        """Return the name of the session's cookie.

        It contains the port, because browsers send cookies to every port of a host, and a hash of
        the project's path, because a cookie with the prefix ``__Host-`` cannot have a path.
        """
        prefix = "__Host-" if self.is_https(host) else ""
        suffix = f"-{crc32(self.path.encode()):08x}" if self.path else ""
        return f"{prefix}parbals-{self.port}{suffix}"

    def link(self, token: str) -> str:
        """Return the link that opens the page."""
        return f"{self.origin}{self.path}/?token={token}"

    def is_host(self, host: str, local: str) -> bool:
        """Whether a Host header names this server; ``local`` is the IP that the request reached."""
        if self._is_public(host):
            return True
        name, colon, port = host.rpartition(":")
        if not colon or host.endswith("]"):  # without a port; [::1] has colons of its own
            name = host
            port = str(_DEFAULT_PORTS["http"])
        # A dual-stack socket reports an IPv4 address as ::ffff:10.0.0.1; the browser sends
        # 10.0.0.1.
        local = bracketed(local.removeprefix("::ffff:"))
        return port == str(self.port) and (name.lower() in self.names or name == local)

    def is_origin(self, origin: str, local: str) -> bool:
        """Whether an Origin header is an origin of this server; ``local`` as for ``is_host``."""
        if origin == self.public:
            return True
        host = origin.removeprefix("http://")
        is_own_host = self.is_host(host, local) and not self._is_public(host)
        return origin.startswith("http://") and is_own_host

    def _is_public(self, host: str) -> bool:
        return self.public is not None and host.lower() == urlsplit(self.public).netloc

    def is_proxy(self, peer: str) -> bool:
        """Whether a request from the IP address ``peer`` comes from the proxy."""
        if self.public is None:
            return False
        ip = parse_ip(peer.removeprefix("::ffff:"))
        return ip is not None and any(ip in ipaddress.ip_network(proxy) for proxy in self.proxies)


def public_origin(url: str) -> str:
    """Return the origin of a public URL: scheme, host, and the port unless it is the default."""
    parts = urlsplit(url.strip())
    try:
        port = parts.port
    except ValueError:
        port = -1
    extra = (parts.path.strip("/"), parts.query, parts.fragment, parts.username, parts.password)
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname or port == -1 or any(extra):
        raise InputError(
            f"{url!r} is not the address of a page; write it as https://label.example, without "
            "a path."
        )
    origin = f"{parts.scheme}://{bracketed(parts.hostname.lower())}"
    if port is None or port == _DEFAULT_PORTS[parts.scheme]:
        return origin
    return f"{origin}:{port}"


def bracketed(name: str) -> str:
    """Return a host as it is written in a URL: IPv6 addresses in brackets."""
    return f"[{name}]" if ":" in name and not name.startswith("[") else name


def parse_ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the IP address, None if the host is a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _network(proxy: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(proxy)
    except ValueError:
        raise InputError(
            f"{proxy!r} is not the IP address of a proxy; write it as 10.0.0.5 or 10.0.0.0/24."
        ) from None


def _display_host(host: str) -> str:
    """Return the host in links: the machine's name for a server that listens on all addresses."""
    ip = parse_ip(host)
    if not host or (ip is not None and ip.is_unspecified):
        return socket.gethostname()
    return host


def page_token(folder: Path, *, new: bool = False, name: str = "page-token") -> str:
    """Return the token in the file ``name``; it is created if there is none, or if ``new``.

    The token is 32 random bytes that only the owner of the file can read. It is kept, so that open
    pages work after a restart. A token that came with a copy of the folder is replaced, because
    whoever made the copy knows it.
    """
    file = folder / name
    if not new and file.is_file() and not file.is_symlink() and _was_written_here(file):
        os.chmod(file, 0o600)
        token = file.read_text("ascii", errors="replace").strip()
        if _TOKEN.fullmatch(token):
            return token
    token = secrets.token_urlsafe(32)
    _write_and_mark(file, f"{token}\n")
    return token


def opening_file(folder: Path, link: str) -> Path:
    """Write an HTML file that redirects to the link, and that only this user can read.

    The browser is started with this file instead of the link, because other users can see the
    arguments of processes and the link contains the token.
    """
    file = folder / "page-open.html"
    page = Path(__file__).with_name("pages").joinpath("open.html").read_text("utf-8")
    _write_and_mark(file, page.format(link=escape(link)))
    return file


def remember_address(folder: Path, address: PageAddress) -> None:
    """Store the URL of the page, so that commands can create links to it."""
    url = f"{address.origin}{address.path}"
    if known_address(folder) != url:
        _write_and_mark(folder / "page-address", f"{url}\n")


def known_address(folder: Path) -> str | None:
    """Return the latest URL of the page; None if there is none, or if the folder is a copy."""
    with suppress(OSError, UnicodeDecodeError, InputError):
        if not _was_written_here(folder / "page-address"):
            return None
        url = (folder / "page-address").read_text("ascii")[:1000].strip()
        path = urlsplit(url).path
        if _PATH.fullmatch(path):
            return public_origin(url.removesuffix(path)) + path
    return None


def is_copied(folder: Path) -> bool:
    """Whether the folder contains a token or URL that was copied, not written there."""
    files = [folder / "page-token", folder / "page-address"]
    return any(file.is_file() and not _was_written_here(file) for file in files)


def _write_and_mark(file: Path, text: str) -> None:
    """Write a file of the page, and record that it was written here."""
    _write_private(file, text)
    marks = {mark for mark in _marks(file.parent) if not mark.startswith(f"{file.name}:")}
    _write_private(file.parent / _MARKS, " ".join(sorted({*marks, _mark(file)})))


def _write_private(file: Path, text: str) -> None:
    with replacing(file, mode=0o600) as draft:
        os.chmod(draft.name, 0o600)  # a replaced file may have been readable by others
        draft.write(text.encode())


def _was_written_here(file: Path) -> bool:
    """Whether the file was written here, not copied: a copy has another inode."""
    return _mark(file) in _marks(file.parent)


def _mark(file: Path) -> str:
    """Return name and inode of a file; "" if it does not exist."""
    try:
        return f"{file.name}:{file.stat().st_ino}"
    except OSError:
        return ""


def _marks(folder: Path) -> list[str]:
    """Return the marks of the files that were written in a folder."""
    with suppress(OSError, UnicodeDecodeError):
        return (folder / _MARKS).read_text("ascii")[:500].split()
    return []
