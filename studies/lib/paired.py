"""Paired differences: mean, standard error and t-test."""

import numpy as np
from scipy import stats

__all__ = ["paired", "shown"]


def paired(differences: np.ndarray) -> tuple[float, float, float]:
    """Mean, its standard error, and the p of a paired t-test."""
    error = differences.std(ddof=1) / np.sqrt(len(differences))
    return differences.mean(), error, float(stats.ttest_1samp(differences, 0.0).pvalue)


def shown(differences: np.ndarray, p: float) -> str:
    """Mean ± standard error, bold where p, as corrected, is below 0.05."""
    mean, error, _ = paired(differences)
    star = "**" if p < 0.05 else ""
    return f"{star}{mean:+.2f} ± {error:.2f}{star}"
