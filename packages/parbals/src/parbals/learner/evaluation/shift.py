"""How different a target set is from the pool that labels come from: a two-sample test.

A linear classifier is trained to tell rows of the two apart. The area under its ROC curve (AUC), on
rows that it was not trained on, is 0.5 where they have one distribution, and 1 where they can
always be told apart. Two normal sets whose means are d standard deviations apart have an AUC of
Φ(d/√2), so the levels in words begin at d = 0.5, 1.2 and 2.3.

A linear classifier compares means. It does not see a target set that is only wider than the pool;
:mod:`parbals.learner.evaluation.support` finds rows of it that are far from the pool.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from parbals.learner.features import FeatureTable

__all__ = ["MIN_SHIFT_ROWS", "NOTABLE_AUC", "Shift", "compare_with_pool", "shift_auc"]

NOTABLE_AUC = 0.65
"""Above it a report says that target and pool differ: chance hardly reaches it."""
_LEVELS = (
    (0.95, "are very different from the pool"),
    (0.8, "differ clearly from the pool"),
    (NOTABLE_AUC, "differ somewhat from the pool"),
    (0.0, "are hard to tell from the pool"),
)
"""Least AUC of each level, and its words."""
MIN_SHIFT_ROWS = 50
"""Rows of the target set and of the pool from which on the AUC says something."""
_MAX_ROWS = 1_000
"""Number of rows of the pool, and of the target set, that are compared."""
_N_FOLDS = 5
_RIDGE = 0.1
"""Penalty of the weights of standardised columns, in numbers of rows per column's variance."""


@dataclass(frozen=True)
class Shift:
    """How different a target set is from the pool.

    >>> print(Shift(auc=0.55, n_rows=300).sentence)
    Items of the target set are hard to tell from the pool (AUC 0.55).
    >>> print(Shift(auc=None, n_rows=8).sentence)
    How different the target set is from the pool is not known from 8 rows; 50 suffice.

    Attributes:
        auc: of a classifier that tells target rows from pool rows; None with too few rows.
        n_rows: rows of the target set, or of the pool if it has fewer.
    """

    auc: float | None
    n_rows: int

    @property
    def is_notable(self) -> bool:
        """Whether target and pool differ."""
        return self.auc is not None and self.auc >= NOTABLE_AUC

    @property
    def sentence(self) -> str:
        """The difference in words."""
        if self.auc is None:
            rows = "1 row" if self.n_rows == 1 else f"{self.n_rows} rows"
            return (
                f"How different the target set is from the pool is not known from {rows}; "
                f"{MIN_SHIFT_ROWS} suffice."
            )
        auc = self.auc
        words = next(words for least, words in _LEVELS if auc >= least)
        sentence = f"Items of the target set {words} (AUC {auc:.2f})."
        if not self.is_notable:
            return sentence
        return (
            f"{sentence} Labels of the pool say less about them, so the expected error has a wider "
            "interval; a random sample of the target set would measure it."
        )


def compare_with_pool(pool: "FeatureTable", target: "FeatureTable", seed: int) -> Shift:
    """Compare a target set with the pool by random rows of each.

    >>> from parbals.learner.features import FeatureTable
    >>> rows = np.random.default_rng(0).standard_normal((400, 3))
    >>> print(compare_with_pool(FeatureTable(rows), FeatureTable(rows + 5.0), seed=0).auc)
    1.0
    """
    from parbals.randomness import derive_generator  # a report is read without random numbers

    n_rows = min(pool.n_rows, target.n_rows)
    if n_rows < MIN_SHIFT_ROWS:
        return Shift(None, n_rows)
    generator = derive_generator(seed, "shift")
    samples = [
        generator.permutation(table.sample(generator, _MAX_ROWS)) for table in (pool, target)
    ]
    return Shift(shift_auc(*samples), n_rows)


def shift_auc(pool_rows: np.ndarray, target_rows: np.ndarray) -> float:
    """Cross-validated AUC of a ridge classifier that tells target rows from pool rows.

    >>> generator = np.random.default_rng(0)
    >>> pool = generator.standard_normal((400, 3))
    >>> round(shift_auc(pool, generator.standard_normal((400, 3))), 1)
    0.5
    >>> round(shift_auc(pool, generator.standard_normal((400, 3)) + [2.0, 0.0, 0.0]), 1)
    0.9

    Args:
        pool_rows: (N, D) in random order.
        target_rows: (M, D) in random order.
    """
    rows = np.concatenate([pool_rows, target_rows]).astype(np.float64)
    is_target = np.repeat([False, True], [len(pool_rows), len(target_rows)])
    deviation = rows.std(axis=0)
    rows = (rows - rows.mean(axis=0)) / np.where(deviation > 0.0, deviation, 1.0)
    design = np.column_stack([rows, np.ones(len(rows))])
    signs = np.where(is_target, 1.0, -1.0)
    penalty = np.append(np.full(rows.shape[1], _RIDGE * len(rows)), 1e-9)
    # Both sets are in random order, so every fold has its share of each.
    folds = np.arange(len(rows)) % _N_FOLDS
    areas = []
    for fold in range(_N_FOLDS):
        train = folds != fold
        test = ~train
        gram = design[train].T @ design[train] + np.diag(penalty)
        weights = np.linalg.solve(gram, design[train].T @ signs[train])
        areas.append(_area_under_curve(design[test] @ weights, is_target[test]))
    return float(np.mean(areas))


def _area_under_curve(scores: np.ndarray, is_positive: np.ndarray) -> float:
    """AUC: how often a positive has the higher score, ties counting half; 0.5 without either."""
    n_positive = int(is_positive.sum())
    n_pairs = n_positive * (len(scores) - n_positive)
    if not n_pairs:
        return 0.5
    from scipy.stats import rankdata  # takes long to load, and only a target set needs it

    rank_sum = rankdata(scores)[is_positive].sum()
    return float((rank_sum - n_positive * (n_positive + 1) / 2) / n_pairs)
