"""Events in words: lines of `parbals team log`, and what the page's log says."""

from collections.abc import Callable
from typing import Any

from parbals.wording import counted, percent

from parbals_label.store import records

__all__ = ["log_line", "predicate"]

Detail = dict[str, Any]


def log_line(row: dict[str, Any]) -> str:
    """A row of ``log_rows`` as one line: the time in UTC, who and from where, and a sentence.

    >>> log_line({"created": "2026-11-18T04:30:00.000+00:00", "what": "link revoked",
    ...           "who": "grace", "origin": "command line", "detail": {"name": "ada"}})
    '2026-11-18 04:30:00  grace (command line) revoked the link of ada.'
    """
    moment = str(row["created"])[:19].replace("T", " ")
    subject = f"{row['who'] or 'unknown'} ({row['origin'] or 'unknown'})"
    # Names and comments stay on the line: a line break in one would forge another event.
    sentence = " ".join(f"{subject} {predicate(row)}.".split())
    return f"{moment}  {sentence}"


def predicate(row: dict[str, Any]) -> str:
    """What somebody did, to follow their name in a sentence."""
    if row["what"] == records.CHANGED:
        return f"changed settings ({row['sentence']})"
    write = _PREDICATES.get(row["what"])
    try:
        if write is not None:
            return write(row["detail"])
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        pass  # a project from somebody else may hold any details: they are shown as they are
    return f"changed the project ({row['what']}: {row['sentence']})"


def _added(detail: Detail) -> str:
    items = counted(detail["count"], "item")
    return f"added {items} from {detail['file']}, {detail['labels']:,} of them labelled"


def _exported(detail: Detail) -> str:
    kinds = {"model": "exported the model", "for training": "exported training data"}
    kind = kinds.get(detail["format"], f"exported items as {detail['format']}")
    return f"{kind}{', labelled ones only' if detail.get('labelled_only') else ''}"


def _released(detail: Detail) -> str:
    owner = f" of {detail['name']}" if detail.get("name") else ""
    return f"released {counted(detail['count'], 'item')}{owner}"


def _for_days(detail: Detail) -> str:
    days = detail.get("days")
    return "" if days is None else f" for {days:g} days"


def _invited(detail: Detail) -> str:
    return f"invited {detail['name']} as {detail['role']}{_for_days(detail)}"


def _new_link(detail: Detail) -> str:
    return f"gave {detail['name']} a new link{_for_days(detail)}"


def _role(detail: Detail) -> str:
    old, new = detail["role"]
    return f"changed the role of {detail['name']} from {old} to {new}"


def _withdrawn(detail: Detail) -> str:
    labels = counted(detail["answers"], "label")
    skips = counted(detail["passes"], "skip")
    since = f" since {detail['since']}" if detail.get("since") else ""
    return f"removed {labels} and {skips} by {detail['name']}{since}"


def _ended(detail: Detail) -> str:
    sessions = counted(detail["count"], "session")
    return f"ended {sessions} whose id starts with {detail['id']}"


def _adapted(detail: Detail) -> str:
    outcome = "the project uses it" if detail["used"] else "the project does not use it"
    return (
        f"fine-tuned the encoder on {detail['n_labels']:,} labels: held-out error "
        f"{percent(detail['error'])}, was {percent(detail['frozen_error'])}; {outcome}"
    )


def _labelled(detail: Detail) -> str:
    return f"labelled {counted(detail['count'], 'item')} as {detail['label']} at once"


def _decided(detail: Detail) -> str:
    return f"decided that {counted(detail['count'], 'item is', 'items are')} {detail['label']}"


def _measured(detail: Detail) -> str:
    later_models = " and kept them to measure later models, too" if detail["keep"] else ""
    return f"drew {counted(detail['count'], 'random item')} to measure the error{later_models}"


_PREDICATES: dict[str, Callable[[Detail], str]] = {
    records.RENAMED_CLASS: lambda detail: f"renamed class {detail['old']} to {detail['new']}",
    records.ADDED: _added,
    records.TARGET_ADDED: lambda detail: (
        f"added the target set {detail['name']}, {counted(detail['count'], 'row')}"
    ),
    records.TARGET_REMOVED: lambda detail: f"removed the target set {detail['name']}",
    records.EXPORTED: _exported,
    records.ANSWER_UNDONE: lambda detail: (
        f"undid {detail['name']}'s label of item {detail['item']}, which was {detail['was']}"
    ),
    records.RELEASED: _released,
    records.INVITED: _invited,
    records.NEW_LINK: _new_link,
    records.ROLE: _role,
    records.REVOKED: lambda detail: f"revoked the link of {detail['name']}",
    records.WORK_REMOVED: _withdrawn,
    records.BACKED_UP: lambda detail: (
        f"backed up {counted(detail['answers'], 'answer')} to {detail['file']}"
    ),
    records.SIGNED_IN: lambda detail: f"signed in at {detail['place']}",
    records.ENDED: _ended,
    records.PERSON_REMOVED: lambda detail: f"removed a person, now called {detail['name']}",
    records.ADAPTED: _adapted,
    records.IN_BULK: _labelled,
    records.DECIDED: _decided,
    records.MEASURED: _measured,
    records.MEASUREMENT_UNDONE: lambda detail: (
        f"undid the sample of {counted(detail['count'], 'random item')}"
    ),
}
"""What somebody did, by the kind of the event and its details."""
