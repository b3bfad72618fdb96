"""Aggregated (consensus) labels of several annotators, and their agreement.

**Consensus.** Where answers to an item differ, its label is the given answer that is most probable
under the annotator model (:mod:`parbals.learner.annotators`), as of the latest report. Until a
report knows the answers, and always for audit items, which the model must not know, it is the
majority label; of two equally frequent ones the one whose first answer came earlier. Every
annotator has one vote, their latest answer. Where a person has answered, the answers of machines
are not candidates (``Store.votes`` leaves them out), though they may decide between two people.

=============  ==================================================================================
task           consensus of several answers
=============  ==================================================================================
classes        the most probable, or else the most frequent one
many-labels    each label by majority; a label that half of them give counts if the first gives it
ordinal        the median, the lower one of two
regression     the median, half way between two
=============  ==================================================================================

*Cohen's kappa* of two annotators, over the items both have labelled: κ = (p_o - p_e) / (1 - p_e),
where p_o is the share of items they agree on and p_e the agreement expected by chance from their
shares of labels.

*Fleiss' kappa* over all items with two or more labels. Item i has n_i labels, n_ij of them in class
j, so a random pair of its labels agrees with probability P_i = Σ_j n_ij (n_ij - 1) / (n_i (n_i -
1)). With P the mean of P_i and p_j the mean of n_ij / n_i over items, κ = (P - Σ_j p_j²) / (1 - Σ_j
p_j²). Every item has the same weight however many people labelled it; with equally many labels for
every item this is Fleiss' own definition.

For many labels, both kappas are means over the labels, each a binary decision; ``by_label`` has
Fleiss' kappa of each. Agreement on numbers is not measured. A kappa is None where everybody only
ever gave one label: no disagreement was possible.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from parbals_label.answer_form import MANY, NUMBERS, ORDERED, AnswerForm, names_text, number_words
from parbals_label.store.store import Store

__all__ = [
    "Agreement",
    "Pair",
    "aggregate_labels",
    "agreement",
    "cohen_kappa",
    "consensus_labels",
    "fleiss_kappa",
    "majority",
    "tied_positions",
]

_Votes = Mapping[int, Mapping[str, str]]
"""Position → {annotator: label}, in the order of the answers."""
_CLASSES_FORM = AnswerForm()


def majority(labels: Iterable[str]) -> str:
    """The most frequent label, the earliest among equally frequent ones.

    >>> majority(["ham", "spam", "spam"]), majority(["ham", "spam"])
    ('spam', 'ham')
    """
    ordered = list(labels)
    if len(ordered) == 1:
        return ordered[0]
    return Counter(ordered).most_common(1)[0][0]


def tied_positions(votes: _Votes, form: AnswerForm = _CLASSES_FORM) -> set[int]:
    """Positions whose most frequent labels are equally frequent; of ordered classes, the medians.

    >>> tied_positions({0: {"ann": "ham", "bob": "spam"}, 1: {"ann": "ham"}})
    {0}
    """
    is_tied_of_task = {
        "classes": _has_tied_classes,
        MANY: _has_tied_label,
        ORDERED: _has_two_medians,
    }
    is_tied = is_tied_of_task.get(form.task)
    if is_tied is None:
        return set()
    return {
        position
        for position, by_annotator in votes.items()
        if len(by_annotator) > 1 and is_tied(list(by_annotator.values()), form)
    }


def _has_tied_classes(labels: list[str], form: AnswerForm) -> bool:
    """Whether the two most frequent classes are equally frequent."""
    most_common = Counter(labels).most_common(2)
    return len(most_common) == 2 and most_common[0][1] == most_common[1][1]


def _has_two_medians(labels: list[str], form: AnswerForm) -> bool:
    """Whether the lower and the upper median differ."""
    from statistics import median_high, median_low

    ranks = [form.classes.index(label) for label in labels]
    return median_low(ranks) != median_high(ranks)


def _has_tied_label(labels: list[str], form: AnswerForm) -> bool:
    """Whether half of the answers have some label that the other half does not have."""
    counts = Counter(name for label in labels for name in form.names(label))
    return len(labels) / 2 in counts.values()


def aggregate_labels(
    votes: _Votes,
    form: AnswerForm = _CLASSES_FORM,
    model_consensus: Iterable[tuple[int, int, str]] = (),
) -> dict[int, str]:
    """Position → consensus label.

    Args:
        votes: from ``Store.votes``.
        form: the task and its classes.
        model_consensus: (position, number of answers, label) from the annotator model; it replaces
            the majority where the number of answers has not changed since.

    >>> votes = {0: {"ann": "ham", "bob": "spam"}}
    >>> aggregate_labels(votes), aggregate_labels(votes, model_consensus=[(0, 2, "spam")])
    ({0: 'ham'}, {0: 'spam'})
    """
    labels = {
        position: _aggregate(list(by_annotator.values()), form)
        for position, by_annotator in votes.items()
        if by_annotator
    }
    for position, n_answers, label in model_consensus:
        by_annotator = votes.get(position, {})
        if len(by_annotator) == n_answers and label in by_annotator.values():
            labels[position] = label
    return labels


def consensus_labels(store: Store) -> dict[int, str]:
    """Position → consensus label of a project."""
    return aggregate_labels(store.votes(), store.form, store.settings.judged)


def _aggregate(labels: list[str], form: AnswerForm) -> str:
    """The consensus of several answers to one item."""
    if len(labels) == 1 or form.task == "classes":
        return majority(labels)
    from statistics import median, median_low

    if form.task == NUMBERS:
        return number_words(median(map(float, labels)))
    if form.task == ORDERED:
        return form.classes[median_low(map(form.classes.index, labels))]
    return _aggregate_many([set(form.names(label)) for label in labels])


def _aggregate_many(label_sets: list[set[str]]) -> str:
    """The labels that more than half of the answers have, or half of them and the first."""
    chosen = []
    for name in set().union(*label_sets):
        share = sum(name in names for names in label_sets) / len(label_sets)
        if share > 0.5 or (share == 0.5 and name in label_sets[0]):
            chosen.append(name)
    return names_text(chosen)


@dataclass(frozen=True, slots=True)
class Pair:
    """Cohen's kappa of two annotators over the ``n`` items both have labelled."""

    a: str
    b: str
    kappa: float | None
    n: int


@dataclass(frozen=True, slots=True)
class Agreement:
    """Fleiss' kappa over the ``n_items`` items with two or more labels, and that of every pair."""

    fleiss: float | None
    n_items: int
    pairs: tuple[Pair, ...]
    by_label: dict[str, float | None] = field(default_factory=dict)


def agreement(votes: _Votes, form: AnswerForm = _CLASSES_FORM) -> Agreement | None:
    """Agreement of all annotators; None if no item has two labels, or labels are numbers.

    >>> agreement({0: {"ann": "ham", "bob": "ham"}, 1: {"ann": "spam", "bob": "spam"}}).fleiss
    1.0
    """
    shared = [by_annotator for by_annotator in votes.values() if len(by_annotator) > 1]
    if not shared or form.task == NUMBERS:
        return None
    if form.task == MANY:
        return _agreement_of_many(shared, form)
    return _agreement_of_classes(shared)


def _agreement_of_classes(shared: Sequence[Mapping[str, str]]) -> Agreement:
    """Agreement on one class for each item."""
    labels_of_pair: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for by_annotator in shared:
        for a, b in combinations(sorted(by_annotator), 2):
            labels_of_pair.setdefault((a, b), []).append((by_annotator[a], by_annotator[b]))
    pairs = [
        Pair(a, b, cohen_kappa(labels), len(labels)) for (a, b), labels in labels_of_pair.items()
    ]
    pairs.sort(key=lambda pair: (-pair.n, pair.a, pair.b))
    counts = [Counter(by_annotator.values()) for by_annotator in shared]
    return Agreement(fleiss_kappa(counts), len(shared), tuple(pairs))


def _agreement_of_many(shared: Sequence[Mapping[str, str]], form: AnswerForm) -> Agreement:
    """The mean over labels of the agreement on each as a binary decision."""
    label_sets = [
        {name: set(form.names(label)) for name, label in by_annotator.items()}
        for by_annotator in shared
    ]
    by_label = {
        label: _agreement_of_classes(_binary_votes(label_sets, label)) for label in form.classes
    }
    fleiss_by_label = {label: agreed.fleiss for label, agreed in by_label.items()}
    return Agreement(
        fleiss=_mean([*fleiss_by_label.values()]),
        n_items=len(shared),
        pairs=_mean_by_pair([agreed.pairs for agreed in by_label.values()]),
        by_label=fleiss_by_label,
    )


def _binary_votes(label_sets: Sequence[Mapping[str, set[str]]], label: str) -> list[dict[str, str]]:
    """For each item {annotator: whether they give the label}."""
    return [
        {name: str(label in labels) for name, labels in by_annotator.items()}
        for by_annotator in label_sets
    ]


def _mean_by_pair(pairs_by_label: Sequence[Sequence[Pair]]) -> tuple[Pair, ...]:
    """The mean kappa of each pair of annotators over the labels."""
    by_pair: dict[tuple[str, str], list[Pair]] = {}
    for pairs in pairs_by_label:
        for pair in pairs:
            by_pair.setdefault((pair.a, pair.b), []).append(pair)
    return tuple(
        replace(same_pair[0], kappa=_mean([pair.kappa for pair in same_pair]))
        for same_pair in by_pair.values()
    )


def _mean(kappas: Sequence[float | None]) -> float | None:
    """The mean of the kappas that are defined; None where none is."""
    defined = [kappa for kappa in kappas if kappa is not None]
    return sum(defined) / len(defined) if defined else None


def cohen_kappa(labels: list[tuple[str, str]]) -> float | None:
    """Cohen's κ of two annotators from their labels of the same items.

    >>> cohen_kappa([("a", "a"), ("b", "b"), ("a", "b"), ("b", "a")])
    0.0
    """
    n = len(labels)
    counts_a = Counter(a for a, _ in labels)
    counts_b = Counter(b for _, b in labels)
    observed = sum(a == b for a, b in labels) / n
    expected = sum(counts_a[label] * counts_b[label] for label in counts_a) / n**2
    return None if expected >= 1.0 else (observed - expected) / (1.0 - expected)


def fleiss_kappa(counts: list[Counter[str]]) -> float | None:
    """Fleiss' κ from the number of each label of every item; items need two labels or more.

    >>> fleiss_kappa([Counter(a=2), Counter(b=2)])
    1.0
    """
    observed = 0.0
    shares: Counter[str] = Counter()
    for item in counts:
        n = item.total()
        observed += sum(k * (k - 1) for k in item.values()) / (n * (n - 1))
        for label, k in item.items():
            shares[label] += k / n  # type: ignore[assignment]
    observed /= len(counts)
    if len(shares) == 1:
        return None
    expected = sum((share / len(counts)) ** 2 for share in shares.values())
    return (observed - expected) / (1.0 - expected)
