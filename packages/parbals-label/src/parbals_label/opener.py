"""Requests to other servers, by the standard library."""

import urllib.request
from typing import Any

__all__ = ["opener_without_redirects"]


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is an error: following it would send a key to another server."""

    def redirect_request(self, *arguments: Any) -> None:
        return None


def opener_without_redirects(
    *handlers: urllib.request.BaseHandler | type[urllib.request.BaseHandler],
) -> urllib.request.OpenerDirector:
    """An opener that answers a redirect with its status, as an ``HTTPError``."""
    return urllib.request.build_opener(_NoRedirect, *handlers)
