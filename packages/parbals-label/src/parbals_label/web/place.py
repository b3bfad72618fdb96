"""Where the page is found: the names it answers to, its address for people, and its proxy.

And its files in the project's folder: its token, its last address, and a way to open it.
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

__all__ = ["LOOPBACK", "Place", "address_of", "bracketed", "is_copied", "known_address"]
__all__ += ["opening_file", "page_token", "public_origin", "remember_address"]

LOOPBACK = ("127.0.0.1", "::1")
_PATH = re.compile(r"(/p/[A-Za-z0-9._~%-]+)?")
_HEADER = re.compile(r"[a-z][a-z0-9-]{0,60}")
_PORTS = {"http": 80, "https": 443}
_MARKS = "page-marks"
"""The file that knows which of the page's files were written here."""
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server listens, and what people call it.

    Attributes:
        host, port: the address and port that it listens on.
        public: the origin that a proxy shows to people, as https://label.example.
        user_header: where the proxy names who has logged in; believed from ``proxies`` alone.
        proxies: addresses that the proxy's own requests come from.
        path: where a project's page begins, as /p/spam; "" where it is the only one.
    """

    host: str = "127.0.0.1"
    port: int = 0
    public: str | None = None
    user_header: str | None = None
    proxies: tuple[str, ...] = LOOPBACK
    path: str = ""
    names: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        ours = (*LOOPBACK, "localhost", _name(self.host))
        names = frozenset(bracketed(name.lower()) for name in ours)
        object.__setattr__(self, "names", names)
        if self.public is not None:
            object.__setattr__(self, "public", public_origin(self.public))
        if self.user_header is not None:
            if self.public is None:
                raise InputError(
                    "--trusted-user-header is believed from a proxy only; say with --public-url "
                    "what people call it."
                )
            if _HEADER.fullmatch(self.user_header.lower()) is None:
                raise InputError(f"{self.user_header!r} is not the name of a header.")
            object.__setattr__(self, "user_header", self.user_header.lower())
        checked = tuple(str(_network(proxy)) for proxy in self.proxies)
        object.__setattr__(self, "proxies", checked)

    @property
    def origin(self) -> str:
        """The origin that people open: scheme, name and port."""
        if self.public is not None:
            return self.public
        return f"http://{bracketed(_name(self.host))}:{self.port}"

    def is_private(self, host: str) -> bool:
        """Whether nobody between a browser and this place can listen; ``host`` is as it says."""
        return self._is_public(host) and self.origin.startswith("https")

    def cookie(self, host: str) -> str:
        """The name of the session's cookie; browsers show cookies to every port of a host.

        Each project has a name of its own: the first kind of cookie takes no path.
        """
        of = f"-{crc32(self.path.encode()):08x}" if self.path else ""
        return f"{'__Host-' if self.is_private(host) else ''}parbals-{self.port}{of}"

    def link(self, token: str) -> str:
        """The address that opens the page."""
        return f"{self.origin}{self.path}/?token={token}"

    def is_host(self, host: str, local: str) -> bool:
        """Whether a Host header names this place; ``local`` is the address a request came to."""
        if self._is_public(host):
            return True
        name, colon, port = host.rpartition(":") if not host.endswith("]") else (host, "", "")
        if not colon:
            name, port = host, str(_PORTS["http"])
        # A socket for IPv6 that takes IPv4 as well calls an address ::ffff:10.0.0.1 where the
        # browser says 10.0.0.1.
        local = bracketed(local.removeprefix("::ffff:"))
        return port == str(self.port) and (name.lower() in self.names or name == local)

    def is_origin(self, origin: str, local: str) -> bool:
        """Whether an Origin header is one of this place's own."""
        if origin == self.public:
            return True
        host = origin.removeprefix("http://")
        is_ours = self.is_host(host, local) and not self._is_public(host)
        return origin.startswith("http://") and is_ours

    def _is_public(self, host: str) -> bool:
        return self.public is not None and host.lower() == urlsplit(self.public).netloc

    def is_proxy(self, peer: str) -> bool:
        """Whether a request comes from the proxy, which speaks for others."""
        if self.public is None:
            return False
        address = address_of(peer.removeprefix("::ffff:"))
        return address is not None and any(
            address in ipaddress.ip_network(proxy) for proxy in self.proxies
        )


def public_origin(url: str) -> str:
    """The origin of an address for people: scheme and name, the port where it is not the usual."""
    parts = urlsplit(url.strip())
    try:
        port = parts.port
    except ValueError:
        port = -1
    rest = (parts.path.strip("/"), parts.query, parts.fragment, parts.username, parts.password)
    if parts.scheme not in _PORTS or not parts.hostname or port == -1 or any(rest):
        raise InputError(
            f"{url!r} is not the address of a page; say it as https://label.example, without a "
            "path."
        )
    name = bracketed(parts.hostname.lower())
    usual = port is None or port == _PORTS[parts.scheme]
    return f"{parts.scheme}://{name}{'' if usual else f':{port}'}"


def bracketed(name: str) -> str:
    """A name or address as it stands in an address line."""
    return f"[{name}]" if ":" in name and not name.startswith("[") else name


def address_of(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address, unless it is a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _network(proxy: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(proxy)
    except ValueError:
        raise InputError(
            f"{proxy!r} is not an address that a proxy can have; say it as 10.0.0.5 or 10.0.0.0/24."
        ) from None


def _name(host: str) -> str:
    """What requests may call the server besides localhost and its addresses.

    A server on every address is called by the machine's name, or by the address a request came to.
    """
    address = address_of(host)
    return socket.gethostname() if not host or (address and address.is_unspecified) else host


def page_token(folder: Path, *, new: bool = False, name: str = "page-token") -> str:
    """The token in the file ``name``, made where there is none; ``new`` makes the old one useless.

    32 random bytes that only the owner of the file can read. It stays, so that pages left open work
    after a restart; but one that came with a copy of the folder is known to who made the copy, and
    is replaced.
    """
    file = folder / name
    if not new and file.is_file() and not file.is_symlink() and _is_ours(file):
        os.chmod(file, 0o600)
        token = file.read_text("ascii", errors="replace").strip()
        if _TOKEN.fullmatch(token):
            return token
    token = secrets.token_urlsafe(32)
    _write(file, f"{token}\n")
    return token


def opening_file(folder: Path, link: str) -> Path:
    """A page that only this user can read and that leads to the link.

    A browser is started with the name of this file: other users see the arguments of programs, and
    the link holds the token.
    """
    file = folder / "page-open.html"
    page = Path(__file__).with_name("pages").joinpath("open.html").read_text("utf-8")
    _write(file, page.format(link=escape(link)))
    return file


def remember_address(folder: Path, place: Place) -> None:
    """Keep where the page was shown last, so that links can be made for it."""
    address = f"{place.origin}{place.path}"
    if known_address(folder) != address:
        _write(folder / "page-address", f"{address}\n")


def known_address(folder: Path) -> str | None:
    """Where the page was shown last; None if it never was, or if a copy of the folder says so."""
    with suppress(OSError, UnicodeDecodeError, InputError):
        if not _is_ours(folder / "page-address"):
            return None
        address = (folder / "page-address").read_text("ascii")[:1000].strip()
        path = urlsplit(address).path
        if _PATH.fullmatch(path):
            return public_origin(address.removesuffix(path)) + path
    return None


def is_copied(folder: Path) -> bool:
    """Whether the folder holds a link or an address of a page that were not written here."""
    files = [folder / "page-token", folder / "page-address"]
    return any(file.is_file() and not _is_ours(file) for file in files)


def _write(file: Path, text: str) -> None:
    _write_private(file, text)
    marks = {word for word in _marks(file.parent) if not word.startswith(f"{file.name}:")}
    _write_private(file.parent / _MARKS, " ".join(sorted({*marks, _mark(file)})))


def _write_private(file: Path, text: str) -> None:
    with replacing(file, mode=0o600) as draft:
        os.chmod(draft.name, 0o600)  # one that is replaced may have been open
        draft.write(text.encode())


def _is_ours(file: Path) -> bool:
    """Whether the file was written here: a copy of it has another number on the disk."""
    return _mark(file) in _marks(file.parent)


def _mark(file: Path) -> str:
    try:
        return f"{file.name}:{file.stat().st_ino}"
    except OSError:
        return ""


def _marks(folder: Path) -> list[str]:
    with suppress(OSError, UnicodeDecodeError):
        return (folder / _MARKS).read_text("ascii")[:500].split()
    return []
