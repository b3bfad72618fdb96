"""What the latest random sample of a project says of its predictions.

Only people's answers count; an item that people passed counts as a mistake.
"""

from dataclasses import dataclass
from typing import Any

from parbals.learner.evaluation.certify import CERTIFY, Certificate, Sample, evaluate_sample

from parbals_label.answer_form import AnswerForm
from parbals_label.project.consensus import aggregate_labels
from parbals_label.store.store import Store

__all__ = ["CertificateSample", "class_indices", "latest_sample", "people_labels"]


@dataclass(frozen=True)
class CertificateSample:
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


def latest_sample(store: Store) -> CertificateSample | None:
    """What the latest sample says; None where none was drawn."""
    samples = store.batches(CERTIFY)
    if not samples:
        return None
    (*_, last), labels = samples, people_labels(store)
    positions = [item.position for item in last.items]
    labels = dict.fromkeys(store.passes(), -1) | labels
    settings = last.settings
    said = [settings["decided"][str(position)] for position in positions]
    sample = Sample([], positions, said, settings["pile"], settings["n_labelled"])
    n_labelled = sum(position in labels for position in positions)
    return CertificateSample(
        last.batch, len(positions), n_labelled, evaluate_sample(sample, labels)
    )


def people_labels(store: Store) -> dict[int, Any]:
    """Position → class number, or numbers, of what people say, and no machine."""
    form = store.form
    votes = aggregate_labels(store.votes(by_people=True), form)
    return {position: class_indices(form, form.plain(label)) for position, label in votes.items()}


def class_indices(form: AnswerForm, label: Any) -> Any:
    """The number of a class; the numbers of several."""
    index = form.classes.index
    return [index(name) for name in label] if isinstance(label, list) else index(label)
