"""What visitors may do: each route says whom it is for.

Plain functions: a dependency of the framework's would cost a label a part of its time.
"""

from starlette.exceptions import HTTPException
from starlette.requests import Request

from parbals_label.web.door import Visitor

__all__ = ["anyone", "owner"]


def anyone(request: Request) -> Visitor:
    """Whom the guard has let in."""
    visitor: Visitor = request.state.visitor
    return visitor


def owner(request: Request) -> Visitor:
    """The visitor, who must be an owner."""
    visitor = anyone(request)
    if not visitor.is_owner:
        raise HTTPException(403, "Only an owner of the project may do this")
    return visitor
