"""How different a target set is from the pool that labels come from.

A linear classifier is trained to tell rows of the two apart. The area under its ROC curve (AUC), on
rows that it was not trained on, is 0.5 where they have one distribution, and 1 where they can
always be told apart.
"""

import numpy as np

__all__ = ["NOTABLE_AUC", "shift_auc", "shift_sentence"]

NOTABLE_AUC = 0.65
"""Above it a report warns that target and pool differ: chance hardly reaches it."""
_LARGE_AUC = 0.9
"""Above it they are called very different: nine of ten pairs are told apart."""
_N_FOLDS = 5
_RIDGE = 0.1
"""Penalty of the weights of standardised columns, in numbers of rows per column's variance."""


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


def shift_sentence(auc: float) -> str:
    """Say how different target set and pool are.

    >>> shift_sentence(0.55)
    "Rows of the target set are hard to tell from the pool's (AUC 0.55)."
    """
    if auc < NOTABLE_AUC:
        return f"Rows of the target set are hard to tell from the pool's (AUC {auc:.2f})."
    difference = "is very different" if auc >= _LARGE_AUC else "differs"
    return (
        f"The target set {difference} from the pool: a linear classifier tells them apart with an "
        f"AUC of {auc:.2f}. Labels of the pool say less about the target set, so the expected "
        "error has a wider interval; a random sample of the target set would measure it."
    )
