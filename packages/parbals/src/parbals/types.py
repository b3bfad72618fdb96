"""Small frozen records that the layers exchange.

Axis letters everywhere: N pool points, M target points, K posterior samples, C classes, D features,
B batch, U universes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from parbals.wording import percent

__all__ = [
    "DEFAULT_N_TARGETS",
    "LOSSES",
    "Batch",
    "BatchRecord",
    "ClassWeights",
    "Diagnostics",
    "Estimate",
    "Loss",
]

Loss = Literal["log", "error"]
LOSSES: tuple[Loss, ...] = ("log", "error")
DEFAULT_N_TARGETS = 1_000
"""Default number of target points. Scores are means over them, and the mean over a thousand random
points is within a few hundredths of the mean over all.
"""


class ClassWeights(NamedTuple):
    """The worth of a correct decision for each class, for weighted 0-1 losses.

    Balanced accuracy and F1 are such losses (:mod:`parbals.learner.evaluation.metric`).
    """

    values: Any  # w (C,)
    positive: Any = None  # one-hot (C,): the positive class of F1; all others share one weight


_MIN_SAMPLES_FOR_REDUNDANCY = 50
"""With fewer effective samples a ratio of two scores is noise."""


@dataclass(frozen=True)
class Estimate:
    """An estimate with its 90 % interval.

    >>> print(Estimate(0.12, low=0.08, high=0.171))
    0.12 (0.08 to 0.171)
    """

    mean: float
    low: float
    high: float

    @property
    def known(self) -> bool:
        """False where there is no model yet to estimate from."""
        return not math.isnan(self.mean)

    def __str__(self) -> str:
        return f"{self.mean:.3g} ({self.low:.3g} to {self.high:.3g})"


@dataclass(frozen=True)
class Batch:
    """A chosen batch with its scores.

    >>> import numpy as np, parbals
    >>> logits = np.random.default_rng(0).normal(size=(50, 200, 2))
    >>> probs = np.exp(logits) / np.exp(logits).sum(axis=2, keepdims=True)
    >>> batch = parbals.select_batch(probs, batch_size=3, strategy="bald")
    >>> len(batch), batch.redundancy.tolist()
    (3, [0.0, 0.0, 0.0])

    Attributes:
        indices: (B,) distinct positions in the pool, in the order of choice.
        scores: (B,) score of each item when it was chosen, given the items chosen before it (in
            nats for information scores).
        initial_scores: (B,) score of each item before the batch.
        effective_sample_size: (B,) effective number of posterior samples behind the scores when the
            item was chosen (for ParBaLS the mean over universes).
        strategy: name of the strategy.
        n_exact: (B,) number of candidates that were scored when the item was chosen. The others
            were ruled out: with samples by a certified upper bound (:mod:`parbals.scores.bound`),
            in closed form by their last value (:mod:`parbals.strategies.universes.gaussian`).
        n_samples: K, the number of posterior samples; 0 for closed-form scores, whose
            ``effective_sample_size`` is infinite.
        notes: sentences for the user, for example about a collapsed sample size.
        n_candidates: number of items that could be chosen.
    """

    indices: np.ndarray
    scores: np.ndarray
    initial_scores: np.ndarray
    effective_sample_size: np.ndarray
    strategy: str
    n_exact: np.ndarray
    n_samples: int
    notes: tuple[str, ...] = field(default=())
    n_candidates: int = 0

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def redundancy(self) -> np.ndarray:
        """(B,) share of each item's initial score that the items before it already explain.

        0: the item is as informative as it was before the batch. 0.8: a top-B strategy would have
        overrated it five-fold.
        """
        start = np.where(self.initial_scores > 0, self.initial_scores, 1.0)
        return np.where(self.initial_scores > 0, 1.0 - self.scores / start, 0.0)

    def explain(self, names: Sequence[Any] | None = None) -> str:
        """A table with one line per item, named by its position or by the pool's ``names`` (N,).

        The redundancy is shown as – if there are fewer than 50 effective samples (or fewer than
        half of them, with fewer than 100): the number in ``redundancy`` is then noise.
        """
        min_samples = min(_MIN_SAMPLES_FOR_REDUNDANCY, self.n_samples / 2)
        has_enough_samples = self.effective_sample_size >= min_samples
        title = f"{self.strategy}: {len(self)} items"
        if not has_enough_samples.all():
            title += " (–: too few effective samples to tell)"
        header = "   item      score   at start  redundancy"
        if self.n_samples:
            header += "  eff. samples"
        lines = [title, header]
        shares = self.redundancy
        for step, index in enumerate(self.indices):
            item = index if names is None else names[index]
            redundancy = percent(shares[step]) if has_enough_samples[step] else "–"
            line = (
                f"{item!s:>7}  {self.scores[step]:9.3g}  {self.initial_scores[step]:9.3g}"
                f"  {redundancy:>9}"
            )
            if self.n_samples:
                line += f"  {self.effective_sample_size[step]:8.0f}/{self.n_samples}"
            lines.append(line)
        return "\n".join([*lines, *self.notes])


@dataclass(frozen=True)
class BatchRecord:
    """The argument of ``on_batch``, which a learner calls after each batch.

    Attributes:
        batch: the batch.
        n_labels: number of labels when it was chosen.
        n_pending: number of items that were being labelled.
    """

    batch: Batch
    n_labels: int
    n_pending: int = 0

    def numbers(self) -> dict[str, float]:
        """Finite numbers by name, for an experiment tracker to plot over ``n_labels``."""
        numbers: dict[str, float] = {
            "n_labels": self.n_labels,
            "n_pending": self.n_pending,
            "batch_size": len(self.batch),
        }
        scores = self.batch.scores[np.isfinite(self.batch.scores)]  # audit items have none
        if len(scores):
            numbers["score_highest"] = scores.max()
            numbers["score_mean"] = scores.mean()
        return {name: float(value) for name, value in numbers.items() if math.isfinite(value)}

    def as_json(self) -> dict[str, Any]:
        """The record as JSON: the numbers, the items and the strategy."""
        batch = self.batch
        return {
            "strategy": batch.strategy,
            "indices": batch.indices.tolist(),
            **self.numbers(),
            "notes": list(batch.notes),
        }


@dataclass(frozen=True)
class Diagnostics:
    """Diagnostics of a posterior, part of every fitted model.

    Attributes:
        inference: "smc", "ep", "nuts" or "laplace".
        n_samples: K, the number of draws.
        effective_sample_size: (Σw)²/Σw² for weighted particles (identical ones count as one); for
            NUTS the smallest effective number of draws of any training logit.
        acceptance: mean Metropolis acceptance rate of the last move.
        correlation: correlation of the particles with their starting points after the moves, 0 =
            independent (root mean square over the training logits, or that of |V|² if larger).
        drift: largest change of a training logit's mean during the last moves, in posterior
            standard deviations; a large drift means that the population had not converged.
        n_moves: number of moves.
        n_gradients: number of gradient evaluations.
        step_size: angle of one integrator step after adaptation.
        n_reweighted: labels incorporated by reweighting since the particles last moved.
        divergences: number of divergent NUTS transitions.
        r_hat: largest split-R̂ of any training logit (NUTS).
        prior: one sentence about the prior that was chosen.
        problems: one sentence for each failed check, with a remedy; empty if all passed.
    """

    inference: str
    n_samples: int
    effective_sample_size: float
    acceptance: float = float("nan")
    correlation: float = float("nan")
    drift: float = float("nan")
    n_moves: int = 0
    n_gradients: int = 0
    step_size: float = float("nan")
    n_reweighted: int = 0
    divergences: int = 0
    r_hat: float = float("nan")
    prior: str = ""
    problems: tuple[str, ...] = ()
