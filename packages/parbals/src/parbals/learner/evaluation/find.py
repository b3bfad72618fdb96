"""Find the items of one rare class: which to label next, and how many have been found.

*Which.* Items are ranked by an upper confidence bound of their probability: mean plus one standard
deviation of the logit with two classes and a Gaussian posterior, otherwise the probability itself.
Every tenth item is random, and every second one until the first item of the class is found. Random
items show how common the class is in regions that nobody has searched, and until the first item is
found, nothing finds it much sooner than they do.

*How many.* Let R be the number of items of the class among those without a label, and f the number
found. The recall is f / (f + R). If posterior sample k were the truth, R would have the mean
Σ_i p_k(x_i). A model whose labels were chosen because they look like the class overestimates how
common it is elsewhere, so it is calibrated by its latest predictions: among the latest twenty
labels, the model trained on all labels before them expected q items of the class, and there were y.
The calibration ratio ρ ≤ 1, actual over expected, is drawn from Gamma(y + ½, q + ½), draws above 1
being set to 1. It is 1 until five items are found, because a single item proves nothing. Then

    R ~ Poisson(ρ Σ_i p_k(x_i)).

The lower limit of the recall is at the 95 % quantile of R. Most of R lies with many items of small
p, for which no label has checked the model. The upper limit is therefore at the 5 % quantile of the
number of items of the class among the twenty most probable ones alone: the model is calibrated on
such items. studies/imbalance/rare_class compares both limits with the truth. With an audit the
class is also counted among its random items, which assumes nothing about the model but says little
unless the audit is large.
"""

from typing import Any, NamedTuple

import numpy as np

from parbals.arrays import block_rows
from parbals.learner.evaluation.audit import current_look
from parbals.learner.evaluation.limits import clopper_pearson_limits
from parbals.learner.evaluation.report import Recall
from parbals.learner.setup import mean_proba
from parbals.learner.state import State
from parbals.posterior.predictive import add_bias
from parbals.randomness import derive_generator
from parbals.types import Batch, Estimate
from parbals.wording import percent

__all__ = ["FIND", "choose_likely_positives", "estimate_recall"]

FIND = "find"
"""Stands in place of a strategy's name for items that this search chooses."""
_RANDOM_INTERVAL = 10
"""Every tenth item is random."""
_RANDOM_INTERVAL_BEFORE_FIRST = 2
"""Every second item is random until the first item of the class is found."""
_CALIBRATION_WINDOW = 20
"""Number of latest labels that calibrate the model."""
_LOOKAHEAD = 20
"""Number of most probable items among which the next finds are counted."""
_MIN_FOUND = 5
"""From so many finds on the model is calibrated, and advice to stop is given."""
_TARGET_RECALL = 0.9
"""The search may stop if the lower limit of the recall is at least this."""
_MIN_NEXT_FINDS = 0.25
"""It may also stop if fewer finds are expected among the next ``_LOOKAHEAD``: one in eighty."""
_N_DRAWS = 4_000
_BLOCK_ROWS = 4_096
_MAX_SAMPLED_ITEMS = 4_096
"""Largest number of items from which the spread between posterior samples is estimated."""
_EPS = 1e-300
"""Guards divisions."""


class _ClassProbs(NamedTuple):
    """Probabilities (n,) of the class, and scores (n,) by which items are ranked."""

    probs: np.ndarray
    ranking: np.ndarray


def choose_likely_positives(state: State, free: np.ndarray, n: int) -> Batch:
    """Choose ``n`` of the free positions: the most probable of the class, and some at random.

    Args:
        free: positions, ascending.
    """
    key = state.key(with_pending=True)
    generator = derive_generator(state.setup.seed, FIND, key.hex())
    n_random = _n_random_items(state, n)
    probs = np.full(len(free), np.nan)
    ranking = np.zeros(len(free))
    if n_random < n:
        model = state.fitted(warm_start=False)
        probs, ranking = _class_probs_and_ranking(state, model, free)
    likely = np.lexsort((np.arange(len(free)), -ranking))[: n - n_random]
    others = np.setdiff1d(np.arange(len(free)), likely)
    random_items = generator.choice(others, n_random, replace=False)
    chosen = generator.permutation(np.concatenate([likely, random_items]))
    scores = probs[chosen]
    note = f"{n_random} of the {n} items are random ones, by which the class is counted."
    return Batch(
        indices=free[chosen],
        scores=scores,
        initial_scores=scores,
        effective_sample_size=np.full(n, np.inf),
        strategy=FIND,
        n_exact=np.full(n, len(free)),
        n_samples=0,
        notes=(note,) if n_random else (),
        n_candidates=len(free),
    )


def _n_random_items(state: State, n: int) -> int:
    """Return how many of the next ``n`` items are random: all, if there is no model yet."""
    positions, labels = state.training_labels
    if not len(positions) or not state.can_fit:
        return n
    has_found = (labels == state.setup.find).any()
    interval = _RANDOM_INTERVAL if has_found else _RANDOM_INTERVAL_BEFORE_FIRST
    n_used = len(positions) + len(state.pending_positions())
    return (n_used + n) // interval - n_used // interval


def _class_probs_and_ranking(state: State, model: Any, positions: np.ndarray) -> _ClassProbs:
    """Compute the class probability and the ranking score of the items at positions (n,)."""
    class_number = state.setup.find
    gaussian = getattr(model, "gaussian", None)
    probs = np.empty(len(positions))
    ranking = np.empty(len(positions))
    for block in block_rows(len(positions), _BLOCK_ROWS):
        rows = state.setup.pool_rows(positions[block])
        probs[block] = mean_proba(model, rows)[:, class_number]
        ranking[block] = probs[block]
        if gaussian is not None and gaussian.n_classes == 2:
            mean, variance = gaussian.marginals(add_bias(rows))
            class_logit = mean if class_number == 1 else -mean
            ranking[block] = class_logit + np.sqrt(variance)
    return _ClassProbs(probs, ranking)


def estimate_recall(state: State) -> Recall | None:
    """Estimate how much of the class has been found; None without ``find`` or without a model."""
    setup = state.setup
    if setup.find is None or not state.can_fit:
        return None
    generator = derive_generator(setup.seed, "recall", state.key(with_pending=False).hex())
    label = setup.classes[setup.find]
    n_found = list(state.labels.values()).count(setup.find)
    unlabelled = np.setdiff1d(np.arange(setup.pool.n_rows), state.labelled)
    model = state.fitted()
    probs, _ = _class_probs_and_ranking(state, model, unlabelled)

    expected = _sample_expected_positives(state, model, unlabelled, probs, generator)
    ratios = np.ones(_N_DRAWS)
    if n_found >= _MIN_FOUND:
        ratios = _sample_calibration_ratio(state, generator)
    remaining = generator.poisson(expected * ratios)
    next_expected = np.sort(probs)[-_LOOKAHEAD:].sum()
    next_remaining = generator.poisson(next_expected * ratios)
    remaining_low = float(min(np.quantile(next_remaining, 0.05), np.quantile(remaining, 0.05)))
    remaining_high = float(np.quantile(remaining, 0.95))
    left = Estimate(float((expected * ratios).mean()), remaining_low, remaining_high)

    recall_mean = float((n_found / np.maximum(n_found + remaining, 1)).mean())
    recall_low = n_found / max(n_found + remaining_high, 1.0)
    recall_high = n_found / max(n_found + remaining_low, 1.0)
    recall = Estimate(recall_mean, recall_low, recall_high)

    next_finds = float(next_expected * ratios.mean())
    may_stop = recall.low >= _TARGET_RECALL or next_finds < _MIN_NEXT_FINDS
    stop = n_found >= _MIN_FOUND and may_stop
    measured = _audit_recall(state, n_found)
    advice = _advice(label, n_found, len(unlabelled), left, recall, next_finds, stop)
    if measured is not None:
        advice += (
            f" By the random test items alone {percent(measured.low)} to "
            f"{percent(measured.high)} has been found."
        )
    return Recall(
        label=label,
        found=n_found,
        left=left,
        recall=recall,
        measured=measured,
        next_finds=next_finds,
        stop=stop,
        advice=advice,
    )


def _sample_expected_positives(
    state: State,
    model: Any,
    positions: np.ndarray,
    probs: np.ndarray,
    generator: np.random.Generator,
) -> np.ndarray:
    """Draw Σ_i p_k(x_i) (draws,), the number of items of the class that sample k expects.

    The mean is that of all positions; the relative spread between samples is estimated from at most
    ``_MAX_SAMPLED_ITEMS`` of them.

    Args:
        positions: (n,) items without a label.
        probs: (n,) their mean probabilities of the class.
    """
    if not len(positions):
        return np.zeros(_N_DRAWS)
    sampled_positions = positions
    if len(positions) > _MAX_SAMPLED_ITEMS:
        drawn = generator.choice(positions, _MAX_SAMPLED_ITEMS, replace=False)
        sampled_positions = np.sort(drawn)
    rows = state.setup.pool_rows(sampled_positions)
    samples = model.sample_proba(rows)[:, :, state.setup.find]
    totals = samples.sum(axis=0, dtype=np.float64)  # (K,)
    weights = getattr(model, "sample_weights", None)
    drawn_totals = totals[generator.choice(len(totals), _N_DRAWS, p=weights)]
    return probs.sum() * drawn_totals / max(float(drawn_totals.mean()), _EPS)


def _sample_calibration_ratio(state: State, generator: np.random.Generator) -> np.ndarray:
    """Draw the calibration ratio ρ (draws,): actual over expected finds among the latest labels."""
    order = np.array(list(state.labels), np.int64)
    order = order[~np.isin(order, state.setup.audit)]
    n_expected = 0.0
    n_actual = 0.0
    earlier_model = None
    if len(order) > _CALIBRATION_WINDOW:
        earlier_model = state.model_of(np.sort(order[:-_CALIBRATION_WINDOW]))
    if earlier_model is not None:
        latest = order[-_CALIBRATION_WINDOW:]
        probs, _ = _class_probs_and_ranking(state, earlier_model, latest)
        n_expected = float(probs.sum())
        n_actual = float((state.encoded_labels(latest) == state.setup.find).sum())
    ratios = generator.gamma(n_actual + 0.5, 1.0 / (n_expected + 0.5), _N_DRAWS)
    return np.minimum(ratios, 1.0)


def _audit_recall(state: State, n_found: int) -> Estimate | None:
    """Estimate the recall from the class's share among audit items, without the model.

    The limits are those of the latest look (:mod:`parbals.learner.evaluation.looks`).
    """
    look, _, audited = current_look(state)
    if look is None:
        return None
    n = len(audited)
    n_items = state.setup.pool.n_rows
    n_positive = int((state.encoded_labels(audited) == state.setup.find).sum())
    share_low, share_high = clopper_pearson_limits(n_positive, n, look.delta)
    total_mean = max(n_positive / n * n_items, n_found, 1)
    total_low = max(share_low * n_items, n_found, 1)
    total_high = max(share_high * n_items, n_found)
    recall_low = n_found / total_high if total_high else 0.0
    return Estimate(n_found / total_mean, recall_low, n_found / total_low)


def _advice(
    label: Any,
    n_found: int,
    n_unlabelled: int,
    left: Estimate,
    recall: Estimate,
    next_finds: float,
    stop: bool,
) -> str:
    """Say in words how many items have been found, and whether to go on."""
    if not n_found:
        return (
            f"Go on: no {label} has been found yet; up to {left.high:.0f} are expected among the "
            f"{n_unlabelled:,} items without a label."
        )
    advice = f"Go on: {next_finds:.1f} are expected among the next {_LOOKAHEAD} items."
    if stop:
        advice = "You can stop: eighty more labels are expected to find fewer than one."
        if recall.low >= _TARGET_RECALL:
            advice = "You can stop: at least 90 % has probably been found."
    return (
        f"{n_found} items of {label} found, an estimated {percent(recall.mean)} of all "
        f"({percent(recall.low)} to {percent(recall.high)}); {left.low:.0f} to {left.high:.0f} "
        f"more are expected among the {n_unlabelled:,} items without a label. {advice}"
    )
