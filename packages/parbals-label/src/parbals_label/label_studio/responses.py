"""What Label Studio's answers must look like; anything else is refused in one sentence."""

from typing import Annotated, Any, TypeVar

from parbals.errors import InputError
from parbals.wording import without_controls
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

__all__ = [
    "AccessToken",
    "CreatedTasks",
    "Project",
    "TaskPage",
    "UploadedFile",
    "UploadedFiles",
    "one_line",
    "read_response",
]

_LONGEST_QUOTE = 300

Number = Annotated[int, Field(strict=True, ge=0, lt=1 << 63)]
"""A number of a task, file or project, as databases count."""


class _Response(BaseModel):
    """An answer of the server; fields that are not named here are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class AccessToken(_Response):
    """The answer to a personal access token; it becomes part of a request's header."""

    access: Annotated[str, StringConstraints(pattern=r"^[!-~]+$", max_length=10_000)]


class CreatedTasks(_Response):
    """The numbers of tasks that were created, in their order."""

    task_ids: list[Number]


class Project(_Response):
    """A project's number, creation time, labelling interface and settings."""

    id: Number
    created_at: str
    label_config: str | None = None
    maximum_annotations: Number | None = None
    sampling: str | None = None


class TaskPage(_Response):
    """A page of a project's tasks. Tasks of other programs may look like anything."""

    tasks: list[Any]
    total: Number = 0


class UploadedFile(_Response):
    """Where the server stored a file."""

    file: str


class UploadedFiles(_Response):
    """The number of one file that was uploaded."""

    file_upload_ids: Annotated[list[Number], Field(min_length=1, max_length=1)]


Response = TypeVar("Response", bound=_Response)


def read_response(kind: type[Response], answer: Any) -> Response:
    """An answer as a record of that kind.

    >>> read_response(UploadedFile, {"file": "upload/1/a.png", "size": 7})
    UploadedFile(file='upload/1/a.png')
    """
    try:
        return kind.model_validate(answer)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(map(str, fault["loc"])) or "the answer"
        raise InputError(
            f"The server does not answer as Label Studio does ({field}: {fault['msg']}); check "
            "the address (--url)."
        ) from None


def one_line(text: Any) -> str:
    """A server's words to quote inside a sentence: on one line, without control characters.

    >>> one_line("No.\\r\\n\\x1b[2JAll is well.")
    'No. [2JAll is well'
    """
    return " ".join(without_controls(str(text)).split())[:_LONGEST_QUOTE].rstrip(". ")
