"""The alternative annotator test (Calderon, Reichart and Dror, ACL 2025).

Each person j is left out in turn. On every item i that j, at least one other person and the program
f have labelled, the agreement with the other people is compared: S(f) and S(j) are the shares of
them who gave the same label. With W_f = 1[S(f) ≥ S(j)] and W_j = 1[S(j) ≥ S(f)], the *advantage
probability* ρ_j is the mean of W_f. The null hypothesis that the program is worse than j by ε or
more, E[W_j - W_f] ≥ ε, is tested by a one-sided t test, and the false discovery rate over all
people is controlled by the procedure of Benjamini and Yekutieli. The program passes if the null
hypothesis is rejected for at least half of the people (*winning rate* ω ≥ 1/2).

ε is the advantage that a program has by being cheaper: the authors propose 0.2 beside experts, 0.15
beside trained people, and 0.1 beside crowd workers, which is the strictest.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import stats

__all__ = ["EPSILON", "MIN_ITEMS", "MIN_PEOPLE", "AlternativeTest", "alternative_test"]

EPSILON = 0.1
MIN_ITEMS = 30
"""Items that a person must share with the program and another person, for the t test."""
MIN_PEOPLE = 3
"""People who must have that many, as the authors recommend."""
_FALSE_DISCOVERY_RATE = 0.05
_PASSING_RATE = 0.5


@dataclass(frozen=True)
class AlternativeTest:
    """The result of the test.

    Attributes:
        n_people: people with enough items.
        n_beaten: people whom the program replaces: the null hypothesis is rejected.
        advantage: mean advantage probability over people.
        passed: whether at least half of the people are beaten.
    """

    n_people: int
    n_beaten: int
    advantage: float
    passed: bool


def alternative_test(
    people: Mapping[int, Mapping[str, str]],
    program: Mapping[int, str],
    epsilon: float = EPSILON,
    min_items: int = MIN_ITEMS,
) -> AlternativeTest | None:
    """Test a program against people; None if fewer than three of them have enough items.

    Args:
        people: item → {person: label}.
        program: item → the program's label.
        epsilon: how much worse the program may be.
        min_items: items that a person must have.

    >>> people = {i: {"ann": "a", "bob": "a", "eve": "a"} for i in range(40)}
    >>> alternative_test(people, dict.fromkeys(range(40), "a")).passed
    True
    """
    differences: dict[str, list[int]] = {}
    wins: dict[str, list[int]] = {}
    for item, by_person in people.items():
        if item not in program or len(by_person) < 2:
            continue
        for person, label in by_person.items():
            others = [other for name, other in by_person.items() if name != person]
            program_score = others.count(program[item])
            person_score = others.count(label)
            program_wins = int(program_score >= person_score)
            person_wins = int(person_score >= program_score)
            differences.setdefault(person, []).append(person_wins - program_wins)
            wins.setdefault(person, []).append(program_wins)
    names = [person for person in differences if len(differences[person]) >= min_items]
    if len(names) < MIN_PEOPLE:
        return None
    p_values = [_p_value(np.array(differences[person], float), epsilon) for person in names]
    adjusted = stats.false_discovery_control(p_values, method="by")
    n_beaten = int((adjusted <= _FALSE_DISCOVERY_RATE).sum())
    return AlternativeTest(
        n_people=len(names),
        n_beaten=n_beaten,
        advantage=float(np.mean([np.mean(wins[person]) for person in names])),
        passed=n_beaten >= _PASSING_RATE * len(names),
    )


def _p_value(differences: np.ndarray, epsilon: float) -> float:
    """The p-value of E[differences] ≥ ε against less; 0 or 1 where all differences are equal."""
    if np.ptp(differences) == 0:
        return 0.0 if differences[0] < epsilon else 1.0
    return float(stats.ttest_1samp(differences, epsilon, alternative="less").pvalue)
