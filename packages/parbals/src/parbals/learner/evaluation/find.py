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
The study of the search has both ends beside the truth. With an audit the class is also counted
among random items, which assumes nothing of the model and says little unless the audit is large.
"""

from typing import Any

import numpy as np

from parbals.arrays import block_rows
from parbals.learner.evaluation.audit import current_look
from parbals.learner.evaluation.looks import clopper_pearson_limits
from parbals.learner.evaluation.report import Recall
from parbals.learner.state import State, mean_proba
from parbals.posterior.predictive import add_bias
from parbals.randomness import derive_generator
from parbals.types import Batch, Estimate
from parbals.wording import percent

__all__ = ["FIND", "choose_likely_positives", "estimate_recall"]

FIND = "find"
"""What chose such an item, beside the names of strategies."""
_EXPLORE, _EXPLORE_FIRST = 10, 2
"""Every tenth item is random, and every second one before the first of the class is found."""
_LATEST = 20
"""Labels that the model is held to its word by, and items that it looks ahead."""
_FEWEST = 5
"""Finds from which on the class counts as known: one item alone proves nothing."""
_GOAL = 0.9
"""A recall that most searches are content with."""
_DRAWS = 4_000
_BLOCK = 4_096
_HARDLY = 0.25
"""Items of the class expected among the next twenty: with fewer the search is hardly worth it."""


def choose_likely_positives(state: State, free: np.ndarray, n: int) -> Batch:
    """``n`` of the ``free`` positions (ascending): the likeliest of the class, some at random."""
    key = state.key(with_pending=True)
    generator = derive_generator(state.setup.seed, FIND, key.hex())
    known, numbers = state.training
    every = _EXPLORE if (numbers == state.setup.find).any() else _EXPLORE_FIRST
    n_out = len(known) + len(state.pending_positions())
    n_random = (n_out + n) // every - n_out // every if len(known) and state.can_fit else n
    chances, order = np.full(len(free), np.nan), np.zeros(len(free))
    if n_random < n:
        chances, order = _chances(state, state.fitted(warm_start=False), free)
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


def _chances(state: State, model: Any, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n,) the probability of the class, and what items are put in order by."""
    gaussian, number = getattr(model, "gaussian", None), state.setup.find
    chances, order = np.empty(len(positions)), np.empty(len(positions))
    for block in block_rows(len(positions), _BLOCK):
        rows = state.setup.pool_rows(positions[block])
        chances[block] = order[block] = mean_proba(model, rows)[:, number]
        if gaussian is not None and gaussian.n_classes == 2:
            mean, variance = gaussian.marginals(add_bias(rows))
            order[block] = (mean if number == 1 else -mean) + np.sqrt(variance)
    return chances, order


def estimate_recall(state: State) -> Recall | None:
    """How much of the class that the learner is to find has been found; None without a model."""
    setup = state.setup
    if setup.find is None or not state.can_fit:
        return None
    generator = derive_generator(setup.seed, "recall", state.key(with_pending=False).hex())
    label, found = setup.classes[setup.find], list(state.labels.values()).count(setup.find)
    open_items = np.setdiff1d(np.arange(state.setup.pool.n_rows), state.labelled)
    model = state.fitted()
    chances, _ = _chances(state, model, open_items)
    expected = _expected(state, model, open_items, chances, generator)
    shares = _believed(state, generator) if found >= _FEWEST else np.ones(_DRAWS)
    left = generator.poisson(expected * shares)
    likeliest = np.sort(chances)[-_LATEST:].sum()
    least = np.quantile(generator.poisson(likeliest * shares), 0.05)
    low, high = float(min(least, np.quantile(left, 0.05))), float(np.quantile(left, 0.95))
    estimate = Estimate(float((expected * shares).mean()), low, high)
    mean = float((found / np.maximum(found + left, 1)).mean())
    recall = Estimate(mean, *(found / max(found + end, 1.0) for end in (high, low)))
    next_finds = float(likeliest * shares.mean())
    measured = _measured(state, found)
    stop = found >= _FEWEST and (recall.low >= _GOAL or next_finds < _HARDLY)
    advice = _advice(label, found, len(open_items), estimate, recall, next_finds, stop)
    if measured is not None:
        advice += (
            f" By the audit's random items alone {percent(measured.low)} to "
            f"{percent(measured.high)} has been found."
        )
    return Recall(label, found, estimate, recall, measured, next_finds, stop, advice)


def _expected(
    state: State,
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
    samples = model.sample_proba(state.setup.pool_rows(some))[:, :, state.setup.find]
    totals = samples.sum(axis=0, dtype=np.float64)  # (K,)
    weights = getattr(model, "sample_weights", None)
    drawn = generator.choice(len(totals), _DRAWS, p=weights)
    return chances.sum() * totals[drawn] / max(float(totals[drawn].mean()), 1e-300)


def _believed(state: State, generator: np.random.Generator) -> np.ndarray:
    """(draws,) ρ, the share of what the model expects that is there, by the latest labels."""
    order = np.array(list(state.labels), np.int64)
    order = order[~np.isin(order, state.setup.audit)]
    expected = seen = 0.0
    before = None
    if len(order) > _LATEST:
        before = state.model_of(np.sort(order[:-_LATEST]))
    if before is not None:
        latest = order[-_LATEST:]
        expected = float(_chances(state, before, latest)[0].sum())
        seen = float((state.encoded_labels(latest) == state.setup.find).sum())
    return np.minimum(generator.gamma(seen + 0.5, 1.0 / (expected + 0.5), _DRAWS), 1.0)


def _measured(state: State, found: int) -> Estimate | None:
    """Recall from the class's share among the audit's random items, whatever the model.

    The limits hold at every look of :mod:`parbals.learner.evaluation.looks`.
    """
    look, _, audited = current_look(state)
    if look is None:
        return None
    hits = int((state.encoded_labels(audited) == state.setup.find).sum())
    n, n_items = len(audited), state.setup.pool.n_rows
    low, high = clopper_pearson_limits(hits, n, look.delta)
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
