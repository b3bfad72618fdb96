"""What the latest random sample of a project says of its predictions.

Only people's answers count; an item that people passed counts as a mistake.
"""

from dataclasses import dataclass
from typing import Any

from parbals.learner.evaluation.certify import CERTIFY, Certificate, Sample, judged

from parbals_label.answer_form import AnswerForm
from parbals_label.project.consensus import combined_labels
from parbals_label.store.store import Store

__all__ = ["Certified", "by_people", "certified", "numbers_of"]


@dataclass(frozen=True)
class Certified:
    """The latest sample: so many of its ``n`` items have an answer; the ``result`` of all."""

    batch: int
    n: int
    n_labelled: int
    result: Certificate | None

    @property
    def sentence(self) -> str:
        """For people."""
        if self.result is not None:
            return str(self.result)
        return f"{self.n_labelled} of the sample's {self.n} items are labelled; label all of them."


def certified(store: Store) -> Certified | None:
    """What the latest sample says; None where none was drawn."""
    samples = store.batches(CERTIFY)
    if not samples:
        return None
    (*_, last), labels = samples, by_people(store)
    positions = [item.position for item in last.items]
    labels = dict.fromkeys(store.passes(), -1) | labels
    settings = last.settings
    said = [settings["decided"][str(position)] for position in positions]
    sample = Sample([], positions, said, settings["pile"], settings["n_labelled"])
    n_labelled = sum(position in labels for position in positions)
    return Certified(last.batch, len(positions), n_labelled, judged(sample, labels))


def by_people(store: Store) -> dict[int, Any]:
    """Position → class number, or numbers, of what people say, and no machine."""
    form = store.form
    votes = combined_labels(store.votes(by_people=True), form)
    return {position: numbers_of(form, form.plain(label)) for position, label in votes.items()}


def numbers_of(form: AnswerForm, label: Any) -> Any:
    """The number of a class; the numbers of several."""
    index = form.classes.index
    return [index(name) for name in label] if isinstance(label, list) else index(label)
