"""A project in Python: ``parbals.open``."""

from os import PathLike
from pathlib import Path

from parbals.learner.active import ActiveLearner

from parbals_label.project.engine import learner_of
from parbals_label.store.store import Store

__all__ = ["open_project"]


def open_project(folder: str | PathLike[str]) -> ActiveLearner:
    """The learner of the project in ``folder``, as it stands: its items by their ids, its labels.

    It is a copy. Telling it labels, or asking it, changes the copy alone: nothing is written to the
    project, and labels that the project gets later do not appear here. To give labels to the
    project itself use ``parbals tell`` or the page.
    """
    with Store.open(Path(folder), read_only=True) as store:
        learner = learner_of(store)
        learner.name_items([item.id for item in store.iter_items()])
    return learner
