"""Top-B: the B points with the highest score, one by one, blind to what they share.

A strategy of this family is a score and nothing else, or a score with Gumbel noise, so that
near-duplicates rarely come together: adding G/β with independent standard Gumbel noise G to values
v and taking the top B draws B points without replacement, each next one with probability
proportional to exp(β v) among those that are left (Kirsch et al., 2023).
"""

from collections.abc import Callable
from functools import partial, reduce

import numpy as np

from parbals.arrays import block_rows
from parbals.posterior.closed.latents import Latents
from parbals.posterior.predictive import add_bias
from parbals.randomness import derive_generator
from parbals.scores.epig import epig_scores
from parbals.scores.gaussian import closed_bald
from parbals.scores.uncertainty import bald_scores, confidence_scores, entropy_scores, margin_scores
from parbals.strategies.backends import start_scores
from parbals.strategies.distributed import PoolFeatures, each_row
from parbals.strategies.numbers import number_deviations, number_gains, number_information
from parbals.strategies.problem import GaussianView, Problem, batch_of
from parbals.strategies.surface import Score, Surface, surface_of
from parbals.types import Batch, ClassWeights, Loss

AnyClassWeights = ClassWeights | tuple[ClassWeights, ...] | None

__all__ = ["gain_in_closed_form", "lane_surfaces", "score_under", "select_bald"]
__all__ += ["select_confidence", "select_entropy", "select_epig", "select_margin"]
__all__ += ["select_power_bald", "select_power_epig", "select_random", "select_softmax_bald"]
__all__ += ["select_softmax_epig", "select_softrank_bald", "select_softrank_epig"]


def select_random(problem: Problem) -> Batch:
    """Every subset of B free points is equally probable: the strategy every other has to beat."""
    free = np.flatnonzero(problem.candidates())
    generator = derive_generator(problem.seed, "random")
    chosen = generator.choice(free, problem.batch_size, replace=False)
    problem.show(lambda: np.zeros(problem.n_pool))
    return batch_of(problem, chosen, np.zeros(problem.batch_size))


def select_bald(problem: Problem) -> Batch:
    """Largest H(p̄) - Σ_k w_k H(p_k): the label says most about the parameters."""
    return top_batch(problem, parameter_scores(problem))


def select_epig(problem: Problem) -> Batch:
    """Largest mean gain over the target set.

    Most labels cannot change a decision, so the 0-1 loss gives many points a gain of exactly zero;
    log loss decides between them.
    """
    ties = None if problem.loss == "log" else target_scores(problem, "log")
    return top_batch(problem, target_scores(problem), ties)


def top_batch(problem: Problem, scores: np.ndarray, ties: np.ndarray | None = None) -> Batch:
    """Highest scores first; among equals the higher of ``ties``, then the lower index.

    A NaN never wins.
    """
    free = np.flatnonzero(problem.candidates())
    ranked = np.where(np.isnan(scores), -np.inf, scores)[free]
    keys = (-ranked,) if ties is None else (-ties[free], -ranked)
    chosen = free[np.lexsort(keys)[: problem.batch_size]]
    problem.show(scores)
    return batch_of(problem, chosen, scores[chosen])


def parameter_scores(problem: Problem) -> np.ndarray:
    """(N,) BALD."""
    if problem.gaussian is not None:
        view = problem.gaussian
        if view.tells_by_variance:
            return number_information(view)
        each = [each_row(x.pool, partial(_bald_of_rows, x.latents)) for x in view.lanes]
        return np.asarray(reduce(np.add, each))
    return bald_scores(problem.require_probs(), problem.weights)


def target_scores(problem: Problem, loss: Loss | None = None) -> np.ndarray:
    """(N,) expected gain on the target set under a loss, by default the problem's."""
    if problem.gaussian is not None:
        return gain_in_closed_form(problem.gaussian, loss or problem.loss, problem.class_weights)
    return epig_scores(
        *problem.samples(), problem.weights, loss or problem.loss, problem.class_weights
    )


def gain_in_closed_form(
    view: GaussianView, loss: Loss, class_weights: AnyClassWeights = None
) -> np.ndarray:
    """Of every pool point: EPIG (first order with more than two classes), or accuracy."""
    if view.tells_by_variance:
        return number_gains(view)
    score, pool = score_under(loss, view.n_classes), view.lanes[0].pool
    each = [start_scores(surface, pool, score) for surface in lane_surfaces(view, class_weights)]
    return np.asarray(reduce(np.add, each))


def lane_surfaces(view: GaussianView, class_weights: AnyClassWeights) -> list[Surface]:
    """Of the posterior, or of every label's where items have several."""
    each = (
        class_weights
        if isinstance(class_weights, tuple) and not isinstance(class_weights, ClassWeights)
        else [class_weights]
    )
    each = list(each) * (len(view.lanes) // len(each))
    return [surface_of(x.latents, x.target, own) for x, own in zip(view.lanes, each, strict=True)]


def score_under(loss: Loss, n_classes: int) -> Score:
    """What points are compared by."""
    if loss == "error":
        return "decision"
    return "epig" if n_classes == 2 else "form"


def _bald_of_rows(latents: Latents, X: PoolFeatures) -> np.ndarray:
    """BALD of rows (n, D), two classes."""
    scores = np.empty(len(X))
    for rows in block_rows(len(X), 8192):
        mean, variance = latents.marginals(add_bias(X[rows]))
        scores[rows] = closed_bald(mean[:, 0], variance[:, 0])
    return scores


Scores = Callable[[Problem], np.ndarray]
Value = Callable[[np.ndarray], np.ndarray]


def noisy_batch(problem: Problem, scores: np.ndarray, value: Value) -> Batch:
    """Top-B of value(score) + G/β over the free points; those without a value last, at random."""
    free = np.flatnonzero(problem.candidates())
    values = value(scores[free].astype(np.float64))
    noise = derive_generator(problem.seed, "gumbel top-k").gumbel(size=len(free))
    drawable = values > -np.inf  # False for NaN as well
    # Two keys: where the values are finite the perturbed ones decide, elsewhere the noise alone.
    perturbed = np.where(drawable, np.where(drawable, values, 0.0) + noise / problem.beta, noise)
    chosen = free[np.lexsort((-perturbed, ~drawable))[: problem.batch_size]]
    problem.show(scores)
    return batch_of(problem, chosen, scores[chosen])


def log_score(scores: np.ndarray) -> np.ndarray:
    """ln(score), -inf where the score is not positive."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(scores > 0, np.log(np.where(scores > 0, scores, 1.0)), -np.inf)


def log_rank(scores: np.ndarray) -> np.ndarray:
    """-ln(rank), rank 1 = highest score, the lower index first among equals; NaN has no rank."""
    ranks = np.empty(len(scores))
    ranks[np.argsort(np.where(np.isnan(scores), np.inf, -scores), kind="stable")] = np.arange(
        1, len(scores) + 1
    )
    return np.where(np.isnan(scores), -np.inf, -np.log(ranks))


def _highest(scores: Callable[..., np.ndarray]) -> Callable[[Problem], Batch]:
    def select(problem: Problem) -> Batch:
        view = problem.gaussian
        if view is not None and view.tells_by_variance:
            return top_batch(problem, number_deviations(view))
        if view is not None:  # the sum over the labels
            probs = view.posterior.predict_proba(add_bias(view.pool))
            each = np.stack([1.0 - probs, probs], axis=2)[:, :, None]
            parts = [scores(each[:, label], np.ones(1)) for label in range(probs.shape[1])]
            return top_batch(problem, np.asarray(reduce(np.add, parts)))
        return top_batch(problem, scores(problem.require_probs(), problem.weights))

    return select


# Smallest max_y p̄(y|x), smallest gap between the two most probable classes of p̄, largest H(p̄).
select_confidence, select_margin, select_entropy = (
    _highest(scores) for scores in (confidence_scores, margin_scores, entropy_scores)
)


def _drawn(scores: Scores, value: Value) -> Callable[[Problem], Batch]:
    return lambda problem: noisy_batch(problem, scores(problem), value)


# Drawn with probability proportional to the score to the power β, to exp(β · score), and to the
# rank by the score to the power -β.
select_power_bald, select_softmax_bald, select_softrank_bald = (
    _drawn(parameter_scores, value) for value in (log_score, np.asarray, log_rank)
)
select_power_epig, select_softmax_epig, select_softrank_epig = (
    _drawn(target_scores, value) for value in (log_score, np.asarray, log_rank)
)
