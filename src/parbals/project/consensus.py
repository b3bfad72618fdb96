"""One label for each item from the answers of several people.

The rule: the label most annotators give; if two labels are equally frequent, the one whose first
answer came earlier among the annotators' current answers. Every person has one vote for an item,
their latest answer. Labels given by machines (source ``machine``) count only where no person has
answered: ``Store.votes`` leaves the others out.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

__all__ = ["combined_labels", "majority"]


def majority(labels: Iterable[str]) -> str:
    """The most frequent label, the earliest among equals."""
    return Counter(labels).most_common(1)[0][0]


def combined_labels(answers: Mapping[int, Mapping[str, str]]) -> dict[int, str]:
    """Position → label, from ``Store.votes``: position → {annotator: label} in the order the
    answers came."""
    return {position: majority(by.values()) for position, by in answers.items() if by}
