"""What several people's answers come to: one label for each item, and how far they agree.

One label: of those that were given, the one most likely true when everybody counts by how often
they are right and the model says what it expects without them (:mod:`parbals.learner.annotators`),
as the latest report found it. A machine's answer may thus decide between two people, but where a
person has answered the label is a person's: ``Store.votes`` leaves machines out there. Until a
report knows an item's answers, the label most annotators give; of two equally frequent ones, the
one whose first answer came earlier among the annotators' current answers. So it is always with the
audit's items, of which the model must know nothing. Every person has one vote for an item, their
latest answer. Of many labels an item has those that more than half of its annotators give, and a
label that half of them give where the first of them gives it. Of ordered classes it is the median,
the lower one of two; of numbers likewise, half way between two.

*Cohen's kappa* of two annotators, over the items both have labelled: κ = (p_o - p_e) / (1 - p_e),
where p_o is the share of items they agree on and p_e what two people with their shares of labels
would agree on by chance.

*Fleiss' kappa* over all items with two or more labels. Item i has n_i labels, n_ij of them in class
j, so a random pair of its labels agrees with probability P_i = Σ_j n_ij (n_ij - 1) / (n_i (n_i -
1)). With P the mean of P_i and p_j the mean of n_ij / n_i over items, κ = (P - Σ_j p_j²) / (1 - Σ_j
p_j²). Every item weighs the same however many people labelled it; with equally many labels for
every item this is Fleiss' own definition.

Of many labels both are the mean over the labels, each a matter of yes or no; ``by_label`` has
Fleiss' kappa of each. Agreement of numbers is not measured. A kappa is None where everybody only
ever gave one label: nothing could have been disagreed on.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from statistics import median, median_low

from parbals_label.answer_form import MANY, NUMBERS, ORDERED, AnswerForm, listed, number_words
from parbals_label.store.store import Store

__all__ = ["Agreement", "Pair", "aggregate_labels", "agreement", "cohen_kappa"]
__all__ += ["consensus_labels", "fleiss_kappa", "majority", "tied_positions"]

_Votes = Mapping[int, Mapping[str, str]]
_ONE = AnswerForm()


def majority(labels: Iterable[str]) -> str:
    """The most frequent label, the earliest among equals."""
    given = list(labels)
    return given[0] if len(given) == 1 else Counter(given).most_common(1)[0][0]


def tied_positions(votes: _Votes, form: AnswerForm = _ONE) -> set[int]:
    """Positions whose most frequent labels are equally frequent: the earliest stands, for now."""
    several = {p: [*by.values()] for p, by in votes.items() if len(by) > 1}
    if form.task == MANY:
        named = {
            p: Counter(n for v in given for n in form.names(v)) for p, given in several.items()
        }
        return {p for p, given in several.items() if len(given) / 2 in named[p].values()}
    if form.task != "classes":
        return set()
    counts = {p: Counter(given).most_common(2) for p, given in several.items()}
    return {p for p, top in counts.items() if len(top) == 2 and top[0][1] == top[1][1]}


def aggregate_labels(
    votes: _Votes, form: AnswerForm = _ONE, judged: Iterable[tuple[int, int, str]] = ()
) -> dict[int, str]:
    """Position → label, from ``Store.votes``: position → {annotator: label} as the answers came.

    ``judged``: position, answers that there were, and label; where there are as many now it holds.
    """
    labels = {p: _combined(list(by.values()), form) for p, by in votes.items() if by}
    for position, n_answers, label in judged:
        by = votes.get(position, {})
        if len(by) == n_answers and label in by.values():
            labels[position] = label
    return labels


def consensus_labels(store: Store) -> dict[int, str]:
    """Position → label, as a project has it now."""
    return aggregate_labels(store.votes(), store.form, store.settings.judged)


def _combined(labels: list[str], form: AnswerForm) -> str:
    if len(labels) == 1 or form.task == "classes":
        return majority(labels)
    if form.task == NUMBERS:
        return number_words(median(map(float, labels)))
    if form.task == ORDERED:
        return form.classes[median_low(map(form.classes.index, labels))]
    said = [set(form.names(label)) for label in labels]
    shares = {name: sum(name in some for some in said) / len(said) for name in set().union(*said)}
    return listed(
        n for n, share in shares.items() if share > 0.5 or (share == 0.5 and n in said[0])
    )


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


def agreement(votes: _Votes, form: AnswerForm = _ONE) -> Agreement | None:
    """Agreement of all annotators, from position → {annotator: label}; None if no item has two."""
    shared = [by for by in votes.values() if len(by) > 1]
    if not shared or form.task == NUMBERS:
        return None
    if form.task == MANY:
        return _agreement_of_many(shared, form)
    both: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for by in shared:
        for a, b in combinations(sorted(by), 2):
            both.setdefault((a, b), []).append((by[a], by[b]))
    pairs = [Pair(a, b, cohen_kappa(labels), len(labels)) for (a, b), labels in both.items()]
    pairs.sort(key=lambda pair: (-pair.n, pair.a, pair.b))
    return Agreement(
        fleiss_kappa([Counter(by.values()) for by in shared]), len(shared), tuple(pairs)
    )


def _agreement_of_many(shared: list[Mapping[str, str]], form: AnswerForm) -> Agreement | None:
    """The mean of what each label alone would give, as a yes or a no."""
    said = [{who: set(form.names(label)) for who, label in by.items()} for by in shared]
    each = {
        name: agreement(
            dict(enumerate({w: str(name in some) for w, some in by.items()} for by in said))
        )
        for name in form.classes
    }
    found = [one for one in each.values() if one is not None]
    by_pair: dict[tuple[str, str], list[Pair]] = {}
    for pair in (pair for one in found for pair in one.pairs):
        by_pair.setdefault((pair.a, pair.b), []).append(pair)
    pairs = [
        replace(some[0], kappa=_mean([pair.kappa for pair in some])) for some in by_pair.values()
    ]
    by_label = {name: one.fleiss for name, one in each.items() if one is not None}
    return Agreement(_mean([*by_label.values()]), len(shared), tuple(pairs), by_label)


def _mean(kappas: Sequence[float | None]) -> float | None:
    known = [kappa for kappa in kappas if kappa is not None]
    return sum(known) / len(known) if known else None


def cohen_kappa(labels: list[tuple[str, str]]) -> float | None:
    """κ of two annotators from their labels of the same items."""
    n = len(labels)
    first, second = Counter(a for a, _ in labels), Counter(b for _, b in labels)
    observed = sum(a == b for a, b in labels) / n
    expected = sum(first[label] * second[label] for label in first) / n**2
    return None if expected >= 1.0 else (observed - expected) / (1.0 - expected)


def fleiss_kappa(counts: list[Counter[str]]) -> float | None:
    """κ from the number of each label of every item; items need two labels or more."""
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
