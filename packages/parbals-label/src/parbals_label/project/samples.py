"""The random samples that measured the error of a project's predictions, and what they rest on.

Every sample that was ever drawn is told, with its result, the people whose labels it rests on, when
they gave them, who skipped items, and how many labels were changed once the sample was complete and
its result known. :mod:`parbals_label.project.sample_answers` counts the answers. An item that
nobody answered, or on which people are divided, counts as right in the lower limit of the error and
as wrong in the upper one.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from parbals.learner.evaluation.certify import CERTIFY, Certificate, Sample, evaluate_sample
from parbals.wording import counted, percent_above

from parbals_label.answer_form import AnswerForm
from parbals_label.project.sample_answers import (
    counted_labels,
    divided_positions,
    first_labels,
    read_answers,
    votes_of,
)
from parbals_label.store.records import BatchRecord
from parbals_label.store.store import Store

__all__ = [
    "LabelSources",
    "RandomSample",
    "class_indices",
    "earlier_samples_sentence",
    "kept_label_sources",
    "latest_sample",
    "random_samples",
]

_MAX_NAMES = 5
"""People whom a sentence names; further ones are counted."""


@dataclass(frozen=True)
class LabelSources:
    """Who labelled the items of a sample, and when.

    Attributes:
        by: person → number of items that they labelled, most first.
        first, last: dates of the first and the last of these labels; "" if there are none.
        n_changed: items whose label was changed after the result was known; an item that was
            skipped, or on which people were divided, and then got a label is one of them.
        skipped_by: person → number of items without an answer that they skipped.
        n_skipped: items without an answer that somebody skipped.
        n_tied: items on which people are divided.
        n_not_counted: items that have only labels that do not count.
        n_from_files: labels that were read from files.
        is_kept: the sample is kept, and its result was known from its first labels on.
    """

    by: dict[str, int] = field(default_factory=dict)
    first: str = ""
    last: str = ""
    n_changed: int = 0
    n_not_counted: int = 0
    n_from_files: int = 0
    is_kept: bool = False
    skipped_by: dict[str, int] = field(default_factory=dict)
    n_skipped: int = 0
    n_tied: int = 0

    @property
    def sentence(self) -> str:
        """Who and when, and what does not count, in words; "" where there is nothing to say."""
        sentences = []
        if self.by:
            dates = self.first if self.first == self.last else f"{self.first} to {self.last}"
            sentences.append(f"Labelled by {_enumerate(self.by)}, {dates}.")
        if self.n_from_files:
            labels = counted(self.n_from_files, "label was", "labels were")
            sentences.append(f"{labels} read from files.")
        if self.n_skipped:
            items = counted(self.n_skipped, "item was", "items were")
            sentences.append(f"{items} skipped, by {_enumerate(self.skipped_by)}.")
        if self.n_tied:
            items = counted(self.n_tied, "item was", "items were")
            sentences.append(
                f"{items} answered differently by people, and one more answer decides."
            )
        if self.n_changed:
            labels = counted(self.n_changed, "label was", "labels were")
            event = "changed after the sample was complete"
            if self.is_kept:
                event = "changed after they were given"
            sentences.append(f"{labels} {event}.")
        if self.n_not_counted:
            items = counted(self.n_not_counted, "item is", "items are")
            sentences.append(
                f"{items} labelled only by imports, by programs, or in files under names that "
                "nobody was invited as; these labels do not count, so people must label them."
            )
        return " ".join(sentences)


def _enumerate(counts: Mapping[str, int]) -> str:
    """Names with their counts, as in "ada (40) and bob (20)"."""
    names = [f"{name} ({n:,})" for name, n in counts.items()]
    if len(names) > _MAX_NAMES:
        names = [*names[:_MAX_NAMES], f"{len(names) - _MAX_NAMES} more"]
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} and {names[-1]}"


@dataclass(frozen=True)
class RandomSample:
    """A random sample that measures the error once.

    Attributes:
        batch: number of the batch that assigned it.
        n: its items.
        n_labelled: items that people have answered.
        n_open: items that people may still answer.
        result: the measured error, once all items are labelled.
        number, n_samples: this is sample ``number`` of the ``n_samples`` drawn so far.
        drawn: the date.
        sources: who labelled it.
        target: the target set that it was drawn from; None for the items of the pool.
        first_result: the result when the sample was complete, if labels were changed afterwards.
    """

    batch: int
    n: int
    n_labelled: int
    result: Certificate | None
    number: int = 1
    n_samples: int = 1
    drawn: str = ""
    sources: LabelSources = field(default_factory=LabelSources)
    first_result: Certificate | None = None
    target: str | None = None
    n_open: int = 0

    @property
    def sentence(self) -> str:
        """The result, or the progress, in words."""
        if self.result is None:
            items = f"{self.n} items{self._origin}"
            progress = f"{self.n_labelled} of the sample's {items} are labelled"
            return f"{progress}; label all of them. {self.sources.sentence}".strip()
        parts = [str(self.result), f"Sample {self.number} of {self.n_samples}{self._origin}."]
        parts.append(self.sources.sentence)
        if self.result.n_unknown:
            items = counted(self.result.n_unknown, "label", "labels")
            parts.append(f"{items} not known: right in the lower limit, wrong in the upper one.")
        if self.first_result is not None:
            before = self.first_result
            parts.append(
                f"Before that, {before.n_wrong} of the {before.n} were wrong, and the limit was "
                f"{percent_above(before.error.high)}."
            )
        return " ".join(filter(None, parts))

    @property
    def _origin(self) -> str:
        return "" if self.target is None else f" from the target set {self.target}"

    @property
    def short_sentence(self) -> str:
        """The result in a few words, as one of several."""
        name = f"sample {self.number}{self._origin} ({self.drawn})"
        if self.result is None:
            return f"{name} was not completed, {self.n_labelled} of {self.n} labelled"
        limit = percent_above(self.result.error.high)
        result = f"{self.result.n_wrong} of {self.n} wrong, at most {limit}"
        changed = f", {self.sources.n_changed} changed afterwards" if self.sources.n_changed else ""
        return f"{name}: {result}{changed}"


def random_samples(store: Store) -> list[RandomSample]:
    """All samples that were ever drawn and not undone, oldest first."""
    records = store.batches(CERTIFY)
    return [_random_sample(store, records, index) for index in range(len(records))]


def latest_sample(store: Store) -> RandomSample | None:
    """The latest sample and its result; None where none was drawn."""
    records = store.batches(CERTIFY)
    if not records:
        return None
    return _random_sample(store, records, len(records) - 1)


def earlier_samples_sentence(samples: Sequence[RandomSample]) -> str:
    """All samples but the latest in words; "" if there are none."""
    if len(samples) < 2:
        return ""
    return f"Earlier: {'; '.join(sample.short_sentence for sample in samples[:-1])}."


def _random_sample(store: Store, records: Sequence[BatchRecord], index: int) -> RandomSample:
    """One of the samples that were drawn.

    Samples that were undone count in its number, because all share one error level.
    A sample that was not complete when the next one was drawn stays so: since then its items may
    have been labelled by people who saw their predictions.
    """
    record = records[index]
    is_latest = record is records[-1]
    drawn = store.batch_numbers(CERTIFY)
    number = drawn.index(record.batch) + 1
    form = store.form
    positions = [item.position for item in record.items]
    predicted = [record.settings["decided"][str(position)] for position in positions]
    sample = Sample(
        items=[],
        positions=positions,
        decided=predicted,
        n_population=record.settings["pile"],
        n_labels=record.settings["n_labelled"],
        number=number,
    )
    answers = read_answers(store, record)
    if not is_latest:
        in_time = read_answers(store, record, until=records[index + 1].created)
        if not in_time.is_complete:
            answers = in_time
    result = _result(form, sample, answers.labels) if answers.is_complete else None
    skipped_by = Counter(name for names in answers.skips.values() for name in names)
    sources = _label_sources(
        store,
        positions,
        answers.labels,
        answers.at_first,
        skipped_by=dict(skipped_by.most_common()),
        n_skipped=len(answers.skips),
        n_tied=len(answers.tied),
    )
    first_result = None
    if result is not None and sources.n_changed:
        first_result = _result(form, sample, answers.at_first)
    return RandomSample(
        batch=record.batch,
        n=len(positions),
        n_labelled=len(answers.labels) + len(answers.tied),
        n_open=len(answers.open),
        result=result,
        number=number,
        n_samples=len(drawn),
        drawn=record.created[:10],
        sources=sources,
        first_result=first_result,
        target=record.settings.get("target"),
    )


def _result(
    form: AnswerForm, sample: Sample, labels: Mapping[int, str | None]
) -> Certificate | None:
    """The error that these labels measure; an item without one is not known."""
    encoded: dict[int, Any] = dict.fromkeys(sample.positions)
    for position, label in labels.items():
        if label is not None:
            encoded[position] = class_indices(form, form.plain(label))
    return evaluate_sample(sample, encoded)


def kept_label_sources(store: Store) -> LabelSources:
    """Who labelled the items of the sample that is kept, when, and how many labels were changed.

    Its result is known at any time, so every change of an item's first label counts.
    """
    audit = store.settings.audit
    history = store.counted_history(audit)
    at_first = first_labels(store.form, audit, history, store.settings.answers_wanted)
    n_tied = len(divided_positions(store, audit))
    labels = counted_labels(store, audit)
    return _label_sources(store, audit, labels, at_first, n_tied=n_tied, is_kept=True)


def _label_sources(
    store: Store,
    positions: Sequence[int],
    labels: Mapping[int, str],
    at_first: Mapping[int, str | None],
    **facts: Any,
) -> LabelSources:
    """Who labelled these items, from their labels now and when they were first known."""
    history = store.counted_history(positions)
    votes = votes_of(history)
    counts = Counter(name for by_annotator in votes.values() for name in by_annotator)
    dates = sorted(answer.created[:10] for answer in history if answer.label is not None)
    latest = {(answer.position, answer.annotator): answer for answer in history}
    n_from_files = sum(
        latest[position, name].request is None
        for position, by_annotator in votes.items()
        for name in by_annotator
    )
    labelled = {*store.labelled()}.intersection(positions)
    return LabelSources(
        by=dict(counts.most_common()),
        first=dates[0] if dates else "",
        last=dates[-1] if dates else "",
        n_changed=sum(label != labels.get(position) for position, label in at_first.items()),
        n_not_counted=len(labelled - votes.keys()),
        n_from_files=n_from_files,
        **facts,
    )


def class_indices(form: AnswerForm, label: Any) -> Any:
    """The index of a class; a list of indices for several.

    >>> form = AnswerForm("classes", ("ham", "spam"))
    >>> class_indices(form, "spam"), class_indices(form, ["spam", "ham"])
    (1, [1, 0])
    """
    if isinstance(label, list):
        return [form.classes.index(name) for name in label]
    return form.classes.index(label)
