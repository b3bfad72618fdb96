"""Top-B strategies: the B points with the highest scores, whatever information they share.

A strategy of this family is a score, or a score with Gumbel noise that makes near-duplicates
unlikely to be chosen together. Adding G/β with independent standard Gumbel noise G to values v and
taking the top B draws B points without replacement, each with probability proportional to exp(β v)
among the remaining points (Kirsch et al., 2023).
"""

from collections.abc import Callable, Sequence
from functools import partial, reduce

import numpy as np

from parbals.arrays import block_rows
from parbals.posterior.closed.latents import Latents
from parbals.posterior.predictive import add_bias
from parbals.randomness import derive_generator
from parbals.scores.epig import epig_scores
from parbals.scores.gaussian import closed_bald
from parbals.scores.uncertainty import bald_scores, confidence_scores, entropy_scores, margin_scores
from parbals.strategies.backends import score_pool
from parbals.strategies.distributed import PoolFeatures, map_rows
from parbals.strategies.problem import GaussianView, Problem, batch_of
from parbals.strategies.regression import predictive_std, regression_bald, regression_epig
from parbals.strategies.scoring import ScoreName, ScoringContext, build_context
from parbals.types import Batch, ClassWeights, Loss

__all__ = [
    "closed_form_gain",
    "label_contexts",
    "score_for_loss",
    "select_bald",
    "select_confidence",
    "select_entropy",
    "select_epig",
    "select_margin",
    "select_power_bald",
    "select_power_epig",
    "select_random",
    "select_softmax_bald",
    "select_softmax_epig",
    "select_softrank_bald",
    "select_softrank_epig",
]

AnyClassWeights = ClassWeights | tuple[ClassWeights, ...] | None
Scores = Callable[[Problem], np.ndarray]
UncertaintyScores = Callable[[np.ndarray, np.ndarray], np.ndarray]
LogOdds = Callable[[np.ndarray], np.ndarray]

_BLOCK_ROWS = 8192


def select_random(problem: Problem) -> Batch:
    """Every subset of B free points is equally probable: the baseline of all other strategies."""
    free = np.flatnonzero(problem.candidates())
    generator = derive_generator(problem.seed, "random")
    indices = generator.choice(free, problem.batch_size, replace=False)
    problem.show(lambda: np.zeros(problem.n_pool))
    return batch_of(problem, indices, np.zeros(problem.batch_size))


def select_confidence(problem: Problem) -> Batch:
    """Smallest max_y p̄(y|x): least confidence."""
    return _uncertainty_batch(problem, confidence_scores)


def select_margin(problem: Problem) -> Batch:
    """Smallest difference between the two most probable classes of p̄."""
    return _uncertainty_batch(problem, margin_scores)


def select_entropy(problem: Problem) -> Batch:
    """Largest predictive entropy H(p̄)."""
    return _uncertainty_batch(problem, entropy_scores)


def select_bald(problem: Problem) -> Batch:
    """Largest H(p̄) - Σ_k w_k H(p_k): the label is most informative about the parameters."""
    return top_batch(problem, bald_of_pool(problem))


def select_power_bald(problem: Problem) -> Batch:
    """Drawn with probability proportional to BALD to the power β."""
    return noisy_batch(problem, bald_of_pool(problem), log_score)


def select_softmax_bald(problem: Problem) -> Batch:
    """Drawn with probability proportional to exp(β · BALD)."""
    return noisy_batch(problem, bald_of_pool(problem), np.asarray)


def select_softrank_bald(problem: Problem) -> Batch:
    """Drawn with probability proportional to the rank by BALD to the power -β."""
    return noisy_batch(problem, bald_of_pool(problem), log_rank)


def select_epig(problem: Problem) -> Batch:
    """Largest mean gain over the target set.

    Most labels cannot change a decision, so the 0-1 loss gives many points a gain of exactly zero;
    log loss breaks these ties.
    """
    ties = None if problem.loss == "log" else gain_of_pool(problem, "log")
    return top_batch(problem, gain_of_pool(problem), ties)


def select_power_epig(problem: Problem) -> Batch:
    """Drawn with probability proportional to the gain to the power β."""
    return noisy_batch(problem, gain_of_pool(problem), log_score)


def select_softmax_epig(problem: Problem) -> Batch:
    """Drawn with probability proportional to exp(β · gain)."""
    return noisy_batch(problem, gain_of_pool(problem), np.asarray)


def select_softrank_epig(problem: Problem) -> Batch:
    """Drawn with probability proportional to the rank by the gain to the power -β."""
    return noisy_batch(problem, gain_of_pool(problem), log_rank)


def top_batch(problem: Problem, scores: np.ndarray, ties: np.ndarray | None = None) -> Batch:
    """The points with the highest scores; ties go to the higher of ``ties``, then the lower index.

    NaN ranks last.
    """
    free = np.flatnonzero(problem.candidates())
    free_scores = np.where(np.isnan(scores), -np.inf, scores)[free]
    sort_keys = (-free_scores,) if ties is None else (-ties[free], -free_scores)
    indices = free[np.lexsort(sort_keys)[: problem.batch_size]]
    problem.show(scores)
    return batch_of(problem, indices, scores[indices])


def noisy_batch(problem: Problem, scores: np.ndarray, log_odds: LogOdds) -> Batch:
    """Top B of log_odds(score) + G/β over the free points, with Gumbel noise G.

    Points whose log odds are -inf or NaN come last, in random order.
    """
    free = np.flatnonzero(problem.candidates())
    values = log_odds(scores[free].astype(np.float64))
    noise = derive_generator(problem.seed, "gumbel top-k").gumbel(size=len(free))
    is_drawable = values > -np.inf  # False for NaN as well
    finite_values = np.where(is_drawable, values, 0.0)
    perturbed = np.where(is_drawable, finite_values + noise / problem.beta, noise)
    # The last key of a lexsort is the primary one: drawable points first.
    indices = free[np.lexsort((-perturbed, ~is_drawable))[: problem.batch_size]]
    problem.show(scores)
    return batch_of(problem, indices, scores[indices])


def log_score(scores: np.ndarray) -> np.ndarray:
    """ln(score), -inf where the score is not positive."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(scores > 0, np.log(np.where(scores > 0, scores, 1.0)), -np.inf)


def log_rank(scores: np.ndarray) -> np.ndarray:
    """-ln(rank), rank 1 = highest score; ties go to the lower index, and NaN gets -inf."""
    order = np.argsort(np.where(np.isnan(scores), np.inf, -scores), kind="stable")
    ranks = np.empty(len(scores))
    ranks[order] = np.arange(1, len(scores) + 1)
    return np.where(np.isnan(scores), -np.inf, -np.log(ranks))


def _uncertainty_batch(problem: Problem, uncertainty: UncertaintyScores) -> Batch:
    """Top B by a score of the averaged prediction.

    For regression and ordinal tasks the score is the predictive standard deviation, for multi-label
    tasks the sum over the labels.
    """
    view = problem.gaussian
    if view is None:
        return top_batch(problem, uncertainty(problem.require_probs(), problem.weights))
    if view.has_numeric_labels:
        return top_batch(problem, predictive_std(view))
    label_probs = view.posterior.predict_proba(add_bias(view.pool))  # (N, labels)
    binary_probs = np.stack([1.0 - label_probs, label_probs], axis=2)[:, :, None]
    scores = [
        uncertainty(binary_probs[:, label], np.ones(1)) for label in range(label_probs.shape[1])
    ]
    return top_batch(problem, np.asarray(reduce(np.add, scores)))


def bald_of_pool(problem: Problem) -> np.ndarray:
    """(N,) BALD; for multi-label tasks the sum over the labels."""
    view = problem.gaussian
    if view is None:
        return bald_scores(problem.require_probs(), problem.weights)
    if view.has_numeric_labels:
        return regression_bald(view)
    scores = [
        map_rows(label_view.pool, partial(_closed_bald_of_rows, label_view.latents))
        for label_view in view.label_views
    ]
    return np.asarray(reduce(np.add, scores))


def _closed_bald_of_rows(latents: Latents, X: PoolFeatures) -> np.ndarray:
    """BALD of rows (n, D) with two classes."""
    scores = np.empty(len(X))
    for rows in block_rows(len(X), _BLOCK_ROWS):
        mean, variance = latents.marginals(add_bias(X[rows]))
        scores[rows] = closed_bald(mean[:, 0], variance[:, 0])
    return scores


def gain_of_pool(problem: Problem, loss: Loss | None = None) -> np.ndarray:
    """(N,) expected gain on the target set under a loss, by default the problem's."""
    loss = loss or problem.loss
    if problem.gaussian is not None:
        return closed_form_gain(problem.gaussian, loss, problem.class_weights)
    return epig_scores(*problem.samples(), problem.weights, loss, problem.class_weights)


def closed_form_gain(
    view: GaussianView, loss: Loss, class_weights: AnyClassWeights = None
) -> np.ndarray:
    """(N,) EPIG (to first order with more than two classes) or expected gain in accuracy.

    For multi-label tasks the sum over the labels.
    """
    if view.has_numeric_labels:
        return regression_epig(view)
    score = score_for_loss(loss, view.n_classes)
    pool = view.label_views[0].pool
    gains = [score_pool(context, pool, score) for context in label_contexts(view, class_weights)]
    return np.asarray(reduce(np.add, gains))


def label_contexts(
    view: GaussianView, class_weights: AnyClassWeights, *, is_padded: bool = True
) -> list[ScoringContext]:
    """Scoring contexts of the posterior, or of each label's posterior in multi-label tasks.

    They are padded for JAX by default.
    """
    views = view.label_views
    weights_by_label: Sequence[ClassWeights | None]
    if class_weights is None or isinstance(class_weights, ClassWeights):
        weights_by_label = [class_weights] * len(views)
    else:
        weights_by_label = class_weights
    return [
        build_context(label_view.latents, label_view.target, weights, is_padded=is_padded)
        for label_view, weights in zip(views, weights_by_label, strict=True)
    ]


def score_for_loss(loss: Loss, n_classes: int) -> ScoreName:
    """The score that compares points under a loss."""
    if loss == "error":
        return "decision"
    return "epig" if n_classes == 2 else "quadratic"
