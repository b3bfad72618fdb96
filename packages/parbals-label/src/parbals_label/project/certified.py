"""The latest random sample that measures the error of a project's predictions.

Only people's answers count; an item that people skipped counts as an error.
"""

from dataclasses import dataclass
from typing import Any

from parbals.learner.evaluation.certify import CERTIFY, Certificate, Sample, evaluate_sample

from parbals_label.answer_form import AnswerForm
from parbals_label.project.consensus import aggregate_labels
from parbals_label.store.store import Store

__all__ = ["CertificateSample", "class_indices", "latest_sample", "people_labels"]

_NO_CLASS = -1
"""In place of a class index: a skipped item, which no prediction matches."""


@dataclass(frozen=True)
class CertificateSample:
    """A random sample for a certificate.

    Attributes:
        batch: number of the batch that assigned it.
        n: its items.
        n_labelled: items with an answer.
        result: the measured error, once all items are labelled.
    """

    batch: int
    n: int
    n_labelled: int
    result: Certificate | None

    @property
    def sentence(self) -> str:
        """The result, or the progress, in words."""
        if self.result is not None:
            return str(self.result)
        return f"{self.n_labelled} of the sample's {self.n} items are labelled; label all of them."


def latest_sample(store: Store) -> CertificateSample | None:
    """The latest sample and its result; None where none was drawn."""
    samples = store.batches(CERTIFY)
    if not samples:
        return None
    batch = samples[-1]
    positions = [item.position for item in batch.items]
    skipped = dict.fromkeys(store.passes(), _NO_CLASS)
    labels = skipped | people_labels(store)
    record = batch.settings
    predicted = [record["decided"][str(position)] for position in positions]
    sample = Sample([], positions, predicted, record["pile"], record["n_labelled"])
    return CertificateSample(
        batch=batch.batch,
        n=len(positions),
        n_labelled=sum(position in labels for position in positions),
        result=evaluate_sample(sample, labels),
    )


def people_labels(store: Store) -> dict[int, Any]:
    """Position → class index, or indices, of people's consensus label, without programs."""
    form = store.form
    labels = aggregate_labels(store.votes(by_people=True), form)
    return {position: class_indices(form, form.plain(label)) for position, label in labels.items()}


def class_indices(form: AnswerForm, label: Any) -> Any:
    """The index of a class; a list of indices for several.

    >>> form = AnswerForm("classes", ("ham", "spam"))
    >>> class_indices(form, "spam"), class_indices(form, ["spam", "ham"])
    (1, [1, 0])
    """
    if isinstance(label, list):
        return [form.classes.index(name) for name in label]
    return form.classes.index(label)
