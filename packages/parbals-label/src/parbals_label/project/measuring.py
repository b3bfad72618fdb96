"""Measure a project by random labels: the error of its predictions, and class prevalence.

A measurement is a random sample of the items that have no label, assigned or not. One kind measures
the present predictions once: it is a batch like any other, whose record has the predictions for its
items and the items that the sample was not drawn from. The other kind is kept: its items
(``settings.audit``) measure every later model and never train one.
"""

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from parbals.errors import InputError
from parbals.learner.evaluation.audit import draw_audit
from parbals.learner.evaluation.certify import CERTIFY, draw_sample
from parbals.learner.evaluation.limits import stratified_limits
from parbals.randomness import derive_generator, seed_from
from parbals.types import Estimate

from parbals_label.answer_form import NUMBERS, AnswerForm
from parbals_label.encoders.embedding import Progress
from parbals_label.project.consensus import aggregate_labels
from parbals_label.project.features import certified_predictions, load_features
from parbals_label.project.measured import measurable_positions, open_sample
from parbals_label.project.predicted import decisions
from parbals_label.project.sample_answers import counted_labels
from parbals_label.project.samples import class_indices
from parbals_label.project.stored_predictions import decision_rule_of, newer_answers
from parbals_label.project.target_sample import (
    TargetSample,
    draw_target_sample,
    has_rows_outside,
    n_target_rows_left,
)
from parbals_label.store.records import BatchRecord
from parbals_label.store.settings import MatrixFile
from parbals_label.store.store import Store

__all__ = [
    "ShareEstimate",
    "begin_measurement",
    "draw_requested_sample",
    "estimate_shares",
    "keep_sample",
    "request_target_sample",
]

_DELTA = 0.05
"""Probability that each end of a 90 % interval fails."""
_MIN_LABELS = 5
"""Random labels of a group from which a share is estimated."""
_ALL_ITEMS = "all items"
_TARGET_SET = "the target set"
_NO_PREDICTIONS = "There are no predictions to measure yet; label some items first."


@dataclass(frozen=True)
class ShareEstimate:
    """The estimated share of a class in a group of items.

    Attributes:
        name: of the group.
        n_items: its size.
        n: random labels in it.
        share: None if there are too few random labels.
        difference: from the share of the first group, which is the largest; None for the first.
    """

    name: str
    n_items: int
    n: int
    share: Estimate | None
    difference: Estimate | None = None


def keep_sample(store: Store, n: int, *, seed: int | None = None) -> None:
    """Draw ``n`` random items that measure the error of every later model, and never train one.

    Every third item to label is one of them from now on. ``seed`` as for :func:`begin_measurement`.
    """
    settings = store.settings
    if settings.audit:
        n_labelled = len(counted_labels(store, settings.audit))
        raise InputError(
            f"A sample is kept already: {len(settings.audit)} items, {n_labelled} of them "
            "labelled. It measures every later model; without --keep a further sample measures the "
            "present one."
        )
    excluded = np.setdiff1d(np.arange(store.n_items), measurable_positions(store)).tolist()
    duplicates = [duplicate for duplicate, _ in settings.copies]
    drawn = draw_audit(store.n_items, n, seed_from(seed), [*excluded, *duplicates])
    store.update_settings(audit=drawn.tolist(), audit_excluded=excluded)


def begin_measurement(
    store: Store,
    n: int,
    *,
    queued: bool,
    again: bool = False,
    from_target: bool = False,
    progress: Progress | None = None,
    seed: int | None = None,
) -> int:
    """Draw ``n`` random items that measure the present predictions; the number of their batch.

    The labels train no model until all of them are there. If ``queued``, the items replace the
    unopened items in the queue of the page, which may themselves be drawn.

    Args:
        store: the project.
        n: size of the sample.
        queued: whether the items wait on the page.
        again: draw although the latest sample is not complete. Its labels train the model from now
            on, and its other items may be chosen again.
        from_target: draw from the target set; rows of a file become items of the project.
        progress: computes predictions of all labels so far first, and is told how far it is. None
            measures the predictions that are stored.
        seed: of the draw, for tests. By default it comes from the operating system, so that nobody
            can know beforehand which items are drawn; it is stored with the sample.
    """
    earlier = open_sample(store)
    _check_can_begin(store, earlier, again=again)
    seed = seed_from(seed)
    generator = derive_generator(seed, CERTIFY)
    target_sample = None
    if from_target and not store.n_labelled:
        raise InputError(_NO_PREDICTIONS)
    if from_target and has_rows_outside(store):  # they need predictions, so they are drawn first
        target_sample = draw_target_sample(store, n, generator)
    is_stale = store.settings.predictions is None or newer_answers(store)
    if is_stale and (progress is not None or from_target):
        from parbals_label.project.engine import refresh

        refresh(store, progress or _no_progress)
    stored = store.settings.predictions
    if stored is None:
        raise InputError(_NO_PREDICTIONS)
    probs = load_features(store.folder, stored)
    # An item that is labelled between draw and record would be missing from the sample.
    with store.transaction():
        if earlier is not None:
            store.end_leases([item.position for item in earlier.items])
        if from_target and target_sample is None:
            target_sample = draw_target_sample(store, n, generator)
        if target_sample is None:
            population = measurable_positions(store)
            sample = draw_sample(population, n, generator)
            excluded = np.setdiff1d(np.arange(store.n_items), population).tolist()
            drawn_from: dict[str, Any] = {"pile": len(population), "elsewhere": excluded}
        else:
            sample = target_sample.positions
            drawn_from = _record_of_target(store, target_sample)
        positions = sample.tolist()
        rows = np.asarray(probs[sample], np.float64)
        labels = decisions(store.form, rows, decision_rule_of(store, probs))
        predicted = [class_indices(store.form, label) for label in labels]
        report = store.latest_report()
        record = {
            "n_labelled": store.n_labelled if report is None else report.n_labels,
            "answers_wanted": store.settings.answers_wanted,
            **drawn_from,
            "decided": dict(zip(map(str, positions), predicted, strict=True)),
            "predictions": asdict(MatrixFile(stored.file, stored.digest, stored.shape)),
        }
        items = [(position, None, None) for position in positions]
        return store.record_batch(
            CERTIFY,
            seed,
            items,
            record,
            queued=queued,
            replaces=store.unopened(),
            takes_assigned=True,
        )


def _check_can_begin(store: Store, earlier: BatchRecord | None, *, again: bool) -> None:
    """Refuse a sample of numbers, and one beside an earlier sample that is not complete."""
    if store.form.task == NUMBERS:
        raise InputError(
            "A sample counts wrong classes, and the labels are numbers; keep a sample, which "
            f"measures their error: parbals measure {store.folder} --keep."
        )
    if earlier is not None and not again:
        raise InputError(
            f"A measurement of {len(earlier.items)} items is not complete yet; label all of them "
            f"first, or draw another one with `parbals measure {store.folder} --again`."
        )


def request_target_sample(store: Store, n: int) -> None:
    """Ask the page's worker for a sample of ``n`` rows of the target set.

    Predictions for its rows have to be computed, and the page's server computes nothing.
    """
    _check_can_begin(store, open_sample(store), again=False)
    if not store.n_labelled:
        raise InputError(_NO_PREDICTIONS)
    n_left = n_target_rows_left(store)
    if n > n_left:
        raise InputError(
            f"{n:,} rows were asked for, and {n_left:,} rows of the target set have no label."
        )
    store.update_settings(target_sample=n)


def draw_requested_sample(store: Store) -> bool:
    """Draw the sample that the page has asked for; returns whether there was one to draw."""
    n = store.settings.target_sample
    if not n:
        return False
    try:
        if open_sample(store) is None:  # an earlier worker may have ended just after drawing it
            begin_measurement(store, n, queued=True, from_target=True)
    finally:
        store.update_settings(target_sample=0)
    return True


def _no_progress(stage: str, done: int, total: int | None) -> None:
    """Report no progress."""


def _record_of_target(store: Store, sample: TargetSample) -> dict[str, Any]:
    """What a batch's record says about a sample of the target set.

    ``elsewhere`` are the items that it was not drawn from; of rows that are not items, there is
    nothing to say.
    """
    target = store.settings.target
    assert target is not None
    drawn = set(sample.positions.tolist())
    population = drawn
    if sample.members is not None:
        population = drawn | set(measurable_positions(store).tolist()).intersection(sample.members)
    return {
        "pile": sample.n_population,
        "elsewhere": [p for p in range(store.n_items) if p not in population],
        "target": target.name,
        "members": sample.members,
    }


def estimate_shares(
    store: Store, label: str, column: str | None = None, *, from_target: bool = False
) -> list[ShareEstimate]:
    """The share of a class among all items, or among those of every value of a column.

    With ``from_target``, all items of the target set, by the latest sample if it was drawn there;
    rows that are not items have no predictions, so for them labels are counted alone.

    Random labels, those of the audit or of the latest sample if it has more, tell the share of the
    class among items with a high and with a low prediction, and predictions how many items these
    are (:func:`parbals.learner.evaluation.limits.stratified_limits`). Labels that were there before
    the draw are counted as they are.
    """
    if store.settings.task == NUMBERS:
        raise InputError("The labels are numbers, so there are no classes to count.")
    if label not in store.classes:
        raise InputError(f"{label!r} is not one of the classes: {', '.join(store.classes)}.")
    if from_target:
        population, groups, names = _target_population(store, label, column)
    else:
        population = _population(store, label, _random_labels(store))
        groups, names = _groups(store, column)
    estimates: list[ShareEstimate] = []
    for name in names:
        group = population.restricted_to(groups == name)
        share = group.share()
        difference = None
        if share is not None and estimates and estimates[0].share is not None:
            difference = _difference(share, estimates[0].share)
        estimates.append(
            ShareEstimate(
                name=name,
                n_items=group.n_items,
                n=int(group.is_sampled.sum()),
                share=share,
                difference=difference,
            )
        )
    return estimates


class _Population(NamedTuple):
    """Items with what is known of one class.

    Items that machines had labelled when the sample was drawn are in none of the three groups:
    nothing is known of them.

    Attributes:
        is_sampled: (N,) has a random label.
        is_known: (N,) had a label before the draw.
        is_unlabelled: (N,) could have been drawn, and was not.
        is_class: (N,) 1 where the label is the class, else 0.
        probs: (N,) predicted probability of the class.
    """

    is_sampled: np.ndarray
    is_known: np.ndarray
    is_unlabelled: np.ndarray
    is_class: np.ndarray
    probs: np.ndarray

    @property
    def n_items(self) -> int:
        return int((self.is_sampled | self.is_unlabelled | self.is_known).sum())

    def restricted_to(self, is_member: np.ndarray) -> "_Population":
        """The population without items of other groups."""
        return self._replace(
            is_sampled=self.is_sampled & is_member,
            is_known=self.is_known & is_member,
            is_unlabelled=self.is_unlabelled & is_member,
        )

    def share(self) -> Estimate | None:
        """The share of the class with a 90 % interval; None if there are too few random labels."""
        n_sampled = int(self.is_sampled.sum())
        if n_sampled < _MIN_LABELS:
            return None
        mean, low, high = stratified_limits(
            self.is_class[self.is_sampled],
            self.probs[self.is_sampled],
            self.probs[self.is_unlabelled],
            _DELTA,
        )
        sampled_part = float(n_sampled + self.is_unlabelled.sum()) / self.n_items
        known_share = float(self.is_class[self.is_known].sum()) / self.n_items
        return Estimate(
            mean * sampled_part + known_share,
            low * sampled_part + known_share,
            high * sampled_part + known_share,
        )


def _target_population(
    store: Store, label: str, column: str | None
) -> tuple[_Population, np.ndarray, list[str]]:
    """The target set with what is known of one class, the groups of its rows, and their names."""
    samples = store.batches(CERTIFY)
    record = samples[-1].settings if samples else {}
    labels = {}
    if record.get("target"):
        labels = counted_labels(store, [item.position for item in samples[-1].items])
    if not labels:
        raise InputError(
            "A share is estimated from random labels, and there are none of the target set yet: "
            f"`parbals measure {store.folder} --from target` draws a random sample to label."
        )
    if record["members"] is None:
        if column is not None:
            raise InputError("--by needs a target set that is a part of the project's items.")
        population = _rows_outside(store.form, label, labels, record["pile"])
        return population, np.full(len(population.probs), _TARGET_SET), [_TARGET_SET]
    matrix = certified_predictions(store)
    assert matrix is not None
    probs = load_features(store.folder, matrix)
    random_labels = _RandomLabels(labels, record["elsewhere"], probs)
    is_member = np.isin(np.arange(store.n_items), record["members"])
    population = _population(store, label, random_labels).restricted_to(is_member)
    if column is None:
        return population, np.full(store.n_items, _TARGET_SET), [_TARGET_SET]
    groups, names = _groups(store, column)
    return population, groups, [name for name in names if (groups[is_member] == name).any()]


def _rows_outside(form: AnswerForm, label: str, labels: dict[int, str], n_rows: int) -> _Population:
    """Rows of a target set that are not the pool's: labels of some, predictions of none."""
    is_sampled = np.arange(n_rows) < len(labels)
    is_class = np.zeros(n_rows)
    is_class[is_sampled] = [label in form.names(text) for text in labels.values()]
    return _Population(
        is_sampled=is_sampled,
        is_known=np.zeros(n_rows, bool),
        is_unlabelled=~is_sampled,
        is_class=is_class,
        probs=np.zeros(n_rows),
    )


def _population(store: Store, label: str, random_labels: "_RandomLabels") -> _Population:
    """All items of a project, with what is known of one class."""
    class_index = store.classes.index(label)
    form = store.form
    labels = aggregate_labels(store.votes(by_people=True), form)
    labels |= random_labels.labels
    # Like an export: a duplicate that was not drawn has the label of the first.
    labels |= {
        copy: labels[first]
        for copy, first in store.settings.copies
        if first in labels and copy not in labels and copy in random_labels.excluded
    }
    is_sampled = np.zeros(store.n_items, bool)
    is_sampled[random_labels.positions] = True
    is_known = np.zeros(store.n_items, bool)
    is_known[[position for position in random_labels.excluded if position in labels]] = True
    is_excluded = np.isin(np.arange(store.n_items), random_labels.excluded)
    is_class = np.zeros(store.n_items)
    for position, text in labels.items():
        is_class[position] = label in form.names(text)
    return _Population(
        is_sampled=is_sampled,
        is_known=is_known,
        is_unlabelled=~is_sampled & ~is_excluded,
        is_class=is_class,
        probs=random_labels.probs[:, class_index].astype(np.float64),
    )


class _RandomLabels(NamedTuple):
    """Labels of random items, items they were not drawn from, and predictions (N, C) of all."""

    labels: dict[int, str]
    excluded: list[int]
    probs: np.ndarray

    @property
    def positions(self) -> list[int]:
        return list(self.labels)


def _random_labels(store: Store) -> _RandomLabels:
    """The labels of the audit, or of the latest sample if it has more."""
    settings = store.settings
    samples = store.batches(CERTIFY)
    audit = counted_labels(store, settings.audit)
    latest = []
    if samples and not samples[-1].settings.get("target"):
        latest = [item.position for item in samples[-1].items]
    sample = counted_labels(store, latest)
    if not audit and not sample:
        raise InputError(
            "A share is estimated from random labels, and there are none yet: "
            f"`parbals measure {store.folder}` draws a random sample to label."
        )
    if len(sample) > len(audit):
        matrix = certified_predictions(store)
        assert matrix is not None
        probs = load_features(store.folder, matrix)
        return _RandomLabels(sample, samples[-1].settings["elsewhere"], probs)
    if settings.predictions is None:
        raise InputError(
            f"There are no predictions yet; `parbals export {store.folder} --renew` computes them."
        )
    importers = {annotator.name for annotator in store.annotators() if annotator.source == "import"}
    imported = [
        position
        for position, by_annotator in store.current_labels().items()
        if importers & by_annotator.keys() and position not in settings.audit
    ]
    excluded = sorted({*settings.audit_excluded, *imported})
    return _RandomLabels(audit, excluded, load_features(store.folder, settings.predictions))


def _groups(store: Store, column: str | None) -> tuple[np.ndarray, list[str]]:
    """The group (N,) of every item, and the names of the groups, the largest first."""
    if column is None:
        return np.full(store.n_items, _ALL_ITEMS), [_ALL_ITEMS]
    contents = [item.content for item in store.iter_items()]
    if not any(column in content for content in contents):
        existing = dict.fromkeys(name for content in contents[:100] for name in content)
        raise InputError(f"The items have no column {column!r}; they have: {', '.join(existing)}.")
    groups = np.array([str(content.get(column, "")) for content in contents])
    names, counts = np.unique(groups, return_counts=True)
    return groups, names[np.argsort(-counts, kind="stable")].tolist()


def _difference(share: Estimate, first: Estimate) -> Estimate:
    """The difference of two independent shares: Newcombe's interval from those of each.

    Its half-widths are the root of the sum of the squared half-widths of the two on the sides that
    move the difference the same way.
    """
    mean = share.mean - first.mean
    below = np.hypot(share.mean - share.low, first.high - first.mean)
    above = np.hypot(share.high - share.mean, first.mean - first.low)
    return Estimate(mean, float(mean - below), float(mean + above))
