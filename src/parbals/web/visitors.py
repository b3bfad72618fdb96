"""What visitors may do: each route says whom it is for."""

from typing import Annotated

from fastapi import Depends, Request
from starlette.exceptions import HTTPException

from parbals.web.door import Visitor

__all__ = ["Anyone", "Owner", "only_owners"]


def _visitor(request: Request) -> Visitor:
    """Whom the guard has let in."""
    visitor: Visitor = request.state.visitor
    return visitor


Anyone = Annotated[Visitor, Depends(_visitor)]


def only_owners(visitor: Anyone) -> Visitor:
    """The visitor, who must be an owner."""
    if not visitor.is_owner:
        raise HTTPException(403, "Only an owner of the project may do this")
    return visitor


Owner = Annotated[Visitor, Depends(only_owners)]
