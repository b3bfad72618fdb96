"""What several people's answers come to: one label for each item, and how far they agree.

One label: the one most annotators give; of two equally frequent ones, the one whose first answer
came earlier among the annotators' current answers. Every person has one vote for an item, their
latest answer. Machines' labels count only where no person has answered: ``Store.votes`` leaves the
others out.

*Cohen's kappa* of two annotators, over the items both have labelled: κ = (p_o - p_e) / (1 - p_e),
where p_o is the share of items they agree on and p_e what two people with their shares of labels
would agree on by chance.

*Fleiss' kappa* over all items with two or more labels. Item i has n_i labels, n_ij of them in class
j, so a random pair of its labels agrees with probability P_i = Σ_j n_ij (n_ij - 1) / (n_i (n_i -
1)). With P the mean of P_i and p_j the mean of n_ij / n_i over items, κ = (P - Σ_j p_j²) / (1 - Σ_j
p_j²). Every item weighs the same however many people labelled it; with equally many labels for
every item this is Fleiss' own definition.

A kappa is None where everybody only ever gave one label: nothing could have been disagreed on.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations

__all__ = [
    "Agreement",
    "Pair",
    "agreement",
    "cohen_kappa",
    "combined_labels",
    "fleiss_kappa",
    "majority",
    "tied",
]

_Votes = Mapping[int, Mapping[str, str]]


def majority(labels: Iterable[str]) -> str:
    """The most frequent label, the earliest among equals."""
    given = list(labels)
    return given[0] if len(given) == 1 else Counter(given).most_common(1)[0][0]


def tied(votes: _Votes) -> set[int]:
    """Positions whose most frequent labels are equally frequent: the earliest stands, for now."""
    counts = {p: Counter(by.values()).most_common(2) for p, by in votes.items() if len(by) > 1}
    return {p for p, top in counts.items() if len(top) == 2 and top[0][1] == top[1][1]}


def combined_labels(votes: _Votes) -> dict[int, str]:
    """Position → label, from ``Store.votes``: position → {annotator: label} as the answers came."""
    return {position: majority(by.values()) for position, by in votes.items() if by}


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


def agreement(votes: _Votes) -> Agreement | None:
    """Agreement of all annotators, from position → {annotator: label}; None if no item has two."""
    shared = [by for by in votes.values() if len(by) > 1]
    if not shared:
        return None
    both: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for by in shared:
        for a, b in combinations(sorted(by), 2):
            both.setdefault((a, b), []).append((by[a], by[b]))
    pairs = [Pair(a, b, cohen_kappa(labels), len(labels)) for (a, b), labels in both.items()]
    pairs.sort(key=lambda pair: (-pair.n, pair.a, pair.b))
    return Agreement(
        fleiss_kappa([Counter(by.values()) for by in shared]), len(shared), tuple(pairs)
    )


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
