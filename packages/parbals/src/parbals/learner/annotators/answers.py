"""All answers to the labelled items, in columns, and how likely they are given each class."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from parbals.wording import PROGRAM_PREFIX

__all__ = ["Answers", "AnswersByItem", "labels_by_people"]

AnswersByItem = Mapping[int, Mapping[str | None, int]]
"""Position → {annotator: class number}; the key None is a gold label."""


class Answers(NamedTuple):
    """All m answers to n items, in columns.

    >>> answers = Answers.from_items({4: {"ada": 1, "bob": 0}, 7: {None: 1}}, np.array([4, 7]))
    >>> answers.names, answers.annotator.tolist(), answers.label.tolist(), answers.gold.tolist()
    (('ada', 'bob'), [0, 1], [1, 0], [-1, 1])

    Attributes:
        names: of the J annotators, in alphabetical order.
        annotator: (m,) index of the annotator in ``names``.
        row: (m,) index of the item.
        label: (m,) class number that the annotator answered.
        gold: (n,) gold label of each item, or -1.
        share: (m,) weight of each answer: one over the number of annotators who count as one with
            this one and answered the item too, itself included.
    """

    names: tuple[str, ...]
    annotator: np.ndarray
    row: np.ndarray
    label: np.ndarray
    gold: np.ndarray
    share: np.ndarray

    @classmethod
    def from_items(cls, answers_by_item: AnswersByItem, positions: np.ndarray) -> "Answers":
        """Collect the answers to labelled positions (n,), ascending."""
        named_answers = []  # (annotator, row, label)
        gold = []
        for row, position in enumerate(positions.tolist()):
            labels = answers_by_item[position]
            gold.append(labels.get(None, -1))
            named_answers += [(name, row, labels[name]) for name in sorted(filter(None, labels))]
        names = tuple(sorted({name for name, _, _ in named_answers}))
        return cls(
            names=names,
            annotator=np.array([names.index(name) for name, _, _ in named_answers], int),
            row=np.array([row for _, row, _ in named_answers], int),
            label=np.array([label for _, _, label in named_answers], int),
            gold=np.array(gold, int),
            share=np.ones(len(named_answers)),
        )

    @property
    def is_program(self) -> np.ndarray:
        """Whether each annotator (J,) is a program."""
        return np.array([name.startswith(PROGRAM_PREFIX) for name in self.names], bool)

    @property
    def is_answered_by_people(self) -> np.ndarray:
        """Whether each item (n,) has an answer by a person or a gold label."""
        is_answered = self.gold >= 0
        is_answered[self.row[~self.is_program[self.annotator]]] = True
        return is_answered

    def is_checked(self, group: np.ndarray) -> np.ndarray:
        """Whether each answer (m,) has a gold label or another person's answer beside it.

        Annotators with the same number in ``group`` (J,) do not check each other.
        """
        is_person = ~self.is_program[self.annotator]
        row_and_group = np.column_stack([self.row, group[self.annotator]])[is_person]
        rows = np.unique(row_and_group, axis=0)[:, 0]
        n_people = np.bincount(rows, minlength=len(self.gold))
        return (self.gold[self.row] >= 0) | (n_people[self.row] > is_person)

    def counted_once(self, group: np.ndarray) -> "Answers":
        """Divide the weight of an item's answers by the number from the same ``group`` (J,)."""
        n_groups = group.max(initial=0) + 1
        key = self.row * n_groups + group[self.annotator]
        return self._replace(share=1.0 / np.bincount(key)[key])

    def with_programs_as_one(self) -> "Answers":
        """Divide the weight of an item's answers by programs by their number."""
        is_by_program = self.is_program[self.annotator]
        n_programs = np.bincount(self.row[is_by_program], minlength=len(self.gold))
        share = np.where(is_by_program, 1.0 / np.maximum(n_programs, 1)[self.row], self.share)
        return self._replace(share=share)

    def likelihoods(self, confusions: np.ndarray, weights: np.ndarray | float = 1.0) -> np.ndarray:
        """Compute w (n, C), the likelihood of each item's answers given each class.

        Each row is divided by its largest entry; a gold label makes it one-hot.

        Args:
            confusions: (J, C, C) confusion matrices.
            weights: (J,) factor of each annotator's log-likelihoods; 0 ignores the annotator.
        """
        log_likelihoods = np.zeros((len(self.gold), confusions.shape[1]))
        weight = (self.share * np.broadcast_to(weights, len(self.names))[self.annotator])[:, None]
        log_confusion = np.log(confusions[self.annotator, :, self.label])
        np.add.at(log_likelihoods, self.row, weight * log_confusion)
        likelihoods = np.exp(log_likelihoods - log_likelihoods.max(axis=1, keepdims=True))
        has_gold = self.gold >= 0
        likelihoods[has_gold] = np.eye(likelihoods.shape[1])[self.gold[has_gold]]
        return likelihoods

    def counts(self, label_probs: np.ndarray, is_counted: np.ndarray) -> np.ndarray:
        """Count answers (J, C, C) by annotator, true class and answered class, in expectation.

        Args:
            label_probs: (n, C) posterior probabilities of the true class.
            is_counted: (n,) whether answers to the item are counted.
        """
        n_classes = label_probs.shape[1]
        counted = is_counted[self.row]
        counts = np.zeros((len(self.names), n_classes, n_classes))
        by_answer = counts.transpose(0, 2, 1)  # a view: annotator, answered class, true class
        index = (self.annotator[counted], self.label[counted])
        np.add.at(by_answer, index, label_probs[self.row[counted]])
        return counts


def labels_by_people(
    answers: Mapping[int, Mapping[str | None, Any]], positions: Iterable[int]
) -> dict[int, Any]:
    """Position → the label that people gave it; None where they are divided.

    A gold label (annotator None) wins, then the most frequent one; the model does not decide.
    Answers of programs are not counted, and items without others are left out.

    >>> answers = {0: {"ada": 1, "bob": 0}, 1: {"machine:llm": 1}, 2: {"ada": 0, "machine:llm": 1}}
    >>> labels_by_people(answers, range(3))
    {0: None, 2: 0}

    Args:
        answers: position → {annotator: encoded label}.
        positions: of the sample.
    """
    labels = {}
    for position in positions:
        by_people = {
            name: label
            for name, label in answers.get(position, {}).items()
            if name is None or not name.startswith(PROGRAM_PREFIX)
        }
        if None in by_people:
            labels[position] = by_people[None]
        elif by_people:
            (label, n_first), *others = Counter(by_people.values()).most_common(2)
            is_tied = any(n_other == n_first for _, n_other in others)
            labels[position] = None if is_tied else label
    return labels
