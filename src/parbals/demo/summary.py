"""What the results say, in numbers and in sentences computed from them."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import stats

from parbals.demo.names import name_of
from parbals.demo.run import DemoResult, FirstRound

__all__ = [
    "SIMILAR",
    "Difference",
    "Worth",
    "curve_sentences",
    "difference",
    "half_width",
    "standard_error",
    "worth_of",
    "worth_sentences",
]

SIMILAR = 0.5
"""Two messages whose wordings have at least this cosine similarity are called near-duplicates."""


@dataclass(frozen=True)
class Worth:
    """What a batch tells about the target set; thousandths of a nat (mnat), averaged over target
    messages."""

    alone: float  # sum of what each item would tell by itself
    joint: float  # what all of them tell together
    similarity: float  # mean cosine similarity of two wordings in the batch
    n_near_duplicates: int

    @property
    def redundancy(self) -> float:
        """Share of the items' own information that they share with each other."""
        return 1.0 - self.joint / self.alone if self.alone > 0 else 0.0

    @property
    def redundancy_text(self) -> str:
        # Estimated from samples, so a batch without overlap may come out a little below zero.
        return f"{max(0.0, self.redundancy):.0%}"


class Difference(NamedTuple):
    """Mean difference over seeds and the half-width of its 95% interval (NaN for a single seed)."""

    mean: float
    half_width: float

    @property
    def is_clear(self) -> bool:
        return bool(abs(self.mean) > self.half_width)


def worth_of(first: FirstRound, strategy: str) -> Worth:
    judged, similarity = first.judged[strategy], first.similarity[strategy]
    pairs = similarity[np.triu_indices(len(similarity), 1)]
    return Worth(
        alone=1_000 * float(judged.initial_scores.sum()),
        joint=1_000 * float(judged.scores.sum()),
        similarity=float(pairs.mean()) if pairs.size else 0.0,
        n_near_duplicates=int((pairs >= SIMILAR).sum()),
    )


def standard_error(values: np.ndarray) -> np.ndarray:
    """Of the mean over the first axis (seeds); 0 for a single seed, which shows no spread."""
    n_seeds = len(values)
    return (
        values.std(axis=0, ddof=1) / np.sqrt(n_seeds) if n_seeds > 1 else np.zeros(values.shape[1:])
    )


def half_width(values: np.ndarray) -> float:
    """Half of the 95% Student-t interval of the mean of (seeds,) values; NaN for a single one."""
    if len(values) < 2:
        return float("nan")
    return float(stats.t.ppf(0.975, len(values) - 1) * standard_error(values))


def difference(result: DemoResult, metric: str, strategy: str, other: str) -> Difference:
    """Final value of ``strategy`` minus that of ``other``, in percentage points, paired by seed."""
    gaps = 100 * (result.metric(metric, strategy)[:, -1] - result.metric(metric, other)[:, -1])
    return Difference(float(gaps.mean()), half_width(gaps))


def curve_sentences(result: DemoResult) -> list[str]:
    """What the learning curves show, without claiming more than the seeds support."""
    ours, n_labels, n_seeds = (
        "parbals-epig",
        int(result.settings.n_labels[-1]),
        result.settings.n_seeds,
    )
    if ours not in result.settings.strategies:
        return []
    finals = {
        s: 100 * float(result.metric("accuracy", s)[:, -1].mean())
        for s in result.settings.strategies
    }
    order = sorted(finals, key=lambda s: -finals[s])
    listed = ", ".join(f"{name_of(s)} {finals[s]:.1f}%" for s in order)
    sentences = [
        f"With {n_labels} labels the mean test accuracy over {_seeds(n_seeds)} was: {listed}."
    ]
    for other in result.settings.strategies:
        if other == ours:
            continue
        gap = difference(result, "accuracy", ours, other)
        lead = f"{name_of(ours)} ended {abs(gap.mean):.1f} points {'above' if gap.mean >= 0 else 'below'} {name_of(other)}"
        if np.isnan(gap.half_width):
            sentences.append(f"{lead} in this one run; a single run proves nothing, try --seeds 5.")
        elif gap.is_clear:
            sentences.append(
                f"{lead} (95% interval ±{gap.half_width:.1f}), a clear difference here."
            )
        else:
            sentences.append(
                f"{lead} (95% interval ±{gap.half_width:.1f}), which {_seeds(n_seeds)} cannot tell "
                "from no difference."
            )
    return sentences


def worth_sentences(first: FirstRound) -> list[str]:
    """How redundant each first batch is."""
    worths = {strategy: worth_of(first, strategy) for strategy in first.batches}
    sentences = [
        f"{name_of(strategy)}: its messages would tell {worth.alone:.0f} mnat one by one, but "
        f"{worth.joint:.0f} mnat together, so {worth.redundancy_text} of what they know is said "
        "twice."
        for strategy, worth in worths.items()
    ]
    if {"epig", "parbals-epig"} <= worths.keys() and worths["epig"].joint > 0:
        ratio = worths["parbals-epig"].joint / worths["epig"].joint
        sentences.append(
            f"The ParBaLS batch tells {ratio:.1f} times as much as the top-B batch, for the same "
            "labelling work."
        )
    return sentences


def _seeds(n_seeds: int) -> str:
    return "one seed" if n_seeds == 1 else f"{n_seeds} seeds"
