"""Small frozen records that travel between the layers.

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
    "LOSSES",
    "TARGETS",
    "Batch",
    "BatchRecord",
    "ClassWeights",
    "Diagnostics",
    "Estimate",
    "Loss",
]

Loss = Literal["log", "error"]
LOSSES: tuple[Loss, ...] = ("log", "error")
TARGETS = 1_000
"""Target points that a choice looks at, unless told otherwise: a mean over a thousand random ones
is within a few hundredths of that over all."""


class ClassWeights(NamedTuple):
    """The worth of a correct decision for each class, for weighted 0-1 losses.

    Balanced accuracy and F1 are such losses (:mod:`parbals.learner.evaluation.metric`).
    """

    values: Any  # w (C,)
    positive: Any = None  # one-hot (C,): the positive class of F1; all others share one weight


_TOO_FEW = 50
"""A share of two scores that rest on fewer effective samples than this is noise."""


@dataclass(frozen=True)
class Estimate:
    """A value with the ends of its 90 % interval."""

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
    """A chosen batch that explains itself.

    Attributes:
        indices: (B,) distinct positions in the pool, in the order of choice.
        scores: (B,) the strategy's score of each item at the moment it was chosen (nats for
            information scores), given the items chosen before it.
        initial_scores: (B,) the score the same item had before the batch was begun.
        effective_sample_size: (B,) how many equally weighted posterior samples the scores rested on
            when the item was chosen (for ParBaLS the mean over universes).
        strategy: the name it was chosen by.
        n_exact: (B,) how many candidates were scored when the item was chosen; the others were
            ruled out, with samples by a certified upper bound (:mod:`parbals.scores.bound`), in
            closed form by what they had before (:mod:`parbals.strategies.universes.gaussian`).
        n_samples: K, the number of posterior samples; 0 for scores in closed form, which rest on
            none (``effective_sample_size`` is then infinite).
        notes: sentences about anything the user should know, such as a collapsed sample size.
        n_candidates: how many free items were considered.
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
        """(B,) share of each item's initial score that the items before it had already explained.

        0: the item is as informative as it looked at the start. 0.8: a top-B rule would have
        overrated it five-fold.
        """
        start = np.where(self.initial_scores > 0, self.initial_scores, 1.0)
        return np.where(self.initial_scores > 0, 1.0 - self.scores / start, 0.0)

    def explain(self, names: Sequence[Any] | None = None) -> str:
        """A table for people: one line an item, by its position or by the pool's ``names`` (N,).

        A redundancy stands as – where the weights have left fewer than 50 effective samples (or
        half of fewer than 100): the number, in ``redundancy``, is then noise.
        """
        enough = self.effective_sample_size >= min(_TOO_FEW, self.n_samples / 2)
        title = f"{self.strategy}: {len(self)} items"
        if not enough.all():
            title += " (–: too few effective samples to tell)"
        samples = "  eff. samples" if self.n_samples else ""
        items = self.indices if names is None else [names[i] for i in self.indices]
        lines = [title, "   item      score   at start  redundancy" + samples]
        lines += [
            f"{item!s:>7}  {s:9.3g}  {s0:9.3g}  {percent(r) if t else '–':>9}"
            + (f"  {e:8.0f}/{self.n_samples}" if self.n_samples else "")
            for item, s, s0, r, e, t in zip(
                *(items, self.scores, self.initial_scores, self.redundancy),
                *(self.effective_sample_size, enough),
                strict=True,
            )
        ]
        return "\n".join([*lines, *self.notes])


@dataclass(frozen=True)
class BatchRecord:
    """What ``on_batch`` is told when a batch has been chosen.

    Attributes:
        batch: what was chosen, by which strategy, and its scores.
        n_labels: labels known when it was chosen.
        n_pending: items that were out for labelling then.
    """

    batch: Batch
    n_labels: int
    n_pending: int = 0

    def numbers(self) -> dict[str, float]:
        """What a tracker draws over ``n_labels``: finite numbers by name."""
        scores = self.batch.scores[np.isfinite(self.batch.scores)]  # audit items have none
        of_scores = (
            {"score_highest": scores.max(), "score_mean": scores.mean()} if len(scores) else {}
        )
        found = {
            "n_labels": self.n_labels,
            "n_pending": self.n_pending,
            "batch_size": len(self.batch),
            **of_scores,
        }
        return {name: float(value) for name, value in found.items() if math.isfinite(value)}

    def as_json(self) -> dict[str, Any]:
        """What a file keeps: the numbers, and which items by which strategy."""
        batch = self.batch
        return {
            "strategy": batch.strategy,
            "indices": batch.indices.tolist(),
            **self.numbers(),
            "notes": list(batch.notes),
        }


@dataclass(frozen=True)
class Diagnostics:
    """What a posterior says about its own quality; travels with every fitted model.

    Attributes:
        inference: "smc", "ep", "nuts" or "laplace".
        n_samples: K, the number of draws.
        effective_sample_size: what the draws are worth: (Σw)²/Σw² for weighted particles (those
            at one place count as one), the smallest effective number of draws of any training
            logit for NUTS.
        acceptance: mean Metropolis acceptance of the last move.
        correlation: what is left of each particle's start after the moves, 0 = forgotten (of
            the training logits, root mean square, or of |V|², whichever is more).
        drift: largest change of a training logit's mean during the last moves, in posterior
            standard deviations; large means the population was still travelling.
        n_moves, n_gradients: how much work the moves were.
        step_size: the angle of one integrator step after adaptation.
        n_reweighted: labels taken in by reweighting since the particles last moved.
        divergences: divergent NUTS transitions.
        r_hat: largest split-R̂ of any training logit (NUTS).
        prior: one sentence about the prior that was chosen.
        problems: one sentence for each failed check, with a remedy; empty when all is well.
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
