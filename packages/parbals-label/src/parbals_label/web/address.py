"""The address of the page: the hosts it answers to, its public URL, and its proxy."""

import ipaddress
import re
import socket
from dataclasses import dataclass, field
from urllib.parse import urlsplit
from zlib import crc32

from parbals.errors import InputError

__all__ = [
    "LOOPBACK",
    "PageAddress",
    "bracketed",
    "parse_ip",
    "public_origin",
]

LOOPBACK = ("127.0.0.1", "::1")
_HEADER = re.compile(r"[a-z][a-z0-9-]{0,60}")
_DEFAULT_PORTS = {"http": 80, "https": 443}


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
