"""Whether the proxy in front of the page lets strangers say who they are.

With ``--trusted-user-header`` the server believes a header that the proxy sets after a login. A
proxy that asks for no login, and passes the header on as a visitor sent it, lets everybody in under
any name. So the server tries this once, at its start, with a name and a password that it made up.
"""

import base64
import json
import secrets
import urllib.error
import urllib.request
from contextlib import suppress

from parbals_label.opener import Deadline, opener_without_redirects
from parbals_label.web.address import PageAddress

__all__ = ["OPEN_PROXY", "proxy_is_open"]

_TIMEOUT_SECONDS = 10.0
_MAX_BYTES = 100_000
OPEN_PROXY = (
    "WARNING: the proxy at {origin} lets anybody in under any name. It passed on the header "
    "{header} of a request that had not logged in. Let it ask for a login, and let it set or clear "
    "this header itself; the files under deploy/ show how. Until then, stop this server."
)


def proxy_is_open(address: PageAddress) -> bool | None:
    """Whether a name that was made up arrives through the proxy; None if it does not answer."""
    name = f"nobody-{secrets.token_hex(8)}"
    password = base64.b64encode(f"{name}:{secrets.token_hex(8)}".encode()).decode()
    request = urllib.request.Request(f"{address.origin}{address.path}/api/me")
    request.add_header(address.user_header or "", name)
    request.add_header("Authorization", f"Basic {password}")
    opener = opener_without_redirects()  # one leads to a login page: the request was refused
    with Deadline(_TIMEOUT_SECONDS) as deadline:
        try:
            with deadline.open(opener, request, _TIMEOUT_SECONDS):
                return False  # a page of the proxy: nobody was invited under this name
        except urllib.error.HTTPError as error:
            with error, suppress(ValueError, OSError, TypeError, KeyError):
                # The server's own refusal of somebody who was not invited: it believed the name.
                return bool(json.loads(error.read(_MAX_BYTES))["error"]["code"] == "person")
            return False
        except (OSError, ValueError):
            return None
