"""Find the items of one rare class: which to look at next, and how many have been found.

*Which.* Items in the order of an upper end of their probability, mean plus one deviation of the
logit with two classes and a Gaussian posterior, else the probability itself. Every tenth item is
random, and every second one until the first of the class is found: random items tell how common the
class is where nobody looked, and no strategy has found the first one much sooner.

*How many.* The items without a label hold R of the class, and f have been found, so the recall is
f / (f + R). If posterior sample k were the truth, R would have mean Σ_i p_k(x_i). A model of labels
that were chosen because they look like the class expects more of it elsewhere than there is, so it
is held to what it said last: of the latest twenty labels the model of all labels before them
expected q to be of the class, and y were. The share ρ ≤ 1 of what it expects that is there has the
posterior Gamma(y + ½, q + ½), cut at 1 (and is 1 until five are found: one item alone proves
nothing), and

    R ~ Poisson(ρ Σ_i p_k(x_i)).

The 5 % of that with the largest R end the interval below. Most of R lies with many items of small
p, and what the model says of those no label has checked: for the recall's upper end only the twenty
likeliest items are counted, in place of all, the kind that the model is held to its word by.
benchmarks/FIND.md has both ends beside the truth. With an audit the class is also counted among
random items, which assumes nothing of the model and says little unless the audit is large.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from parbals.learner.looks import error_limits, latest_look
from parbals.posterior.predictive import add_bias
from parbals.randomness import derive_generator
from parbals.types import Batch, Estimate
from parbals.wording import percent

if TYPE_CHECKING:
    from parbals.learner.active import ActiveLearner

__all__ = ["FIND", "Recall", "choose_likely", "estimate_recall"]

FIND = "find"
"""What chose such an item, beside the names of strategies."""
_EXPLORE, _EXPLORE_FIRST = 10, 2
_LATEST = 20
_FEWEST = 5
_DRAWS = 4_000
_BLOCK = 4_096
_GOAL = 0.9
_HARDLY = 0.25
"""Items of the class expected among the next twenty: with fewer the search is hardly worth it."""


@dataclass(frozen=True)
class Recall:
    """How much of one class has been found.

    Attributes:
        label: the class; found: how many items have this label.
        left: how many are expected among the items without a label, with a 90 % interval.
        recall: found of all there are, likewise.
        measured: the same from the audit's random items; None without labels of an audit.
        next_finds: how many of the next twenty items are expected to be of the class.
        stop: five or more are found, and the recall is at least 90 % by the lower end of its
            interval, or eighty more labels are expected to find fewer than one.
        advice: all that in words.
    """

    label: Any
    found: int
    left: Estimate
    recall: Estimate
    measured: Estimate | None
    next_finds: float
    stop: bool
    advice: str


def choose_likely(learner: "ActiveLearner", free: np.ndarray, n: int) -> Batch:
    """``n`` of the ``free`` positions (ascending): the likeliest of the class, some at random."""
    key = learner.state_key(with_pending=True)
    generator = derive_generator(learner.seed, FIND, key.hex())
    known, numbers = learner.training_set()
    every = _EXPLORE if (numbers == learner.find_number).any() else _EXPLORE_FIRST
    n_out = len(known) + len(learner.pending_positions())
    n_random = (n_out + n) // every - n_out // every if len(known) and learner.can_fit else n
    chances, order = np.full(len(free), np.nan), np.zeros(len(free))
    if n_random < n:
        chances, order = _chances(learner, learner.fitted(), free)
    likely = np.lexsort((np.arange(len(free)), -order))[: n - n_random]
    rest = np.setdiff1d(np.arange(len(free)), likely)
    drawn = generator.choice(rest, n_random, replace=False)
    places = generator.permutation(np.concatenate([likely, drawn]))
    scores = chances[places]
    note = f"{n_random} of the {n} items are random ones, by which the class is counted."
    return Batch(
        indices=free[places],
        scores=scores,
        initial_scores=scores,
        effective_sample_size=np.full(n, np.inf),
        strategy=FIND,
        n_exact=np.full(n, len(free)),
        n_samples=0,
        notes=(note,) if n_random else (),
        n_candidates=len(free),
    )


def _chances(
    learner: "ActiveLearner", model: Any, positions: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(n,) the probability of the class, and what items are put in order by."""
    gaussian, number = getattr(model, "gaussian", None), learner.find_number
    chances, order = np.empty(len(positions)), np.empty(len(positions))
    for start in range(0, len(positions), _BLOCK):
        rows = learner.pool_rows(positions[start : start + _BLOCK])
        block = slice(start, start + len(rows))
        chances[block] = order[block] = learner.mean_proba(model, rows)[:, number]
        if gaussian is not None and gaussian.n_classes == 2:
            mean, variance = gaussian.marginals(add_bias(rows))
            order[block] = (mean if number == 1 else -mean) + np.sqrt(variance)
    return chances, order


def estimate_recall(learner: "ActiveLearner") -> Recall | None:
    """How much of the class that the learner is to find has been found; None without a model."""
    if learner.find is None or not learner.can_fit:
        return None
    generator = derive_generator(
        learner.seed, "recall", learner.state_key(with_pending=False).hex()
    )
    labels = learner.labels_by_position
    found = sum(number == learner.find_number for number in labels.values())
    is_open = np.ones(learner.pool.n_rows, bool)
    is_open[list(labels)] = False
    open_items = np.flatnonzero(is_open)
    model = learner.fitted()
    chances, _ = _chances(learner, model, open_items)
    expected = _expected(learner, model, open_items, chances, generator)
    shares = _believed(learner, generator) if found >= _FEWEST else np.ones(_DRAWS)
    left = generator.poisson(expected * shares)
    likeliest = np.sort(chances)[-_LATEST:].sum()
    least = np.quantile(generator.poisson(likeliest * shares), 0.05)
    low, high = float(min(least, np.quantile(left, 0.05))), float(np.quantile(left, 0.95))
    estimate = Estimate(float((expected * shares).mean()), low, high)
    mean = float((found / np.maximum(found + left, 1)).mean())
    recall = Estimate(mean, *(found / max(found + end, 1.0) for end in (high, low)))
    next_finds = float(likeliest * shares.mean())
    measured = _measured(learner, found)
    stop = found >= _FEWEST and (recall.low >= _GOAL or next_finds < _HARDLY)
    advice = _advice(learner.find, found, len(open_items), estimate, recall, next_finds, stop)
    if measured is not None:
        advice += (
            f" By the audit's random items alone {percent(measured.low)} to "
            f"{percent(measured.high)} has been found."
        )
    return Recall(learner.find, found, estimate, recall, measured, next_finds, stop, advice)


def _expected(
    learner: "ActiveLearner",
    model: Any,
    positions: np.ndarray,
    chances: np.ndarray,
    generator: np.random.Generator,
) -> np.ndarray:
    """(draws,) how many items of the class posterior samples expect at these positions.

    The samples' relative spread is that of at most 4,096 items; the mean is that of all.
    """
    if not len(positions):
        return np.zeros(_DRAWS)
    some = positions
    if len(positions) > _BLOCK:
        some = np.sort(generator.choice(positions, _BLOCK, replace=False))
    samples = model.sample_proba(learner.pool_rows(some))[:, :, learner.find_number]
    totals = samples.sum(axis=0, dtype=np.float64)  # (K,)
    weights = getattr(model, "sample_weights", None)
    drawn = generator.choice(len(totals), _DRAWS, p=weights)
    return chances.sum() * totals[drawn] / max(float(totals[drawn].mean()), 1e-300)


def _believed(learner: "ActiveLearner", generator: np.random.Generator) -> np.ndarray:
    """(draws,) ρ, the share of what the model expects that is there, by the latest labels."""
    labels, audit = learner.labels_by_position, set(learner.audit.tolist())
    order = np.array([p for p in labels if p not in audit], np.int64)
    expected = seen = 0.0
    before = None
    if len(order) > _LATEST:
        before = learner.model_of(np.sort(order[:-_LATEST]))
    if before is not None:
        latest = order[-_LATEST:]
        expected = float(_chances(learner, before, latest)[0].sum())
        seen = float(sum(labels[p] == learner.find_number for p in latest.tolist()))
    return np.minimum(generator.gamma(seen + 0.5, 1.0 / (expected + 0.5), _DRAWS), 1.0)


def _measured(learner: "ActiveLearner", found: int) -> Estimate | None:
    """Recall from the class's share among the audit's random items, whatever the model.

    The limits hold at every look of :mod:`parbals.learner.looks`.
    """
    labels = learner.labels_by_position
    audited = [p for p in learner.audit.tolist() if p in labels]
    look = latest_look(len(labels))
    if not audited or look is None:
        return None
    hits = sum(labels[p] == learner.find_number for p in audited)
    n, n_items = len(audited), learner.pool.n_rows
    low, high = error_limits(hits, n, look.delta)
    most = max(high * n_items, found)
    least = max(low * n_items, found, 1)
    middle = max(hits / n * n_items, found, 1)
    return Estimate(found / middle, found / most if most else 0.0, found / least)


def _advice(
    label: Any,
    found: int,
    n_open: int,
    left: Estimate,
    recall: Estimate,
    next_finds: float,
    stop: bool,
) -> str:
    if not found:
        return (
            f"Go on: no {label} has been found yet; up to {left.high:.0f} are expected among the "
            f"{n_open:,} items without a label."
        )
    advice = f"Go on: the next 20 items are expected to hold {next_finds:.1f}."
    if stop:
        advice = "You can stop: eighty more labels are expected to find fewer than one."
        if recall.low >= _GOAL:
            advice = "You can stop: at least 90 % has probably been found."
    return (
        f"{found} of {label} found, {percent(recall.mean)} of all there are "
        f"({percent(recall.low)} to {percent(recall.high)}); {left.low:.0f} to {left.high:.0f} are "
        f"expected among the {n_open:,} items without a label. {advice}"
    )
