"""Errors and warnings: every message says what is wrong, where, and how to fix it."""

__all__ = [
    "InputError",
    "LabelError",
    "MissingDependencyError",
    "ParbalsError",
    "ParbalsWarning",
    "PosteriorWarning",
    "ProjectDamagedError",
    "ProjectError",
    "SampleCollapseWarning",
    "ShapeError",
    "first_line",
]


class ParbalsError(Exception):
    """Base of every error that parbals raises on purpose."""


class InputError(ParbalsError, ValueError):
    """A value that was passed in cannot be used; nothing has been changed."""


class ShapeError(InputError):
    """An array has the wrong number of axes, or two arrays disagree on the length of one."""


class LabelError(InputError):
    """A label is missing or is not one of the declared classes."""


class MissingDependencyError(ParbalsError, ImportError):
    """An optional package is missing; the message names the command that installs it."""


class ProjectError(ParbalsError):
    """A project is missing, locked, read-only, full or not ours; what was confirmed is stored."""


class ProjectDamagedError(ParbalsError):
    """A project's files are damaged; `parbals backup salvage` takes out what is readable."""


class ParbalsWarning(UserWarning):
    """Base of every warning that parbals emits."""


class PosteriorWarning(ParbalsWarning):
    """The posterior draws failed one of their own diagnostics; the message names a remedy."""


class SampleCollapseWarning(ParbalsWarning):
    """Reweighting has left too few effective posterior samples to trust the scores."""


def first_line(error: BaseException, longest: int = 120) -> str:
    """The first line of another package's error, to quote inside a sentence.

    >>> first_line(ValueError("No such column.\\nDetails follow."))
    'No such column'
    """
    lines = str(error).strip().splitlines()
    return lines[0][:longest].rstrip(". ") if lines else type(error).__name__
