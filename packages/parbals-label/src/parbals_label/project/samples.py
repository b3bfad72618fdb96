"""The random samples that measured the error of a project's predictions, and what they rest on.

Every sample that was ever drawn is told, with its result, the people whose labels it rests on, when
they gave them, and how many labels were changed once the sample was complete and its result known.
Only people's answers count (:mod:`parbals_label.store.counted`); an item that people skipped counts
as an error.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from parbals.learner.evaluation.certify import CERTIFY, Certificate, Sample, evaluate_sample
from parbals.wording import counted, percent

from parbals_label.answer_form import AnswerForm
from parbals_label.project.consensus import aggregate_labels
from parbals_label.project.first_labels import first_labels, votes_of
from parbals_label.project.measured import is_complete
from parbals_label.store.records import Answer, BatchRecord
from parbals_label.store.store import Store

__all__ = [
    "LabelSources",
    "RandomSample",
    "class_indices",
    "counted_labels",
    "earlier_samples_sentence",
    "kept_label_sources",
    "latest_sample",
    "random_samples",
]

_NO_CLASS = -1
"""In place of a class index: a skipped item, which no prediction matches."""
_MAX_NAMES = 5
"""People whom a sentence names; further ones are counted."""


@dataclass(frozen=True)
class LabelSources:
    """Who labelled the items of a sample, and when.

    Attributes:
        by: person → number of items that they labelled, most first.
        first, last: dates of the first and the last of these labels; "" if there are none.
        n_changed: items whose label was changed after the result was known; a skipped item that
            got a label is one of them.
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
        n_labelled: items with their labels, or skipped.
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

    @property
    def sentence(self) -> str:
        """The result, or the progress, in words."""
        if self.result is None:
            items = f"{self.n} items{self._origin}"
            progress = f"{self.n_labelled} of the sample's {items} are labelled"
            return f"{progress}; label all of them. {self.sources.sentence}".strip()
        parts = [str(self.result), f"Sample {self.number} of {self.n_samples}{self._origin}."]
        parts.append(self.sources.sentence)
        if self.first_result is not None:
            before = self.first_result
            parts.append(
                f"Before that, {before.n_wrong} of the {before.n} were wrong, and the limit was "
                f"{percent(before.error.high)}."
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
        result = f"{self.result.n_wrong} of {self.n} wrong, below {percent(self.result.error.high)}"
        changed = f", {self.sources.n_changed} changed afterwards" if self.sources.n_changed else ""
        return f"{name}: {result}{changed}"


def random_samples(store: Store) -> list[RandomSample]:
    """All samples that were ever drawn, oldest first."""
    records = store.batches(CERTIFY)
    return [_random_sample(store, records, number) for number in range(1, len(records) + 1)]


def latest_sample(store: Store) -> RandomSample | None:
    """The latest sample and its result; None where none was drawn."""
    records = store.batches(CERTIFY)
    if not records:
        return None
    return _random_sample(store, records, len(records))


def earlier_samples_sentence(samples: Sequence[RandomSample]) -> str:
    """All samples but the latest in words; "" if there are none."""
    if len(samples) < 2:
        return ""
    return f"Earlier: {'; '.join(sample.short_sentence for sample in samples[:-1])}."


def _random_sample(store: Store, records: Sequence[BatchRecord], number: int) -> RandomSample:
    """Sample ``number`` (from 1) of those that were drawn.

    A sample that was not complete when the next one was drawn stays so: since then its items may
    have been labelled by people who saw their predictions.
    """
    record = records[number - 1]
    is_latest = number == len(records)
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
    skipped = dict.fromkeys(store.passes().keys() & set(positions), _NO_CLASS)
    n_wanted = record.settings.get("answers_wanted", 1)
    history = store.counted_history(positions)
    labels = skipped | _encoded(form, votes_of(history))
    is_done = is_complete(store, record)
    if not is_latest:
        next_drawn = records[number].created
        in_time = [answer for answer in history if answer.created <= next_drawn]
        labelled_in_time = votes_of(in_time).keys() | skipped.keys()
        is_done = is_done and labelled_in_time >= set(positions)
        labels = labels if is_done else {p: labels[p] for p in labelled_in_time & labels.keys()}
    passes = store.pass_history(positions)
    at_first = first_labels(form, positions, history, passes, n_wanted)
    sources = _label_sources(store, positions, history, at_first)
    result = evaluate_sample(sample, labels) if is_done else None
    first_result = None
    if is_done and sources.n_changed:
        encoded = {
            position: _NO_CLASS if label is None else class_indices(form, form.plain(label))
            for position, label in at_first.items()
        }
        first_result = evaluate_sample(sample, encoded)
    return RandomSample(
        batch=record.batch,
        n=len(positions),
        n_labelled=sum(position in labels for position in positions),
        result=result,
        number=number,
        n_samples=len(records),
        drawn=record.created[:10],
        sources=sources,
        first_result=first_result,
        target=record.settings.get("target"),
    )


def kept_label_sources(store: Store) -> LabelSources:
    """Who labelled the items of the sample that is kept, when, and how many labels were changed.

    Its result is known at any time, so every change of an item's first label counts.
    """
    audit = store.settings.audit
    history = store.counted_history(audit)
    n_wanted = store.settings.answers_wanted
    at_first = first_labels(store.form, audit, history, [], n_wanted, each=True)
    return _label_sources(store, audit, history, at_first, is_kept=True)


def _label_sources(
    store: Store,
    positions: Sequence[int],
    history: Sequence[Answer],
    at_first: Mapping[int, str | None],
    *,
    is_kept: bool = False,
) -> LabelSources:
    """The same from the answers to these items that count, and their labels when first known."""
    votes = votes_of(history)
    labels = aggregate_labels(votes, store.form)
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
        n_not_counted=len(labelled - votes.keys() - store.passes().keys()),
        n_from_files=n_from_files,
        is_kept=is_kept,
    )


def counted_labels(store: Store, positions: Sequence[int]) -> dict[int, str]:
    """Position → consensus label of the answers that count."""
    return aggregate_labels(votes_of(store.counted_history(positions)), store.form)


def _encoded(form: AnswerForm, votes: Mapping[int, Mapping[str, str]]) -> dict[int, Any]:
    """Position → class index, or indices, of the consensus label."""
    labels = aggregate_labels(votes, form)
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
